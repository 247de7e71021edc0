package kernel

import (
	"context"
	"sync"
)

// worker owns the buffers of one goroutine.
type worker struct {
	tuning
	free     *blockPool
	progress func(int64)
	bufs     [4][]float64 // what was read; float64s so that any view is aligned
	s32      [4][]float32 // tiles of operands that need decoding
	s64      [4][]float64 // tiles of operands that are widened to float64
	lanes    [tileRows]lanes
	peak32   [tileRows]float32
	peak64   [2][tileRows]float64
	inc      incLanes
}

var workers sync.Pool

func getWorker(u tuning, free *blockPool, progress func(int64)) *worker {
	w, _ := workers.Get().(*worker)
	if w == nil {
		w = new(worker)
	}
	w.tuning, w.free, w.progress = u, free, progress
	return w
}

func putWorker(w *worker) {
	w.free, w.progress = nil, nil
	workers.Put(w)
}

// grow returns s with a length of n, its content lost.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// cell is one block by one segment.
type cell struct {
	row, rows int // first row and number of rows
	col, cols int // first column and number of columns
	segment   int
	block     int
}

func (j *job) cell(i int) cell {
	c := cell{block: i / j.segments, segment: i % j.segments}
	c.row, c.col = c.block*j.blockRows, c.segment*SegmentCols
	c.rows, c.cols = min(j.blockRows, j.Rows-c.row), min(SegmentCols, j.Cols-c.col)
	return c
}

// groupRows is how many rows of n columns are read at once: whole tiles, as many as
// fit into readBytes, at least one.
func (u *tuning) groupRows(n, size int) int {
	g := u.readBytes / (n * size)
	return max(g-g%tileRows, tileRows)
}

// sum adds one cell of the grid to the job.
func (w *worker) sum(ctx context.Context, j *job, i int) error {
	c := j.cell(i)
	b := w.free.get(c.cols)
	group := w.groupRows(c.cols, max(j.Ref.Type.Size(), j.Port.Type.Size()))
	for r := 0; r < c.rows; r += group {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(group, c.rows-r)
		ref, err := w.read(0, &j.Ref, j.Cols, c, c.row+r, n)
		if err != nil {
			return err
		}
		port, err := w.read(1, &j.Port, j.Cols, c, c.row+r, n)
		if err != nil {
			return err
		}
		if w.progress != nil {
			w.progress(int64(len(ref) + len(port)))
		}
		for t := 0; t < n; t += tileRows {
			k := min(tileRows, n-t)
			x := w.decode(0, &j.Ref, ref, c.cols, t, k, j.wide)
			y := w.decode(1, &j.Port, port, c.cols, t, k, j.wide)
			w.tile(j, c, c.row+r+t, k, x, y, &b.columns)
		}
	}
	j.place(b, node{c.segment, 0, c.block}, w.loops, w.free)
	return nil
}

// apart, in float64s, sets the buffers of the operands at different offsets of a page:
// rows of 4,096 elements would else all compete for the same few places of a cache
// (with columnPad, a tenth of the time of the tile loop).
const apart = 128

// read fills buffer k with rows of the cell's columns, one after the other.
func (w *worker) read(k int, o *Operand, stride int, c cell, row, rows int) ([]byte, error) {
	size := o.Type.Size()
	n := rows * c.cols * size
	w.bufs[k] = grow(w.bufs[k], k*apart+max(n, w.readBytes)/8+1)
	dst := bytesOf(w.bufs[k][k*apart:])[:n]
	first := o.First + int64(row)*int64(stride) + int64(c.col)
	if c.cols == stride {
		if err := o.Src.ReadElements(dst, first, int64(rows*c.cols)); err != nil {
			return nil, err
		}
		native(o.Type, dst)
		return dst, nil
	}
	step := c.cols * size
	for r := range rows {
		if err := o.Src.ReadElements(dst[r*step:(r+1)*step], first+int64(r)*int64(stride), int64(c.cols)); err != nil {
			return nil, err
		}
	}
	native(o.Type, dst)
	return dst, nil
}

// decode returns rows of raw, from row first on, as a tile of operand k.
func (w *worker) decode(k int, o *Operand, raw []byte, cols, first, rows int, wide bool) tile {
	size := o.Type.Size()
	first, n := first*cols, rows*cols
	raw = raw[first*size : (first+n)*size]
	if o.Type != F32 && o.Type != F64 {
		w.s32[k] = grow(w.s32[k], n)
	}
	if !wide {
		return tile{cols: cols, f32: decode32(w.loops, o.Type, o.Table, raw, w.s32[k])}
	}
	if o.Type != F64 {
		w.s64[k] = grow(w.s64[k], n)
	}
	return tile{cols: cols, f64: widen(w.loops, o.Type, o.Table, raw, w.s32[k], w.s64[k])}
}

package kernel

import (
	"context"
	"math"
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

// tile is up to tileRows rows of n columns of one operand, decoded: f64 where a
// side of the pair is float64, else f32.
type tile struct {
	cols int
	f32  []float32
	f64  []float64
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

// part returns columns from to to-1 of row r.
func (t tile) part(r, from, to int) tile {
	lo, hi := r*t.cols+from, r*t.cols+to
	if t.f64 != nil {
		return tile{cols: to - from, f64: t.f64[lo:hi]}
	}
	return tile{cols: to - from, f32: t.f32[lo:hi]}
}

// tile sums up to four rows, a chunk of columns at a time. Where a row of the chunk
// has a value that is not finite, such positions are counted and set to zero on both
// sides first, so that neither the row's nor the columns' sums ever meet them.
func (w *worker) tile(j *job, c cell, row, rows int, a, b tile, cols *columns) {
	l := w.lanes[:rows]
	clear(l)
	var maxA, maxB [tileRows]float64
	var count [tileRows]int
	for from := 0; from < c.cols; from += chunk {
		to := min(from+chunk, c.cols)
		pa, pb := w.peaks(0, a, rows, from, to), w.peaks(1, b, rows, from, to)
		for r := range rows {
			count[r] += to - from
			if !finite(pa[r]) || !finite(pb[r]) {
				x, y := a.part(r, from, to), b.part(r, from, to)
				count[r] -= j.divert(row+r, c.col+from, x, y)
				pa[r], pb[r] = x.largest(), y.largest()
			}
			maxA[r], maxB[r] = max(maxA[r], pa[r]), max(maxB[r], pb[r])
		}
		if j.wide {
			w.loops.tile64(l, cols, a.f64, b.f64, from, to)
		} else {
			w.loops.tile32(l, cols, a.f32, b.f32, from, to)
		}
	}
	for r := range rows {
		part := &j.parts[(row+r)*j.segments+c.segment]
		if count[r] == 0 {
			*part = noMoments
			continue
		}
		x, y := a.part(r, 0, c.cols), b.part(r, 0, c.cols)
		*part = Moments{
			N:    int64(count[r]),
			Dot:  sum8(&l[r].dot),
			A2:   sum8(&l[r].a2),
			B2:   sum8(&l[r].b2),
			D2:   sum8(&l[r].d2),
			S1:   sum8(&l[r].s1),
			MaxA: maxA[r],
			MaxB: maxB[r],
		}
		most, at := l[r].top()
		part.Max, part.MaxAt = most, int64(c.col+locate(most, at*stretch, x, y))
		if j.wide {
			w.scaleRow(part, x.f64, y.f64)
		}
	}
}

// peaks returns max |x| of each row of operand k between two columns, NaN or an
// infinity if there is one.
func (w *worker) peaks(k int, t tile, rows, from, to int) []float64 {
	p := w.peak64[k][:rows]
	if t.f64 != nil {
		w.loops.peak64(p, t.f64, t.cols, from, to)
		return p
	}
	w.loops.peak32(w.peak32[:rows], t.f32, t.cols, from, to)
	for r := range p {
		p[r] = float64(w.peak32[r])
	}
	return p
}

// largest returns max |x|.
func (t tile) largest() float64 {
	if t.f64 != nil {
		return largest64(t.f64)
	}
	return float64(largest32(t.f32))
}

// locate returns the lowest index from first on where |a-b| is most, which is there;
// 0 where nothing differs.
func locate(most float64, first int, a, b tile) int {
	if most == 0 {
		return 0
	}
	if a.f64 != nil {
		y := b.f64[first:]
		for i, x := range a.f64[first:] {
			if math.Abs(x-y[i]) == most {
				return first + i
			}
		}
	}
	y := b.f32[first:]
	for i, x := range a.f32[first:] {
		if math.Abs(float64(x)-float64(y[i])) == most {
			return first + i
		}
	}
	return 0
}

func at(t tile, i int) float64 {
	if t.f64 != nil {
		return t.f64[i]
	}
	return float64(t.f32[i])
}

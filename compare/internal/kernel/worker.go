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
	l        lanes
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
	f32 []float32
	f64 []float64
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

// groupRows is how many rows of n columns are read at once: as many as fit into
// readBytes, whole tiles of them where they do.
func (u *tuning) groupRows(n, size int) int {
	g := u.readBytes / (n * size)
	if g > tileRows {
		g -= g % tileRows
	}
	return max(g, 1)
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
			x := w.decode(0, &j.Ref, ref, t*c.cols, k*c.cols, j.wide)
			y := w.decode(1, &j.Port, port, t*c.cols, k*c.cols, j.wide)
			for q := range k {
				row := c.row + r + t + q
				j.parts[row*j.segments+c.segment] = w.row(j, c, row, x.rows(q, c.cols), y.rows(q, c.cols))
			}
			if j.wide {
				w.loops.col64(&b.columns, x.f64, y.f64, k)
			} else {
				w.loops.col32(&b.columns, x.f32, y.f32, k)
			}
		}
	}
	j.place(b, node{c.segment, 0, c.block}, w.loops, w.free)
	return nil
}

// read fills buffer k with rows of the cell's columns, one after the other.
func (w *worker) read(k int, o *Operand, stride int, c cell, row, rows int) ([]byte, error) {
	size := o.Type.Size()
	n := rows * c.cols * size
	w.bufs[k] = grow(w.bufs[k], max(n, w.readBytes)/8+1)
	dst := bytesOf(w.bufs[k])[:n]
	first := o.First + int64(row)*int64(stride) + int64(c.col)
	if c.cols == stride {
		return dst, o.Src.ReadElements(dst, first, int64(rows*c.cols))
	}
	step := c.cols * size
	for r := range rows {
		if err := o.Src.ReadElements(dst[r*step:(r+1)*step], first+int64(r)*int64(stride), int64(c.cols)); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// decode returns n elements of raw, from element first on, as a tile of operand k.
func (w *worker) decode(k int, o *Operand, raw []byte, first, n int, wide bool) tile {
	size := o.Type.Size()
	raw = raw[first*size : (first+n)*size]
	if o.Type != F32 && o.Type != F64 {
		w.s32[k] = grow(w.s32[k], n)
	}
	if !wide {
		return tile{f32: decode32(w.loops, o.Type, o.Table, raw, w.s32[k])}
	}
	if o.Type != F64 {
		w.s64[k] = grow(w.s64[k], n)
	}
	return tile{f64: widen(w.loops, o.Type, o.Table, raw, w.s32[k], w.s64[k])}
}

// rows returns row q of a tile of n columns.
func (t tile) rows(q, n int) tile {
	if t.f64 != nil {
		return tile{f64: t.f64[q*n : (q+1)*n]}
	}
	return tile{f32: t.f32[q*n : (q+1)*n]}
}

// row sums one segment of a row. Where a value is not finite it is counted and
// set to zero on both sides of the tile, so that the columns, which come after,
// leave it out too.
func (w *worker) row(j *job, c cell, row int, a, b tile) Moments {
	w.lanes(a, b)
	n := c.cols
	if !finite(sum8(&w.l.a2) + sum8(&w.l.b2)) {
		n -= j.divert(row, c.col, a, b)
		w.lanes(a, b)
	}
	l := &w.l
	m := Moments{
		N:     int64(n),
		Dot:   sum8(&l.dot),
		A2:    sum8(&l.a2),
		B2:    sum8(&l.b2),
		D2:    sum8(&l.d2),
		S1:    sum8(&l.s1),
		Max:   max8(&l.max),
		MaxAt: -1,
		MaxA:  max8(&l.maxA),
		MaxB:  max8(&l.maxB),
	}
	if m.N == 0 {
		return noMoments
	}
	m.MaxAt = int64(c.col + locate(l, a, b, m.Max))
	if j.wide {
		w.scaleRow(&m, a.f64, b.f64)
	}
	return m
}

// lanes sums a row segment into w.l, the last group filled up with zeros.
func (w *worker) lanes(a, b tile) {
	if a.f64 != nil {
		w.loops.row64(&w.l, a.f64, b.f64)
		if n := len(a.f64) &^ (Lanes - 1); n < len(a.f64) {
			var x, y [Lanes]float64
			copy(x[:], a.f64[n:])
			copy(y[:], b.f64[n:])
			step64(&w.l, &x, &y, float64(n/stretch))
		}
		return
	}
	w.loops.row32(&w.l, a.f32, b.f32)
	if n := len(a.f32) &^ (Lanes - 1); n < len(a.f32) {
		var x, y [Lanes]float32
		copy(x[:], a.f32[n:])
		copy(y[:], b.f32[n:])
		step32(&w.l, &x, &y, float64(n/stretch))
	}
}

// locate returns the lowest index where |a-b| is max, the first index where
// nothing differs. Only the stretch in which the maximum was reached is searched.
func locate(l *lanes, a, b tile, max float64) int {
	if max == 0 {
		return 0
	}
	s := math.Inf(1)
	for j, m := range l.max {
		if m == max {
			s = min(s, l.at[j])
		}
	}
	i := int(s) * stretch
	for math.Abs(at(a, i)-at(b, i)) != max {
		i++
	}
	return i
}

func at(t tile, i int) float64 {
	if t.f64 != nil {
		return t.f64[i]
	}
	return float64(t.f32[i])
}

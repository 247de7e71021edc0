package kernel

import "math"

// tile is up to tileRows rows of n columns of one operand, decoded: f64 where a
// side of the pair is float64, else f32.
type tile struct {
	cols int
	f32  []float32
	f64  []float64
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

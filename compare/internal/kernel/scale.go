package kernel

import (
	"context"
	"math"
)

// tinyMax and tinySum bound what float64 squares can hold: a row or column whose
// largest value is below tinyMax loses bits of its squares to underflow.
const (
	tinyMax = 0x1p-480
	tinySum = 0x1p-960
)

// scaleRow sums a float64 row again, divided by a power of two, where its squares
// leave float64's range. S1 and the maxima stay as they are.
func (w *worker) scaleRow(m *Moments, a, b []float64) {
	top := max(m.MaxA, m.MaxB)
	if top == 0 || (m.finite() && top >= tinyMax) {
		return
	}
	_, e := math.Frexp(top)
	x, y := make([]float64, len(a)), make([]float64, len(b))
	for i := range a {
		x[i], y[i] = math.Ldexp(a[i], -e), math.Ldexp(b[i], -e)
	}
	// The columns are scaled by themselves; these are thrown away.
	var l [1]lanes
	c := newColumns(make([]float64, 4*len(a)), len(a))
	w.loops.tile64(l[:], &c, x, y, 0, len(a))
	m.Dot, m.A2, m.B2, m.D2, m.Exp = sum8(&l[0].dot), sum8(&l[0].a2), sum8(&l[0].b2), sum8(&l[0].d2), e
}

// needsScale tells whether a column's squares left float64's range. Where nothing
// differs in a column its figures are the same either way.
func (c ColMoments) needsScale() bool {
	s := c.A2 + c.B2
	return !finite(s) || !finite(c.D2) || (c.Max > 0 && s < tinySum)
}

// scaleColumns is the second and third pass over a float64 pair some of whose
// columns left float64's range: it finds the exponent of each such column and
// sums it again from the first row down, scaled. Nothing is read for any other pair.
func (w *worker) scaleColumns(ctx context.Context, j *job) error {
	if !j.wide {
		return nil
	}
	var cols []int
	for i, c := range j.sums.Col {
		if c.needsScale() {
			cols = append(cols, i)
		}
	}
	if cols == nil {
		return nil
	}
	top := make([]float64, j.Cols)
	err := w.eachRow(ctx, j, func(first int, a, b []float64) {
		for i, x := range a {
			top[first+i] = max(top[first+i], math.Abs(x), math.Abs(b[i]))
		}
	})
	if err != nil {
		return err
	}
	for _, i := range cols {
		_, e := math.Frexp(top[i])
		j.sums.Col[i] = ColMoments{Max: j.sums.Col[i].Max, Exp: e}
	}
	return w.eachRow(ctx, j, func(first int, a, b []float64) {
		for _, i := range cols {
			if i < first || i >= first+len(a) {
				continue
			}
			c := &j.sums.Col[i]
			x, y := math.Ldexp(a[i-first], -c.Exp), math.Ldexp(b[i-first], -c.Exp)
			d := x - y
			c.A2 += float64(x * x)
			c.B2 += float64(y * y)
			c.D2 += float64(d * d)
		}
	})
}

// eachRow reads a float64 pair once more and calls f with the row segments in
// order, values that are not finite set to zero on both sides.
func (w *worker) eachRow(ctx context.Context, j *job, f func(first int, a, b []float64)) error {
	for i := range j.cells() {
		c := j.cell(i)
		for r := range c.rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			ref, err := w.read(0, &j.Ref, j.Cols, c, c.row+r, 1)
			if err != nil {
				return err
			}
			port, err := w.read(1, &j.Port, j.Cols, c, c.row+r, 1)
			if err != nil {
				return err
			}
			a := w.decode(0, &j.Ref, ref, c.cols, 0, 1, true).f64
			b := w.decode(1, &j.Port, port, c.cols, 0, 1, true).f64
			for k := range a {
				if !finite(a[k]) || !finite(b[k]) {
					a[k], b[k] = 0, 0
				}
			}
			f(c.col, a, b)
		}
	}
	return nil
}

package diagnose

import (
	"math"
	"slices"
)

// errorOf is how far a tensor is from another, in two figures.
type errorOf struct {
	// Whole is rel_l2 = ‖port-ref‖ / ‖ref‖ of the whole tensor: the figure that
	// is printed.
	Whole float64
	// Token is the root mean square over tokens of ‖port_t-ref_t‖ / ‖ref_t‖: one
	// massive token, which can hold 99 % of the energy, cannot decide it.
	Token float64
}

// below tells whether both figures are at most bound; false with NaN.
func (e errorOf) below(bound float64) bool { return e.Whole <= bound && e.Token <= bound }

// distance measures port against ref. Equal values, infinities included, have
// distance 0; a value that is not finite on one side only makes both figures
// NaN. A token that is zero in ref and not in port counts as 1. Empty: 0.
func distance(ref, port *Tensor) errorOf {
	var whole, norm, token float64
	for t := range ref.Rows {
		d2, r2 := rowDistance(ref.Row(t), port.Row(t))
		whole += d2
		norm += r2
		switch {
		case d2 == 0:
		case r2 == 0:
			token++
		default:
			token += d2 / r2
		}
	}
	e := errorOf{}
	switch {
	case whole == 0:
	case norm == 0:
		e.Whole = math.Inf(1)
	default:
		e.Whole = math.Sqrt(whole / norm)
	}
	if ref.Rows > 0 {
		e.Token = math.Sqrt(token / float64(ref.Rows))
	}
	return e
}

// rowDistance returns Σ(y-x)² and Σx² of one row.
func rowDistance(x, y []float64) (d2, x2 float64) {
	for i, v := range x {
		if w := y[i]; v != w {
			d2 += (w - v) * (w - v)
		}
		x2 += v * v
	}
	return d2, x2
}

// rowScales returns, per token, the scale that fits port_t = α_t·ref_t best and
// what is left of it, ‖port_t - α_t·ref_t‖ / ‖port_t‖. A token that is zero on
// either side has α NaN and residual NaN, and is left to the caller.
func rowScales(ref, port *Tensor) (alpha, resid []float64) {
	alpha, resid = make([]float64, ref.Rows), make([]float64, ref.Rows)
	for t := range ref.Rows {
		x, y := ref.Row(t), port.Row(t)
		x2, y2 := dot(x, x), dot(y, y)
		if x2 == 0 || y2 == 0 {
			alpha[t], resid[t] = math.NaN(), math.NaN()
			continue
		}
		a := dot(x, y) / x2
		var e2 float64
		for i, v := range x {
			e := y[i] - a*v
			e2 += e * e
		}
		alpha[t], resid[t] = a, math.Sqrt(e2/y2)
	}
	return alpha, resid
}

// colScales returns, per dim, the gain that fits port_d = g_d·ref_d best over
// tokens, each token weighted by 1/‖ref_t‖, and what is left of that dim
// relative to its own size in port. A dim that is zero on either side is NaN.
func colScales(ref, port *Tensor) (gain, resid []float64) {
	n := ref.Cols
	xy, xx, yy := make([]float64, n), make([]float64, n), make([]float64, n)
	w := rowWeights(ref)
	for t := range ref.Rows {
		x, y, w2 := ref.Row(t), port.Row(t), w[t]*w[t]
		for d, v := range x {
			xy[d] += w2 * v * y[d]
			xx[d] += w2 * v * v
			yy[d] += w2 * y[d] * y[d]
		}
	}
	gain, resid = make([]float64, n), make([]float64, n)
	for d := range n {
		if xx[d] == 0 || yy[d] == 0 {
			gain[d], resid[d] = math.NaN(), math.NaN()
			continue
		}
		gain[d] = xy[d] / xx[d]
		resid[d] = math.Sqrt(max(0, 1-xy[d]*xy[d]/(xx[d]*yy[d])))
	}
	return gain, resid
}

// rowWeights returns 1/‖row‖ per token, 0 for a zero or non-finite row.
func rowWeights(t *Tensor) []float64 {
	w := make([]float64, t.Rows)
	for i := range w {
		if n := math.Sqrt(dot(t.Row(i), t.Row(i))); n > 0 && !math.IsInf(n, 0) && !math.IsNaN(n) {
			w[i] = 1 / n
		}
	}
	return w
}

// unitWeights weighs every token alike.
func unitWeights(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

// like returns a tensor of t's shape over other data.
func (t *Tensor) like(data []float64) *Tensor {
	d := *t
	d.Data = data
	return &d
}

// mapRows returns a copy of t after f on each row.
func (t *Tensor) mapRows(f func(i int, row []float64)) *Tensor {
	c := t.like(slices.Clone(t.Data))
	for i := range c.Rows {
		f(i, c.Row(i))
	}
	return c
}

// scaled returns s·t.
func (t *Tensor) scaled(s float64) *Tensor {
	return t.mapRows(func(_ int, row []float64) {
		for i := range row {
			row[i] *= s
		}
	})
}

// linear returns Σ c_i·parts_i; the parts have one shape.
func linear(parts []*Tensor, c []float64) *Tensor {
	out := parts[0].like(make([]float64, len(parts[0].Data)))
	for k, p := range parts {
		if c[k] == 0 {
			continue // so that an infinite part with no share stays out
		}
		for i, v := range p.Data {
			out.Data[i] += c[k] * v
		}
	}
	return out
}

// takeRows returns the rows rows[0], rows[1], ... of t.
func (t *Tensor) takeRows(rows []int) *Tensor {
	out := &Tensor{Name: t.Name, DType: t.DType, Columns: t.Columns, Rows: len(rows), Cols: t.Cols, Data: make([]float64, 0, len(rows)*t.Cols)}
	out.Shape = append([]int{len(rows)}, t.Shape[min(1, len(t.Shape)):]...)
	for _, i := range rows {
		out.Data = append(out.Data, t.Row(i)...)
	}
	return out
}

// takeCols returns the dims cols[0], cols[1], ... of t.
func (t *Tensor) takeCols(cols []int) *Tensor {
	out := &Tensor{Name: t.Name, DType: t.DType, Rows: t.Rows, Cols: len(cols), Shape: []int{t.Rows, len(cols)}, Data: make([]float64, 0, t.Rows*len(cols))}
	if len(cols) == t.Cols {
		out.Shape = t.Shape
	}
	for i := range t.Rows {
		row := t.Row(i)
		for _, j := range cols {
			out.Data = append(out.Data, row[j])
		}
	}
	return out
}

// finite tells whether every value is finite.
func (t *Tensor) finite() bool {
	for _, v := range t.Data {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// medianOf returns the median of the finite values, NaN where there is none.
func medianOf(x []float64) float64 {
	v := make([]float64, 0, len(x))
	for _, e := range x {
		if !math.IsNaN(e) && !math.IsInf(e, 0) {
			v = append(v, e)
		}
	}
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// spreadOf returns the median absolute deviation from m of the finite values.
func spreadOf(x []float64, m float64) float64 {
	d := make([]float64, len(x))
	for i, v := range x {
		d[i] = math.Abs(v - m)
	}
	return medianOf(d)
}

// near tells whether x is within a relative tolerance of want.
func near(x, want, tol float64) bool { return math.Abs(x-want) <= tol*math.Abs(want) }

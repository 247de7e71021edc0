package diagnose

import (
	"math"
	"math/cmplx"
)

// turns is what the tensors of one side say of its rotation under one geometry
// (which dims are a pair): for every row t and pair i the sums over heads
//
//	c = Σ post·conj(pre)   before = Σ |pre|²   after = Σ |post|²
//
// of the pairs as complex numbers. The squared error of any rule follows from
// them without touching the tensors again: Σ after + |m|²·before - 2 Re(c·conj m),
// m being the rule's complex factor.
type turns struct {
	rows, n, headDim int
	geometry
	c             []complex128
	before, after []float64
	// rest is Σ(post-pre)² of the dims outside the pairs, total is Σ post².
	rest, total float64
	pos         [][]float64
}

// measureTurns takes the sums. pre and post are rows × (heads·headDim).
func measureTurns(pre, post *Tensor, headDim int, shape geometry, pos [][]float64) *turns {
	r := shape.rule()
	n := r.width(headDim) / 2
	m := &turns{
		rows: pre.Rows, n: n, headDim: headDim, geometry: shape, pos: pos,
		c: make([]complex128, pre.Rows*n), before: make([]float64, pre.Rows*n), after: make([]float64, pre.Rows*n),
	}
	paired := make([]bool, headDim)
	for i := 0; i < n; i++ {
		a, b := r.pair(i, headDim)
		paired[a], paired[b] = true, true
	}
	for t := 0; t < pre.Rows; t++ {
		x, y := pre.Row(t), post.Row(t)
		for h := 0; h+headDim <= len(x); h += headDim {
			for i := 0; i < n; i++ {
				a, b := r.pair(i, headDim)
				zx, zy := complex(x[h+a], x[h+b]), complex(y[h+a], y[h+b])
				k := t*n + i
				m.c[k] += zy * cmplx.Conj(zx)
				m.before[k] += real(zx)*real(zx) + imag(zx)*imag(zx)
				e := real(zy)*real(zy) + imag(zy)*imag(zy)
				m.after[k] += e
				m.total += e
			}
			for j, in := range paired {
				if !in {
					m.rest += (y[h+j] - x[h+j]) * (y[h+j] - x[h+j])
					m.total += y[h+j] * y[h+j]
				}
			}
		}
	}
	return m
}

// sample takes n rows, evenly spread, the last among them: it has turned most.
func (m *turns) sample(n int) *turns {
	s := *m
	s.rows, s.total, s.rest = n, 0, 0
	s.c, s.before, s.after, s.pos = nil, nil, nil, make([][]float64, len(m.pos))
	share := float64(n) / float64(m.rows)
	s.rest = m.rest * share
	s.total = s.rest
	for i := range n {
		t := (i+1)*m.rows/n - 1
		lo, hi := t*m.n, (t+1)*m.n
		s.c = append(s.c, m.c[lo:hi]...)
		s.before = append(s.before, m.before[lo:hi]...)
		s.after = append(s.after, m.after[lo:hi]...)
		for a, p := range m.pos {
			s.pos[a] = append(s.pos[a], p[t])
		}
	}
	for _, e := range s.after {
		s.total += e
	}
	return &s
}

// turned is the root of the mean square angle that a rule turns the pairs by, by
// their energy, in radians.
func (m *turns) turned(r ropeRule) float64 {
	if r.None || r.Freqs != nil {
		return 0
	}
	var sum, weight float64
	for k, phi := range r.angles(m.pos, m.rows, m.headDim) {
		sum += m.before[k] * phi * phi
		weight += m.before[k]
	}
	if weight == 0 {
		return 0
	}
	return math.Sqrt(sum / weight)
}

// gain is the least-squares length of the factor over all pairs, 1 without a
// YaRN attention factor.
func (m *turns) gain() float64 {
	var c, b float64
	for k, z := range m.c {
		c += cmplx.Abs(z)
		b += m.before[k]
	}
	if b == 0 {
		return 1
	}
	return c / b
}

// shapeError is the relative error that is left when every pair of every row may
// turn by an angle of its own: it is at the rounding only if these dims are
// pairs.
func (m *turns) shapeError() float64 {
	g := m.gain()
	s := m.rest
	for k, z := range m.c {
		s += math.Max(0, m.after[k]+g*g*m.before[k]-2*g*cmplx.Abs(z))
	}
	return relative(s, m.total)
}

// errorOf is the relative error that a rule of this geometry leaves:
// ‖rule(pre) - post‖ / ‖post‖.
func (m *turns) errorOf(r ropeRule) float64 {
	s := m.rest
	if r.None {
		for k, z := range m.c {
			s += math.Max(0, m.after[k]+m.before[k]-2*real(z))
		}
		return relative(s, m.total)
	}
	gain := orDefault(r.Mscale, 1)
	for k, phi := range r.angles(m.pos, m.rows, m.headDim) {
		sin, cos := math.Sincos(phi)
		cos, sin = roundFloat(r.RoundTable, gain*cos), roundFloat(r.RoundTable, gain*sin)
		z := m.c[k]
		s += math.Max(0, m.after[k]+(cos*cos+sin*sin)*m.before[k]-2*(real(z)*cos+imag(z)*sin))
	}
	return relative(s, m.total)
}

func relative(s, total float64) float64 {
	switch {
	case s == 0:
		return 0
	case total == 0:
		return math.Inf(1)
	}
	return math.Sqrt(s / total)
}

// geometry is a choice of pairs.
type geometry struct {
	layout      string
	dims, start int
}

// rule is the rotation without frequencies.
func (g geometry) rule() ropeRule {
	return ropeRule{Layout: g.layout, Dims: g.dims, Start: g.start}
}

// geometries lists the pairings that are tried: whole heads first, then the
// partial widths of published models and of the manifests, then the width that
// the unchanged tail of each head suggests.
func geometries(c *Context, pre, post *Tensor, headDim int) []geometry {
	widths := []int{headDim}
	add := func(w int) {
		if w < 2 || w >= headDim || w%2 != 0 {
			return
		}
		for _, x := range widths {
			if x == w {
				return
			}
		}
		widths = append(widths, w)
	}
	for _, side := range []Side{Ref, Port} {
		if f := c.Facts(side).PartialRotaryFactor; f > 0 {
			add(int(f * float64(headDim)))
		}
	}
	for _, f := range []float64{0.5, 0.25, 0.75, 0.125, 0.4, 1.0 / 3, 2.0 / 3} {
		add(int(f*float64(headDim)+1e-9) / 2 * 2)
	}
	add(changedWidth(pre, post, headDim))
	var out []geometry
	for _, w := range widths {
		d := w
		if w == headDim {
			d = 0
		}
		out = append(out, geometry{"half", d, 0}, geometry{"interleaved", d, 0})
	}
	// The trailing dims of each head, as heads with a part without positions in
	// front have them.
	for _, w := range widths[1:] {
		out = append(out, geometry{"half", w, headDim - w}, geometry{"interleaved", w, headDim - w})
	}
	return out
}

// changedWidth is the number of leading dims of each head up to the last one that
// the rotation changed, rounded up to even.
func changedWidth(pre, post *Tensor, headDim int) int {
	last := 0
	for t := 0; t < pre.Rows; t++ {
		for j, x := range pre.Row(t) {
			if d := j % headDim; d+1 > last && post.Row(t)[j] != x {
				last = d + 1
			}
		}
	}
	return (last + 1) / 2 * 2
}

// geometryRows is how many rows decide on the pairing.
const geometryRows = 64

// bestTurns measures the geometry that fits best: chosen on a sample of rows, the
// last ones among them, which have turned most. A narrower width has to be clearly
// better than the whole head to be taken.
func bestTurns(c *Context, pre, post *Tensor, headDim int, pos [][]float64) *turns {
	x, y := pre, post
	if pre.Rows > geometryRows {
		var some []int
		for i := range geometryRows {
			some = append(some, (i+1)*pre.Rows/geometryRows-1)
		}
		x, y = pre.takeRows(some), post.takeRows(some)
	}
	var best geometry
	bestErr := math.Inf(1)
	for _, g := range geometries(c, x, y, headDim) {
		if e := measureTurns(x, y, headDim, g, nil).shapeError(); e < 0.7*bestErr-1e-12 {
			best, bestErr = g, e
		}
	}
	if math.IsInf(bestErr, 1) {
		return nil
	}
	return measureTurns(pre, post, headDim, best, pos)
}

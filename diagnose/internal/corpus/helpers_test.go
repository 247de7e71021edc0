package corpus

import (
	"math"
	"testing"
)

// pair is one case built, with the tensors of the part where its fault shows.
type pair struct {
	t         *testing.T
	Case      Case
	Ref, Port *Run
}

func build(t *testing.T, id string) pair {
	t.Helper()
	c, ok := Lookup(id)
	if !ok {
		t.Fatalf("no case %s", id)
	}
	ref, port := c.Build()
	return pair{t, c, ref, port}
}

// at reads a checkpoint of both sides at a step and rank, as rows of its last
// axis.
func (p pair) at(step, rank int, name string) (ref, port *Mat) {
	p.t.Helper()
	key := [2]int{step, rank}
	return p.mat(p.Ref.Parts[key], name), p.mat(p.Port.Parts[key], name)
}

// get is at where the fault shows.
func (p pair) get(name string) (ref, port *Mat) {
	p.t.Helper()
	return p.at(p.Case.step, p.Case.rank, name)
}

func (p pair) mat(part *Part, name string) *Mat {
	p.t.Helper()
	if part == nil || part.Tensors[name] == nil {
		p.t.Fatalf("%s: no %s", p.Case.ID, name)
	}
	a := part.Tensors[name]
	cols := a.Shape[len(a.Shape)-1]
	return &Mat{len(a.Data) / cols, cols, a.Data}
}

// relative is ‖p-r‖ / ‖r‖.
func relative(r, p []float32) float64 {
	var d, n float64
	for i := range r {
		d += (float64(p[i]) - float64(r[i])) * (float64(p[i]) - float64(r[i]))
		n += float64(r[i]) * float64(r[i])
	}
	if d == 0 {
		return 0
	}
	return math.Sqrt(d / n)
}

// float32Floor is the largest rel_l2 of float32 rounding: sqrt(2 * 1e-10).
const float32Floor = 1.42e-5

// same demands that two tensors differ by float32 rounding at most.
func (p pair) same(what string, r, q []float32) {
	p.t.Helper()
	if rel := relative(r, q); !(rel <= float32Floor) {
		p.t.Errorf("%s: %s differs by rel_l2 %.3g, want rounding", p.Case.ID, what, rel)
	}
}

// differs demands more than a tenth of a percent.
func (p pair) differs(what string, r, q []float32) {
	p.t.Helper()
	if rel := relative(r, q); !(rel > 1e-3) {
		p.t.Errorf("%s: %s differs by rel_l2 %.3g only", p.Case.ID, what, rel)
	}
}

// near demands a relative deviation of at most tol.
func (p pair) near(what string, got, want, tol float64) {
	p.t.Helper()
	if !(math.Abs(got-want) <= tol*math.Abs(want)) {
		p.t.Errorf("%s: %s is %v, want %v", p.Case.ID, what, got, want)
	}
}

// columns returns columns [from, to).
func columns(m *Mat, from, to int) []float32 {
	var out []float32
	for t := range m.Rows {
		out = append(out, m.Row(t)[from:to]...)
	}
	return out
}

// rows returns rows [from, to).
func rows(m *Mat, from, to int) []float32 { return m.Data[from*m.Cols : to*m.Cols] }

// turn is the angle from r to p of pair (a, b) of every head at row t:
// arg Σ_heads p conj(r).
func turn(r, p *Mat, hd, t, a, b int) float64 {
	var re, im float64
	for h := 0; h < r.Cols; h += hd {
		ra, rb := float64(r.Row(t)[h+a]), float64(r.Row(t)[h+b])
		pa, pb := float64(p.Row(t)[h+a]), float64(p.Row(t)[h+b])
		re += pa*ra + pb*rb
		im += pb*ra - pa*rb
	}
	return math.Atan2(im, re)
}

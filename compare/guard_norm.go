package compare

import (
	"math"

	"github.com/layerparity/parity/dump"
)

// guardFinalNorm looks for a last layer that was taken after the final norm, as
// the last of transformers' hidden_states is: it equals the post_final_norm of
// either side, or is the other side's layer times one scale per token and one
// gain per dim.
func guardFinalNorm(p *part) []Guard {
	layers := p.layerPairs()
	if len(layers) < 2 {
		return one(NotApplicable, "", "fewer than 2 layers")
	}
	last := layers[len(layers)-1]
	if last.rel == nil || last.aside != "" {
		return one(NotApplicable, "", "the last layer was not compared")
	}
	was := energy(median(last.rel))
	if was <= guardTolerance {
		return one(Pass, "", "%s agrees: both sides take it before or both after the norm", last.Name)
	}
	// The layer before must be right: this guard explains the last entry only.
	prev := layers[len(layers)-2]
	if prev.rel == nil || !(energy(median(prev.rel)) <= guardTolerance) {
		return one(Pass, "", "%s differs too, so the last entry is no special case", prev.Name)
	}
	const remedy = "hook the last layer's output instead of the last of hidden_states, which is after the final norm"
	for _, side := range []struct {
		name string
		last *View // the side whose last entry would be normed
		norm *dump.Record
		own  bool // port's last against a norm on the reference's side
	}{
		{"port", last.Port, p.Ref.Lookup("post_final_norm"), false},
		{"port", last.Port, p.Port.Lookup("post_final_norm"), true},
		{"reference", last.Ref, p.Port.Lookup("post_final_norm"), false},
		{"reference", last.Ref, p.Ref.Lookup("post_final_norm"), true},
	} {
		if side.norm == nil || side.norm.Err != nil {
			continue
		}
		norm := newView(side.norm)
		g, ok := alignTail(side.last, norm)
		if !ok {
			continue
		}
		e, err := p.tokenError(norm, side.last, g)
		if err != nil {
			return one(NotChecked, "", "%s", guardError(err))
		}
		if !same(e, was) {
			continue
		}
		return p.repairFinalNorm(last, side.name, norm, e, remedy)
	}
	ok, resid, err := rankOneGain(last)
	if err != nil {
		return one(NotChecked, "", "%s", guardError(err))
	}
	if ok {
		last.keepRaw()
		last.aside = "taken after the final norm on one side"
		g := one(Repaired, remedy, "the two sides of %s differ by one scale per token and one gain per dim (residual %.2g): one is after the final norm", last.Name, resid)
		g[0].Checkpoint = last.Name
		return g
	}
	return one(Pass, "", "%s is not the final norm of anything", last.Name)
}

// alignTail sees two views row for row, from the last row back.
func alignTail(a, b *View) (Geometry, bool) {
	n, c1, ok1 := rowShape(a)
	m, c2, ok2 := rowShape(b)
	if !ok1 || !ok2 || c1 != c2 || n != m {
		return Geometry{}, false
	}
	return Geometry{Shape: []int{n, c1}, Rows: n, Cols: c1, Tokens: n, Batch: 1}, true
}

// repairFinalNorm compares the normed last entry with the other side's norm
// where it has one, else sets it aside.
func (p *part) repairFinalNorm(last *Pair, side string, norm *View, e float64, remedy string) []Guard {
	last.keepRaw()
	other := p.Ref
	if side == "reference" {
		other = p.Port
	}
	if r := other.Lookup("post_final_norm"); r != nil && r.Err == nil {
		if side == "port" {
			last.Ref, last.Out.Ref = newView(r), stored(r)
		} else {
			last.Port, last.Out.Port = newView(r), stored(r)
		}
		if p.lookup("post_final_norm") == nil {
			p.explained[r] = "compared with the other side's " + last.Name
		}
		last.Geo, _ = alignTail(last.Ref, last.Port)
		if last.Geo.Rows == 0 {
			last.aside = "taken after the final norm on one side"
		}
		last.repaired("taken after the final norm in the %s: compared with post_final_norm", side)
		if err := p.sumPairs([]*Pair{last}); err != nil {
			return one(NotChecked, "", "%s", guardError(err))
		}
		last.normed = true
	} else {
		last.aside = "taken after the final norm on one side"
	}
	g := one(Repaired, remedy, "%s of the %s equals %s (e = %.2g): it was taken after the final norm", last.Name, side, norm.Record.File, e)
	g[0].Checkpoint = last.Name
	return g
}

// rankOneGain tests port[t][d] = s_t · g_d · ref[t][d] by alternating least
// squares; ok when the residual is far below the difference and there are
// enough rows to say so.
func rankOneGain(p *Pair) (ok bool, resid float64, err error) {
	rows, cols := p.Geo.Rows, p.Geo.Cols
	if rows < 8 || rows*cols < 4*(rows+cols) || p.Geo.Batch > 1 || rows*cols > maxMatrix {
		return false, 0, nil
	}
	x, err := p.Ref.Float64s()
	if err != nil {
		return false, 0, err
	}
	y, err := p.Port.Float64s()
	if err != nil {
		return false, 0, err
	}
	if len(x) != rows*cols || len(y) != rows*cols {
		return false, 0, nil
	}
	// A norm's scale is the inverse of the token's RMS; a constant factor or a
	// gain alone is no norm. Either side may be the normed one.
	for range 2 {
		var s []float64
		if s, _, resid = fitRankOne(x, y, rows, cols); resid < 0.02 && inverseOfRMS(s, x, cols) {
			return true, resid, nil
		}
		x, y = y, x
	}
	return false, resid, nil
}

// inverseOfRMS tells whether s[t]·rms(x[t]) is the same for all tokens while s
// itself is not.
func inverseOfRMS(s, x []float64, cols int) bool {
	prod := make([]float64, len(s))
	for t, v := range s {
		e := 0.0
		for _, w := range x[t*cols : (t+1)*cols] {
			e += sq(w)
		}
		prod[t] = v * math.Sqrt(e/float64(cols))
	}
	return spread(prod) < 0.02 && spread(s) > 5*spread(prod)
}

// spread is the interquartile range over the median.
func spread(x []float64) float64 {
	return math.Abs(ratio(quantile(x, 0.75)-quantile(x, 0.25), median(x)))
}

// fitRankOne fits y[t][d] ≈ s[t]·g[d]·x[t][d], each row weighted by its own
// norm, and returns the median over rows of the relative residual.
func fitRankOne(x, y []float64, rows, cols int) (s, g []float64, resid float64) {
	s, g = make([]float64, rows), make([]float64, cols)
	for d := range g {
		g[d] = 1
	}
	weight := make([]float64, rows)
	for t := range rows {
		for _, v := range y[t*cols : (t+1)*cols] {
			weight[t] += sq(v)
		}
		if weight[t] > 0 {
			weight[t] = 1 / weight[t]
		}
	}
	for range 30 {
		for t := range rows {
			num, den := 0.0, 0.0
			for d := range cols {
				v := g[d] * x[t*cols+d]
				num += float64(v * y[t*cols+d])
				den += sq(v)
			}
			s[t] = ratio(num, den)
		}
		for d := range cols {
			num, den := 0.0, 0.0
			for t := range rows {
				v := s[t] * x[t*cols+d]
				num += float64(weight[t] * v * y[t*cols+d])
				den += float64(weight[t] * v * v)
			}
			g[d] = ratio(num, den)
		}
	}
	res := make([]float64, rows)
	for t := range rows {
		d2, y2 := 0.0, 0.0
		for d := range cols {
			v := y[t*cols+d]
			d2 += sq(v - float64(s[t]*g[d]*x[t*cols+d]))
			y2 += sq(v)
		}
		res[t] = ratio(d2, y2)
	}
	return s, g, math.Sqrt(median(res))
}

// ratio is a/b, 0 where b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

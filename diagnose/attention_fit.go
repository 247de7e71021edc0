package diagnose

import "math"

// scoreRow is one query's visible keys in one head: x the raw product q·k (or the
// other side's log-probability), l the log-probability, w the weight.
type scoreRow struct {
	head, row int
	x, l, w   []float64
	// sum is the row's sum of probabilities, below 1 where a sink takes some.
	sum float64
}

// sampleRows is the most query rows of a head that a fit looks at.
const sampleRows = 96

// scoreRows pairs products with log-probabilities. Weights are p, so that keys
// that nobody looks at do not decide; cells that are hidden or have underflowed
// are left out, and rows with fewer than two keys too.
func scoreRows(x, p []float64, g grid) []scoreRow {
	step := max(1, (g.T+sampleRows-1)/sampleRows)
	var out []scoreRow
	for b := 0; b < g.Blocks; b++ {
		for t := (g.T - 1) % step; t < g.T; t += step {
			r := scoreRow{head: b % g.Heads, row: t}
			px, pr := g.row(x, b, t), g.row(p, b, t)
			for s, v := range pr {
				r.sum += v
				if v > hiddenBelow && !math.IsInf(px[s], 0) && !math.IsNaN(px[s]) {
					r.x, r.l, r.w = append(r.x, px[s]), append(r.l, math.Log(v)), append(r.w, v)
				}
			}
			if len(r.x) >= 2 {
				out = append(out, r)
			}
		}
	}
	return out
}

// centred is the weighted mean-free residual of a row under a map of x: each row
// has a free constant, the softmax's denominator.
func (r scoreRow) centred(f func(float64) float64) (ss, sl float64) {
	var sw, m, ml float64
	y := make([]float64, len(r.x))
	for i, x := range r.x {
		y[i] = f(x)
		sw += r.w[i]
		m += r.w[i] * y[i]
		ml += r.w[i] * r.l[i]
	}
	m, ml = m/sw, ml/sw
	for i := range y {
		d := (r.l[i] - ml) - (y[i] - m)
		ss += r.w[i] * d * d
		sl += r.w[i] * (r.l[i] - ml) * (r.l[i] - ml)
	}
	return ss, sl
}

// misfit is the weighted r.m.s. error of the log-probabilities relative to their
// own spread.
func misfit(rows []scoreRow, f func(float64) float64) float64 {
	var ss, sl float64
	for _, r := range rows {
		a, b := r.centred(f)
		ss, sl = ss+a, sl+b
	}
	return relative(ss, sl)
}

// fitSlope is the least-squares slope of log-probabilities on x, rows centred.
func fitSlope(rows []scoreRow) (slope, err float64, ok bool) {
	var sxx, sxl float64
	for _, r := range rows {
		var sw, mx, ml float64
		for i := range r.x {
			sw += r.w[i]
			mx += r.w[i] * r.x[i]
			ml += r.w[i] * r.l[i]
		}
		mx, ml = mx/sw, ml/sw
		for i := range r.x {
			sxx += r.w[i] * (r.x[i] - mx) * (r.x[i] - mx)
			sxl += r.w[i] * (r.x[i] - mx) * (r.l[i] - ml)
		}
	}
	if !(sxx > 0) {
		return 0, 0, false
	}
	slope = sxl / sxx
	return slope, misfit(rows, func(x float64) float64 { return slope * x }), true
}

// fitCap fits log p = c·tanh(scale·x/c) + row constant by Gauss-Newton in ln scale
// and ln c, from several caps.
func fitCap(rows []scoreRow, slope float64) (scale, c, err float64, ok bool) {
	if !(slope > 0) {
		return 0, 0, 0, false
	}
	rows = thin(rows, 20000)
	most := 0.0
	for _, r := range rows {
		for _, x := range r.x {
			most = math.Max(most, math.Abs(x))
		}
	}
	model := func(la, lc float64) float64 {
		a, k := math.Exp(la), math.Exp(lc)
		return misfit(rows, func(x float64) float64 { return softcap(a*x, k) })
	}
	type start struct{ la, lc, e float64 }
	best := start{e: math.Inf(1)}
	for _, up := range []float64{1, 1.3, 2, 3} { // a cap flattens the slope
		for _, at := range []float64{0.15, 0.3, 0.6, 1.2, 2.5, 5} {
			s := start{la: math.Log(slope * up), lc: math.Log(at * up * slope * most)}
			if s.e = model(s.la, s.lc); s.e < best.e {
				best = s
			}
		}
	}
	// A simplex in two unknowns: the surface is smooth and cheap.
	la, lc, e := nelderMead2(model, best.la, best.lc, 0.2)
	scale, c, err = math.Exp(la), math.Exp(lc), e
	return scale, c, err, c > 0 && !math.IsInf(c, 0) && c < 20*scale*most
}

// thin keeps evenly spread rows with at most so many cells: two unknowns need no
// more.
func thin(rows []scoreRow, cells int) []scoreRow {
	n := 0
	for _, r := range rows {
		n += len(r.x)
	}
	if n <= cells {
		return rows
	}
	var out []scoreRow
	for i := 0; i < len(rows); i += (n + cells - 1) / cells {
		out = append(out, rows[i])
	}
	return out
}

// nelderMead2 minimises f of two unknowns from (x, y) with a first step.
func nelderMead2(f func(x, y float64) float64, x, y, step float64) (bx, by, bf float64) {
	type pt struct{ x, y, f float64 }
	at := func(x, y float64) pt { return pt{x, y, f(x, y)} }
	p := [3]pt{at(x, y), at(x+step, y), at(x, y+step)}
	for range 200 {
		if p[1].f < p[0].f {
			p[0], p[1] = p[1], p[0]
		}
		if p[2].f < p[1].f {
			p[1], p[2] = p[2], p[1]
			if p[1].f < p[0].f {
				p[0], p[1] = p[1], p[0]
			}
		}
		if math.Hypot(p[2].x-p[0].x, p[2].y-p[0].y) < 1e-10 {
			break
		}
		cx, cy := (p[0].x+p[1].x)/2, (p[0].y+p[1].y)/2
		r := at(2*cx-p[2].x, 2*cy-p[2].y)
		switch {
		case r.f < p[0].f:
			if e := at(3*cx-2*p[2].x, 3*cy-2*p[2].y); e.f < r.f {
				r = e
			}
			p[2] = r
		case r.f < p[1].f:
			p[2] = r
		default:
			k := at((cx+p[2].x)/2, (cy+p[2].y)/2)
			if k.f < p[2].f {
				p[2] = k
			} else {
				for i := 1; i < 3; i++ {
					p[i] = at((p[0].x+p[i].x)/2, (p[0].y+p[i].y)/2)
				}
			}
		}
	}
	return p[0].x, p[0].y, p[0].f
}

// fitSinks is the score of each head's sink from the rows' sums: with Z the sum
// of e^score over the visible keys, sum = Z / (Z + e^sink). spread is the largest
// deviation over the rows of a head.
func fitSinks(rows []scoreRow, heads int, score func(float64) float64) (sinks []float64, spread float64, ok bool) {
	sinks = make([]float64, heads)
	lo, hi := make([]float64, heads), make([]float64, heads)
	n := make([]float64, heads)
	for _, r := range rows {
		if !(r.sum > 0 && r.sum < 1-1e-5) {
			continue
		}
		most := math.Inf(-1)
		for _, x := range r.x {
			most = math.Max(most, score(x))
		}
		z := 0.0
		for _, x := range r.x {
			z += math.Exp(score(x) - most)
		}
		b := most + math.Log(z) + math.Log(1/r.sum-1)
		if n[r.head] == 0 {
			lo[r.head], hi[r.head] = b, b
		}
		lo[r.head], hi[r.head] = math.Min(lo[r.head], b), math.Max(hi[r.head], b)
		// Rows that lose most tell the sink best.
		w := r.sum * (1 - r.sum)
		sinks[r.head] += w * b
		n[r.head] += w
	}
	for h := range sinks {
		if n[h] == 0 {
			return nil, 0, false
		}
		sinks[h] /= n[h]
		spread = math.Max(spread, hi[h]-lo[h])
	}
	return sinks, spread, true
}

// sumsBelowOne tells whether the rows lose probability to something that is no
// key: the largest loss.
func sumsBelowOne(rows []scoreRow) float64 {
	loss := 0.0
	for _, r := range rows {
		loss = math.Max(loss, 1-r.sum)
	}
	return loss
}

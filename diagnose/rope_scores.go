package diagnose

import (
	"fmt"
	"math"
	"strings"

	"github.com/layerparity/parity/compare"
)

// scoreSample is a few heads and query rows of one side, for trying rotations
// where only q and k before them and the probabilities were dumped.
type scoreSample struct {
	q, k       *Tensor
	posQ, posK [][]float64
	d          int
	heads      []int
	rows       []int
	probs      *Tensor
	g          grid
}

const (
	sampleHeads   = 2
	sampleQueries = 32
)

// sampleScores picks heads and rows; ok is false for batches and later steps,
// whose keys stand at other positions.
func sampleScores(c *Context, side Side, q, k, probs *Tensor, g grid, d int) (s scoreSample, ok bool) {
	if g.Blocks != g.Heads || g.past() != 0 || q.Cols%d != 0 || k.Cols%d != 0 || k.Cols == 0 {
		return s, false
	}
	s = scoreSample{k: k, posK: c.positions(side, k.Rows), d: d, probs: probs, g: g}
	for h := 0; h < g.Heads && len(s.heads) < sampleHeads; h += max(1, g.Heads/sampleHeads) {
		s.heads = append(s.heads, h)
	}
	step := max(1, g.T/sampleQueries)
	for t := g.T - 1; t >= 1; t -= step {
		s.rows = append(s.rows, t)
	}
	s.q = q.takeRows(s.rows)
	for _, axis := range c.positions(side, q.Rows) {
		var at []float64
		for _, t := range s.rows {
			at = append(at, axis[t])
		}
		s.posQ = append(s.posQ, at)
	}
	return s, len(s.rows) >= minTokens-1
}

// misfit is the relative error of the log-probabilities under a rotation, with a
// scale of its own and whatever key head fits each query head best.
func (s scoreSample) misfit(r ropeRule) float64 {
	kvs := s.k.Cols / s.d
	kr := r.rotate(s.k.Data, s.k.Rows, s.k.Cols, s.d, s.posK, false)
	worst := 0.0
	for _, h := range s.heads {
		qh := s.q.takeCols(span(h*s.d, s.d))
		qr := r.rotate(qh.Data, qh.Rows, s.d, s.d, s.posQ, false)
		least := math.Inf(1)
		for kv := range kvs {
			if slope, e, ok := fitSlope(s.headRows(h, kv, qr, kr)); ok && slope > 0 {
				least = math.Min(least, e)
			}
		}
		worst = math.Max(worst, least)
	}
	return worst
}

// headRows pairs the sampled queries of one head with rotated keys.
func (s scoreSample) headRows(h, kv int, qr, kr []float64) []scoreRow {
	var rows []scoreRow
	for i, t := range s.rows {
		row := scoreRow{head: h, row: t}
		for j, v := range s.g.row(s.probs.Data, h, t) {
			if v > hiddenBelow {
				key := kr[j*s.k.Cols+kv*s.d:][:s.d]
				row.x = append(row.x, dot(qr[i*s.d:(i+1)*s.d], key))
				row.l, row.w = append(row.l, math.Log(v)), append(row.w, v)
			}
		}
		if len(row.x) >= 2 {
			rows = append(rows, row)
		}
	}
	return rows
}

// span is from, from+1, ..., n of them.
func span(from, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = from + i
	}
	return out
}

// thetaGrid are the thetas of a coarse search, 12 a decade over what models use.
func thetaGrid() []float64 {
	var out []float64
	for i := 0; i <= 60; i++ {
		out = append(out, math.Pow(10, 3+float64(i)/12))
	}
	return out
}

// searchRope finds the rule with the least cost: the plausible ones first, then
// theta over a grid, refined. cost is any error that is zero for the right rule.
func searchRope(priors []ropeRule, d int, good float64, cost func(ropeRule) float64) (best ropeRule, e float64) {
	e = math.Inf(1)
	offer := func(r ropeRule) {
		if x := cost(r); x < occam*e {
			best, e = r, x
		}
	}
	for _, p := range append(priors, ropeRule{None: true}) {
		for _, layout := range []string{"half", "interleaved"} {
			q := p
			if !q.None {
				q.Layout = layout
			}
			offer(q)
			if q.Scaling != "" {
				q.Scaling = ""
				offer(q)
			}
		}
	}
	if e <= good {
		return best, e
	}
	for _, layout := range []string{"half", "interleaved"} {
		for _, dims := range []int{0, d / 2, d / 4} {
			at, least := 0.0, math.Inf(1)
			make_ := func(theta float64) ropeRule { return ropeRule{Layout: layout, Dims: dims, Theta: theta} }
			for _, theta := range thetaGrid() {
				if x := cost(make_(theta)); x < least {
					at, least = theta, x
				}
			}
			if dims%2 != 0 || !(least < e) {
				continue
			}
			step := math.Ln10 / 12
			lt := goldenSection(func(l float64) float64 { return cost(make_(math.Exp(l))) }, math.Log(at)-step, math.Log(at)+step)
			r := make_(math.Exp(lt))
			x := cost(r)
			for digits := 1.0; digits <= 3; digits++ {
				p := math.Pow(10, math.Floor(math.Log10(r.Theta))-digits+1)
				nice := make_(math.Round(r.Theta/p) * p)
				if near(nice.Theta, r.Theta, 0.02) && cost(nice) <= 1.05*x+1e-9 {
					r = nice
					break
				}
			}
			offer(r)
		}
	}
	return best, e
}

// rotatedByScores finds the rotation of one side from q and k before it and the
// probabilities, and returns both rotated.
func rotatedByScores(c *Context, side Side, q, k, probs *Tensor, g grid, d int) (qr, kr *Tensor, rule ropeRule, ok bool) {
	s, ok := sampleScores(c, side, q, k, probs, g, d)
	if !ok {
		return nil, nil, rule, false
	}
	good := math.Max(1e-4, 4*unitOf(q, probs))
	rule, e := searchRope(append(ropePriors(c, Ref), ropePriors(c, Port)...), d, good, s.misfit)
	if !(e < 0.05) {
		return nil, nil, rule, false
	}
	qr = q.like(rule.rotate(q.Data, q.Rows, q.Cols, d, c.positions(side, q.Rows), false))
	kr = k.like(rule.rotate(k.Data, k.Rows, k.Cols, d, s.posK, false))
	return qr, kr, rule, true
}

// ropeByScores reports rotations that differ, found through the scores.
func ropeByScores(c *Context, r, p ropeRule, expr string, d int) []compare.Finding {
	t, ok := tryTrial(c, expr, 2)
	if !ok {
		return nil
	}
	var out []compare.Finding
	for _, x := range plainDiffs(r, p, d) {
		f, ok := c.finding(x.cause, t)
		if !ok {
			return nil
		}
		sides(&f, x.ref, x.port)
		for k, v := range x.more {
			f.Values[k] = v
		}
		f.Claim, f.Verify, f.Fix = x.claim, x.verify, x.fix
		f.Try = c.tryLine("%s", expr)
		f.For = []string{
			fmt.Sprintf("q and k were dumped before the rotation only; each side's own scores fit %s (reference) and %s (port)", r.describe(), p.describe()),
			fmt.Sprintf("with the port's rule its own q and k repeat its %s to rel_l2 %s (between the sides: %s)", c.Tap, g2(t.after.Whole), g2(t.before.Whole)),
		}
		out = append(out, f)
	}
	return out
}

// plainDiffs are the differences of two rules that need no positions.
func plainDiffs(a, b ropeRule, d int) []ropeDiff {
	if a.None != b.None {
		return []ropeDiff{appliedDiff(a, b)}
	}
	if a.None {
		return nil
	}
	var out []ropeDiff
	for _, f := range []func() (ropeDiff, bool){
		func() (ropeDiff, bool) { return layoutDiff(a, b) },
		func() (ropeDiff, bool) { return widthDiff(a, b, d) },
		func() (ropeDiff, bool) { return scalingDiff(a, b) },
		func() (ropeDiff, bool) { return thetaDiff(a, b) },
	} {
		if x, differs := f(); differs {
			out = append(out, x)
		}
	}
	return out
}

// scoreArgs writes a rotation as arguments of the scores transform.
func (r ropeRule) scoreArgs() []string {
	if r.None {
		return nil
	}
	return strings.Split(r.args(), ", ")
}

package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// logitCapHypothesis: the final logits are soft-capped on one side, or at another
// height.
var logitCapHypothesis = Hypothesis{
	ID:     "logit_softcap",
	Causes: []string{"attention.softcap"},
	Taps:   []string{"logits", "last_logits"},
	Needs:  "the logits",
	Silent: "no cap turns one side's logits into the other's",
	Source: "r = c·tanh(p/c); Gemma 2 (arXiv 2408.00118) caps its logits at 30",
	Test:   testLogitCap,
}

func testLogitCap(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || len(ref.Data) < 8 {
		return nil
	}
	var best compare.Finding
	found := false
	try := func(expr string, params int, refCap, portCap float64) {
		t, ok := tryTrial(c, expr, params)
		if !ok {
			return
		}
		f, ok := c.finding("attention.softcap", t)
		if !ok || found && float64(f.After) > occam*float64(best.After) {
			return
		}
		word := func(v float64) any {
			if v == 0 {
				return "none"
			}
			return v
		}
		sides(&f, word(refCap), word(portCap))
		text := func(v float64) string {
			if v == 0 {
				return "does not cap"
			}
			return "caps at " + g6(v)
		}
		f.Claim = fmt.Sprintf("final logits: port %s, reference %s (x := c·tanh(x/c))", text(portCap), text(refCap))
		f.Try = c.tryLine("%s", expr)
		f.For = []string{
			fmt.Sprintf("largest logit: reference %s, port %s", g6(maxAbs(ref.Data)), g6(maxAbs(port.Data))),
			fmt.Sprintf("the relation between the two is one curve for all tokens and words: rel_l2 %s before, %s after", g2(t.before.Whole), g2(t.after.Whole)),
		}
		f.Verify = "look for final_logit_softcapping in the config, and for the tanh after the head in both codes"
		f.Fix = "cap the logits as the reference does"
		best, found = f, true
	}
	if cap, ok := fitLogitCap(port.Data, ref.Data); ok {
		try(fmt.Sprintf("softcap(%s)", formatNum(cap)), 1, cap, 0)
	}
	if cap, ok := fitLogitCap(ref.Data, port.Data); ok {
		try(fmt.Sprintf("from(ref:%s) | softcap(%s) | target(port)", c.At, formatNum(cap)), 1, 0, cap)
	}
	for _, f := range []Facts{c.Facts(Ref), c.Facts(Port)} {
		stated := f.FinalSoftcap
		if stated <= 0 || found {
			continue
		}
		// Both sides cap, at different heights: the stated one is one of them.
		if un, ok := uncapped(ref.Data, stated); ok {
			if cap, ok := fitLogitCap(un, port.Data); ok && !near(cap, stated, 1e-3) {
				try(fmt.Sprintf("from(ref:%s) | unsoftcap(%s) | softcap(%s) | target(port)", c.At, formatNum(stated), formatNum(cap)), 2, stated, cap)
			}
		}
	}
	if !found {
		return nil
	}
	return []compare.Finding{best}
}

// fitLogitCap fits y = c·tanh(x/c). ok is false where y is not smaller than x
// where x is large, so that no cap is meant.
func fitLogitCap(x, y []float64) (float64, bool) {
	most, mostY := maxAbs(x), maxAbs(y)
	if !(most > 0) || !(mostY < most*(1-1e-6)) || math.IsInf(most, 0) {
		return 0, false
	}
	cost := func(lc float64) float64 {
		k := math.Exp(lc)
		var d2, y2 float64
		for i, v := range x {
			e := softcap(v, k) - y[i]
			d2 += e * e
			y2 += y[i] * y[i]
		}
		return relative(d2, y2)
	}
	lo, hi := math.Log(mostY*0.9), math.Log(most*50)
	best, at := math.Inf(1), lo
	for i := 0; i <= 60; i++ {
		p := lo + (hi-lo)*float64(i)/60
		if e := cost(p); e < best {
			best, at = e, p
		}
	}
	step := (hi - lo) / 60
	at = goldenSection(cost, at-step, at+step)
	c := math.Exp(at)
	for _, digits := range []float64{1, 2, 3} {
		p := math.Pow(10, math.Floor(math.Log10(c))-digits+1)
		if n := math.Round(c/p) * p; near(n, c, 0.01) && cost(math.Log(n)) <= 1.05*cost(at)+1e-9 {
			c = n
			break
		}
	}
	return c, best < 0.2
}

// goldenSection minimises a function of one unknown between lo and hi.
func goldenSection(f func(float64) float64, lo, hi float64) float64 {
	const phi = 0.6180339887498949
	a, b := hi-phi*(hi-lo), lo+phi*(hi-lo)
	fa, fb := f(a), f(b)
	for hi-lo > 1e-12*(1+math.Abs(lo)) {
		if fa < fb {
			hi, b, fb = b, a, fa
			a = hi - phi*(hi-lo)
			fa = f(a)
		} else {
			lo, a, fa = a, b, fb
			b = lo + phi*(hi-lo)
			fb = f(b)
		}
		if a == b {
			break
		}
	}
	return (lo + hi) / 2
}

func maxAbs(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = math.Max(m, math.Abs(v))
	}
	return m
}

// uncapped inverts a cap; ok is false where a value has reached it.
func uncapped(x []float64, c float64) ([]float64, bool) {
	out := make([]float64, len(x))
	for i, v := range x {
		if !(math.Abs(v) < c) {
			return nil, false
		}
		out[i] = c * math.Atanh(v/c)
	}
	return out, true
}

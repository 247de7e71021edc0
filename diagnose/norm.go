package diagnose

import (
	"fmt"
	"math"
	"strconv"

	"github.com/layerparity/parity/compare"
)

// normHypothesis reads the rule of a norm off each run's own input and output
// and says in which part the two rules differ.
var normHypothesis = Hypothesis{
	ID:     "norm",
	Causes: []string{"norm.eps", "norm.gain", "norm.missing", "norm.order", "norm.precision", "weights.swapped", "parallel.partial_sum"},
	Taps:   normTaps,
	Needs:  "the norm's input (the layer's input, ffn_inp or attn_out, q, k) and its output, at least 4 tokens",
	Silent: "both runs follow one rule within the rounding of their outputs, or the reference's own norm is not of a known form",
	Source: "y = x/√(ms+eps)·g read by rank-one least squares: 1/c² is affine in 1/ms (patterns P03, P04)",
	Test:   testNorm,
}

// normPair is what both runs do at one norm.
type normPair struct {
	c         *Context
	ref, port *Tensor
	rule      [2]normFit
	in        [2]operand
}

func testNorm(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok {
		return nil
	}
	if !c.inherited() && distance(ref, port).below(2*0x1p-24) {
		return nil // equal: whatever its input is, the norm is the same
	}
	p := normPair{c: c, ref: ref, port: port}
	var good [2]bool
	for _, s := range []Side{Ref, Port} {
		p.rule[s], p.in[s], good[s] = c.readNorm(s, c.At)
	}
	if p.in[Ref].Tensor == nil || p.in[Port].Tensor == nil {
		c.Note("norm at %s: its input was not dumped on both sides", c.At)
		return nil
	}
	if ref.Rows < minTokens {
		c.Note("norm at %s needs at least %d tokens, the dump has %d", c.At, minTokens, ref.Rows)
		return nil
	}
	if !good[Ref] {
		good = p.otherInput()
	}
	if !good[Ref] {
		c.Note("norm at %s: the reference's output is no RMS or layer norm of %s (rel %s)", c.At, p.in[Ref].Name, g2(p.rule[Ref].Resid))
		return nil
	}
	if !good[Port] {
		for _, test := range []func(normPair) (compare.Finding, bool){normOrder, normOverflow, normPrecision} {
			if f, ok := test(p); ok {
				return []compare.Finding{f}
			}
		}
		return nil
	}
	for _, test := range []func(normPair) (compare.Finding, bool){normMissing, normSpan, normEps, normGain} {
		if f, ok := test(p); ok {
			return []compare.Finding{f}
		}
	}
	return nil
}

// otherInput looks for the tensor that the reference's norm reads where it is not
// the usual one: norms after the attention or the residual addition. The port is
// then read with the same.
func (p *normPair) otherInput() (good [2]bool) {
	for _, x := range p.c.normCandidates(Ref) {
		n, ok := p.c.readNormOf(Ref, p.c.At, x)
		if !ok || n.Form == "none" {
			continue
		}
		for _, y := range p.c.normCandidates(Port) {
			if y.Name != x.Name {
				continue
			}
			p.rule[Ref], p.in[Ref], good[Ref] = n, x, true
			p.in[Port] = y
			p.rule[Port], good[Port] = p.c.readNormOf(Port, p.c.At, y)
			return good
		}
	}
	return good
}

// judge measures the pair with byRef and byPort, and writes the two chains that
// repeat it; gainOf names the dump that holds the gain of each rule.
func (p normPair) judge(cause string, byRef, byPort normFit, gainOfRef, gainOfPort string, params int) (compare.Finding, bool) {
	x := p.in[Port]
	t, own, ok := p.c.ruleTrial(p.ref, p.port, byRef.apply(x.Tensor), byPort.apply(x.Tensor), params)
	if !ok {
		return compare.Finding{}, false
	}
	f, ok := p.c.finding(cause, t)
	if !ok {
		return f, false
	}
	chain := func(n normFit, gainOf string) string {
		s := x.Expr
		if n.Form != "none" {
			s += " | " + n.call(p.ref.Cols)
		}
		if gainOf != "" {
			s += fmt.Sprintf(" | gain(%s)", gainOf)
		}
		return s
	}
	if own {
		f.Try = p.c.tryLine("%s | target(port)", chain(byPort, gainOfPort))
		f.For = append(f.For, "the input already differs, so both rules were worked out on the port's own input and compared with its output")
	} else {
		f.Try = p.c.tryLine("%s", chain(byRef, gainOfRef))
	}
	f.For = append(f.For, fmt.Sprintf("the reference's rule fits its own output to %s, the port's rule the port's to %s", g2(p.rule[Ref].Resid), g2(distance(p.port, byPort.apply(x.Tensor)).Token)))
	return f, true
}

func (p normPair) here(s Side) string { return tapOf(s, p.c.At) }

// normMissing: one side hands its input on, with or without the gain.
func normMissing(p normPair) (compare.Finding, bool) {
	r, q := p.rule[Ref], p.rule[Port]
	if (r.Form == "none") == (q.Form == "none") && r.Centred == q.Centred {
		return compare.Finding{}, false
	}
	f, ok := p.judge("norm.missing", r, q, p.here(Ref), p.here(Port), p.ref.Cols)
	if !ok {
		return f, false
	}
	sides(&f, normKind(r), normKind(q))
	f.Claim = fmt.Sprintf("at %s the reference applies %s to %s, the port %s", p.c.At, normKind(r), p.in[Ref].Name, normKind(q))
	f.Verify = "look whether the norm is built, and called, on both sides (a flag such as qk_norm, a norm folded into the next weight)"
	f.Fix = fmt.Sprintf("to follow the reference: %s here", normKind(r))
	return f, true
}

func normKind(n normFit) string {
	switch {
	case n.Form == "none" && flat(n.Gain, 1):
		return "no norm at all"
	case n.Form == "none":
		return "only a gain per dim, no norm"
	case n.Bias != nil:
		return "a layer norm with a bias"
	case n.Centred:
		return "a norm that subtracts the mean"
	}
	return "an RMS norm"
}

// flat tells whether every gain is one value.
func flat(g []float64, want float64) bool {
	for _, v := range g {
		if math.Abs(v-want) > 1e-3*math.Abs(want) {
			return false
		}
	}
	return true
}

// normSpan: the mean square is taken over other blocks of dims.
func normSpan(p normPair) (compare.Finding, bool) {
	r, q := p.rule[Ref], p.rule[Port]
	if r.Width == q.Width || r.Form == "none" || q.Form == "none" {
		return compare.Finding{}, false
	}
	cause, why := "norm.order", "the norm runs before the split into heads on one side and after it on the other"
	n := p.ref.Cols / q.Width
	if r.Width > q.Width && q.Width != p.c.headWidth(p.ref.Cols) || len(p.c.worlds()) > 0 && p.c.worlds()[0] == n {
		cause, why = "parallel.partial_sum", "the sum of squares is not added over the shards"
	}
	f, ok := p.judge(cause, r, q, p.here(Ref), p.here(Port), p.ref.Cols)
	if !ok {
		return f, false
	}
	sides(&f, r.Width, q.Width)
	f.Claim = fmt.Sprintf("at %s the reference takes the mean square over %d dims together, the port over %d (%d blocks): %s", p.c.At, r.Width, q.Width, n, why)
	f.For = append(f.For, "within a block every token differs by one number, which is another in the next block")
	f.Verify = "look at the shape that the norm sees: the whole row, one head, or one rank's shard"
	f.Fix = fmt.Sprintf("to follow the reference, take the statistics over %d dims (over ranks: all-reduce the sum of squares)", r.Width)
	return f, true
}

// normEps: same gain, another eps, or eps on the other side of the root.
func normEps(p normPair) (compare.Finding, bool) {
	r, q := p.rule[Ref], p.rule[Port]
	if r.Form == "none" || r.Width != q.Width || p.ref.Rows < 2*minTokens {
		return compare.Finding{}, false
	}
	sigma := math.Hypot(r.EpsErr, q.EpsErr)
	if !(math.Abs(r.Eps-q.Eps) > 8*sigma) && r.Form == q.Form {
		return compare.Finding{}, false
	}
	if !sameGain(r.Gain, q.Gain, p.gainTolerance()) {
		return compare.Finding{}, false
	}
	f, ok := p.judge("norm.eps", q.withEps(r), q, p.here(Port), p.here(Port), 1)
	if !ok {
		// The port's outputs are rounded more coarsely than eps acts, but it acts
		// on every dim alike, and the token scales tell it.
		x := p.in[Port]
		t := p.c.tryOn(p.ref, p.port, q.withEps(r).apply(x.Tensor), 1)
		if !(math.Abs(r.Eps-q.Eps) > 20*sigma) || p.c.inherited() || t.explained() < 0.3 {
			return f, false
		}
		f = p.c.signature("norm.eps", t)
	}
	sides(&f, r.tidyEps(), q.tidyEps())
	f.Values["reference_form"], f.Values["port_form"] = r.Form, q.Form
	f.Claim = fmt.Sprintf("the norm at %s runs with eps = %s in the port and %s in the reference", p.c.At, g3(q.tidyEps()), g3(r.tidyEps()))
	if r.Form != q.Form {
		f.Claim = fmt.Sprintf("the norm at %s adds eps %s the root in the port (eps = %s) and %s it in the reference (eps = %s)", p.c.At, q.Form, g3(q.tidyEps()), r.Form, g3(r.tidyEps()))
	}
	f.For = append(f.For,
		fmt.Sprintf("eps read off the tokens: reference %s, port %s", r.epsText(), q.epsText()),
		fmt.Sprintf("mean squares of the input run from %s to %s, so eps matters here", g2(leastMS(p.in[Port].Tensor, q.Width)), g2(greatestMS(p.in[Port].Tensor, q.Width))),
		"the gain of every dim is the same on both sides")
	f.Verify = "print the norm's eps on both sides: a default that the config should have overridden (1e-5 against 1e-6), a floor put under it in half precision"
	f.Fix = fmt.Sprintf("to follow the reference, use eps = %s %s the root", g3(r.tidyEps()), r.Form)
	return f, true
}

// tidyEps rounds a fitted eps to the nearest value with one significant digit
// where that is within its error or 1 %, since configs hold such values.
func (n normFit) tidyEps() float64 {
	if !(n.Eps > 0) {
		if math.Abs(n.Eps) < 3*n.EpsErr {
			return 0
		}
		return n.Eps
	}
	t, err := strconv.ParseFloat(strconv.FormatFloat(n.Eps, 'e', 0, 64), 64)
	if err != nil {
		return n.Eps
	}
	if math.Abs(t-n.Eps) <= max(3*n.EpsErr, 0.01*t) && n.EpsErr < 0.3*n.Eps {
		return t
	}
	return n.Eps
}

func g3(x float64) string { return fmt.Sprintf("%.3g", x) }

func leastMS(x *Tensor, width int) float64 {
	_, ms := normalised(x, width, false)
	m := math.Inf(1)
	for _, v := range ms {
		m = min(m, v)
	}
	return m
}

func greatestMS(x *Tensor, width int) float64 {
	_, ms := normalised(x, width, false)
	m := 0.0
	for _, v := range ms {
		m = max(m, v)
	}
	return m
}

// gainTolerance is how far two gains of one dim may be apart by rounding: each
// is a mean over tokens.
func (p normPair) gainTolerance() float64 {
	u := max(unitOf(p.ref, p.ref), unitOf(p.port, p.port))
	return 8 * max(u, 4*0x1p-24)
}

// sameGain tells whether the gains agree, all but 2 % of the dims within tol.
func sameGain(a, b []float64, tol float64) bool {
	far := 0
	for d, v := range a {
		if math.Abs(b[d]-v) > tol*max(math.Abs(v), math.Abs(b[d])) {
			far++
		}
	}
	return far*50 <= len(a)
}

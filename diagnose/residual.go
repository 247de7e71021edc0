package diagnose

import (
	"fmt"
	"math"
	"strings"

	"github.com/layerparity/parity/compare"
)

// residualHypothesis solves, within each run alone, for the coefficients with
// which the residual stream is added up.
var residualHypothesis = Hypothesis{
	ID:     "residual",
	Causes: []string{"residual.algebra"},
	Taps:   []string{"ffn_inp", "layer", "post_attn_norm"},
	Needs:  "the layer's input, attn_out, mlp_out, and input_norm, post_attn_norm or ffn_inp where they may have been added instead",
	Silent: "both runs add the same parts, or a part that the reference adds was not dumped",
	Source: "h_out = h_in + m·attn + m·mlp solved by least squares on {h_in, n1, o, n2, mlp} of one run; pattern P24 (residual taken after the norm, muP multipliers missing)",
	Test:   testResidual,
}

// residualSum is what one run adds up at a checkpoint.
type residualSum struct {
	parts []operand
	coef  []float64
	resid float64
}

func testResidual(c *Context) []compare.Finding {
	if c.Layer < 0 {
		return nil
	}
	at := c
	if c.Tap == "post_attn_norm" {
		return residualByNorm(c)
	}
	ref, port, ok := at.Pair(at.At)
	if !ok || !ref.finite() || !port.finite() {
		return nil
	}
	r, okR := at.addUp(Ref, ref)
	p, okP := at.addUp(Port, port)
	if !okR {
		c.Note("residual at %s: the reference's value is no sum of its dumped parts (rel %s)", c.At, g2(r.resid))
		return nil
	}
	if !okP || r.same(p) {
		return nil
	}
	want, expr, ok := at.applySum(r, Port)
	if !ok {
		return nil
	}
	got, portExpr, _ := at.applySum(p, Port)
	t, own, ok := at.ruleTrial(ref, port, want, got, len(r.coef))
	if !ok {
		return nil
	}
	f, ok := at.finding("residual.algebra", t)
	if !ok {
		return nil
	}
	if own {
		expr = portExpr + " | target(port)"
		f.For = append(f.For, "the layer's inputs already differ, so both sums were worked out on the port's own parts")
	}
	sides(&f, r.text(), p.text())
	f.Claim = fmt.Sprintf("%s = %s in the port, %s in the reference", c.At, p.text(), r.text())
	f.For = append(f.For,
		fmt.Sprintf("solved within each run alone: the port's sum holds to %s, the reference's to %s", g2(p.resid), g2(r.resid)),
		fmt.Sprintf("the reference's sum of the port's own parts gives the reference to %s (before %s)", g2(t.after.Whole), g2(t.before.Whole)))
	f.Try = at.tryLine("%s", expr)
	f.Verify = "read the additions of the block in the port: which tensor is kept for the residual (before or after the norm), and which multiplier each branch has"
	f.Fix = fmt.Sprintf("to follow the reference, form %s", r.text())
	return []compare.Finding{f}
}

// addUp solves for the sum at this context's checkpoint in one run. ok tells
// whether the sum holds to that run's own rounding. The usual parts come first,
// and another set has to leave clearly less: the normed parts are nearly
// dependent on the stream that they are norms of.
func (c *Context) addUp(s Side, y *Tensor) (residualSum, bool) {
	bound := exactFloors * c.ruleFloor(y)
	best := residualSum{resid: math.Inf(1)}
	for _, taps := range residualParts(c.Tap) {
		parts := c.residualOperands(s, taps, y)
		if len(parts) == 0 {
			continue
		}
		sum, ok := solveSum(parts, y)
		if !ok {
			continue
		}
		for _, digits := range []int{0, 2, 3} {
			tidy := sum.tidy(digits)
			tidy.resid = distance(y, tidy.value()).Token
			if tidy.resid <= 1.2*sum.resid+4*0x1p-24 {
				sum = tidy
				break
			}
		}
		if sum.resid < best.resid/1.5 {
			best = sum
		}
	}
	return best, best.resid <= bound
}

// residualParts lists the sets of taps that a checkpoint may be the sum of; "in"
// is the layer's input.
func residualParts(tap string) [][]string {
	if tap == "ffn_inp" {
		return [][]string{{"in", "attn_out"}, {"input_norm", "attn_out"}, {"in", "input_norm", "attn_out"}}
	}
	return [][]string{
		{"in", "attn_out", "mlp_out"},
		{"ffn_inp", "mlp_out"},
		{"input_norm", "attn_out", "mlp_out"},
		{"in", "attn_out", "post_attn_norm", "mlp_out"},
		{"post_attn_norm", "mlp_out"},
		{"in", "input_norm", "attn_out", "mlp_out"},
		{"in", "input_norm", "attn_out", "post_attn_norm", "mlp_out"},
	}
}

// residualOperands reads the parts; nil where one was not dumped.
func (c *Context) residualOperands(s Side, taps []string, y *Tensor) []operand {
	var parts []operand
	for _, tap := range taps {
		var x operand
		var ok bool
		if tap == "in" {
			x, ok = c.blockOperand(s, c.Layer)
		} else {
			x, ok = c.one(s, c.TapName(tap))
		}
		if !ok || x.Rows != y.Rows || x.Cols != y.Cols || !x.finite() {
			return nil
		}
		parts = append(parts, x)
	}
	return parts
}

// solveSum fits the coefficients, each token weighted by the size of y there.
func solveSum(parts []operand, y *Tensor) (residualSum, bool) {
	s := residualSum{parts: parts}
	data := make([][]float64, len(parts))
	for i, p := range parts {
		data[i] = p.Data
	}
	coef, err := combine(y.Data, data, y.Rows, rowWeights(y))
	if err != nil || len(y.Data) < valuesPerParam*len(coef) {
		return s, false
	}
	s.coef = coef
	s.resid = distance(y, s.value()).Token
	return s, true
}

// value is the sum.
func (s residualSum) value() *Tensor {
	parts := make([]*Tensor, len(s.parts))
	for i, p := range s.parts {
		parts[i] = p.Tensor
	}
	return linear(parts, s.coef)
}

// tidy rounds the coefficients to so many digits, as a config would hold them.
func (s residualSum) tidy(digits int) residualSum {
	n := residualSum{parts: s.parts, coef: make([]float64, len(s.coef))}
	for i, v := range s.coef {
		p := math.Pow(10, float64(digits))
		n.coef[i] = math.Round(v*p) / p
	}
	return n
}

// same tells whether two runs add the same parts alike.
func (s residualSum) same(o residualSum) bool {
	a, b := s.byName(), o.byName()
	for name, v := range a {
		if math.Abs(v-b[name]) > 1e-3 {
			return false
		}
	}
	for name, v := range b {
		if math.Abs(v-a[name]) > 1e-3 {
			return false
		}
	}
	return true
}

func (s residualSum) byName() map[string]float64 {
	m := map[string]float64{}
	for i, p := range s.parts {
		if s.coef[i] != 0 {
			m[p.Name] = s.coef[i]
		}
	}
	return m
}

// text writes the sum: "layer_00 + 0.22 x layer_01.attn_out".
func (s residualSum) text() string {
	var out []string
	for i, p := range s.parts {
		switch v := s.coef[i]; v {
		case 0:
		case 1:
			out = append(out, p.Name)
		default:
			out = append(out, fmt.Sprintf("%s x %s", g6(v), p.Name))
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, " + ")
}

// applySum forms a run's sum from the other run's parts, as a tensor and as a
// chain of transforms.
func (c *Context) applySum(s residualSum, side Side) (*Tensor, string, bool) {
	var parts []*Tensor
	var coef []float64
	expr := ""
	for i, p := range s.parts {
		if s.coef[i] == 0 {
			continue
		}
		t, ok := c.Tensor(side, p.Name)
		if !ok {
			return nil, "", false
		}
		parts, coef = append(parts, t), append(coef, s.coef[i])
		switch {
		case expr == "" && s.coef[i] == 1:
			expr = fmt.Sprintf("from(%s)", tapOf(side, p.Name))
		case expr == "":
			expr = fmt.Sprintf("from(%s) | scale(%s)", tapOf(side, p.Name), formatNum(s.coef[i]))
		case s.coef[i] == 1:
			expr += fmt.Sprintf(" | add(%s)", tapOf(side, p.Name))
		default:
			expr += fmt.Sprintf(" | add(%s, times=%s)", tapOf(side, p.Name), formatNum(s.coef[i]))
		}
	}
	if len(parts) == 0 {
		return nil, "", false
	}
	return linear(parts, coef), expr, true
}

// residualByNorm is the test where the stream between attention and MLP was not
// dumped: the second norm's output tells which sum it was given, since a norm is
// blind only to its input's size.
func residualByNorm(c *Context) []compare.Finding {
	if c.both(c.TapName("ffn_inp")) || c.streamAgrees() {
		return nil
	}
	ref, port, ok := c.Pair(c.At)
	if !ok {
		return nil
	}
	rule, in, ok := c.readNorm(Ref, c.At)
	if !ok {
		return nil
	}
	o, okO := c.one(Port, c.TapName("attn_out"))
	h, okH := c.blockOperand(Port, c.Layer)
	if !okO || !okH {
		return nil
	}
	type idea struct {
		text, expr string
		x          *Tensor
		params     int
	}
	ideas := []idea{{o.Name + " (no residual)", o.Expr, o.Tensor, 0}}
	if n1, ok := c.one(Port, c.TapName("input_norm")); ok {
		if x, ok := plus(n1, o, Port); ok {
			ideas = append(ideas, idea{x.Name, x.Expr, x.Tensor, 0})
		}
	}
	ideas = append(ideas, idea{h.Name + " (no attention)", h.Expr, h.Tensor, 0})
	if m := c.Facts(Ref).ResidualMultiplier; m != 0 && m != 1 {
		if x, ok := plus(h, o, Port); ok {
			ideas = append(ideas, idea{x.Name, x.Expr, x.Tensor, 0})
		}
	}
	if m, ok := multiplierByNorm(rule, h.Tensor, o.Tensor, port); ok {
		x := linear([]*Tensor{h.Tensor, o.Tensor}, []float64{1, m})
		ideas = append(ideas, idea{fmt.Sprintf("%s + %s x %s", h.Name, g6(m), o.Name), fmt.Sprintf("%s | add(%s, times=%s)", h.Expr, o.Name, formatNum(m)), x, 1})
	}
	// What the reference adds, of the port's own parts.
	own := operand{Tensor: linear([]*Tensor{h.Tensor, o.Tensor}, []float64{1, orDefault(c.Facts(Ref).ResidualMultiplier, 1)}), Name: in.Name}
	for _, i := range ideas {
		t := trial{before: distance(port, rule.apply(own.Tensor)), after: distance(port, rule.apply(i.x)), floor: c.ruleFloor(port), params: i.params, values: len(port.Data)}
		f, ok := c.finding("residual.algebra", t)
		if !ok || f.Proof != compare.ProofExact {
			continue
		}
		sides(&f, in.Name, i.text)
		f.Claim = fmt.Sprintf("the residual stream between attention and MLP is %s in the port, %s in the reference", i.text, in.Name)
		f.For = append(f.For, fmt.Sprintf("%s is the reference's norm of %s to %s (of %s: %s)", c.At, i.text, g2(t.after.Whole), own.Name, g2(t.before.Whole)))
		f.Try = c.tryLine("%s | %s | gain(%s) | target(port)", i.expr, rule.call(ref.Cols), tapOf(Ref, c.At))
		f.Verify = "read the first addition of the block in the port: which tensor is kept for the residual, and which multiplier the branch has"
		f.Fix = "to follow the reference, form " + in.Name
		return []compare.Finding{f}
	}
	return nil
}

// streamAgrees tells whether both runs add the layer's output up alike; then the
// second norm was given another tensor than the stream, as in a parallel block.
func (c *Context) streamAgrees() bool {
	at := c.Move(c.TapName("layer"))
	ref, port, ok := at.Pair(at.At)
	if !ok {
		return false
	}
	r, okR := at.addUp(Ref, ref)
	p, okP := at.addUp(Port, port)
	return okR && okP && r.same(p)
}

// multiplierByNorm finds m such that the norm of h + m·o is y: with u = y/gain,
// every token asks h + m·o ∝ u, which is linear in m and the token's own size.
func multiplierByNorm(rule normFit, h, o, y *Tensor) (m float64, ok bool) {
	var est []float64
	for t := range y.Rows {
		// Solve a·u - m·o = h for (a, m).
		var uu, uo, oo, uh, oh float64
		for d, v := range y.Row(t) {
			g := rule.Gain[d]
			if math.Abs(g) < 1e-3 {
				continue
			}
			u, b, x := v/g, o.Row(t)[d], h.Row(t)[d]
			uu, uo, oo, uh, oh = uu+u*u, uo+u*b, oo+b*b, uh+u*x, oh+b*x
		}
		det := uu*oo - uo*uo
		if det > 1e-9*uu*oo {
			est = append(est, (uo*uh-uu*oh)/det)
		}
	}
	if len(est) < minTokens {
		return 0, false
	}
	m = medianOf(est)
	return m, spreadOf(est, m) < 0.02*math.Abs(m)
}

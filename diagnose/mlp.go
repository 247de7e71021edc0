package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// mlpHypothesis works the gated activation out again from each run's own gate
// and up.
var mlpHypothesis = Hypothesis{
	ID:     "mlp",
	Causes: []string{"mlp.activation", "mlp.gate_up_order", "benign.layout"},
	Taps:   []string{"mlp_act", "mlp_gate", "mlp_up"},
	Needs:  "mlp_gate, mlp_up and mlp_act",
	Silent: "both runs follow one formula within the rounding",
	Source: "act = f(gate)·up over {silu, gelu (erf), gelu (tanh), quick gelu, relu, relu²} x both orders; pattern P15",
	Test:   testMLP,
}

// activation is one non-linearity with the name of its transform.
type activation struct {
	name string
	f    func(float64) float64
}

var activations = []activation{
	{"silu", func(x float64) float64 { return x * sigmoid(x) }},
	{"gelu", func(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) }},
	{"gelu_tanh", func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}},
	{"quick_gelu", func(x float64) float64 { return x * sigmoid(1.702*x) }},
	{"relu", func(x float64) float64 { return math.Max(x, 0) }},
	{"relu2", func(x float64) float64 { return math.Max(x, 0) * math.Max(x, 0) }},
	{"sigmoid", sigmoid},
	{"tanh", math.Tanh},
}

// gated is one formula of a gated MLP, or of a plain one where Inner is alone.
type gated struct {
	activation
	// Inner goes through the activation, Outer multiplies; "" for none.
	Inner, Outer string
}

func (g gated) text() string {
	if g.Outer == "" {
		return fmt.Sprintf("%s(%s)", g.name, short(g.Inner))
	}
	return fmt.Sprintf("%s(%s)·%s", g.name, short(g.Inner), short(g.Outer))
}

// short drops "mlp_" of a tap.
func short(tap string) string { return tap[len("mlp_"):] }

// expr is the formula as transforms at a context's layer.
func (g gated) expr(c *Context) string {
	s := fmt.Sprintf("from(%s) | %s", c.TapName(g.Inner), g.name)
	if g.Outer != "" {
		s += fmt.Sprintf(" | mul(%s)", c.TapName(g.Outer))
	}
	return s
}

// apply works the formula out in one run; ok is false where a tap is missing.
func (g gated) apply(c *Context, s Side) (*Tensor, bool) {
	x, ok := c.Tensor(s, c.TapName(g.Inner))
	if !ok {
		return nil, false
	}
	out := x.like(make([]float64, len(x.Data)))
	for i, v := range x.Data {
		out.Data[i] = g.f(v)
	}
	if g.Outer == "" {
		return out, true
	}
	y, ok := c.Tensor(s, c.TapName(g.Outer))
	if !ok || len(y.Data) != len(x.Data) {
		return nil, false
	}
	for i, v := range y.Data {
		out.Data[i] *= v
	}
	return out, true
}

// gatedFormulas lists the formulas that the taps of both runs allow.
func (c *Context) gatedFormulas() []gated {
	gate, up := c.both(c.TapName("mlp_gate")), c.both(c.TapName("mlp_up"))
	var out []gated
	for _, a := range activations {
		switch {
		case gate && up:
			out = append(out, gated{a, "mlp_gate", "mlp_up"}, gated{a, "mlp_up", "mlp_gate"})
		case gate:
			out = append(out, gated{a, "mlp_gate", ""})
		case up:
			out = append(out, gated{a, "mlp_up", ""})
		}
	}
	return out
}

// readGated returns the formula that fits a run's mlp_act best, and its error.
func (c *Context) readGated(s Side, act *Tensor, all []gated) (best gated, value *Tensor, err errorOf) {
	err = errorOf{math.Inf(1), math.Inf(1)}
	for _, g := range all {
		v, ok := g.apply(c, s)
		if !ok || len(v.Data) != len(act.Data) {
			continue
		}
		if e := distance(act, v); e.Token < err.Token {
			best, value, err = g, v, e
		}
	}
	return best, value, err
}

func testMLP(c *Context) []compare.Finding {
	if c.Tap == "mlp_gate" || c.Tap == "mlp_up" {
		return testGateUp(c)
	}
	ref, port, ok := c.Pair(c.At)
	if !ok || !port.finite() || !ref.finite() {
		return nil
	}
	all := c.gatedFormulas()
	if len(all) == 0 {
		c.Note("activation at %s: mlp_gate or mlp_up was not dumped", c.At)
		return nil
	}
	r, _, refErr := c.readGated(Ref, ref, all)
	if !refErr.below(exactFloors * c.ruleFloor(ref)) {
		c.Note("activation at %s: the reference follows none of the known formulas (nearest %s, rel %s)", c.At, r.text(), g2(refErr.Token))
		return nil
	}
	q, byPort, portErr := c.readGated(Port, port, all)
	byRef, ok := r.apply(c, Port)
	if !ok || (r.name == q.name && r.Inner == q.Inner) {
		return nil
	}
	t, own, ok := c.ruleTrial(ref, port, byRef, byPort, 0)
	if !ok {
		return nil
	}
	cause := "mlp.activation"
	if r.Inner != q.Inner {
		cause = "mlp.gate_up_order"
	}
	f, ok := c.finding(cause, t)
	if !ok {
		// Between the two forms of GELU the difference is below a 16-bit
		// rounding; it still has a direction.
		coef, z := matched(port, byRef, byPort)
		if !(z > 8) || math.Abs(coef-1) > 0.2 {
			return nil
		}
		f = c.signature(cause, t)
		f.For = append(f.For, fmt.Sprintf("the error holds %s times the difference of the two formulas, %s standard errors from 0", g3(coef), g3(z)))
	}
	expr := r.expr(c)
	if own {
		expr = q.expr(c) + " | target(port)"
		f.For = append(f.For, "gate and up already differ, so both formulas were worked out on the port's own")
	}
	sides(&f, r.text(), q.text())
	f.Claim = fmt.Sprintf("the port computes %s = %s, the reference %s", c.At, q.text(), r.text())
	f.For = append(f.For,
		fmt.Sprintf("from its own gate and up, %s gives the port's values to %s and %s to %s", q.text(), g2(portErr.Whole), r.text(), g2(distance(port, byRef).Whole)),
		fmt.Sprintf("%s gives the reference's values to %s", r.text(), g2(refErr.Whole)))
	f.Try = c.tryLine("%s", expr)
	f.Verify = "read the config's hidden_act and the code that it selects; for the order, which of the two halves of a fused projection comes first"
	f.Fix = "compute " + r.text()
	return []compare.Finding{f}
}

// matched regresses port - byRef on byPort - byRef: the coefficient is 1 where
// the port follows byPort, and z is how many standard errors that is from 0.
func matched(port, byRef, byPort *Tensor) (coef, z float64) {
	var xy, xx, yy float64
	for i, v := range byRef.Data {
		x, y := byPort.Data[i]-v, port.Data[i]-v
		xy, xx, yy = xy+x*y, xx+x*x, yy+y*y
	}
	if xx == 0 {
		return 0, 0
	}
	coef = xy / xx
	noise := math.Sqrt(max(0, yy-coef*xy) / float64(len(port.Data)))
	if noise == 0 {
		return coef, math.Inf(1)
	}
	return coef, coef * math.Sqrt(xx) / noise
}

// testGateUp: the port's gate is the reference's up and the reverse, so the
// weights, or only the names in the dump, are exchanged.
func testGateUp(c *Context) []compare.Finding {
	g, u := c.TapName("mlp_gate"), c.TapName("mlp_up")
	rg, pg, ok := c.Pair(g)
	ru, pu, ok2 := c.Pair(u)
	if !ok || !ok2 || len(rg.Data) != len(ru.Data) {
		return nil
	}
	other, want := pu, rg
	if c.Tap == "mlp_up" {
		other, want = pg, ru
	}
	crossed := distance(rg, pu)
	if e := distance(ru, pg); e.Token > crossed.Token {
		crossed = e
	}
	if !crossed.below(exactFloors * c.localFloor(g)) {
		return nil
	}
	here, _ := c.Tensor(Port, c.At)
	t := c.tryOn(want, here, other, 0)
	f, ok := c.finding("mlp.gate_up_order", t)
	if !ok {
		return nil
	}
	name := "mlp_up"
	if c.Tap == "mlp_up" {
		name = "mlp_gate"
	}
	sides(&f, "gate, up", "up, gate")
	f.Claim = fmt.Sprintf("the port's mlp_gate is the reference's mlp_up and the reverse, in layer %d: the weights of the two projections are exchanged", c.Layer)
	f.For = append(f.For, fmt.Sprintf("port gate = reference up and port up = reference gate to %s", g2(crossed.Token)))
	f.Try = c.tryLine("from(%s)", c.TapName(name))
	f.Verify = "see which half of a fused gate_up weight is read as the gate, and what the checkpoint's order is"
	f.Fix = "exchange the two halves when loading"
	for _, down := range []string{"mlp_act", "mlp_out", "layer"} {
		r, p, ok := c.Pair(c.TapName(down))
		if !ok {
			continue
		}
		if e := distance(r, p); e.Token <= c.FloorOf(c.TapName(down)) {
			f.Cause = "benign.layout"
			f.Claim = fmt.Sprintf("mlp_gate and mlp_up are exchanged in the port's dump of layer %d, in name only: %s agrees", c.Layer, down)
			f.For = append(f.For, fmt.Sprintf("%s agrees to %s although its inputs carry each other's names", c.TapName(down), g2(e.Token)))
			f.Verify = "look at the names in the port's dumper, not at the model"
			f.Fix = "exchange the two names in the dumper"
		} else {
			f.For = append(f.For, fmt.Sprintf("%s differs by %s, so it is the maths and not the names of the dump", c.TapName(down), g2(e.Token)))
		}
		break
	}
	return []compare.Finding{f}
}

package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// routedScale: the routed sum differs by one factor while its weights agree.
func routedScale(c *Context) (compare.Finding, bool) {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return compare.Finding{}, false
	}
	alpha, resid := rowScales(ref, port)
	a := medianOf(alpha)
	f, ok := constantScale(c, ref, port, alpha, resid, a)
	if !ok {
		return f, false
	}
	f.Cause = "moe.scale"
	f.Claim = fmt.Sprintf("the port's routed experts are %s times the reference's", g6(a))
	if n, ok := f.Values["named"]; ok {
		f.Claim += fmt.Sprintf(" (%v)", n)
	}
	if r, ok := c.routing(Ref); ok && r.weights != nil {
		if p, ok := c.Tensor(Port, c.TapName("expert_weights")); ok && len(p.Data) == len(r.weights.Data) {
			f.For = append(f.For, fmt.Sprintf("expert_weights agree to %s, so the factor comes after them", g2(distance(r.weights, p).Whole)))
		}
	}
	if s, p, ok := c.Pair(c.TapName("moe_shared")); ok {
		f.For = append(f.For, fmt.Sprintf("moe_shared agrees to %s", g2(distance(s, p).Whole)))
	}
	f.Verify = "count how often routed_scaling_factor is applied: in the router's weights, in the fused kernel, on the sum"
	f.Fix = "apply the routed scale once"
	return f, true
}

// routedRenorm: where the weights were not dumped, the routed sum differs by the
// sum of the chosen scores per token.
func routedRenorm(c *Context) (compare.Finding, bool) {
	ref, port, ok := c.Pair(c.At)
	r, ok2 := c.routing(Port)
	if !ok || !ok2 || c.both(c.TapName("expert_weights")) || !ref.finite() || !port.finite() {
		return compare.Finding{}, false
	}
	for _, score := range []string{"softmax", "sigmoid"} {
		rule := moeRule{Score: score, Scale: 1}
		w, ok := rule.apply(r.logits, r.ids)
		if !ok {
			continue
		}
		for _, up := range []bool{false, true} {
			got := port.mapRows(func(t int, row []float64) {
				var s float64
				for _, v := range w.Row(t) {
					s += v
				}
				if up {
					s = 1 / s
				}
				for i := range row {
					row[i] /= s
				}
			})
			f, ok := c.finding("moe.renormalise", c.tryOn(ref, port, got, 0))
			if !ok {
				continue
			}
			names := [2]string{"weights divided by their sum", "weights as scored"}
			if up {
				names[0], names[1] = names[1], names[0]
			}
			sides(&f, names[0], names[1])
			f.Claim = fmt.Sprintf("per token the routed sum differs by the sum of the chosen %s scores: %s in the port, %s in the reference", score, names[1], names[0])
			f.Try = c.tryLine("route_sum(%s, %s, score=%s, inverse=%v)", c.TapName("router_logits"), c.TapName("expert_ids"), score, up)
			f.For = append(f.For, fmt.Sprintf("with it rel_l2 is %s (before %s); nothing is fitted", g2(float64(f.After)), g2(float64(f.Before))))
			f.Verify = "read norm_topk_prob on both sides"
			f.Fix = "use " + names[0]
			return f, true
		}
	}
	return compare.Finding{}, false
}

// moeParts: the sum of routed and shared experts has other coefficients.
func moeParts(c *Context) (compare.Finding, bool) {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return compare.Finding{}, false
	}
	var coef [2][]float64
	var parts [2][]*Tensor
	for _, s := range []Side{Ref, Port} {
		y := ref
		if s == Port {
			y = port
		}
		routed, ok1 := c.Tensor(s, c.TapName("moe_routed"))
		shared, ok2 := c.Tensor(s, c.TapName("moe_shared"))
		if !ok1 || !ok2 || len(routed.Data) != len(y.Data) || len(shared.Data) != len(y.Data) {
			return compare.Finding{}, false
		}
		v, err := combine(y.Data, [][]float64{routed.Data, shared.Data}, y.Rows, rowWeights(y))
		if err != nil {
			return compare.Finding{}, false
		}
		for i := range v {
			switch {
			case math.Abs(v[i]-1) < 1e-3:
				v[i] = 1
			case math.Abs(v[i]) < 1e-3:
				v[i] = 0
			}
		}
		coef[s], parts[s] = v, []*Tensor{routed, shared}
		if e := distance(y, linear(parts[s], v)); !e.below(exactFloors * max(c.ruleFloor(y), c.localFloor(c.At))) {
			return compare.Finding{}, false
		}
	}
	dr, ds := math.Abs(coef[Port][0]-coef[Ref][0]), math.Abs(coef[Port][1]-coef[Ref][1])
	if max(dr, ds) < 0.01 {
		return compare.Finding{}, false
	}
	t, own, ok := c.ruleTrial(ref, port, linear(parts[Port], coef[Ref]), linear(parts[Port], coef[Port]), 2)
	if !ok {
		return compare.Finding{}, false
	}
	cause := "moe.shared"
	if ds < 0.01 {
		cause = "moe.scale"
	}
	f, ok := c.finding(cause, t)
	if !ok {
		return f, false
	}
	f.Values["routed"], f.Values["shared"] = compare.Num(coef[Port][0]), compare.Num(coef[Port][1])
	sides(&f, sumText(coef[Ref]), sumText(coef[Port]))
	f.Claim = fmt.Sprintf("%s = %s in the port, %s in the reference", c.At, sumText(coef[Port]), sumText(coef[Ref]))
	if k, ok := name(coef[Port][1], namedTolerance, c.constants()); ok && cause == "moe.shared" {
		f.Values["named"] = k.Name
	}
	f.For = append(f.For, fmt.Sprintf("solved within each run alone; with the reference's coefficients the port's parts give the reference to %s (before %s)", g2(t.after.Whole), g2(t.before.Whole)))
	side := coef[Ref]
	tail := ""
	if own {
		side, tail = coef[Port], " | target(port)"
	}
	f.Try = c.tryLine("from(%s) | scale(%s) | add(%s, times=%s)%s", c.TapName("moe_routed"), formatNum(side[0]), c.TapName("moe_shared"), formatNum(side[1]), tail)
	f.Verify = "see where the shared expert is added: before or after the routed scale, once or on every rank before the reduce"
	f.Fix = "add the parts as the reference does: " + sumText(coef[Ref])
	return f, true
}

func sumText(c []float64) string {
	term := func(v float64, what string) string {
		if v == 1 {
			return what
		}
		return g6(v) + " x " + what
	}
	return term(c[0], "routed") + " + " + term(c[1], "shared")
}

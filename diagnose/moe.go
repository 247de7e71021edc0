package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare"
)

// moeHypothesis works the routing of a mixture of experts out again.
var moeHypothesis = Hypothesis{
	ID:     "moe",
	Causes: []string{"moe.renormalise", "moe.scale", "moe.selection", "moe.shared", "benign.routing_tie"},
	Taps:   []string{"expert_ids", "expert_weights", "moe_routed", "mlp_out"},
	Needs:  "router_logits, expert_ids, expert_weights; moe_routed and moe_shared",
	Silent: "both runs follow one rule; experts differ only where their scores are nearly equal, which is told as benign",
	Source: "enumeration of {softmax, sigmoid, raw} x renormalise x scale x bias; top-k with a bias found by the perceptron rule; least squares of mlp_out on its parts; patterns P06, P16",
	Test:   testMoE,
}

// moeTaps are the taps at which the routing is asked first.
var moeTaps = map[string]bool{"expert_weights": true, "moe_routed": true}

func testMoE(c *Context) []compare.Finding {
	tests := map[string][]func(*Context) (compare.Finding, bool){
		"expert_ids":     {expertOrder, routingTie, selectionRule},
		"expert_weights": {expertOrder, routingTie, weightRule},
		"moe_routed":     {routingTie, routedScale, routedRenorm},
		"mlp_out":        {moeParts, routingTie},
	}[c.Tap]
	for _, test := range tests {
		if f, ok := test(c); ok {
			return []compare.Finding{f}
		}
	}
	return nil
}

// routing is what one run dumped of its router.
type routing struct{ logits, ids, weights *Tensor }

func (c *Context) routing(s Side) (r routing, ok bool) {
	r.logits, ok = c.Tensor(s, c.TapName("router_logits"))
	if !ok {
		return r, false
	}
	ids, ok := c.Tensor(s, c.TapName("expert_ids"))
	if !ok {
		return r, false
	}
	if r.ids, ok = ids.perToken(r.logits.Rows); !ok {
		return r, false
	}
	r.weights, _ = c.Tensor(s, c.TapName("expert_weights"))
	return r, true
}

// perToken sees a tensor of integers as [rows, k], whatever its rows were taken
// for.
func (t *Tensor) perToken(rows int) (*Tensor, bool) {
	if rows == 0 || len(t.Data)%rows != 0 {
		return nil, false
	}
	d := *t
	d.Rows, d.Cols = rows, len(t.Data)/rows
	return &d, true
}

// flips lists the tokens whose experts differ as sets, and among them those
// whose margin is too small to decide: the gap between the experts that were
// exchanged is under three errors of the token's logits.
func (c *Context) flips() (flipped, ties []int, r, p routing, ok bool) {
	r, ok = c.routing(Ref)
	p, ok2 := c.routing(Port)
	if !ok || !ok2 || len(r.ids.Data) != len(p.ids.Data) || len(r.logits.Data) != len(p.logits.Data) {
		return nil, nil, r, p, false
	}
	u := unitOf(r.logits, p.logits)
	for t := range r.ids.Rows {
		a, b := setOf(r.ids.Row(t)), setOf(p.ids.Row(t))
		if slices.Equal(a, b) {
			continue
		}
		flipped = append(flipped, t)
		x, y := r.logits.Row(t), p.logits.Row(t)
		noise, gap := 0.0, 0.0
		for i, v := range x {
			noise = max(noise, math.Abs(y[i]-v), u*math.Abs(v))
		}
		for _, i := range a {
			for _, j := range b {
				if !slices.Contains(b, i) && !slices.Contains(a, j) {
					gap = max(gap, math.Abs(x[i]-x[j]))
				}
			}
		}
		if gap <= 3*noise {
			ties = append(ties, t)
		}
	}
	return flipped, ties, r, p, true
}

func setOf(ids []float64) []int {
	out := make([]int, len(ids))
	for i, v := range ids {
		out[i] = int(v)
	}
	slices.Sort(out)
	return out
}

// routingTie: every token with other experts was a near tie, and all others
// agree.
func routingTie(c *Context) (compare.Finding, bool) {
	flipped, ties, r, _, ok := c.flips()
	if !ok || len(flipped) == 0 || len(ties) < len(flipped) || 2*len(flipped) > r.ids.Rows {
		return compare.Finding{}, false
	}
	ref, port, ok := c.Pair(c.At)
	if !ok {
		return compare.Finding{}, false
	}
	if c.Tap == "mlp_out" && !c.both(c.TapName("expert_ids")) {
		return compare.Finding{}, false
	}
	aside := port.mapRows(func(t int, row []float64) {
		if slices.Contains(flipped, t) {
			copy(row, ref.Row(t))
		}
	})
	tr := trial{before: distance(ref, port), after: distance(ref, aside), floor: c.FloorOf(c.At), values: len(ref.Data)}
	if c.Tap != "expert_ids" && !(tr.after.Token <= c.FloorOf(c.At)) {
		return compare.Finding{}, false
	}
	f := c.signature("benign.routing_tie", tr)
	sides(&f, plural(len(flipped), "token"), "other experts of nearly equal score")
	f.Values["flipped"] = len(flipped)
	f.Claim = fmt.Sprintf("%s of layer %d (%s) chose other experts, each between scores that are equal within the logits' error: a tie, not a fault", plural(len(flipped), "token"), c.Layer, rangesOf(flipped))
	f.For = append(f.For,
		"the gap between the exchanged experts' logits is under three times the error of the logits at every one of these tokens",
		fmt.Sprintf("with these tokens set aside %s differs by %s (floor %s)", c.At, g2(tr.after.Token), g2(float64(f.Floor))))
	f.Verify = "compare the port with itself on other hardware or batch sizes: ties flip there too"
	f.Fix = "nothing to fix in the model"
	return f, true
}

// expertOrder: the same experts with the same weights, listed in another order.
func expertOrder(c *Context) (compare.Finding, bool) {
	r, ok := c.routing(Ref)
	p, ok2 := c.routing(Port)
	ref, port, ok3 := c.Pair(c.At)
	if !ok || !ok2 || !ok3 || len(r.ids.Data) != len(p.ids.Data) || slices.Equal(r.ids.Data, p.ids.Data) {
		return compare.Finding{}, false
	}
	ref, ok = ref.perToken(r.ids.Rows)
	port, ok2 = port.perToken(p.ids.Rows)
	if !ok || !ok2 || ref.Cols != r.ids.Cols {
		return compare.Finding{}, false
	}
	moved := 0
	got := port.mapRows(func(int, []float64) {})
	for t := range r.ids.Rows {
		a, b := r.ids.Row(t), p.ids.Row(t)
		if !slices.Equal(setOf(a), setOf(b)) {
			return compare.Finding{}, false
		}
		if !slices.Equal(a, b) {
			moved++
		}
		for k, id := range a {
			got.Row(t)[k] = port.Row(t)[slices.Index(b, id)]
		}
	}
	tr := trial{before: distance(ref, port), after: distance(ref, got), floor: c.localFloor(c.At), values: len(ref.Data)}
	if !tr.after.below(exactFloors * tr.floor) {
		return compare.Finding{}, false
	}
	f := c.signature("benign.layout", tr)
	sides(&f, "its order", fmt.Sprintf("another order at %s", plural(moved, "token")))
	f.Claim = fmt.Sprintf("the same experts are listed in another order at %s of %d; matched by id %s agrees", plural(moved, "token"), r.ids.Rows, c.At)
	f.For = append(f.For, fmt.Sprintf("the sets are equal at every token; matched by id the rest is %s (before %s)", g2(tr.after.Whole), g2(tr.before.Whole)))
	f.Verify = "see whether the top-k is sorted, and by what"
	f.Fix = "nothing to fix in the model"
	return f, true
}

// weightRule: the weights follow another rule.
func weightRule(c *Context) (compare.Finding, bool) {
	ref, port, ok := c.Pair(c.At)
	r, ok1 := c.routing(Ref)
	p, ok2 := c.routing(Port)
	if !ok || !ok1 || !ok2 || !port.finite() {
		return compare.Finding{}, false
	}
	rule, refErr := readRouting(r.logits, r.ids, ref, c.ruleFloor(ref))
	if !refErr.below(exactFloors * c.ruleFloor(ref)) {
		c.Note("moe at %s: the reference's weights follow none of the known rules (nearest %s, rel %s)", c.At, rule.text(), g2(refErr.Token))
		return compare.Finding{}, false
	}
	got, portErr := readRouting(p.logits, p.ids, port, c.ruleFloor(port))
	if got.Score == rule.Score && got.Renorm == rule.Renorm && near(got.Scale, rule.Scale, 1e-3) && (got.Bias == nil) == (rule.Bias == nil) {
		return compare.Finding{}, false
	}
	byRef, ok1 := rule.apply(p.logits, p.ids)
	byPort, ok2 := got.apply(p.logits, p.ids)
	if !ok1 || !ok2 {
		return compare.Finding{}, false
	}
	t, own, ok := c.ruleTrial(ref, port, byRef, byPort, 1+len(got.Bias))
	if !ok {
		return compare.Finding{}, false
	}
	cause := "moe.scale"
	switch {
	case got.Bias != nil || rule.Bias != nil, got.Score != rule.Score && got.Score != "raw" && rule.Score != "raw":
		cause = "moe.selection"
	case got.Renorm != rule.Renorm || got.Score != rule.Score:
		cause = "moe.renormalise"
	}
	f, ok := c.finding(cause, t)
	if !ok {
		return f, false
	}
	sides(&f, rule.text(), got.text())
	if cause == "moe.scale" {
		sides(&f, rule.Scale, got.Scale)
		if k, ok := name(got.Scale/rule.Scale, namedTolerance, c.constants()); ok {
			f.Values["named"] = k.Name
		}
	}
	f.Claim = fmt.Sprintf("expert weights are %s in the port, %s in the reference", got.text(), rule.text())
	f.For = append(f.For, fmt.Sprintf("worked out from each run's own router logits and ids: the port's rule gives the port's weights to %s, the reference's the reference's to %s", g2(portErr.Token), g2(refErr.Token)))
	if cause == "moe.renormalise" && got.Score == rule.Score && !got.Renorm {
		alpha, _ := rowScales(ref, port)
		f.For = append(f.For, fmt.Sprintf("per token the port's weights are the reference's times the sum of the chosen scores, %s to %s", g3(least(alpha)), g3(greatest(alpha))))
	}
	if own {
		f.Try = c.tryLine("from(%s) | %s | target(port)", c.TapName("router_logits"), got.call(c.TapName("expert_ids")))
	} else {
		f.Try = c.tryLine("from(%s) | %s", c.TapName("router_logits"), rule.call(c.TapName("expert_ids")))
	}
	f.Verify = "read norm_topk_prob, scoring_func, routed_scaling_factor and the correction bias on both sides, and the order of softmax and top-k"
	f.Fix = "weigh the experts by: " + rule.text()
	return f, true
}

// selectionRule: the sets follow other scores: a bias that one side leaves out.
func selectionRule(c *Context) (compare.Finding, bool) {
	flipped, ties, r, p, ok := c.flips()
	if !ok || len(flipped) == len(ties) {
		return compare.Finding{}, false
	}
	kinds := []string{"sigmoid", "softmax", "raw"}
	plainRef, plainPort := chosenByTopK("raw", nil, r), chosenByTopK("raw", nil, p)
	if plainRef == plainPort {
		return compare.Finding{}, false
	}
	biased, side := r, Ref
	if plainRef {
		biased, side = p, Port
	}
	for _, kind := range kinds {
		bias, found := selectionBias(kind, biased.logits, biased.ids)
		if !found || !chosenByTopK(kind, bias, biased) {
			continue
		}
		tr := trial{before: distance(r.ids, p.ids), floor: c.FloorOf(c.At), values: len(r.ids.Data), params: len(bias)}
		f := c.signature("moe.selection", tr)
		chain := fmt.Sprintf("from(%s) | topk(%d, score=%s, bias=%s)", c.TapName("router_logits"), r.ids.Cols, kind, formatList(bias))
		if side == Port {
			chain += " | target(port)"
		}
		if res, err := Try(c, []string{chain}); err == nil {
			f.After = res.After.RelL2
			if f.After == 0 && tr.values >= valuesPerParam*tr.params {
				f.Proof = compare.ProofExact
				f.Try = c.tryLine("%s", chain)
			}
		}
		rules := [2]string{fmt.Sprintf("top %d of %s + bias", r.ids.Cols, kind), fmt.Sprintf("top %d of the scores alone", r.ids.Cols)}
		if side == Port {
			rules[0], rules[1] = rules[1], rules[0]
		}
		sides(&f, rules[0], rules[1])
		f.Values["flipped"] = len(flipped)
		f.Claim = fmt.Sprintf("experts are chosen by the %s in the port, by the %s in the reference", rules[1], rules[0])
		f.For = append(f.For,
			fmt.Sprintf("%s of %d have other experts, %d of them far from a tie, while the router logits agree", plural(len(flipped), "token"), r.ids.Rows, len(flipped)-len(ties)),
			fmt.Sprintf("one side's sets are the plain top %d at every token; the other's are that of score plus one number per expert, which exists (found: from %s to %s)", r.ids.Cols, g3(least(bias)), g3(greatest(bias))))
		f.Verify = "see whether the correction bias (e_score_correction_bias) is loaded, and used for the choice only"
		f.Fix = "choose by score plus bias, weigh by the score, as the reference does"
		return f, true
	}
	f := c.signature("moe.selection", trial{before: distance(r.ids, p.ids), after: distance(r.ids, p.ids), floor: c.FloorOf(c.At), values: len(r.ids.Data)})
	sides(&f, "top k of its scores", "another choice")
	f.Claim = fmt.Sprintf("%s choose other experts although the router logits agree and the scores are no ties", plural(len(flipped)-len(ties), "token"))
	f.For = append(f.For, fmt.Sprintf("%d of %d flipped tokens are ties", len(ties), len(flipped)))
	f.Verify = "compare the selection: groups of experts, bias, the number of experts per token"
	f.Fix = "choose the experts as the reference does"
	return f, true
}

// chosenByTopK tells whether the chosen sets are the top k at every token.
func chosenByTopK(kind string, bias []float64, r routing) bool {
	for t := range r.ids.Rows {
		want := topk(scores(kind, r.logits.Row(t)), bias, r.ids.Cols)
		slices.Sort(want)
		if !slices.Equal(want, setOf(r.ids.Row(t))) {
			return false
		}
	}
	return true
}

package corpus

// mlp is the second half of a block, up to the rank's partial sum of the down
// projection.
func (e *engine) mlp(l, rank int, x *Mat) *Mat {
	rule, w, a := e.Spec.Block[l], e.layer(l), e.Arith
	act := activations[rule.Activation]
	if rule.MoE.Experts > 0 {
		return e.experts(l, rank, x, act)
	}
	n := w.Gate.Out / e.Spec.World
	from, to := rank*n, (rank+1)*n
	gate := e.tap(rank, l, "mlp_gate", a.linear(x, w.Gate.rows(from, to)))
	up := e.tap(rank, l, "mlp_up", a.linear(x, w.Up.rows(from, to)))
	if rule.SwapGateUp {
		gate, up = up, gate
	}
	h := e.tap(rank, l, "mlp_act", a.mul(a.each(gate, act), up))
	return a.linear(h, w.Down.cols(from, to))
}

// experts is a mixture of experts; it is not sharded.
func (e *engine) experts(l, rank int, x *Mat, act func(float64) float64) *Mat {
	m, w, a := e.Spec.Block[l].MoE, e.layer(l), e.Arith
	logits := a.linear(x, w.Router)
	if m.RouterBF16 {
		logits = arithBF16.each(logits, func(v float64) float64 { return v })
	}
	logits = e.tap(rank, l, "router_logits", logits)
	ids, weights := m.route(a, logits, w.RouterBias)
	e.tapInts(rank, l, "expert_ids", ids, x.Rows, m.TopK)
	weights = e.tap(rank, l, "expert_weights", weights)
	out := e.tap(rank, l, "moe_routed", m.routed(a, x, ids, weights, w.Experts, act))
	if m.Shared {
		shared := e.tap(rank, l, "moe_shared", w.Shared.apply(a, x, act))
		out = a.add(out, shared, orOne(m.SharedTimes))
	}
	return out
}

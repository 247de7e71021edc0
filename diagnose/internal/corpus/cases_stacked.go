package corpus

// stackedCases hold two independent faults; the second is right in itself only
// when it is judged by the port's own inputs.
func stackedCases() []Case {
	both := func(f, g func(*Plan)) func(*Plan) {
		return func(p *Plan) { f(p); g(p) }
	}
	second := func(w Want, at string, causes ...string) Want {
		w.Second, w.SecondEnters = causes, []string{at}
		return w
	}
	swap := func(l int) func(*Plan) { return layer(l, func(r *Rules) { r.SwapGateUp = true }) }
	return []Case{
		{
			ID: "S-rope-mlp", Title: "theta 1e4 for 5e5, and gate and up exchanged in layer 4", base: seeded(14),
			Want: second(divergence("rope.theta").enters(qRope0, kRope0).values(5e5, 1e4).exact(), "layer_04.mlp_act", "mlp.gate_up_order"),
			port: both(layers(func(r *Rules) { r.Rope.Theta = 1e4 }), swap(4)),
		},
		{
			ID: "S-scale-norm", Title: "scores times 1.146 in layer 1, one added twice in the second norm of layer 5", base: seeded(14),
			Want: second(divergence("attention.scale").enters("layer_01.attn_probs").exact(), "layer_05.post_attn_norm", "norm.gain"),
			port: both(layer(1, func(r *Rules) { r.Scale = 0.25 * 1.146 }), layer(5, func(r *Rules) { r.PostNorm.Gain = GainPlusOne })),
		},
		{
			ID: "S-mlp-attention", Title: "GELU for SiLU in layer 0, tiled heads in layer 3", base: seeded(14),
			Want: second(divergence("mlp.activation").enters(act0).exact(), "layer_03.attn_probs", "attention.head_map"),
			port: both(layer(0, func(r *Rules) { r.Activation = "gelu" }), layer(3, func(r *Rules) { r.HeadMap = []int{0, 1, 0, 1, 0, 1, 0, 1} })),
		},
		{
			ID: "S-embed-mask", Title: "embedding scale missing, and no causal mask in layer 2", base: scaled(),
			Want: second(divergence("scale.constant").enters(embedPlace).exact(), "layer_02.attn_probs", "attention.mask"),
			port: both(func(p *Plan) { p.Spec.EmbedScale = 1 }, layer(2, bidirectional)),
		},
		{
			ID: "S-eps-rope", Title: "eps 1e-4 for 1e-6, and interleaved pairs", base: seeded(14, func(s *Spec) { s.EmbedStd = 0.02 }),
			Want: second(divergence("norm.eps").enters(norm0).values(1e-6, 1e-4).exact(), qRope0, "rope.layout"),
			port: both(func(p *Plan) { p.Spec.norms(func(n *Norm) { n.Eps = 1e-4 }) }, layers(func(r *Rules) { r.Rope.Interleaved = true })),
		},
		{
			ID: "S-norm-residual", Title: "weight of the first norm of layer 1 missing, second residual of layer 4 after the norm", base: seeded(14),
			Want: second(divergence("norm.gain").enters("layer_01.input_norm").exact(), "layer_04", "residual.algebra"),
			port: both(layer(1, func(r *Rules) { r.InputNorm.Gain = GainNone }), layer(4, func(r *Rules) { r.MLPFromNorm = true })),
		},
	}
}

package corpus

// mixture is a decoder of four layers with 8 experts, two for each token.
func mixture(seed uint64, f func(m *MoE)) Spec {
	return seeded(seed, func(s *Spec) {
		s.Layers, s.Block, s.FFN = 4, s.Block[:4], 64
		s.each(func(r *Rules) {
			r.MoE = MoE{Experts: 8, TopK: 2, Score: "softmax", Renorm: true, Shared: true}
			f(&r.MoE)
		})
	})
}

func asIs(*MoE) {}

// deepseek routes by sigmoid with a selection bias and scales by 2.5.
func deepseek(m *MoE) {
	m.Score, m.SelectBias, m.Scale = "sigmoid", true, 2.5
}

// moe edits the port's mixture on every layer.
func moe(f func(m *MoE)) func(*Plan) { return layers(func(r *Rules) { f(&r.MoE) }) }

const (
	weights0 = "layer_00.expert_weights"
	ids0     = "layer_00.expert_ids"
	routed0  = "layer_00.moe_routed"
	mlpOut0  = "layer_00.mlp_out"
)

func moeCases() []Case {
	return []Case{
		{
			ID: "D19", Row: "84", Title: "weights of the chosen experts not renormalised", base: mixture(1, asIs),
			Want: divergence("moe.renormalise").enters(weights0).exact().never("moe.scale", "scale.constant"),
			port: moe(func(m *MoE) { m.Renorm = false }),
		},
		{
			ID: "D20", Row: "90", Title: "routed scale 2.5 twice", base: mixture(1, deepseek),
			Want: divergence("moe.scale").enters(routed0).exact(),
			port: moe(func(m *MoE) { m.RoutedTimes = 2.5 }),
		},
	}
}

func moreMoECases() []Case {
	return []Case{
		{
			ID: "X-moe-renorm-extra", Row: "84", Title: "weights renormalised, in the model they are not", base: mixture(8, func(m *MoE) { m.Renorm = false }),
			Want: divergence("moe.renormalise").enters(weights0).exact(), port: moe(func(m *MoE) { m.Renorm = true }),
		},
		{
			ID: "X-moe-scale-missing", Row: "90", Title: "routed scale 2.5 missing", base: mixture(8, deepseek),
			Want: divergence("moe.scale").enters(weights0, routed0).exact(), port: moe(func(m *MoE) { m.Scale = 1 }),
		},
		{
			ID: "X-moe-sigmoid", Row: "85", Title: "softmax for sigmoid", base: mixture(8, func(m *MoE) { m.Score = "sigmoid" }),
			Want: divergence("moe.selection", "moe.renormalise").enters(weights0, ids0).exact(), port: moe(func(m *MoE) { m.Score = "softmax" }),
		},
		{
			ID: "X-moe-bias", Row: "86", Title: "selection bias not used", base: mixture(8, deepseek),
			Want: divergence("moe.selection").enters(ids0, weights0).exact().never("benign.routing_tie"), port: moe(func(m *MoE) { m.SelectBias = false }),
		},
		{
			ID: "X-moe-bias-kept", Row: "85", Title: "selection bias left in the weights", base: mixture(8, deepseek),
			Want: divergence("moe.selection", "moe.renormalise").enters(weights0).exact(), port: moe(func(m *MoE) { m.WeightBias = true }),
		},
		{
			ID: "X-moe-raw", Row: "83", Title: "raw logits as weights", base: mixture(8, func(m *MoE) { m.Renorm = false }),
			Want: divergence("moe.renormalise", "moe.selection").enters(weights0).exact(), port: moe(func(m *MoE) { m.RawLogits = true }),
		},
		{
			ID: "X-moe-shared-tp", Row: "92", Title: "shared expert counted four times", base: mixture(8, asIs),
			Want: divergence("moe.shared").enters(mlpOut0).value("shared", 4).exact().never("scale.constant"), port: moe(func(m *MoE) { m.SharedTimes = 4 }),
		},
		{
			ID: "X-moe-shared-divided", Row: "91", Title: "shared expert divided by 2.5", base: mixture(8, deepseek),
			Want: divergence("moe.shared").enters(mlpOut0).value("shared", 0.4).exact().never("scale.constant"), port: moe(func(m *MoE) { m.SharedTimes = 0.4 }),
		},
		{
			ID: "X-moe-shared-missing", Title: "shared expert not added", base: mixture(8, asIs),
			Want: divergence("moe.shared").enters(mlpOut0).exact(), port: moe(func(m *MoE) { m.SharedTimes = 1e-30 }),
		},
		{
			ID: "X-moe-router-bf16", Row: "88", Title: "router logits in bfloat16 in a float32 port", base: mixture(8, asIs),
			Want: divergence("numerics.low_precision", "moe.selection", "benign.routing_tie", "benign.precision").enters("layer_00.router_logits"),
			port: moe(func(m *MoE) { m.RouterBF16 = true }),
		},
	}
}

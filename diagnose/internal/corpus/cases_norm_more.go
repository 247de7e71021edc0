package corpus

func moreNormCases() []Case {
	small := func(s *Spec) { s.EmbedStd = 0.02 }
	eps := func(v float64) func(*Spec) {
		return func(s *Spec) { s.norms(func(n *Norm) { n.Eps = v }) }
	}
	norms := func(f func(n *Norm)) func(*Plan) { return func(p *Plan) { p.Spec.norms(f) } }
	return []Case{
		{
			ID: "X-eps-floor", Row: "68", Title: "eps floored at 1e-4", base: seeded(6, small),
			Want: divergence("norm.eps").enters(norm0).values(1e-6, 1e-4).exact(), port: norms(func(n *Norm) { n.Eps = 1e-4 }),
		},
		{
			ID: "X-eps-smaller", Row: "69", Title: "eps 1e-6 for 1e-3", base: seeded(6, eps(1e-3)),
			Want: divergence("norm.eps").enters(norm0).values(1e-3, 1e-6).exact(), port: norms(func(n *Norm) { n.Eps = 1e-6 }),
		},
		{
			ID: "X-eps-outside", Row: "70", Title: "eps outside the root", base: seeded(6, small, eps(1e-4)),
			Want: divergence("norm.eps").enters(norm0).exact(), port: norms(func(n *Norm) { n.Outside = true }),
		},
		{
			ID: "X-eps-large", Title: "eps 0.1 for 1e-6", base: seeded(6),
			Want: divergence("norm.eps").enters(norm0).values(1e-6, 0.1).exact().never("scale.constant"), port: norms(func(n *Norm) { n.Eps = 0.1 }),
		},
		{
			ID: "X-gain-missing", Title: "norm weights not applied", base: seeded(6),
			Want: divergence("norm.gain").enters(norm0).exact(), port: norms(func(n *Norm) { n.Gain = GainNone }),
		},
		{
			ID: "X-gain-minus-one", Row: "59", Title: "w where the model has 1 + w", base: seeded(6),
			Want: divergence("norm.gain").enters(norm0).exact(), port: norms(func(n *Norm) { n.Gain = GainMinusOne }),
		},
		{
			ID: "X-gain-final", Title: "weight of the final norm not applied", base: seeded(6),
			Want: divergence("norm.gain").enters("post_final_norm").exact(), port: func(p *Plan) { p.Spec.FinalNorm.Gain = GainNone },
		},
		{
			ID: "X-gain-post-layer3", Title: "one added twice in the second norm of layer 3", base: seeded(6),
			Want: divergence("norm.gain").enters("layer_03.post_attn_norm").exact(),
			port: layer(3, func(r *Rules) { r.PostNorm.Gain = GainPlusOne }),
		},
		{
			ID: "X-norm-missing", Title: "first norm of layer 2 left out", base: seeded(6),
			Want: divergence("norm.missing").enters("layer_02.input_norm").exact(), port: layer(2, func(r *Rules) { r.InputNorm.Skip = true }),
		},
		{
			ID: "X-norm-final-missing", Title: "final norm left out", base: seeded(6),
			Want: divergence("norm.missing").enters("post_final_norm").exact(), port: func(p *Plan) { p.Spec.FinalNorm.Skip = true },
		},
		{
			ID: "X-norm-post-order", Title: "norms after the additions", base: seeded(6),
			Want: divergence("norm.order", "norm.missing", "residual.algebra").enters("layer_00.q", "layer_00.k", "layer_00.v", norm0),
			port: layers(func(r *Rules) { r.PostLN = true }),
		},
		{
			ID: "X-norm-precision", Row: "62", Title: "squares summed in bfloat16 in a float32 port", base: seeded(6),
			Want: divergence("norm.precision", "numerics.low_precision", "scale.per_token").enters(norm0),
			port: norms(func(n *Norm) { n.Low = true }),
		},
		{
			ID: "X-norm-shards", Row: "73", Title: "mean square over the rank's half of the dims", base: seeded(6),
			Want: divergence("parallel.partial_sum", "scale.per_token", "norm.precision", "norm.gain").enters(norm0),
			port: norms(func(n *Norm) { n.Shards = 2 }),
		},
		{
			ID: "X-gain-bf16", Row: "60", Title: "1 + w summed in bfloat16", base: seeded(6, func(s *Spec) { s.GainStd = 8 }),
			Want: divergence("norm.gain", "norm.precision").enters(norm0),
			// The checkpoint's w is of bfloat16, 1 + w is not.
			both: func(p *Plan) {
				p.eachLayer(func(w *LayerWeights) { w.InputNorm = plusOne(w.InputNorm, roundF32) })
			},
			family: "gain-bf16",
			port: func(p *Plan) {
				w := weightsOf(p.Spec)
				for l := range w.Layers {
					p.layer(l).InputNorm = plusOne(w.Layers[l].InputNorm, roundBF16)
				}
			},
		},
	}
}

func plusOne(w []float32, round func(float64) float32) []float32 {
	out := make([]float32, len(w))
	for i, v := range w {
		out[i] = round(1 + float64(v))
	}
	return out
}

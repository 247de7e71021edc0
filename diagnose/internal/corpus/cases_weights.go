package corpus

func weightCases() []Case {
	random := func(name string, like Linear) Linear {
		return drawer{Spec{Seed: 4242}}.linear(name, like.Out, like.In, false)
	}
	return []Case{
		{
			ID: "X-layer-weights", Title: "layer 3 runs with layer 4's weights", base: seeded(11),
			Want: divergence("weights.swapped", "layers.order", "norm.gain").enters("layer_03.input_norm", "layer_03.q"),
			port: func(p *Plan) { *p.layer(3) = *p.layer(4) },
		},
		{
			ID: "X-layer-order", Title: "layers 2 and 3 exchanged", base: seeded(11),
			Want: divergence("layers.order", "weights.swapped", "norm.gain").enters("layer_02.input_norm", "layer_02.q"),
			port: func(p *Plan) { w := p.Weights.Layers; w[2], w[3] = w[3], w[2] },
		},
		{
			ID: "X-kv-swapped", Row: "23", Title: "k and v exchanged", base: seeded(11),
			Want: divergence("weights.swapped", "order.dims").enters("layer_00.k", "layer_00.v").exact(),
			port: layers(func(r *Rules) { r.SwapKV = true }),
		},
		{
			ID: "X-transposed-q", Row: "133", Title: "square weight of q not transposed", base: seeded(11),
			Want: divergence("weights.transposed").enters("layer_00.q"),
			port: func(p *Plan) { p.eachLayer(func(w *LayerWeights) { w.Q = w.Q.transpose() }) },
		},
		{
			ID: "X-transposed-o", Row: "133", Title: "square weight of the output projection of layer 2 not transposed", base: seeded(11),
			Want: divergence("weights.transposed", "weights.unloaded").enters("layer_02.attn_out"),
			port: func(p *Plan) { p.layer(2).O = p.layer(2).O.transpose() },
		},
		{
			ID: "X-unloaded-up", Title: "up of layer 2 left at its random start", base: seeded(11),
			Want: divergence("weights.unloaded", "unknown").enters("layer_02.mlp_up").never("weights.transposed", "weights.swapped"),
			port: func(p *Plan) { p.layer(2).Up = random("up", p.layer(2).Up) },
		},
		{
			ID: "X-unloaded-zero", Title: "v of layer 1 is all zero", base: seeded(11),
			Want: divergence("weights.unloaded").enters("layer_01.v"),
			port: func(p *Plan) {
				v := p.layer(1).V.clone()
				clear(v.W)
				p.layer(1).V = v
			},
		},
		{
			ID: "X-head-random", Row: "131", Title: "tied head left at its random start", base: seeded(11, func(s *Spec) { s.Tied = true }),
			Want: divergence("weights.tied", "weights.unloaded").enters("logits"),
			port: func(p *Plan) { p.Weights.Head = random("head", p.Weights.Head) },
		},
		{
			ID: "X-head-embed", Title: "head tied to the embedding though it has weights of its own", base: seeded(11),
			Want: divergence("weights.tied", "weights.unloaded", "weights.swapped", "unknown").enters("logits"),
			port: func(p *Plan) { p.Weights.Head = p.Weights.Embed },
		},
		{
			ID: "X-embed-head", Row: "132", Title: "embedding loaded from the head", base: seeded(11),
			Want: divergence("input.embedding", "weights.tied", "weights.swapped", "weights.unloaded").enters(embedPlace),
			port: func(p *Plan) { p.Weights.Embed = p.Weights.Head },
		},
	}
}

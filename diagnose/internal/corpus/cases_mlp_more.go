package corpus

func moreMLPCases() []Case {
	trained := func(act string) Spec { return seeded(5, every(func(r *Rules) { r.Activation = act })) }
	uses := func(act string) func(*Plan) { return layers(func(r *Rules) { r.Activation = act }) }
	want := divergence("mlp.activation").enters(act0).exact().never("mlp.gate_up_order")
	return []Case{
		{ID: "X-act-quick", Row: "57", Title: "quick GELU for GELU", base: trained("gelu"), Want: want, port: uses("quick_gelu")},
		{ID: "X-act-erf", Row: "56", Title: "erf GELU for tanh GELU", base: trained("gelu_tanh"), Want: want, port: uses("gelu")},
		{ID: "X-act-gelu", Title: "GELU for SiLU", base: trained("silu"), Want: want, port: uses("gelu")},
		{ID: "X-act-silu", Title: "SiLU for quick GELU", base: trained("quick_gelu"), Want: want, port: uses("silu")},
		{ID: "X-act-relu2", Title: "ReLU for squared ReLU", base: trained("relu2"), Want: want, port: uses("relu")},
		{
			ID: "X-act-one-layer", Title: "GELU for SiLU in layer 2 only", base: trained("silu"),
			Want: divergence("mlp.activation").enters("layer_02.mlp_act").exact(),
			port: layer(2, func(r *Rules) { r.Activation = "gelu" }),
		},
		{
			ID: "X-gate-up-one-layer", Title: "silu(up)*gate in layer 3 only", base: trained("silu"),
			Want: divergence("mlp.gate_up_order").enters("layer_03.mlp_act").exact(),
			port: layer(3, func(r *Rules) { r.SwapGateUp = true }),
		},
		{
			ID: "X-gate-up-gelu", Title: "gelu_tanh(up)*gate", base: trained("gelu_tanh"),
			Want: divergence("mlp.gate_up_order").enters(act0).exact(),
			port: layers(func(r *Rules) { r.SwapGateUp = true }),
		},
		{
			ID: "X-gate-up-weights", Row: "55", Title: "gate and up loaded from each other's bytes", base: trained("silu"),
			Want: divergence("mlp.gate_up_order", "weights.swapped").enters("layer_00.mlp_gate", "layer_00.mlp_up").exact(),
			port: func(p *Plan) { p.eachLayer(func(w *LayerWeights) { w.Gate, w.Up = w.Up, w.Gate }) },
		},
		{
			ID: "X-gate-up-names", Title: "gate and up exchanged in the names of the dump alone", base: trained("silu"),
			Want: Want{Causes: []string{"capture.wrong_tensor", "benign.layout", "mlp.gate_up_order"}, MustNot: []string{"weights.swapped"}},
			port: func(p *Plan) {
				p.edit(func(r *Run) {
					for _, part := range r.Parts {
						exchange(part, ".mlp_gate", ".mlp_up")
					}
				})
			},
		},
	}
}

// exchange swaps what two taps of each layer are called.
func exchange(p *Part, one, other string) {
	for _, name := range p.Names {
		if isLayerOutput(name) {
			p.Tensors[name+one], p.Tensors[name+other] = p.Tensors[name+other], p.Tensors[name+one]
		}
	}
}

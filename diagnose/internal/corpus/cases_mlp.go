package corpus

const act0 = "layer_00.mlp_act"

func mlpCases() []Case {
	return []Case{
		{
			ID: "D13", Row: "54", Title: "silu(up)*gate", base: toy(),
			Want: divergence("mlp.gate_up_order").enters(act0).exact(),
			port: layers(func(r *Rules) { r.SwapGateUp = true }),
		},
		{
			ID: "D14", Row: "56", Title: "tanh GELU where erf was trained",
			base: toy().with(func(s *Spec) { s.each(func(r *Rules) { r.Activation = "gelu" }) }),
			Want: divergence("mlp.activation").enters(act0).exact(),
			port: layers(func(r *Rules) { r.Activation = "gelu_tanh" }),
		},
	}
}

package corpus

const (
	norm0 = "layer_00.input_norm"
	post0 = "layer_00.post_attn_norm"
)

func normCases() []Case {
	return []Case{
		{
			ID: "D15", Row: "58", Title: "norm weights hold the one already, the port adds it again", base: toy(),
			Want: divergence("norm.gain").enters(norm0).exact(),
			port: func(p *Plan) { p.Spec.norms(func(n *Norm) { n.Gain = GainPlusOne }) },
		},
		{
			ID: "D16", Row: "67", Title: "eps 1e-5 for 1e-6 on small embeddings",
			base: toy().with(func(s *Spec) { s.EmbedStd = 0.02 }),
			Want: divergence("norm.eps").enters(norm0).values(1e-6, 1e-5).exact(),
			port: func(p *Plan) { p.Spec.norms(func(n *Norm) { n.Eps = 1e-5 }) },
		},
	}
}

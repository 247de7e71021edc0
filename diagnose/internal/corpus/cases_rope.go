package corpus

const (
	qRope0 = "layer_00.q_rope"
	kRope0 = "layer_00.k_rope"
)

func ropeCases() []Case {
	return []Case{
		{
			ID: "D1", Row: "1", Title: "the port rotates interleaved pairs", base: toy(),
			Want: divergence("rope.layout").enters(qRope0, kRope0).exact(),
			port: layers(func(r *Rules) { r.Rope.Interleaved = true }),
		},
		{
			ID: "D2", Row: "7", Title: "theta 1e4 for 5e5", base: toy(),
			Want: divergence("rope.theta").enters(qRope0, kRope0).values(5e5, 1e4).exact(),
			port: layers(func(r *Rules) { r.Rope.Theta = 1e4 }),
		},
	}
}

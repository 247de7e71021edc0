package corpus

const (
	qRope0 = "layer_00.q_rope"
	kRope0 = "layer_00.k_rope"
)

// llama3 scales the rotation as Llama 3.1 does.
func llama3(r *Rules) {
	r.Rope.Scaling, r.Rope.Factor, r.Rope.Original = "llama3", 8, 8192
	r.Rope.LowFreq, r.Rope.HighFreq = 1, 4
}

// long is a prompt of 600 tokens through two layers.
func long(s *Spec) {
	s.Tokens, s.Layers, s.Block = 600, 2, s.Block[:2]
}

// unscaled takes the scaling off the port's rotation.
func unscaled(r *Rules) { r.Rope = Rope{Theta: r.Rope.Theta} }

// noPositions hides what position a run believed to be at.
func noPositions(p *Plan) {
	p.edit(func(r *Run) {
		for _, part := range r.Parts {
			part.drop(func(name string) bool { return name == "position_ids" })
		}
	})
}

func ropeCases() []Case {
	return []Case{
		{
			ID: "D1", Row: "1", Title: "the port rotates interleaved pairs", base: toy(),
			Want: divergence("rope.layout").enters(qRope0, kRope0).exact().never("rope.theta", "order.dims"),
			port: layers(func(r *Rules) { r.Rope.Interleaved = true }),
		},
		{
			ID: "D2", Row: "7", Title: "theta 1e4 for 5e5", base: toy(),
			Want: divergence("rope.theta").enters(qRope0, kRope0).values(5e5, 1e4).exact().never("rope.scaling", "rope.position"),
			port: layers(func(r *Rules) { r.Rope.Theta = 1e4 }),
		},
		{
			ID: "D3", Row: "9", Title: "llama3 scaling missing, 48 tokens", base: toy().with(every(llama3)),
			Want: divergence("rope.scaling").enters(qRope0, kRope0).never("rope.theta", "rope.position"),
			port: layers(unscaled),
		},
		{
			ID: "D3-long", Row: "9", Title: "llama3 scaling missing, 600 tokens", base: toy().with(every(llama3), long),
			Want: divergence("rope.scaling").enters(qRope0, kRope0).value("factor", 8).exact().never("rope.theta", "rope.position"),
			port: layers(unscaled),
		},
		Case{
			ID: "D4", Row: "17", Title: "decode rotates k at position 0",
			base: toy().with(func(s *Spec) { s.Decode = 4 }),
			Want: divergence("rope.position", "state.position").enters(kRope0).exact(),
			port: layers(func(r *Rules) { r.Rope.DecodeZeroK = true }),
		}.at(1, 0),
		{
			ID: "D5", Row: "13", Title: "positions rounded to bfloat16, 600 tokens", base: toy().with(long),
			Want: divergence("rope.precision").enters(qRope0, kRope0).exact().never("rope.theta", "rope.position", "attention.window"),
			port: layers(func(r *Rules) { r.Rope.PositionBF16 = true }),
		},
		{
			ID: "D10", Row: "44", Title: "batch of two, the second left-padded by 4: q and k count the pads",
			base: toy().with(func(s *Spec) { s.Pads = []int{0, 4} }),
			Want: Want{Causes: []string{"rope.position", "benign.offset"}, MustNot: []string{"rope.theta", "rope.layout"}}.value("offset", 4),
			port: func(p *Plan) {
				p.Spec.each(func(r *Rules) { r.SharedQ, r.SharedK = true, true })
				noPositions(p)
			},
		},
		{
			ID: "D10-k", Row: "44", Title: "batch of two, the second left-padded by 4: only k counts the pads",
			base: toy().with(func(s *Spec) { s.Pads = []int{0, 4} }),
			Want: divergence("rope.position").enters(kRope0).value("offset", 4).exact(),
			port: func(p *Plan) {
				p.Spec.each(func(r *Rules) { r.SharedK = true })
				noPositions(p)
			},
		},
	}
}

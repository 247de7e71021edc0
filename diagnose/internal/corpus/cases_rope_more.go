package corpus

func moreRopeCases() []Case {
	theta := func(v float64) func(*Spec) { return every(func(r *Rules) { r.Rope.Theta = v }) }
	scaling := func(kind string, factor, original float64) func(r *Rules) {
		return func(r *Rules) {
			r.Rope.Scaling, r.Rope.Factor, r.Rope.Original = kind, factor, original
			r.Rope.LowFreq, r.Rope.HighFreq = 1, 4
			r.Rope.BetaFast, r.Rope.BetaSlow = 32, 1
		}
	}
	rope := func(causes ...string) Want { return divergence(causes...).enters(qRope0, kRope0).exact() }
	picture := func(s *Spec) {
		s.Image = [2]int{8, 32}
		s.each(func(r *Rules) { r.Rope.Theta, r.Rope.Sections = 1e4, [3]int{3, 3, 2} })
	}
	return []Case{
		{
			ID: "X-rope-theta-up", Row: "8", Title: "theta 1e6 for 1e4", base: seeded(2, theta(1e4)),
			Want: rope("rope.theta").values(1e4, 1e6),
			port: layers(func(r *Rules) { r.Rope.Theta = 1e6 }),
		},
		{
			ID: "X-rope-theta-near", Title: "theta 1e6 for 9e5: a small change", base: seeded(2, theta(9e5)),
			Want: rope("rope.theta").values(9e5, 1e6),
			port: layers(func(r *Rules) { r.Rope.Theta = 1e6 }),
		},
		{
			ID: "X-rope-theta-one-layer", Title: "theta 1e4 for 1e6 in layer 3 only (a local layer taken for a global one)", base: seeded(2, theta(1e6)),
			Want: divergence("rope.theta", "layers.set").enters("layer_03.q_rope", "layer_03.k_rope").values(1e6, 1e4).exact(),
			port: layer(3, func(r *Rules) { r.Rope.Theta = 1e4 }),
		},
		{
			ID: "X-rope-theta-interleaved", Title: "theta 1e4 for 5e5 on interleaved pairs", base: seeded(2, every(func(r *Rules) { r.Rope.Interleaved = true })),
			Want: rope("rope.theta").values(5e5, 1e4),
			port: layers(func(r *Rules) { r.Rope.Theta = 1e4 }),
		},
		{
			ID: "X-rope-layout-half", Title: "the port rotates halves, the model was trained on interleaved pairs",
			base: seeded(2, every(func(r *Rules) { r.Rope.Interleaved = true })),
			Want: rope("rope.layout"),
			port: layers(func(r *Rules) { r.Rope.Interleaved = false }),
		},
		{
			ID: "X-rope-layout-weights", Row: "2", Title: "q and k rows permuted for the other pairing, but not the rotation",
			base: seeded(2),
			Want: divergence("rope.layout", "order.dims").enters("layer_00.q", "layer_00.k").exact(),
			port: func(p *Plan) {
				order := pairedOrder(p.Spec.HeadDim)
				p.eachLayer(func(w *LayerWeights) {
					w.Q = w.Q.permuteRows(perHead(order, p.Spec.Heads))
					w.K = w.K.permuteRows(perHead(order, p.Spec.KVHeads))
				})
			},
		},
		{
			ID: "X-rope-linear", Title: "linear scaling by 4 missing", base: seeded(2, every(scaling("linear", 4, 0))),
			Want: rope("rope.scaling").value("factor", 4).never("rope.theta"),
			port: layers(unscaled),
		},
		{
			ID: "X-rope-linear-extra", Title: "linear scaling by 2 in the port only", base: seeded(2),
			Want: rope("rope.scaling").value("factor", 2).never("rope.theta"),
			port: layers(scaling("linear", 2, 0)),
		},
		{
			ID: "X-rope-llama3-32", Row: "10", Title: "llama3 scaling by 32 missing, 600 tokens", base: seeded(2, every(scaling("llama3", 32, 8192)), long),
			Want: rope("rope.scaling").value("factor", 32).never("rope.theta"),
			port: layers(unscaled),
		},
		{
			ID: "X-rope-yarn", Title: "yarn scaling by 4 missing, 600 tokens", base: seeded(2, every(scaling("yarn", 4, 4096)), theta(1e4), long),
			Want: rope("rope.scaling").value("factor", 4).never("rope.theta"),
			port: layers(unscaled),
		},
		{
			ID: "X-rope-mscale", Row: "11", Title: "yarn's attention factor 1.416 computed though the config says 1",
			base: seeded(2),
			Want: rope("rope.scaling", "scale.constant", "attention.scale").never("rope.theta"),
			port: layers(func(r *Rules) { r.Rope.Mscale = 1.416 }),
		},
		{
			ID: "X-rope-width", Row: "5", Title: "all dims rotated, the model rotates half", base: seeded(2, every(func(r *Rules) { r.Rope.Width = 8 })),
			Want: rope("rope.width").values(8, 16),
			port: layers(func(r *Rules) { r.Rope.Width = 0 }),
		},
		{
			ID: "X-rope-width-quarter", Row: "6", Title: "a quarter of the dims rotated, the model rotates all", base: seeded(2),
			Want: rope("rope.width").values(16, 4),
			port: layers(func(r *Rules) { r.Rope.Width = 4 }),
		},
		{
			ID: "X-rope-partners", Row: "4", Title: "half width, partners taken half a head apart", base: seeded(2, every(func(r *Rules) { r.Rope.Width = 8 })),
			Want: rope("rope.width", "rope.layout"),
			port: layers(func(r *Rules) { r.Rope.PairFullHead = true }),
		},
		{
			ID: "X-rope-denominator", Title: "half width, exponents over the whole head", base: seeded(2, every(func(r *Rules) { r.Rope.Width = 8 })),
			Want: rope("rope.width", "rope.theta"),
			port: layers(func(r *Rules) { r.Rope.DenominatorFullHead = true }),
		},
		{
			ID: "X-rope-offset-k", Title: "k one position late", base: seeded(2),
			Want: divergence("rope.position").enters(kRope0).value("offset", 1).exact(),
			port: layers(func(r *Rules) { r.Rope.OffsetK = 1 }),
		},
		{
			ID: "X-rope-offset-q", Row: "22", Title: "q three positions early", base: seeded(2),
			Want: divergence("rope.position").enters(qRope0).value("offset", -3).exact(),
			port: layers(func(r *Rules) { r.Rope.OffsetQ = -3 }),
		},
		{
			ID: "X-rope-window-start", Row: "18", Title: "every window of 8 tokens rotated at its first position", base: seeded(2),
			Want: rope("rope.position"),
			port: layers(func(r *Rules) { r.Rope.WindowStart = 8 }),
		},
		{
			ID: "X-rope-freq-bf16", Row: "14", Title: "inverse frequencies rounded to bfloat16, 600 tokens", base: seeded(2, long),
			Want: rope("rope.precision").never("rope.theta", "rope.scaling"),
			port: layers(func(r *Rules) { r.Rope.FreqBF16 = true }),
		},
		{
			ID: "X-rope-freq-bf16-short", Row: "14", Title: "inverse frequencies rounded to bfloat16, 48 tokens", base: seeded(2, theta(1e4)),
			Want: rope("rope.precision").never("rope.theta", "rope.scaling"),
			port: layers(func(r *Rules) { r.Rope.FreqBF16 = true }),
		},
		{
			ID: "X-rope-tables-bf16", Row: "15", Title: "cos and sin in bfloat16 in a float32 port", base: seeded(2),
			Want: rope("rope.precision", "numerics.low_precision"),
			port: layers(func(r *Rules) { r.Rope.TablesBF16 = true }),
		},
		{
			ID: "X-rope-sign", Title: "rotated the other way round", base: seeded(2),
			Want: rope("rope.layout", "rope.position", "rope.applied"),
			port: layers(func(r *Rules) { r.Rope.Negative = true }),
		},
		{
			ID: "X-rope-nope-layer", Row: "21", Title: "layer 3 has no rotation in the model, the port rotates it",
			base: seeded(2, func(s *Spec) { s.Block[3].Rope.Off = true }),
			Want: divergence("rope.applied", "layers.set").enters("layer_03.q_rope", "layer_03.k_rope").exact(),
			port: layer(3, func(r *Rules) { r.Rope.Off = false }),
		},
		{
			ID: "X-rope-nope-period", Row: "21", Title: "every second layer has no rotation in the model, the port rotates all",
			base: seeded(2, func(s *Spec) {
				for l := 1; l < s.Layers; l += 2 {
					s.Block[l].Rope.Off = true
				}
			}),
			Want: divergence("rope.applied", "layers.set").enters("layer_01.q_rope", "layer_01.k_rope").exact(),
			port: layers(func(r *Rules) { r.Rope.Off = false }),
		},
		{
			ID: "X-rope-missing", Title: "the port does not rotate at all", base: seeded(2),
			Want: rope("rope.applied"),
			port: layers(func(r *Rules) { r.Rope.Off = true }),
		},
		{
			ID: "X-rope-missing-k", Title: "the port does not rotate k", base: seeded(2),
			Want: divergence("rope.applied").enters(kRope0).exact(),
			port: unrotatedK,
		},
		{
			ID: "X-rope-twice", Title: "rotated twice", base: seeded(2),
			Want: rope("rope.applied", "rope.scaling"),
			port: layers(func(r *Rules) { r.Rope.Twice = true }),
		},
		{
			ID: "X-rope-sections", Row: "20", Title: "M-RoPE sections in runs where the model interleaves them",
			base: seeded(2, picture, every(func(r *Rules) { r.Rope.SectionsInterleaved = true })),
			Want: rope("rope.sections").never("rope.theta", "rope.layout"),
			port: layers(func(r *Rules) { r.Rope.SectionsInterleaved = false }),
		},
		{
			ID: "X-rope-sections-lost", Title: "M-RoPE: the port turns every pair with the time position", base: seeded(2, picture),
			Want: rope("rope.sections", "rope.position").never("rope.theta", "rope.layout"),
			port: layers(func(r *Rules) { r.Rope.Sections = [3]int{8, 0, 0} }),
		},
	}
}

// unrotatedK hands k on as it was projected.
func unrotatedK(p *Plan) {
	k := make(map[int]*Mat)
	p.hook(func(at Place, x *Mat) {
		switch at.Tap {
		case "k":
			k[at.Layer] = x.clone()
		case "k_rope":
			copy(x.Data, k[at.Layer].Data)
		}
	})
}

// pairedOrder lists the dims of a head in the order (0, d/2, 1, d/2+1, ...).
func pairedOrder(hd int) []int {
	var order []int
	for i := range hd / 2 {
		order = append(order, i, hd/2+i)
	}
	return order
}

// perHead repeats an order of one head's dims for every head.
func perHead(order []int, heads int) []int {
	var out []int
	for h := range heads {
		for _, i := range order {
			out = append(out, h*len(order)+i)
		}
	}
	return out
}

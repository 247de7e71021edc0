package corpus

// arithSecretBF16 rounds to bfloat16 and says float32.
var arithSecretBF16 = Arith{DType: "float32", round: roundBF16}

// arithBatch is float32 with the noise of other kernels, which docs/metrics.md
// holds to the floor of reduced-precision products.
var arithBatch = Arith{DType: "float32", round: roundF32, noise: 1e-4}

// arithRerun is float32 with the noise of sums in an order that varies.
var arithRerun = Arith{DType: "float32", round: roundF32, noise: 1e-6}

// cleanCases are pairs in which nothing is wrong.
func cleanCases() []Case {
	clean := Want{Verdict: "parity", Clean: true}
	benign := func(causes ...string) Want {
		return Want{Verdict: "parity", Clean: true, Causes: causes}
	}
	deep := func(s *Spec) { s.Layers = 32; *s = s.build() }
	massive := func(s *Spec) {
		// It is made in layer 1 and taken back in layer 4, as in real models.
		s.Spikes = []Spike{{Layer: 1, Token: 0, Dim: 50, Value: 22500}, {Layer: 4, Token: 0, Dim: 50, Value: -22500}}
	}
	jointly := func(p *Plan) {
		order := pairedOrder(p.Spec.HeadDim)
		p.eachLayer(func(w *LayerWeights) {
			w.Q = w.Q.permuteRows(perHead(order, p.Spec.Heads))
			w.K = w.K.permuteRows(perHead(order, p.Spec.KVHeads))
		})
		p.Spec.each(func(r *Rules) { r.Rope.Interleaved = true })
	}
	out := []Case{
		{ID: "clean-float32", Title: "the same maths summed in another order", base: toy(), Want: clean},
		{ID: "clean-identical", Title: "two equal runs", base: toy(), Want: clean, arith: &arithRef},
		{ID: "clean-bf16", Title: "bfloat16 twin of 32 layers", base: toy().with(deep), Want: clean, arith: &arithBF16},
		{ID: "clean-batch", Row: "C1.14", Title: "batch-size noise of 1e-4", base: toy(), Want: clean, arith: &arithBatch},
		{ID: "clean-rerun", Title: "the port run again, sums in another order each time", base: toy(), Want: clean, arith: &arithRerun},
		{ID: "clean-massive", Row: "C1.17", Title: "massive activation, float32", base: toy().with(massive), Want: clean},
		{ID: "clean-massive/bf16", Row: "C1.17", Title: "massive activation, bfloat16 port", base: toy().with(massive), Want: clean, arith: &arithBF16},
		{ID: "clean-routing", Row: "89", Title: "rounding flips two tokens' experts in the last layer", base: mixture(31, asIs), Want: benign("benign.routing_tie"), arith: &arithBF16},
		{ID: "clean-routing-many", Row: "89", Title: "rounding flips experts whose scores are nearly equal, from the first layer on", base: mixture(43, asIs), Want: benign("benign.routing_tie"), arith: &arithBF16},
		{ID: "clean-moe", Title: "a right float32 pair: moe", base: mixture(1, deepseek), Want: clean},
		{ID: "clean-moe/bf16", Title: "a right bfloat16 pair: moe, where rounding flips experts", base: mixture(1, deepseek), Want: benign("benign.routing_tie"), arith: &arithBF16},
		{ID: "clean-permuted", Title: "q and k permuted together, rotation to match", base: toy(), Want: benign("benign.layout"), port: jointly},
		{ID: "clean-permuted/bf16", Title: "q and k permuted together, bfloat16 port", base: toy(), Want: benign("benign.layout"), port: jointly, arith: &arithBF16},
		{
			ID: "clean-offset", Title: "q and k both one position late", base: toy(), Want: benign("benign.offset"),
			port: layers(func(r *Rules) { r.Rope.OffsetQ, r.Rope.OffsetK = 1, 1 }),
		},
		{ID: "clean-f16", Title: "float16 twin", base: toy(), Want: clean, arith: &arithF16},
		{
			ID: "clean-tables/bf16", Title: "bfloat16 port with cos and sin in bfloat16, as transformers has them", base: toy(), Want: clean, arith: &arithBF16,
			port: layers(func(r *Rules) { r.Rope.TablesBF16 = true }),
		},
	}
	return append(out, cleanKinds(clean)...)
}

// cleanKinds is a right pair of every kind of model that the faults use, in
// float32 and as a bfloat16 twin.
func cleanKinds(want Want) []Case {
	var out []Case
	for _, k := range []struct {
		name string
		base Spec
	}{
		{"llama3", toy().with(every(llama3))},
		{"window", toy().with(every(func(r *Rules) { r.Window = 16 }))},
		{"softcap", toy().with(every(func(r *Rules) { r.Softcap, r.Scale = 5, 1 }))},
		{"gelu", toy().with(every(func(r *Rules) { r.Activation = "gelu" }))},
		{"small-embed", toy().with(func(s *Spec) { s.EmbedStd = 0.02 })},
		{"embed-scale", scaled()},
		{"qk-norm", toy().with(every(func(r *Rules) { r.QKNorm = true }))},
		{"bias", toy().with(every(func(r *Rules) { r.QKVBias, r.OutBias = true, true }))},
		{"sink", toy().with(every(func(r *Rules) { r.Sink = true }))},
		{"ranks", toy().with(ranks(2))},
		{"decode", toy().with(decode(2))},
		{"padded", toy().with(padded)},
		{"conv", toy().with(hybrid("ssm"))},
		{"diffusion", toy().with(diffusion(1000, 500), func(s *Spec) { s.Frames, s.Text = 4, 12 })},
		{"granite", toy().with(every(func(r *Rules) { r.ResidualMult = 0.22 }))},
		{"encoder", toy().with(every(bidirectional))},
	} {
		out = append(out,
			Case{ID: "clean-" + k.name, Title: "a right float32 pair: " + k.name, base: k.base, Want: want},
			Case{ID: "clean-" + k.name + "/bf16", Title: "a right bfloat16 pair: " + k.name, base: k.base, Want: want, arith: &arithBF16})
	}
	return out
}

package corpus

// hybrid puts a convolution in layers 1 and 4.
func hybrid(kind string) func(*Spec) {
	return func(s *Spec) { s.Block[1].Mixer, s.Block[4].Mixer = kind, kind }
}

func decode(n int) func(*Spec) { return func(s *Spec) { s.Decode = n } }

func stateCases() []Case {
	state := func(causes ...string) Want { return divergence(causes...) }
	return []Case{
		Case{
			ID: "X-decode-zero", Row: "17", Title: "decode rotates q and k at position 0", base: seeded(10, decode(3)),
			Want: state("rope.position", "state.position").enters(qRope0, kRope0).exact(),
			port: layers(func(r *Rules) { r.Rope.DecodeZeroQ, r.Rope.DecodeZeroK = true, true }),
		}.at(1, 0),
		Case{
			ID: "X-decode-zero-q", Row: "22", Title: "decode rotates q at position 0", base: seeded(10, decode(3)),
			Want: state("rope.position", "state.position").enters(qRope0).exact(),
			port: layers(func(r *Rules) { r.Rope.DecodeZeroQ = true }),
		}.at(1, 0),
		Case{
			ID: "X-decode-pads", Row: "46", Title: "decode counts the pads, the prefill did not", base: seeded(10, decode(2), padded),
			Want: state("rope.position", "state.position").enters(qRope0, kRope0).exact(),
			port: func(p *Plan) {
				noPositions(p)
				p.hook(lateRotation(p, 5))
			},
		}.at(1, 0),
		Case{
			ID: "X-kv-zero", Row: "114", Title: "cache rows 5 and 6 read as zero at decode", base: seeded(10, decode(3)),
			Want: state("state.kv").enters(probs0, ctx0),
			port: layers(func(r *Rules) { r.KVZero = []int{5, 6} }),
		}.at(1, 0),
		Case{
			ID: "X-kv-zero-dumped", Row: "114", Title: "cache rows 5 and 6 read as zero at decode, caches dumped",
			base: seeded(10, decode(3), func(s *Spec) { s.TapCache = true }),
			Want: state("state.kv").enters("layer_00.k_cache", "layer_00.v_cache", probs0, ctx0),
			port: layers(func(r *Rules) { r.KVZero = []int{5, 6} }),
		}.at(1, 0),
		Case{
			ID: "X-kv-stale", Title: "the row written at decode holds the token before", base: seeded(10, decode(3)),
			Want: state("state.kv").enters(probs0, ctx0),
			port: layers(func(r *Rules) { r.KVStale = true }),
		}.at(1, 0),
		Case{
			ID: "X-window-decode", Row: "37", Title: "the decode kernel got no window", base: seeded(10, decode(3), every(func(r *Rules) { r.Window = 16 })),
			Want: state("attention.window").enters(probs0).exact(),
			port: decodeWithoutWindow,
		}.at(1, 0),
		{
			ID: "X-chunk-conv", Title: "chunk 2 of the prefill starts the convolution from zero", base: seeded(10, hybrid("conv")),
			Want: state("state.conv", "state.chunk").enters("layer_01.conv_out"),
			port: layers(func(r *Rules) { r.StateChunk = 24 }),
		},
		{
			ID: "X-chunk-ssm", Title: "every chunk of 16 starts from a zero state", base: seeded(10, hybrid("ssm")),
			Want: state("state.chunk", "state.conv").enters("layer_01.conv_out", "layer_01.ssm_out"),
			port: layers(func(r *Rules) { r.StateChunk = 16 }),
		},
		Case{
			ID: "X-chunk-conv-steps", Title: "the second step of a chunked prefill starts from zero",
			base: seeded(10, hybrid("conv"), func(s *Spec) { s.Chunks = 2 }),
			Want: state("state.conv", "state.chunk").enters("layer_01.conv_out"),
			port: layers(func(r *Rules) { r.StateChunk = 24 }),
		}.at(1, 0),
		Case{
			ID: "X-conv-state-after", Row: "116", Title: "the convolution's state is saved after it, not before", base: seeded(10, hybrid("conv"), decode(4)),
			Want: state("state.conv", "state.chunk").enters("layer_01.conv_out"),
			port: layers(func(r *Rules) { r.StateAfter = true }),
		}.at(1, 0),
	}
}

// lateRotation turns q and k of the second request's decode rows by n positions
// more.
func lateRotation(p *Plan, n float64) func(Place, *Mat) {
	return func(at Place, x *Mat) {
		if at.Step == 0 || at.Tap != "q_rope" && at.Tap != "k_rope" {
			return
		}
		row := &Mat{1, x.Cols, x.Row(1)}
		turned := p.Spec.Block[at.Layer].Rope.rotate(p.Arith, row, p.Spec.HeadDim, [][3]float64{{n, n, n}})
		copy(row.Data, turned.Data)
	}
}

// decodeWithoutWindow sees all keys at decode.
func decodeWithoutWindow(p *Plan) {
	p.Spec.each(func(r *Rules) { r.WindowPrefillOnly = true })
}

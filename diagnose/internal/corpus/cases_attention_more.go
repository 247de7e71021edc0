package corpus

import "math"

// padded is a batch of two, the second left-padded by 5.
func padded(s *Spec) { s.Pads = []int{0, 5} }

// bidirectional is an encoder.
func bidirectional(r *Rules) { r.Mask = "full" }

// windows gives the layers a window where f holds.
func windows(w int, f func(l int) bool) func(*Spec) {
	return func(s *Spec) {
		for l := range s.Block {
			s.Block[l].Window = 0
			if f(l) {
				s.Block[l].Window = w
			}
		}
	}
}

func even(l int) bool { return l%2 == 0 }
func odd(l int) bool  { return l%2 == 1 }

func moreAttentionCases() []Case {
	scale := func(ref, port float64) Want {
		return divergence("attention.scale").enters(probs0).values(ref, port).exact().never("attention.softcap", "rope.theta")
	}
	window := func(causes ...string) Want { return divergence(causes...).exact() }
	onPort := func(f func(*Spec)) func(*Plan) { return func(p *Plan) { f(&p.Spec) } }
	qk := func(r *Rules) { r.QKNorm = true }
	return []Case{
		{
			ID: "X-scale-twice", Row: "29", Title: "scores scaled twice", base: seeded(3),
			Want: scale(0.25, 0.0625), port: layers(func(r *Rules) { r.Scale = 0.0625 }),
		},
		{
			ID: "X-scale-missing", Title: "scores not scaled", base: seeded(3),
			Want: scale(0.25, 1), port: layers(func(r *Rules) { r.Scale = 1 }),
		},
		{
			ID: "X-scale-mla", Row: "28", Title: "scale from the absorbed width 576 for 256", base: seeded(3, every(func(r *Rules) { r.Scale = 1.0 / 16 * 4 })),
			Want: scale(0.25, 0.25*math.Sqrt(256.0/576)), port: layers(func(r *Rules) { r.Scale = 0.25 * math.Sqrt(256.0/576) }),
		},
		{
			ID: "X-scale-mscale", Row: "12", Title: "yarn's mscale squared left out of the scores", base: seeded(3, every(func(r *Rules) { r.Scale = 0.25 * 1.3689 * 1.3689 })),
			Want: scale(0.25*1.3689*1.3689, 0.25), port: layers(func(r *Rules) { r.Scale = 0.25 }),
		},
		{
			ID: "X-scale-layers", Row: "30", Title: "scores times 1.6 in layers 2 and 4 only", base: seeded(3),
			Want: divergence("attention.scale", "layers.set").enters("layer_02.attn_probs").values(0.25, 0.4).exact(),
			port: func(p *Plan) { p.Spec.Block[2].Scale, p.Spec.Block[4].Scale = 0.4, 0.4 },
		},
		{
			ID: "X-scale-temperature", Title: "temperature that grows with the position missing", base: seeded(3, every(func(r *Rules) { r.Temperature = 8 })),
			Want: divergence("attention.scale").enters(probs0).exact().never("rope.theta"), port: layers(func(r *Rules) { r.Temperature = 0 }),
		},
		{
			ID: "X-softcap-value", Row: "25", Title: "softcap 8 for 5", base: seeded(3, every(func(r *Rules) { r.Softcap, r.Scale = 5, 1 })),
			Want: divergence("attention.softcap").enters(probs0).values(5, 8).exact(),
			port: layers(func(r *Rules) { r.Softcap = 8 }),
		},
		{
			ID: "X-softcap-extra", Title: "softcap 5 in the port only", base: seeded(3, every(func(r *Rules) { r.Scale = 1 })),
			Want: divergence("attention.softcap").enters(probs0).value("port", 5).exact(),
			port: layers(func(r *Rules) { r.Softcap = 5 }),
		},
		{
			ID: "X-softcap-final", Row: "24", Title: "softcap 30 of the logits missing", base: seeded(3, func(s *Spec) { s.FinalSoftcap, s.LogitScale = 30, 20 }),
			Want: divergence("attention.softcap").enters("logits").value("reference", 30).exact(),
			port: func(p *Plan) { p.Spec.FinalSoftcap = 0 },
		},
		{
			ID: "X-window-short", Row: "33", Title: "window of 15 keys for 16", base: seeded(3, every(func(r *Rules) { r.Window = 16 })),
			Want: window("attention.window").enters(probs0).values(16, 15), port: layers(func(r *Rules) { r.Window = 15 }),
		},
		{
			ID: "X-window-lost", Row: "38", Title: "window of 12 lost: plain causal", base: seeded(3, every(func(r *Rules) { r.Window = 12 })),
			Want: window("attention.window").enters(probs0).value("reference", 12), port: layers(func(r *Rules) { r.Window = 0 }),
		},
		{
			ID: "X-window-extra", Title: "the port alone has a window of 20", base: seeded(3),
			Want: window("attention.window").enters(probs0).value("port", 20), port: layers(func(r *Rules) { r.Window = 20 }),
		},
		{
			ID: "X-window-parity", Row: "34", Title: "sliding on odd layers where the model slides on even ones", base: seeded(3, windows(16, even)),
			Want: window("layers.set", "attention.window").enters(probs0), port: onPort(windows(16, odd)),
		},
		{
			ID: "X-window-all", Row: "36", Title: "all layers slide, in the model layers 2 and 5 do not", base: seeded(3, windows(16, func(l int) bool { return l%3 != 2 })),
			Want: window("layers.set", "attention.window").enters("layer_02.attn_probs"), port: layers(func(r *Rules) { r.Window = 16 }),
		},
		{
			ID: "X-look-ahead", Row: "40", Title: "look-ahead of 3 for 4", base: seeded(3, every(func(r *Rules) { r.LookAhead = 4 })),
			Want: window("attention.window", "attention.mask").enters(probs0), port: layers(func(r *Rules) { r.LookAhead = 3 }),
		},
		{
			ID: "X-mask-causal", Row: "43", Title: "causal in the port, the model sees both ways", base: seeded(3, every(bidirectional)),
			Want: window("attention.mask").enters(probs0), port: layers(func(r *Rules) { r.Mask = "" }),
		},
		{
			ID: "X-mask-one-layer", Title: "no causal mask in layer 4 only", base: seeded(3),
			Want: window("attention.mask", "layers.set").enters("layer_04.attn_probs"), port: layer(4, bidirectional),
		},
		{
			ID: "X-mask-padding", Title: "pads of a batch are attended", base: seeded(3, padded),
			Want: window("attention.mask").enters(probs0), port: layers(func(r *Rules) { r.PadsSeen = true }),
		},
		{
			ID: "X-mask-nan", Row: "47", Title: "rows that see no key are 0/0", base: seeded(3, padded),
			Want: divergence("numerics.nan", "attention.mask").enters(probs0), port: layers(func(r *Rules) { r.EmptyNaN = true }),
		},
		Case{
			ID: "X-mask-topleft", Row: "41", Title: "causal mask aligned at the top left: chunk 2 sees only the first keys",
			base: seeded(3, func(s *Spec) { s.Chunks = 2 }),
			Want: window("attention.mask", "state.chunk").enters(probs0), port: layers(func(r *Rules) { r.Mask = "topleft" }),
		}.at(1, 0),
		{
			ID: "X-sink-missing", Title: "attention sink missing", base: seeded(3, every(func(r *Rules) { r.Sink = true })),
			Want: window("attention.sink").enters(probs0).never("attention.scale", "attention.softcap"), port: layers(func(r *Rules) { r.Sink = false }),
		},
		{
			ID: "X-sink-extra", Title: "attention sink in the port only", base: seeded(3),
			Want: window("attention.sink").enters(probs0).never("attention.scale", "attention.softcap"), port: layers(func(r *Rules) { r.Sink = true }),
		},
		{
			ID: "X-heads-reversed", Title: "key-value heads in the other order", base: seeded(3),
			Want: window("attention.head_map").enters(probs0, ctx0), port: layers(func(r *Rules) { r.HeadMap = []int{1, 1, 1, 1, 0, 0, 0, 0} }),
		},
		{
			ID: "X-heads-four", Title: "four key-value heads tiled", base: seeded(3, func(s *Spec) { s.KVHeads = 4 }),
			Want: window("attention.head_map").enters(probs0, ctx0), port: layers(func(r *Rules) { r.HeadMap = []int{0, 1, 2, 3, 0, 1, 2, 3} }),
		},
		{
			ID: "X-heads-first", Title: "every head reads key-value head 0", base: seeded(3),
			Want: window("attention.head_map").enters(probs0, ctx0), port: layers(func(r *Rules) { r.HeadMap = make([]int, 8) }),
		},
		{
			ID: "X-qk-norm-missing", Row: "71", Title: "norms of q and k left out", base: seeded(3, every(qk)),
			Want: divergence("norm.missing").enters("layer_00.q_norm", "layer_00.k_norm").exact(),
			port: layers(func(r *Rules) { r.QNorm.Skip, r.KNorm.Skip = true, true }),
		},
		{
			ID: "X-qk-norm-order", Row: "71", Title: "q and k normed after the rotation", base: seeded(3, every(qk)),
			Want: divergence("norm.order").enters(qRope0, kRope0, "layer_00.q_norm", "layer_00.k_norm"),
			port: layers(func(r *Rules) { r.QKNormAfterRope = true }),
		},
		{
			ID: "X-qk-norm-gain", Title: "weight of the q norm not applied", base: seeded(3, every(qk)),
			Want: divergence("norm.gain").enters("layer_00.q_norm").exact(),
			port: layers(func(r *Rules) { r.QNorm.Gain = GainNone }),
		},
		{
			ID: "X-qk-norm-eps", Title: "eps 1e-2 for 1e-6 in the norms of q and k", base: seeded(3, every(qk)),
			Want: divergence("norm.eps").enters("layer_00.q_norm", "layer_00.k_norm").values(1e-6, 1e-2).exact(),
			port: layers(func(r *Rules) { r.QNorm.Eps, r.KNorm.Eps = 1e-2, 1e-2 }),
		},
	}
}

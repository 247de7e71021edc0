package corpus

import "math"

const (
	probs0 = "layer_00.attn_probs"
	ctx0   = "layer_00.attn_ctx"
)

func attentionCases() []Case {
	return []Case{
		{
			ID: "D6", Row: "26", Title: "scores divided by sqrt(hidden size)", base: toy(),
			Want: divergence("attention.scale").enters(probs0).values(0.25, 1/math.Sqrt(128)).exact(),
			port: layers(func(r *Rules) { r.Scale = 1 / math.Sqrt(128) }),
		},
		{
			ID: "D6-1.146", Row: "26", Title: "scores times 1.146", base: toy(),
			Want: divergence("attention.scale").enters(probs0).values(0.25, 0.25*1.146).exact(),
			port: layers(func(r *Rules) { r.Scale = 0.25 * 1.146 }),
		},
		{
			ID: "D7", Row: "24", Title: "attention softcap 5 missing",
			base: toy().with(func(s *Spec) { s.each(func(r *Rules) { r.Softcap, r.Scale = 5, 1 }) }),
			Want: divergence("attention.softcap").enters(probs0).exact(),
			port: layers(func(r *Rules) { r.Softcap = 0 }),
		},
		{
			ID: "D8", Row: "31", Title: "window of 17 keys for 16",
			base: toy().with(func(s *Spec) { s.each(func(r *Rules) { r.Window = 16 }) }),
			Want: divergence("attention.window").enters(probs0).values(16, 17).exact(),
			port: layers(func(r *Rules) { r.Window = 17 }),
		},
		{
			ID: "D9", Row: "42", Title: "no causal mask", base: toy(),
			Want: divergence("attention.mask").enters(probs0).exact(),
			port: layers(func(r *Rules) { r.Mask = "full" }),
		},
		{
			ID: "D11", Row: "48", Title: "key-value heads tiled, not repeated", base: toy(),
			Want: divergence("attention.head_map").enters(ctx0, probs0).exact(),
			port: layers(func(r *Rules) { r.HeadMap = []int{0, 1, 0, 1, 0, 1, 0, 1} }),
		},
	}
}

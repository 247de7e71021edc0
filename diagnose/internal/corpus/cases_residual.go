package corpus

import "math"

const (
	ffnInp0    = "layer_00.ffn_inp"
	layer0     = "layer_00"
	embedPlace = "post_embed"
)

var sqrtD = math.Sqrt(128)

// scaled is a decoder whose embedding is multiplied by sqrt(hidden size).
func scaled() Spec {
	return toy().with(func(s *Spec) { s.EmbedStd, s.EmbedScale = 1/sqrtD, sqrtD })
}

func residualCases() []Case {
	return []Case{
		{
			ID: "D17", Row: "76", Title: "embedding scale sqrt(D) missing", base: scaled(),
			Want: divergence("scale.constant").enters(embedPlace).exact(),
			port: func(p *Plan) { p.Spec.EmbedScale = 1 },
		},
		{
			ID: "D17-doubled", Row: "76", Title: "embedding scale sqrt(D) twice", base: scaled(),
			Want: divergence("scale.constant").enters(embedPlace).exact(),
			port: func(p *Plan) { p.Spec.EmbedScale = 128 },
		},
		{
			ID: "D18", Row: "81", Title: "the residual is taken after the norm", base: toy(),
			Want: divergence("residual.algebra").enters(post0, layer0, ffnInp0).exact(),
			port: layers(func(r *Rules) { r.AttnFromNorm = true }),
		},
	}
}

package corpus

func moreResidualCases() []Case {
	tapped := func(s *Spec) { s.TapFFNInput = true }
	granite := func(s *Spec) { s.each(func(r *Rules) { r.ResidualMult = 0.22 }) }
	return []Case{
		{
			ID: "X-residual-tapped", Row: "81", Title: "the residual is taken after the norm, stream between the halves dumped", base: seeded(7, tapped),
			Want: divergence("residual.algebra").enters(ffnInp0).exact(), port: layers(func(r *Rules) { r.AttnFromNorm = true }),
		},
		{
			ID: "X-residual-mlp", Row: "82", Title: "the second residual is taken after the norm", base: seeded(7),
			Want: divergence("residual.algebra").enters(layer0).exact(), port: layers(func(r *Rules) { r.MLPFromNorm = true }),
		},
		{
			ID: "X-residual-multiplier", Row: "80", Title: "residual multiplier 0.22 missing", base: seeded(7, granite),
			Want: divergence("residual.algebra", "scale.constant").enters(post0, layer0).exact(), port: layers(func(r *Rules) { r.ResidualMult = 0 }),
		},
		{
			ID: "X-residual-multiplier-tapped", Row: "80", Title: "residual multiplier 0.22 missing, stream between the halves dumped", base: seeded(7, granite, tapped),
			Want: divergence("residual.algebra", "scale.constant").enters(ffnInp0).exact(), port: layers(func(r *Rules) { r.ResidualMult = 0 }),
		},
		{
			ID: "X-residual-dropped", Title: "attention's residual dropped in layer 2", base: seeded(7),
			Want: divergence("residual.algebra").enters("layer_02.post_attn_norm", "layer_02").exact(), port: layer(2, func(r *Rules) { r.NoAttnResidual = true }),
		},
		{
			ID: "X-residual-parallel", Title: "the MLP reads the block's input, as in parallel blocks", base: seeded(7),
			Want: divergence("norm.order", "residual.algebra").enters(post0).exact(), port: layers(func(r *Rules) { r.ParallelBlock = true }),
		},
		{
			ID: "X-embed-rounded", Row: "61", Title: "embedding times sqrt(D) kept in float32, the model rounds it to bfloat16",
			base: seeded(7, func(s *Spec) { s.EmbedStd, s.EmbedScale = 1/sqrtD, float64(roundBF16(sqrtD)) }),
			Want: divergence("scale.constant").enters(embedPlace).exact(), port: func(p *Plan) { p.Spec.EmbedScale = sqrtD },
		},
		{
			ID: "X-embed-multiplier", Row: "79", Title: "embedding multiplier 12 skipped", base: seeded(7, func(s *Spec) { s.EmbedStd, s.EmbedScale = 0.1, 12 }),
			Want: divergence("scale.constant").enters(embedPlace).exact(), port: func(p *Plan) { p.Spec.EmbedScale = 1 },
		},
		{
			ID: "X-logits-scale", Row: "79", Title: "logits not divided by 8", base: seeded(7, func(s *Spec) { s.LogitScale = 1.0 / 8 }),
			Want: divergence("scale.constant").enters("logits").exact(), port: func(p *Plan) { p.Spec.LogitScale = 1 },
		},
		{
			ID: "X-attn-out-scale", Title: "attention output of layer 2 halved", base: seeded(7),
			Want: divergence("scale.constant").enters("layer_02.attn_out").exact(), port: scaledAt(2, "attn_out", 0, 48, 0.5),
		},
		{
			ID: "X-latent-affine", Row: "123", Title: "mean and spread of each latent channel not normalised", base: seeded(7, diffusion(500)),
			Want: divergence("norm.gain", "offset.bias", "scale.constant", "input.embedding", "unknown").enters(embedPlace),
			port: affine("post_embed"),
		},
		{
			ID: "X-image-rows", Row: "78", Title: "image rows 12 to 35 scaled by 39.25", base: seeded(7),
			Want: divergence("scale.row_class").enters(embedPlace).exact().never("scale.constant"), port: scaledAt(-1, "post_embed", 12, 36, 39.25),
		},
		{
			ID: "X-text-rows", Row: "77", Title: "text rows scaled by sqrt(D), image rows right", base: seeded(7),
			Want: divergence("scale.row_class").enters(embedPlace).exact().never("scale.constant"),
			port: func(p *Plan) {
				scaledAt(-1, "post_embed", 0, 12, sqrtD)(p)
				scaledAt(-1, "post_embed", 36, 48, sqrtD)(p)
			},
		},
	}
}

// scaledAt multiplies rows [from, to) of a checkpoint.
func scaledAt(layer int, tap string, from, to int, by float64) func(p *Plan) {
	return func(p *Plan) {
		p.hook(func(at Place, x *Mat) {
			if at.Layer != layer || at.Tap != tap {
				return
			}
			for t := from; t < to; t++ {
				for i, v := range x.Row(t) {
					x.Row(t)[i] = p.Arith.round(float64(v) * by)
				}
			}
		})
	}
}

// affine gives each column of a checkpoint a factor and an offset of its own.
func affine(tap string) func(p *Plan) {
	return func(p *Plan) {
		spread, mean := gaussian(8, "spread", p.Spec.Dim, 1.5, 0.3), gaussian(8, "mean", p.Spec.Dim, 0, 0.5)
		p.hook(func(at Place, x *Mat) {
			if at.Tap == tap {
				for i, v := range x.Data {
					d := i % x.Cols
					x.Data[i] = p.Arith.round(float64(v)*float64(spread[d]) + float64(mean[d]))
				}
			}
		})
	}
}

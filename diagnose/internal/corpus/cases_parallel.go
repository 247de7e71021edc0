package corpus

// ranks is tensor parallelism over n ranks, each with a dump of its own.
func ranks(n int) func(*Spec) { return func(s *Spec) { s.World = n } }

// diffusion is a denoiser of latents, without tokens and logits.
func diffusion(steps ...float64) func(*Spec) {
	return func(s *Spec) {
		s.Denoise = steps
		s.each(bidirectional)
	}
}

const attnOut0 = "layer_00.attn_out"

func parallelCases() []Case {
	return []Case{
		{
			ID: "D21", Row: "95", Title: "all-reduce after the output projection missing, two ranks", base: toy().with(ranks(2)),
			Want: divergence("parallel.partial_sum").enters(attnOut0).exact().never("scale.constant", "weights.unloaded"),
			port: layers(func(r *Rules) { r.NoReduceAttn = true }),
		},
		{
			ID: "D22", Row: "96", Title: "bias added on each of two ranks",
			base: toy().with(ranks(2), every(func(r *Rules) { r.OutBias = true })),
			Want: divergence("parallel.bias", "offset.bias").enters(attnOut0).exact(),
			port: layers(func(r *Rules) { r.BiasPerRank = true }),
		},
		{
			ID: "D23", Row: "103", Title: "the second half of the latents is another rank's own noise", base: toy().with(diffusion(500)),
			Want: divergence("parallel.rng").enters(embedPlace).never("order.tokens", "scale.constant"),
			port: func(p *Plan) { p.hook(ownNoise(24, 48, "other")) },
		},
	}
}

// ownNoise replaces rows of the latents by another stream's.
func ownNoise(from, to int, name string) func(Place, *Mat) {
	return func(at Place, x *Mat) {
		if at.Tap == "post_embed" {
			copy(x.Data[from*x.Cols:to*x.Cols], gaussian(99, name, (to-from)*x.Cols, 0, 1))
		}
	}
}

func moreParallelCases() []Case {
	return []Case{
		{
			ID: "X-partial-mlp", Row: "95", Title: "all-reduce after the down projection missing, four ranks",
			base: seeded(9, ranks(4), func(s *Spec) { s.KVHeads = 4 }),
			Want: divergence("parallel.partial_sum").enters(mlpOut0).exact().never("scale.constant"), port: layers(func(r *Rules) { r.NoReduceMLP = true }),
		},
		{
			ID: "X-partial-one-layer", Title: "all-reduce missing in layer 3 only", base: seeded(9, ranks(2)),
			Want: divergence("parallel.partial_sum").enters("layer_03.attn_out").exact(), port: layer(3, func(r *Rules) { r.NoReduceAttn = true }),
		},
		{
			ID: "X-partial-one-rank", Row: "95", Title: "all-reduce missing, but only one rank was dumped", base: seeded(9, ranks(2)),
			Want: divergence("parallel.partial_sum", "unknown").enters(attnOut0).never("scale.constant", "weights.unloaded"),
			both: func(p *Plan) {
				p.edit(func(r *Run) { delete(r.Parts, [2]int{0, 1}) })
			},
			family: "one-rank",
			port:   layers(func(r *Rules) { r.NoReduceAttn = true }),
		},
		{
			ID: "X-bias-four", Row: "96", Title: "bias added on each of four ranks",
			base: seeded(9, ranks(4), func(s *Spec) { s.KVHeads = 4 }, every(func(r *Rules) { r.OutBias = true })),
			Want: divergence("parallel.bias", "offset.bias").enters(attnOut0).exact(), port: layers(func(r *Rules) { r.BiasPerRank = true }),
		},
		{
			ID: "X-bias-qkv", Row: "97", Title: "biases of q, k and v not loaded", base: seeded(9, every(func(r *Rules) { r.QKVBias = true })),
			Want: divergence("offset.bias").enters("layer_00.q", "layer_00.k", "layer_00.v").exact().never("norm.gain"),
			port: func(p *Plan) { p.eachLayer(func(w *LayerWeights) { w.Q.B, w.K.B, w.V.B = nil, nil, nil }) },
		},
		{
			ID: "X-bias-out", Title: "bias of the output projection missing", base: seeded(9, every(func(r *Rules) { r.OutBias = true })),
			Want: divergence("offset.bias").enters(attnOut0).exact(),
			port: func(p *Plan) { p.eachLayer(func(w *LayerWeights) { w.O.B = nil }) },
		},
		Case{
			ID: "X-replica", Row: "100", Title: "norm weights of rank 1 were not broadcast", base: seeded(9, ranks(2)),
			// Rank 0 is right until the reduce hands it rank 1's part.
			Want: divergence("parallel.replica", "norm.gain").enters("layer_01.post_attn_norm", "layer_01.mlp_out"),
			port: func(p *Plan) {
				p.hook(func(at Place, x *Mat) {
					if at.Rank == 1 && at.Layer == 1 && at.Tap == "post_attn_norm" {
						w, own := p.layer(1).PostNorm, gaussian(77, "own", x.Cols, 1, 0.3)
						for i, v := range x.Data {
							x.Data[i] = p.Arith.round(float64(v) * float64(own[i%x.Cols]) / float64(w[i%x.Cols]))
						}
					}
				})
			},
		}.at(0, 1),
		{
			ID: "X-shard-order", Title: "shards of q and of the context gathered in the other order", base: seeded(9),
			Want: divergence("parallel.shard_order", "order.dims").enters("layer_00.mlp_up").exact(),
			port: permuted("mlp_up", swappedHalves(256)),
		},
		{
			ID: "X-shard-copy", Title: "every rank loaded shard 0 of q", base: seeded(9),
			Want: divergence("parallel.shard_copy").enters("layer_00.q").exact(),
			port: func(p *Plan) {
				p.eachLayer(func(w *LayerWeights) {
					w.Q = w.Q.permuteRows(append(blocks(64, 0), blocks(64, 0)...))
				})
			},
		},
		{
			ID: "X-shard-zero", Row: "104", Title: "only the first shard of up was saved, the rest is zero", base: seeded(9),
			Want: divergence("parallel.shard_missing").enters("layer_00.mlp_up"),
			port: func(p *Plan) {
				p.eachLayer(func(w *LayerWeights) {
					w.Up = w.Up.clone()
					clear(w.Up.W[len(w.Up.W)/2:])
				})
			},
		},
		{
			ID: "X-shard-stale", Row: "104", Title: "the second shard of gate is of an older state", base: seeded(9),
			Want: divergence("parallel.shard_missing").enters("layer_00.mlp_gate"),
			port: func(p *Plan) {
				p.eachLayer(func(w *LayerWeights) {
					w.Gate = w.Gate.clone()
					half := w.Gate.W[len(w.Gate.W)/2:]
					for i, v := range gaussian(31, "stale", len(half), 0, 1/sqrtD) {
						half[i] = roundBF16(0.6*float64(half[i]) + 0.8*float64(v))
					}
				})
			},
		},
		{
			ID: "X-rng-same", Row: "103", Title: "both ranks drew the same noise: the second half equals the first", base: seeded(9, diffusion(500)),
			Want: divergence("parallel.rng", "parallel.shard_copy").enters(embedPlace),
			port: func(p *Plan) {
				p.hook(func(at Place, x *Mat) {
					if at.Tap == "post_embed" {
						copy(x.Data[len(x.Data)/2:], x.Data[:len(x.Data)/2])
					}
				})
			},
		},
		{
			ID: "X-rng-four", Row: "103", Title: "three of four ranks drew noise of their own", base: seeded(9, diffusion(500)),
			Want: divergence("parallel.rng").enters(embedPlace),
			port: func(p *Plan) { p.hook(ownNoise(12, 48, "four")) },
		},
		Case{
			ID: "X-rng-fork", Title: "rank 1 drew one number more: from step 2 on its latents are others",
			base: seeded(9, diffusion(1000, 750, 500, 250), ranks(2), func(s *Spec) { s.Layers, s.Block = 2, s.Block[:2] }),
			Want: divergence("parallel.rng", "parallel.replica").enters(embedPlace),
			port: func(p *Plan) {
				fork := ownNoise(0, 48, "fork")
				p.hook(func(at Place, x *Mat) {
					if at.Rank == 1 && at.Step >= 2 {
						fork(at, x)
					}
				})
			},
		}.at(2, 1),
		{
			ID: "X-sp-padding", Title: "two rows of sequence padding enter attention", base: seeded(9, diffusion(500)),
			Want: divergence("parallel.padding", "attention.mask", "capture.extra_rows"),
			port: func(p *Plan) {
				p.Spec.Tokens += 2
				p.hook(func(at Place, x *Mat) {
					if at.Tap == "post_embed" {
						clear(x.Data[48*x.Cols:])
					}
				})
			},
		},
		{
			ID: "X-sp-padding-cut", Title: "the same with the padding cut off the dump, but not off the keys", base: seeded(9, diffusion(500)),
			Want: divergence("parallel.padding", "attention.mask").enters(probs0, ctx0),
			port: func(p *Plan) {
				p.Spec.Tokens += 2
				p.hook(func(at Place, x *Mat) {
					if at.Tap == "post_embed" {
						clear(x.Data[48*x.Cols:])
					}
				})
				p.edit(func(r *Run) { cutRows(r, 48) })
			},
		},
		Case{
			ID: "X-text-timestep", Title: "text tokens are modulated by the video's timestep, not by 0",
			base: seeded(9, diffusion(1000, 750, 500), func(s *Spec) { s.Frames, s.Text = 4, 12 }),
			Want: divergence("scale.row_class", "state.position", "state.kv", "state.chunk", "norm.gain", "unknown").enters(norm0),
			port: func(p *Plan) { p.Spec.TextTime = true },
		}.at(1, 0),
	}
}

// cutRows keeps the first n query rows of every tensor.
func cutRows(r *Run, n int) {
	for _, p := range r.Parts {
		for name, a := range p.Tensors {
			p.Tensors[name] = a.cut(n)
		}
	}
}

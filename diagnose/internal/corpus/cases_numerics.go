package corpus

// spike makes one number of layer 4's MLP output massive.
func spike(v float64) func(*Spec) {
	return func(s *Spec) { s.Spikes = []Spike{{Layer: 4, Token: 9, Dim: 77, Value: v}} }
}

// rounded rounds a checkpoint of one layer (-1 for all) to bfloat16.
func rounded(layer int, tap string) func(p *Plan) {
	return func(p *Plan) {
		p.hook(func(at Place, x *Mat) {
			if at.Tap == tap && (layer < 0 || at.Layer == layer) {
				for i, v := range x.Data {
					x.Data[i] = roundBF16(float64(v))
				}
			}
		})
	}
}

func numericsCases() []Case {
	return []Case{
		{
			ID: "D25", Row: "134", Title: "MLP output of layer 4 overflows float16 at token 9, dim 77",
			base: toy().with(spike(80000)), arith: &arithF16,
			Want: divergence("numerics.overflow").enters("layer_04.mlp_out").never("capture.overflow_on_save"),
		},
	}
}

func moreNumericsCases() []Case {
	return []Case{
		{
			ID: "X-overflow-norm", Row: "135", Title: "squares of a norm summed in float16: beyond 65504", arith: &arithF16,
			base: seeded(13, func(s *Spec) { s.Spikes = []Spike{{Layer: 2, Token: 3, Dim: 9, Value: 400}} }),
			Want: divergence("numerics.overflow", "norm.precision").enters("layer_03.input_norm"),
			port: func(p *Plan) { p.Spec.norms(func(n *Norm) { n.Half = true }) },
		},
		{
			ID: "X-low-probs", Title: "probabilities rounded to bfloat16 in a float32 port", base: seeded(13),
			Want: divergence("numerics.low_precision").enters(probs0).never("attention.scale", "attention.softcap"), port: rounded(-1, "attn_probs"),
		},
		{
			ID: "X-low-mlp", Title: "MLP output of layer 2 rounded to bfloat16 in a float32 port", base: seeded(13),
			Want: divergence("numerics.low_precision").enters("layer_02.mlp_out"), port: rounded(2, "mlp_out"),
		},
		{
			// Its values betray it, so that a comparison at bfloat16's floors is
			// right too.
			ID: "X-low-all", Title: "a port that computes in bfloat16 and says float32", base: seeded(13), arith: &arithSecretBF16,
			Want: Want{Causes: []string{"numerics.low_precision", "benign.precision"}, Enters: []string{norm0}, Silent: true},
		},
		{
			ID: "X-race", Row: "137", Title: "dims 8 to 15 of every head of q hold stale values", base: seeded(13),
			Want: divergence("unknown", "weights.unloaded", "capture.stale", "parallel.shard_missing").enters("layer_00.q").never("rope.theta", "rope.layout", "order.dims"),
			port: func(p *Plan) {
				p.hook(func(at Place, x *Mat) {
					if at.Tap != "q" {
						return
					}
					stale := gaussian(3, "stale", len(x.Data), 0, 1)
					for i := range x.Data {
						if i%16 >= 8 {
							x.Data[i] = stale[i]
						}
					}
				})
			},
		},
	}
}

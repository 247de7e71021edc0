package corpus

import "math"

// group is the number of inputs that share a scale.
const group = 32

// quantised is a linear of 4-bit codes with a scale for each group of inputs:
// w = (code - 8) * scale.
type quantised struct {
	Linear
	codes  []int     // [Out, In], 0..15
	scales []float64 // [Out, In/group]
}

// quantise rounds a matrix to codes: scale = max|w| / 7 over the group.
func quantise(w Linear) quantised {
	q := quantised{Linear: w.clone(), codes: make([]int, len(w.W))}
	for at := 0; at < len(w.W); at += group {
		var top float64
		for _, v := range w.W[at : at+group] {
			top = max(top, math.Abs(float64(v)))
		}
		s := float64(float32(top / 7))
		q.scales = append(q.scales, s)
		for i, v := range w.W[at : at+group] {
			q.codes[at+i] = int(math.Round(float64(v)/s)) + 8
		}
	}
	return q
}

// values computes the weights with a zero point, a choice of each value's code
// and one of each group's scale.
func (q quantised) values(zero int, code func(i int) int, scale func(g int) int) Linear {
	w := q.Linear.clone()
	for i := range w.W {
		w.W[i] = float32(float64(q.codes[code(i)]-zero) * q.scales[scale(i/group)])
	}
	return w
}

func same(i int) int { return i }

func quantCases() []Case {
	// The model of both sides has 4-bit codes in gate.
	model := func(p *Plan) {
		p.eachLayer(func(w *LayerWeights) { w.Gate = quantise(w.Gate).values(8, same, same) })
	}
	// reread takes the checkpoint's codes and reads them by another rule.
	reread := func(f func(q quantised) Linear) func(*Plan) {
		return func(p *Plan) {
			own := weightsOf(p.Spec)
			for l := range own.Layers {
				p.layer(l).Gate = f(quantise(own.Layers[l].Gate))
			}
		}
	}
	gate := func(cause ...string) Want { return divergence(cause...).enters("layer_00.mlp_gate") }
	base := seeded(12)
	return []Case{
		{
			ID: "X-quant-zero", Row: "106", Title: "zero point off by one in every group", base: base, both: model, family: "q4",
			Want: gate("quant.zero_point"),
			port: reread(func(q quantised) Linear { return q.values(9, same, same) }),
		},
		{
			ID: "X-quant-zero-eight", Row: "107", Title: "zero point subtracted twice", base: base, both: model, family: "q4",
			Want: gate("quant.zero_point"),
			port: reread(func(q quantised) Linear { return q.values(16, same, same) }),
		},
		{
			ID: "X-quant-nibbles", Title: "the two codes of every byte exchanged", base: base, both: model, family: "q4",
			Want: gate("quant.nibble_order"),
			port: reread(func(q quantised) Linear { return q.values(8, func(i int) int { return i ^ 1 }, same) }),
		},
		{
			ID: "X-quant-scales", Row: "108", Title: "scales read in the other order of groups", base: base, both: model, family: "q4",
			Want: gate("quant.scale_layout"),
			port: reread(func(q quantised) Linear {
				groups := q.In / group
				return q.values(8, same, func(g int) int { return g/groups*groups + groups - 1 - g%groups })
			}),
		},
		{
			ID: "X-quant-blocks", Row: "108", Title: "scales of 32 x 32 blocks transposed in a square weight", base: seeded(12), both: blockScaled(false), family: "blocks",
			Want: divergence("quant.scale_layout").enters("layer_00.q"),
			port: func(p *Plan) {
				own := weightsOf(p.Spec)
				for l := range own.Layers {
					p.layer(l).Q = scaleBlocks(own.Layers[l].Q, true)
				}
			},
		},
		{
			ID: "X-quant-exponents", Row: "109", Title: "exponents of every eighth row of up taken from its neighbour: powers of two", base: seeded(12),
			Want: divergence("quant.scale_layout", "norm.gain", "scale.constant").enters("layer_00.mlp_up"),
			port: func(p *Plan) {
				p.eachLayer(func(w *LayerWeights) {
					w.Up = w.Up.clone()
					for o := 0; o < w.Up.Out; o += 8 {
						by := float32(2)
						if o%16 == 0 {
							by = 0.5
						}
						for i, v := range w.Up.row(o) {
							w.Up.row(o)[i] = v * by
						}
					}
				})
			},
		},
		{
			ID: "X-quant-global", Row: "110", Title: "up of every layer with gate's global scale: 3.2 times", base: seeded(12),
			Want: divergence("scale.constant", "quant.scale_layout").enters("layer_00.mlp_up").exact(),
			port: func(p *Plan) {
				p.eachLayer(func(w *LayerWeights) {
					w.Up = w.Up.clone()
					for i, v := range w.Up.W {
						w.Up.W[i] = float32(3.2 * float64(v))
					}
				})
			},
		},
	}
}

// blockScaled gives q of every layer a scale for each block.
func blockScaled(transposed bool) func(*Plan) {
	return func(p *Plan) {
		p.eachLayer(func(w *LayerWeights) { w.Q = scaleBlocks(w.Q, transposed) })
	}
}

// scaleBlocks multiplies each block of 32 x 32 by a scale between 0.4 and 2.5.
func scaleBlocks(w Linear, transposed bool) Linear {
	const n = 128 / group
	scales := gaussian(5, "blockscales", n*n, 0, 0.4)
	v := w.clone()
	for o := range w.Out {
		for i := range w.In {
			r, c := o/group, i/group
			if transposed {
				r, c = c, r
			}
			v.W[o*w.In+i] = float32(float64(w.W[o*w.In+i]) * math.Exp2(float64(scales[r*n+c])))
		}
	}
	return v
}

package corpus

import "math"

// Gain is what a norm multiplies the normalised value by.
type Gain int

// The gains that are met: the weight, nothing (weight not applied), and the
// weight plus one where the weight on disk already holds the one.
const (
	GainWeight Gain = iota
	GainNone
	GainPlusOne
	GainMinusOne
)

// Norm is the rule of one RMSNorm: y = x / sqrt(mean(x²) + Eps) * gain.
type Norm struct {
	Eps float64
	// Outside puts eps outside the root: x / (sqrt(mean(x²)) + Eps).
	Outside bool
	Gain    Gain
	// Skip hands the input on unchanged.
	Skip bool
	// Shards computes the mean square over each of that many blocks of dims
	// alone, as a tensor-parallel norm without a reduce does.
	Shards int
	// Low sums the squares in bfloat16 one after the other, Half in float16,
	// where the sum may overflow.
	Low, Half bool
	// Centre subtracts the mean first (LayerNorm without bias).
	Centre bool
}

// apply returns the norm of each row of x, over blocks of width columns (the
// head dim for q and k norms, else the whole row).
func (n Norm) apply(a Arith, x *Mat, weight []float32, width int) *Mat {
	if n.Skip {
		return x.clone()
	}
	if n.Shards > 1 {
		width = x.Cols / n.Shards
	}
	out := newMat(x.Rows, x.Cols)
	for t := range x.Rows {
		in, to := x.Row(t), out.Row(t)
		for b := 0; b < len(in); b += width {
			n.block(a, in[b:b+width], to[b:b+width], weight, b)
		}
	}
	return out
}

func (n Norm) block(a Arith, in, out, weight []float32, at int) {
	var mean float64
	if n.Centre {
		for _, v := range in {
			mean += float64(v)
		}
		mean /= float64(len(in))
	}
	ms := n.meanSquare(a, in) - mean*mean
	inv := 1 / math.Sqrt(ms+n.Eps)
	if n.Outside {
		inv = 1 / (math.Sqrt(ms) + n.Eps)
	}
	for i, v := range in {
		g := 1.0
		if n.Gain != GainNone {
			g = float64(weight[(at+i)%len(weight)])
		}
		switch n.Gain {
		case GainPlusOne:
			g++
		case GainMinusOne:
			g--
		}
		out[i] = a.round((float64(v) - mean) * inv * g)
	}
}

func (n Norm) meanSquare(a Arith, x []float32) float64 {
	round := roundBF16
	switch {
	case n.Half:
		round = roundF16
	case !n.Low:
		return a.dot(x, x) / float64(len(x))
	}
	var s float32
	for _, v := range x {
		s = round(float64(s) + float64(round(float64(v)*float64(v))))
	}
	return float64(s) / float64(len(x))
}

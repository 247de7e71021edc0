package corpus

import "math"

// roundF32 rounds to the nearest float32.
func roundF32(x float64) float32 { return float32(x) }

// roundBF16 rounds to the nearest bfloat16 (8 bits of significand), ties to
// even. Inf and NaN stay; values beyond bfloat16's range become Inf.
func roundBF16(x float64) float32 {
	f := float32(x)
	b := math.Float32bits(f)
	if b&0x7f80_0000 == 0x7f80_0000 {
		return f
	}
	b += 0x7fff + b>>16&1
	return math.Float32frombits(b &^ 0xffff)
}

// roundF16 rounds to the nearest float16 (11 bits of significand), ties to
// even. From 65520 on, halfway to the next step, the result is Inf.
func roundF16(x float64) float32 {
	a := math.Abs(x)
	switch {
	case math.IsNaN(x) || a == 0:
		return float32(x)
	case a >= 65520:
		return float32(math.Inf(1) * math.Copysign(1, x))
	}
	_, exp := math.Frexp(a) // a = f * 2^exp, f in [0.5, 1)
	step := math.Ldexp(1, max(exp-11, -24))
	return float32(math.RoundToEven(x/step) * step)
}

package diagnose

import "math"

// roundFloat rounds x to the nearest value of a 16- or 32-bit float, ties to
// even; "" and "float64" leave it. Values beyond the type's range become
// infinite, NaN stays NaN.
func roundFloat(dtype string, x float64) float64 {
	switch dtype {
	case "float32":
		return float64(float32(x))
	case "bfloat16":
		return roundBinary(x, 8, -126, 0x1.FEp127)
	case "float16":
		return roundBinary(x, 11, -14, 65504)
	}
	return x
}

// roundBinary rounds to a binary float of p significant bits whose smallest
// normal exponent is emin and whose largest value is most.
func roundBinary(x float64, p, emin int, most float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	_, e := math.Frexp(x) // |x| in [2^(e-1), 2^e)
	e = max(e, emin+1)    // below the smallest normal the spacing stays
	unit := math.Ldexp(1, e-p)
	r := math.RoundToEven(x/unit) * unit
	if math.Abs(r) > most {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return r
}

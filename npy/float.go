package npy

import "math"

// smallFloat describes a floating-point format of at most 16 bits whose value
// is (-1)^s * 2^(max(e,1)-bias) * (m/2^man, plus 1 where e > 0). Sources: IEEE
// 754 binary16; the OCP 8-bit floating point and microscaling (MX)
// specifications; Graphcore and AMD's "FNUZ" proposal, as ml_dtypes has them.
type smallFloat struct {
	exp, man int // bits of exponent and mantissa
	bias     int
	finite   uint16 // code of the largest finite magnitude
	over     uint16 // code of what rounds beyond it, sign to be added if signed
	inf      uint16 // code of infinity; NaN where the format has none
	nan      uint16
	fnuz     bool // the code of negative zero is the only NaN: zero and NaN have no sign
	unsigned bool
}

var smallFloats = [numDTypes]smallFloat{
	Float16:        {exp: 5, man: 10, bias: 15, finite: 0x7bff, over: 0x7c00, inf: 0x7c00, nan: 0x7e00},
	BFloat16:       {exp: 8, man: 7, bias: 127, finite: 0x7f7f, over: 0x7f80, inf: 0x7f80, nan: 0x7fc0},
	Float8E4M3FN:   {exp: 4, man: 3, bias: 7, finite: 0x7e, over: 0x7f, inf: 0x7f, nan: 0x7f},
	Float8E5M2:     {exp: 5, man: 2, bias: 15, finite: 0x7b, over: 0x7c, inf: 0x7c, nan: 0x7e},
	Float8E4M3FNUZ: {exp: 4, man: 3, bias: 8, finite: 0x7f, over: 0x80, inf: 0x80, nan: 0x80, fnuz: true},
	Float8E5M2FNUZ: {exp: 5, man: 2, bias: 16, finite: 0x7f, over: 0x80, inf: 0x80, nan: 0x80, fnuz: true},
	Float8E8M0:     {exp: 8, man: 0, bias: 127, finite: 0xfe, over: 0xff, inf: 0xff, nan: 0xff, unsigned: true},
}

// encode rounds v to the format's nearest value, ties to the even code, in one
// step from float64.
func (f *smallFloat) encode(v float64) uint16 {
	if f.unsigned {
		return f.encodePower(v)
	}
	b := math.Float64bits(v)
	sign := uint16(b>>63) << (f.exp + f.man)
	if f.fnuz && (v == 0 || v != v) {
		sign = 0
	}
	switch mag := b &^ (1 << 63); {
	case v != v:
		return sign | f.nan
	case math.IsInf(v, 0):
		return sign | f.inf
	case mag>>52 == 0: // zero, and float64's subnormals: far below every half step
		return sign
	default:
		code := f.round(mag)
		if code > uint64(f.finite) {
			return sign | f.over
		}
		if code == 0 && f.fnuz {
			return 0
		}
		return sign | uint16(code)
	}
}

// round turns the bits of a normal, positive float64 into the nearest code, as
// if the format had no largest value. Codes of one sign are consecutive, so the
// carry out of a mantissa is the next exponent.
func (f *smallFloat) round(mag uint64) uint64 {
	e := int(mag>>52) - 1023 + f.bias // the exponent's code
	m := mag&(1<<52-1) | 1<<52        // 1.mantissa
	drop := 52 - f.man
	if e < 1 { // subnormal: one position more for each power below
		drop += 1 - e
		e = 1
	}
	if drop > 63 {
		return 0
	}
	kept := m >> drop
	rest, half := m&(1<<drop-1), uint64(1)<<(drop-1)
	if rest > half || rest == half && kept&1 == 1 {
		kept++
	}
	return uint64(e-1)<<f.man + kept // kept holds the implicit 1 where e is normal
}

// encodePower rounds to a power of two, for float8_e8m0, whose codes hold
// nothing but an exponent: ties go up, and what is positive but too small becomes
// the smallest value, 2^-127. Zero, negative numbers and infinity have no code:
// NaN. ml_dtypes does the same, but between 1 and 1.5 times the smallest value
// it rounds up.
func (f *smallFloat) encodePower(v float64) uint16 {
	if !(v > 0) || math.IsInf(v, 1) {
		return f.nan
	}
	frac, exp := math.Frexp(v) // frac in [0.5, 1)
	if frac >= 0.75 {
		exp++
	}
	return uint16(min(max(exp-1+f.bias, 0), int(f.nan)))
}

// decode gives the exact value of a code.
func (f *smallFloat) decode(code uint16) float64 {
	bitsOf := f.exp + f.man
	mag := code
	sign := 1.0
	if !f.unsigned {
		mag &= 1<<bitsOf - 1
		if code>>bitsOf != 0 {
			sign = -1
		}
	}
	switch {
	case f.fnuz && code == f.nan:
		return math.NaN()
	case mag > f.finite && mag == f.inf && f.inf != f.nan:
		return sign * math.Inf(1)
	case mag > f.finite:
		return math.NaN()
	}
	e, m := int(mag>>f.man), float64(mag&(1<<f.man-1))
	switch {
	case f.unsigned:
		return math.Ldexp(1, e-f.bias)
	case e == 0:
		return sign * math.Ldexp(m, 1-f.bias-f.man)
	}
	return sign * math.Ldexp(m+float64(uint16(1)<<f.man), e-f.bias-f.man)
}

var tables8 = func() (t [numDTypes]*[256]float32) {
	for d := Float8E4M3FN; d <= Float8E8M0; d++ {
		t[d] = new([256]float32)
		for i := range t[d] {
			t[d][i] = float32(smallFloats[d].decode(uint16(i))) // exact: every value fits float32
		}
	}
	return t
}()

// Table8 gives the values of the 256 codes of an 8-bit float, exactly. It is
// shared: do not write to it. It panics if dt is not an 8-bit float.
func Table8(dt DType) *[256]float32 {
	t := tables8[dt]
	if t == nil {
		panic("npy: Table8 of " + dt.String())
	}
	return t
}

// Float16ToFloat32 gives the value of IEEE 754 binary16 bits, exactly;
// subnormals, zeros' signs, infinities and NaNs (with their payload) are kept.
func Float16ToFloat32(h uint16) float32 {
	b := uint32(h&0x7fff) << 13
	e := b & (0x7c00 << 13)
	b += (127 - 15) << 23
	switch e {
	case 0x7c00 << 13: // infinity, NaN
		b += (128 - 16) << 23
	case 0: // zero, subnormal: let the subtraction normalise it
		b = math.Float32bits(math.Float32frombits(b+(1<<23)) - math.Float32frombits(113<<23))
	}
	return math.Float32frombits(b | uint32(h&0x8000)<<16)
}

// BFloat16ToFloat32 gives the value of bfloat16 bits, exactly: they are the
// upper half of a float32's.
func BFloat16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// Float32ToFloat16 rounds to the nearest half, ties to even; beyond 65519.99
// it is infinity. NaN stays NaN, quiet, with its sign.
func Float32ToFloat16(v float32) uint16 { return smallFloats[Float16].encode(float64(v)) }

// Float32ToBFloat16 rounds to the nearest bfloat16, ties to even. NaN stays
// NaN, quiet, with its sign.
func Float32ToBFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16)&0x8000 | 0x7fc0
	}
	return uint16((b + 0x7fff + (b>>16)&1) >> 16)
}

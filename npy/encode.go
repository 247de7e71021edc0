package npy

import "math"

// EncodeFloat64 writes src to dst as little-endian elements of type dt, each
// rounded once, straight from float64, to the nearest value, ties to even.
//
//   - Beyond the largest value: infinity, or NaN in the 8-bit floats without one.
//   - float8_e8m0 holds positive powers of two only: ties go up, what is too
//     small becomes 2^-127, and zero, negative numbers and infinity become NaN.
//   - Integers: ties to even, then the nearest that the type holds; NaN is 0.
//   - Bool: anything but 0 is true.
//
// It panics if dst is shorter than len(src) elements, or if dt is void.
func EncodeFloat64(dst []byte, src []float64, dt DType) {
	dst = dst[:len(src)*dt.Size()]
	switch {
	case dt == Float64:
		for i, v := range src {
			le.PutUint64(dst[8*i:], math.Float64bits(v))
		}
	case dt == Float32:
		for i, v := range src {
			le.PutUint32(dst[4*i:], math.Float32bits(float32(v)))
		}
	case dt == Bool:
		for i, v := range src {
			dst[i] = 0
			if v != 0 {
				dst[i] = 1
			}
		}
	case dt.IsInt():
		for i, v := range src {
			putInt(dst[i*dt.Size():], dt.Size(), roundInt(v, dt))
		}
	case dt.IsFloat():
		f := &smallFloats[dt]
		for i, v := range src {
			putInt(dst[i*dt.Size():], dt.Size(), uint64(f.encode(v)))
		}
	default:
		panic("npy: EncodeFloat64 to " + dt.String())
	}
}

// roundInt gives the two's complement bits of v, rounded and clamped.
func roundInt(v float64, dt DType) uint64 {
	if v != v {
		return 0
	}
	v = math.RoundToEven(v)
	width := uint(8 * dt.Size())
	if dt >= Uint8 && dt <= Uint64 {
		switch {
		case v <= 0:
			return 0
		case v >= math.Ldexp(1, int(width)):
			return math.MaxUint64 >> (64 - width)
		}
		return uint64(v)
	}
	switch limit := math.Ldexp(1, int(width)-1); {
	case v >= limit:
		return 1<<(width-1) - 1
	case v <= -limit:
		return 1 << (width - 1)
	}
	return uint64(int64(v))
}

func putInt(dst []byte, size int, u uint64) {
	for i := range size {
		dst[i] = byte(u >> (8 * i))
	}
}

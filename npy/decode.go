package npy

import (
	"encoding/binary"
	"math"
)

var le = binary.LittleEndian

// decoders turns little-endian elements into float64s, one row a type. Void
// has none.
var decoders = [numDTypes]func(dst []float64, src []byte){
	Bool: func(dst []float64, src []byte) {
		for i, b := range src {
			dst[i] = 0
			if b != 0 {
				dst[i] = 1
			}
		}
	},
	Int8: func(dst []float64, src []byte) {
		for i, b := range src {
			dst[i] = float64(int8(b))
		}
	},
	Uint8: func(dst []float64, src []byte) {
		for i, b := range src {
			dst[i] = float64(b)
		}
	},
	Int16:  func(dst []float64, src []byte) { each2(dst, src, func(u uint16) float64 { return float64(int16(u)) }) },
	Uint16: func(dst []float64, src []byte) { each2(dst, src, func(u uint16) float64 { return float64(u) }) },
	Int32:  func(dst []float64, src []byte) { each4(dst, src, func(u uint32) float64 { return float64(int32(u)) }) },
	Uint32: func(dst []float64, src []byte) { each4(dst, src, func(u uint32) float64 { return float64(u) }) },
	Int64:  func(dst []float64, src []byte) { each8(dst, src, func(u uint64) float64 { return float64(int64(u)) }) },
	Uint64: func(dst []float64, src []byte) { each8(dst, src, func(u uint64) float64 { return float64(u) }) },
	Float16: func(dst []float64, src []byte) {
		for i := range dst {
			dst[i] = float64(Float16ToFloat32(le.Uint16(src[2*i:])))
		}
	},
	BFloat16: func(dst []float64, src []byte) {
		for i := range dst {
			dst[i] = float64(BFloat16ToFloat32(le.Uint16(src[2*i:])))
		}
	},
	Float32: func(dst []float64, src []byte) {
		for i := range dst {
			dst[i] = float64(math.Float32frombits(le.Uint32(src[4*i:])))
		}
	},
	Float64: func(dst []float64, src []byte) {
		for i := range dst {
			dst[i] = math.Float64frombits(le.Uint64(src[8*i:]))
		}
	},
	Float8E4M3FN:   by8(Float8E4M3FN),
	Float8E5M2:     by8(Float8E5M2),
	Float8E4M3FNUZ: by8(Float8E4M3FNUZ),
	Float8E5M2FNUZ: by8(Float8E5M2FNUZ),
	Float8E8M0:     by8(Float8E8M0),
}

func each2(dst []float64, src []byte, f func(uint16) float64) {
	for i := range dst {
		dst[i] = f(le.Uint16(src[2*i:]))
	}
}

func each4(dst []float64, src []byte, f func(uint32) float64) {
	for i := range dst {
		dst[i] = f(le.Uint32(src[4*i:]))
	}
}

func each8(dst []float64, src []byte, f func(uint64) float64) {
	for i := range dst {
		dst[i] = f(le.Uint64(src[8*i:]))
	}
}

func by8(dt DType) func(dst []float64, src []byte) {
	table := tables8[dt]
	return func(dst []float64, src []byte) {
		for i, b := range src {
			dst[i] = float64(table[b])
		}
	}
}

// DecodeFloat64 decodes len(dst) little-endian elements of type dt from src,
// as [Array.ReadElements] gives them. All values are exact but those of int64
// and uint64 beyond 2^53, which are rounded to the nearest float64. Bool is 0
// or 1. Void elements have no value and become NaN: say what they are first
// ([Array.As]). It panics if src is shorter than len(dst) elements.
func DecodeFloat64(dst []float64, src []byte, dt DType) {
	src = src[:len(dst)*dt.Size()]
	if decoders[dt] == nil {
		for i := range dst {
			dst[i] = math.NaN()
		}
		return
	}
	decoders[dt](dst, src)
}

// decodeInt64 decodes integers and bools; the index of the first one that
// int64 cannot hold (a uint64 beyond 2^63-1), or -1.
func decodeInt64(dst []int64, src []byte, dt DType) int {
	for i := range dst {
		switch dt {
		case Bool:
			dst[i] = 0
			if src[i] != 0 {
				dst[i] = 1
			}
		case Int8:
			dst[i] = int64(int8(src[i]))
		case Uint8:
			dst[i] = int64(src[i])
		case Int16:
			dst[i] = int64(int16(le.Uint16(src[2*i:])))
		case Uint16:
			dst[i] = int64(le.Uint16(src[2*i:]))
		case Int32:
			dst[i] = int64(int32(le.Uint32(src[4*i:])))
		case Uint32:
			dst[i] = int64(le.Uint32(src[4*i:]))
		case Int64:
			dst[i] = int64(le.Uint64(src[8*i:]))
		case Uint64:
			u := le.Uint64(src[8*i:])
			if u > math.MaxInt64 {
				return i
			}
			dst[i] = int64(u)
		}
	}
	return -1
}

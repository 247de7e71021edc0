package kernel

import "math"

// portable is the loops in Go, for every processor.
var portable = loops{
	name:   "portable",
	peak32: peak32Go, peak64: peak64Go,
	tile32: tile32Go, tile64: tile64Go,
	inc32: inc32Go, inc64: inc64Go,
	f16: f16Go, bf16: bf16Go,
	narrow: narrowGo,
	add:    addGo, max: maxGo,
}

// inc32Go adds a row of increments to its lanes. A difference of two float32 is
// rounded to float64, so no product is fused:
//
//	for i := range a {
//		x := float64(a[i]) - float64(a0[i])
//		y := float64(b[i]) - float64(b0[i])
//		d, j := y-x, i%Lanes
//		l.d2[j] += float64(d * d)
//		l.a2[j] += float64(x * x)
//		l.b2[j] += float64(y * y)
//		l.dot[j] += float64(x * y)
//	}
func inc32Go(l *incLanes, a0, a, b0, b []float32) {
	a0, b0, b = a0[:len(a)], b0[:len(a)], b[:len(a)]
	for i := range a {
		l.add(i%Lanes, float64(a[i])-float64(a0[i]), float64(b[i])-float64(b0[i]))
	}
}

// inc64Go is inc32Go for float64 values:
//
//	for i := range a {
//		x, y := a[i]-a0[i], b[i]-b0[i]
//		d, j := y-x, i%Lanes
//		l.d2[j] += float64(d * d)
//		l.a2[j] += float64(x * x)
//		l.b2[j] += float64(y * y)
//		l.dot[j] += float64(x * y)
//	}
func inc64Go(l *incLanes, a0, a, b0, b []float64) {
	a0, b0, b = a0[:len(a)], b0[:len(a)], b[:len(a)]
	for i := range a {
		l.add(i%Lanes, a[i]-a0[i], b[i]-b0[i])
	}
}

// f16Go widens binary16 to binary32, exactly:
//
//	for i := range dst {
//		dst[i] = binary16(src[2*i:])
//	}
func f16Go(dst []float32, src []byte) {
	table := f16Table()
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = table[uint16(src[2*i])|uint16(src[2*i+1])<<8]
	}
}

// bf16Go widens bfloat16 to binary32, exactly:
//
//	for i := range dst {
//		dst[i] = math.Float32frombits(uint32(bits(src[2*i:])) << 16)
//	}
func bf16Go(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(src[2*i])<<16 | uint32(src[2*i+1])<<24)
	}
}

// addGo adds one block of column sums to another:
//
//	for i := range dst {
//		dst[i] += src[i]
//	}
func addGo(dst, src []float64) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] += v
	}
}

// maxGo keeps the larger of two column maxima:
//
//	for i := range dst {
//		dst[i] = max(dst[i], src[i])
//	}
func maxGo(dst, src []float64) {
	src = src[:len(dst)]
	for i, v := range src {
		if v > dst[i] {
			dst[i] = v
		}
	}
}

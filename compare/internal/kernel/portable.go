package kernel

import "math"

// Lanes is the number of partial sums of a row segment.
const Lanes = 8

// lanes holds the partial sums of one row segment. The assembly writes it: the
// order of the fields is part of its interface.
type lanes struct {
	dot, a2, b2, d2, s1, max, maxA, maxB [Lanes]float64
}

func sum8(l *[Lanes]float64) float64 {
	return ((l[0] + l[4]) + (l[1] + l[5])) + ((l[2] + l[6]) + (l[3] + l[7]))
}

func max8(l *[Lanes]float64) float64 {
	return max(l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7])
}

// columns are the sums of a block of rows, by column.
type columns struct {
	a2, b2, d2, max []float64
}

// add adds one position to column j. Where a product is exact this is what a
// fused multiply-add gives, else nothing is fused.
func (c *columns) add(j int, x, y float64) {
	d := x - y
	c.a2[j] += float64(x * x)
	c.b2[j] += float64(y * y)
	c.d2[j] += float64(d * d)
	if d = math.Abs(d); d > c.max[j] {
		c.max[j] = d
	}
}

// incLanes holds the partial sums of one row segment of increments; the
// assembly writes it.
type incLanes struct {
	d2, a2, b2, dot [Lanes]float64
}

// loops is one implementation of the inner loops. All give the same bits.
type loops struct {
	name string

	// row32 and row64 set l to the lanes of the first len(a)&^7 elements.
	row32 func(l *lanes, a, b []float32)
	row64 func(l *lanes, a, b []float64)

	// col32 and col64 add rows of len(c.a2) columns to c.
	col32 func(c *columns, a, b []float32, rows int)
	col64 func(c *columns, a, b []float64, rows int)

	// inc32 and inc64 set l to the lanes of the first len(a)&^7 elements.
	inc32 func(l *incLanes, a0, a, b0, b []float32)
	inc64 func(l *incLanes, a0, a, b0, b []float64)

	// f16 and bf16 widen little-endian 16-bit elements.
	f16  func(dst []float32, src []byte)
	bf16 func(dst []float32, src []byte)

	// add and max fold src into dst.
	add func(dst, src []float64)
	max func(dst, src []float64)
}

var portable = loops{
	name:  "portable",
	row32: row32Go, row64: row64Go,
	col32: col32Go, col64: col64Go,
	inc32: inc32Go, inc64: inc64Go,
	f16: f16Go, bf16: bf16Go,
	add: addGo, max: maxGo,
}

// row32Go sums one row segment of values whose products are exact in float64:
//
//	for i := range len(a) &^ 7 {
//		x, y, j := float64(a[i]), float64(b[i]), i&7
//		d := x - y
//		l.dot[j] += x * y
//		l.a2[j] += x * x
//		l.b2[j] += y * y
//		l.d2[j] += float64(d * d)
//		l.s1[j] += math.Abs(d)
//		l.max[j] = max(l.max[j], math.Abs(d))
//		l.maxA[j] = max(l.maxA[j], math.Abs(x))
//		l.maxB[j] = max(l.maxB[j], math.Abs(y))
//	}
//
// Which lane holds a maximum is not part of the result.
func row32Go(l *lanes, a, b []float32) {
	*l = lanes{}
	for len(a) >= Lanes && len(b) >= Lanes {
		step32(l, (*[Lanes]float32)(a), (*[Lanes]float32)(b))
		a, b = a[Lanes:], b[Lanes:]
	}
}

// step32 adds one group of eight; the tail of a row comes here filled up with zeros.
func step32(l *lanes, a, b *[Lanes]float32) {
	for j := range Lanes {
		x, y := float64(a[j]), float64(b[j])
		d := x - y
		l.dot[j] += x * y
		l.a2[j] += x * x
		l.b2[j] += y * y
		l.d2[j] += float64(d * d)
		e := math.Abs(d)
		l.s1[j] += e
		if e > l.max[j] {
			l.max[j] = e
		}
		if x = math.Abs(x); x > l.maxA[j] {
			l.maxA[j] = x
		}
		if y = math.Abs(y); y > l.maxB[j] {
			l.maxB[j] = y
		}
	}
}

// row64Go is row32Go for float64 values: every product is rounded before it is added.
func row64Go(l *lanes, a, b []float64) {
	*l = lanes{}
	for len(a) >= Lanes && len(b) >= Lanes {
		step64(l, (*[Lanes]float64)(a), (*[Lanes]float64)(b))
		a, b = a[Lanes:], b[Lanes:]
	}
}

func step64(l *lanes, a, b *[Lanes]float64) {
	for j := range Lanes {
		x, y := a[j], b[j]
		d := x - y
		l.dot[j] += float64(x * y)
		l.a2[j] += float64(x * x)
		l.b2[j] += float64(y * y)
		l.d2[j] += float64(d * d)
		e := math.Abs(d)
		l.s1[j] += e
		if e > l.max[j] {
			l.max[j] = e
		}
		if x = math.Abs(x); x > l.maxA[j] {
			l.maxA[j] = x
		}
		if y = math.Abs(y); y > l.maxB[j] {
			l.maxB[j] = y
		}
	}
}

// col32Go adds rows to the column sums, the upper row first:
//
//	for r := range rows {
//		for j := range cols {
//			x, y := float64(a[r*cols+j]), float64(b[r*cols+j])
//			d := x - y
//			c.a2[j] += x * x
//			c.b2[j] += y * y
//			c.d2[j] += float64(d * d)
//			c.max[j] = max(c.max[j], math.Abs(d))
//		}
//	}
func col32Go(c *columns, a, b []float32, rows int) {
	n := len(c.a2)
	a2, b2, d2, mx := c.a2, c.b2[:n], c.d2[:n], c.max[:n]
	for range rows {
		x, y := a[:n], b[:n]
		a, b = a[n:], b[n:]
		for j := range a2 {
			x, y := float64(x[j]), float64(y[j])
			d := x - y
			a2[j] += x * x
			b2[j] += y * y
			d2[j] += float64(d * d)
			if d = math.Abs(d); d > mx[j] {
				mx[j] = d
			}
		}
	}
}

// col64Go is col32Go for float64 values: every product is rounded before it is added.
func col64Go(c *columns, a, b []float64, rows int) {
	n := len(c.a2)
	a2, b2, d2, mx := c.a2, c.b2[:n], c.d2[:n], c.max[:n]
	for range rows {
		x, y := a[:n], b[:n]
		a, b = a[n:], b[n:]
		for j := range a2 {
			x, y := x[j], y[j]
			d := x - y
			a2[j] += float64(x * x)
			b2[j] += float64(y * y)
			d2[j] += float64(d * d)
			if d = math.Abs(d); d > mx[j] {
				mx[j] = d
			}
		}
	}
}

// inc32Go sums the increments of one row segment; a difference of two float32 is
// rounded to float64, so no product is fused:
//
//	for i := range len(a) &^ 7 {
//		x := float64(a[i]) - float64(a0[i])
//		y := float64(b[i]) - float64(b0[i])
//		d, j := y-x, i&7
//		l.d2[j] += float64(d * d)
//		l.a2[j] += float64(x * x)
//		l.b2[j] += float64(y * y)
//		l.dot[j] += float64(x * y)
//	}
func inc32Go(l *incLanes, a0, a, b0, b []float32) {
	*l = incLanes{}
	n := len(a) &^ (Lanes - 1)
	for i := 0; i < n; i += Lanes {
		incStep32(l, (*[Lanes]float32)(a0[i:]), (*[Lanes]float32)(a[i:]), (*[Lanes]float32)(b0[i:]), (*[Lanes]float32)(b[i:]))
	}
}

func incStep32(l *incLanes, a0, a, b0, b *[Lanes]float32) {
	for j := range Lanes {
		l.add(j, float64(a[j])-float64(a0[j]), float64(b[j])-float64(b0[j]))
	}
}

// inc64Go is inc32Go for float64 values.
func inc64Go(l *incLanes, a0, a, b0, b []float64) {
	*l = incLanes{}
	n := len(a) &^ (Lanes - 1)
	for i := 0; i < n; i += Lanes {
		incStep64(l, (*[Lanes]float64)(a0[i:]), (*[Lanes]float64)(a[i:]), (*[Lanes]float64)(b0[i:]), (*[Lanes]float64)(b[i:]))
	}
}

func incStep64(l *incLanes, a0, a, b0, b *[Lanes]float64) {
	for j := range Lanes {
		l.add(j, a[j]-a0[j], b[j]-b0[j])
	}
}

func (l *incLanes) add(j int, x, y float64) {
	d := y - x
	l.d2[j] += float64(d * d)
	l.a2[j] += float64(x * x)
	l.b2[j] += float64(y * y)
	l.dot[j] += float64(x * y)
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

package kernel

import "math"

// Lanes is the number of partial sums of a row segment.
const Lanes = 8

// lanes holds the partial sums of one row segment. The assembly writes it: the
// order of the fields is part of its interface.
type lanes struct {
	dot, a2, b2, d2, s1, max [Lanes]float64

	// at is, for each lane of max, the stretch in which it was first reached.
	at         [Lanes]float64
	maxA, maxB [Lanes]float64
}

// stretch is how many elements of a row lie between two looks at whether the
// maximum has grown; only one stretch is then searched for its position.
const stretch = 256

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
//		if e := math.Abs(d); e > l.max[j] {
//			l.max[j], l.at[j] = e, float64(i/stretch)
//		}
//		l.maxA[j] = max(l.maxA[j], math.Abs(x))
//		l.maxB[j] = max(l.maxB[j], math.Abs(y))
//	}
//
// Which lane holds a maximum is not part of the result.
func row32Go(l *lanes, a, b []float32) {
	*l = lanes{}
	n := len(a) &^ (Lanes - 1)
	a, b = a[:n], b[:n]
	// Note: a stretch at a time and a few sums at a time, whose lanes stay in registers.
	for at := 0.0; len(a) > 0; at++ {
		m := min(len(a), stretch)
		x, y := a[:m], b[:m]
		products32(l, x, y)
		difference32(l, x, y, at)
		l.maxA[0] = max(l.maxA[0], largest32(x))
		l.maxB[0] = max(l.maxB[0], largest32(y))
		a, b = a[m:], b[m:]
	}
}

// products32 adds xy, x² and y² to their lanes, four lanes in each of two turns:
// twelve sums stay in registers. The products are exact.
func products32(l *lanes, x, y []float32) {
	y = y[:len(x)]
	for h := 0; h < Lanes; h += 4 {
		d, a, b := (*[4]float64)(l.dot[h:]), (*[4]float64)(l.a2[h:]), (*[4]float64)(l.b2[h:])
		d0, d1, d2, d3 := d[0], d[1], d[2], d[3]
		a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		for i := h; i+4 <= len(x); i += Lanes {
			p, q := (*[4]float32)(x[i:]), (*[4]float32)(y[i:])
			u, v := float64(p[0]), float64(q[0])
			d0 += u * v
			a0 += u * u
			b0 += v * v
			u, v = float64(p[1]), float64(q[1])
			d1 += u * v
			a1 += u * u
			b1 += v * v
			u, v = float64(p[2]), float64(q[2])
			d2 += u * v
			a2 += u * u
			b2 += v * v
			u, v = float64(p[3]), float64(q[3])
			d3 += u * v
			a3 += u * u
			b3 += v * v
		}
		*d = [4]float64{d0, d1, d2, d3}
		*a = [4]float64{a0, a1, a2, a3}
		*b = [4]float64{b0, b1, b2, b3}
	}
}

// difference32 adds (x-y)² and |x-y| to their lanes, as products32 does, and keeps the maximum as an integer: the bits of values that are not
// negative are ordered as the values are.
func difference32(l *lanes, x, y []float32, at float64) {
	top := math.Float64bits(l.max[0])
	for h := 0; h < Lanes; h += 4 {
		d, s := (*[4]float64)(l.d2[h:]), (*[4]float64)(l.s1[h:])
		d0, d1, d2, d3 := d[0], d[1], d[2], d[3]
		s0, s1, s2, s3 := s[0], s[1], s[2], s[3]
		for i := h; i+4 <= len(x); i += Lanes {
			p, q := (*[4]float32)(x[i:]), (*[4]float32)(y[i:])
			e0 := math.Abs(float64(p[0]) - float64(q[0]))
			e1 := math.Abs(float64(p[1]) - float64(q[1]))
			e2 := math.Abs(float64(p[2]) - float64(q[2]))
			e3 := math.Abs(float64(p[3]) - float64(q[3]))
			s0 += e0
			s1 += e1
			s2 += e2
			s3 += e3
			d0 += float64(e0 * e0)
			d1 += float64(e1 * e1)
			d2 += float64(e2 * e2)
			d3 += float64(e3 * e3)
			top = max(top, math.Float64bits(e0), math.Float64bits(e1), math.Float64bits(e2), math.Float64bits(e3))
		}
		*d, *s = [4]float64{d0, d1, d2, d3}, [4]float64{s0, s1, s2, s3}
	}
	if e := math.Float64frombits(top); e > l.max[0] {
		l.max[0], l.at[0] = e, at
	}
}

// largest32 returns max |x|.
func largest32(x []float32) float64 {
	var m0, m1 uint32
	for len(x) >= 4 {
		p := (*[4]float32)(x)
		m0 = max(m0, math.Float32bits(p[0])<<1, math.Float32bits(p[1])<<1)
		m1 = max(m1, math.Float32bits(p[2])<<1, math.Float32bits(p[3])<<1)
		x = x[4:]
	}
	return float64(math.Float32frombits(max(m0, m1) >> 1))
}

// step32 adds one group of eight, of the given stretch; the tail of a row comes here
// filled up with zeros.
func step32(l *lanes, a, b *[Lanes]float32, at float64) {
	for j := range Lanes {
		x, y := float64(a[j]), float64(b[j])
		d := x - y
		e := math.Abs(d)
		l.dot[j] += x * y
		l.a2[j] += x * x
		l.b2[j] += y * y
		l.d2[j] += float64(d * d)
		l.s1[j] += e
		if e > l.max[j] {
			l.max[j], l.at[j] = e, at
		}
		l.maxA[j] = max(l.maxA[j], math.Abs(x))
		l.maxB[j] = max(l.maxB[j], math.Abs(y))
	}
}

// row64Go is row32Go for float64 values: every product is rounded before it is added.
func row64Go(l *lanes, a, b []float64) {
	*l = lanes{}
	n := len(a) &^ (Lanes - 1)
	a, b = a[:n], b[:n]
	for at := 0.0; len(a) > 0; at++ {
		m := min(len(a), stretch)
		x, y := a[:m], b[:m]
		products64(l, x, y)
		difference64(l, x, y, at)
		l.maxA[0] = max(l.maxA[0], largest64(x))
		l.maxB[0] = max(l.maxB[0], largest64(y))
		a, b = a[m:], b[m:]
	}
}

// products64 is products32 for float64: each product is rounded before it is added.
func products64(l *lanes, x, y []float64) {
	y = y[:len(x)]
	for h := 0; h < Lanes; h += 4 {
		d, a, b := (*[4]float64)(l.dot[h:]), (*[4]float64)(l.a2[h:]), (*[4]float64)(l.b2[h:])
		d0, d1, d2, d3 := d[0], d[1], d[2], d[3]
		a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		for i := h; i+4 <= len(x); i += Lanes {
			p, q := (*[4]float64)(x[i:]), (*[4]float64)(y[i:])
			u, v := p[0], q[0]
			d0 += float64(u * v)
			a0 += float64(u * u)
			b0 += float64(v * v)
			u, v = p[1], q[1]
			d1 += float64(u * v)
			a1 += float64(u * u)
			b1 += float64(v * v)
			u, v = p[2], q[2]
			d2 += float64(u * v)
			a2 += float64(u * u)
			b2 += float64(v * v)
			u, v = p[3], q[3]
			d3 += float64(u * v)
			a3 += float64(u * u)
			b3 += float64(v * v)
		}
		*d = [4]float64{d0, d1, d2, d3}
		*a = [4]float64{a0, a1, a2, a3}
		*b = [4]float64{b0, b1, b2, b3}
	}
}

// difference64 is difference64 for float64.
func difference64(l *lanes, x, y []float64, at float64) {
	top := math.Float64bits(l.max[0])
	for h := 0; h < Lanes; h += 4 {
		d, s := (*[4]float64)(l.d2[h:]), (*[4]float64)(l.s1[h:])
		d0, d1, d2, d3 := d[0], d[1], d[2], d[3]
		s0, s1, s2, s3 := s[0], s[1], s[2], s[3]
		for i := h; i+4 <= len(x); i += Lanes {
			p, q := (*[4]float64)(x[i:]), (*[4]float64)(y[i:])
			e0 := math.Abs(p[0] - q[0])
			e1 := math.Abs(p[1] - q[1])
			e2 := math.Abs(p[2] - q[2])
			e3 := math.Abs(p[3] - q[3])
			s0 += e0
			s1 += e1
			s2 += e2
			s3 += e3
			d0 += float64(e0 * e0)
			d1 += float64(e1 * e1)
			d2 += float64(e2 * e2)
			d3 += float64(e3 * e3)
			top = max(top, math.Float64bits(e0), math.Float64bits(e1), math.Float64bits(e2), math.Float64bits(e3))
		}
		*d, *s = [4]float64{d0, d1, d2, d3}, [4]float64{s0, s1, s2, s3}
	}
	if e := math.Float64frombits(top); e > l.max[0] {
		l.max[0], l.at[0] = e, at
	}
}

// largest64 returns max |x|.
func largest64(x []float64) float64 {
	var m0, m1 uint64
	for len(x) >= 4 {
		p := (*[4]float64)(x)
		m0 = max(m0, math.Float64bits(p[0])<<1, math.Float64bits(p[1])<<1)
		m1 = max(m1, math.Float64bits(p[2])<<1, math.Float64bits(p[3])<<1)
		x = x[4:]
	}
	return math.Float64frombits(max(m0, m1) >> 1)
}

func step64(l *lanes, a, b *[Lanes]float64, at float64) {
	for j := range Lanes {
		x, y := a[j], b[j]
		d := x - y
		e := math.Abs(d)
		l.dot[j] += float64(x * y)
		l.a2[j] += float64(x * x)
		l.b2[j] += float64(y * y)
		l.d2[j] += float64(d * d)
		l.s1[j] += e
		if e > l.max[j] {
			l.max[j], l.at[j] = e, at
		}
		l.maxA[j] = max(l.maxA[j], math.Abs(x))
		l.maxB[j] = max(l.maxB[j], math.Abs(y))
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

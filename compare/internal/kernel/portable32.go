package kernel

import "math"

// tile32Go adds columns of a tile of rows to the lanes of each row and to the sums of
// the columns. The values are finite and their products exact in float64, so those may be fused:
//
//	n := len(c.a2)
//	for r := range l {
//		l := &l[r]
//		for i := from; i < to; i++ {
//			x, y, j := float64(a[r*n+i]), float64(b[r*n+i]), i%Lanes
//			d := x - y
//			e := math.Abs(d)
//			l.dot[j] += x * y
//			l.a2[j] += x * x
//			l.b2[j] += y * y
//			l.d2[j] += float64(d * d)
//			l.s1[j] += e
//			if e > l.max[j] {
//				l.max[j], l.at[j] = e, float64(i/stretch)
//			}
//			c.a2[i] += x * x
//			c.b2[i] += y * y
//			c.d2[i] += float64(d * d)
//			c.max[i] = max(c.max[i], e)
//		}
//	}
//
// Which of several lanes holds the maximum is not part of the result.
func tile32Go(l []lanes, c *columns, a, b []float32, from, to int) {
	n := len(c.a2)
	end := to - to%Lanes
	for r := range l {
		x, y := a[r*n:(r+1)*n], b[r*n:(r+1)*n]
		// Note: a stretch at a time and a few sums at a time, whose lanes then stay
		// in registers.
		for i := from; i < end; i += stretch {
			k := min(i+stretch, end)
			products32(&l[r], x[i:k], y[i:k])
			differences32(&l[r], x[i:k], y[i:k], i/stretch)
			columns32(c, x, y, i, k)
		}
	}
	tail32(l, c, a, b, to)
}

// tail32 adds what is left of each row after the last whole group of eight columns.
func tail32(l []lanes, c *columns, a, b []float32, to int) {
	n := len(c.a2)
	for r := range l {
		for i := to - to%Lanes; i < to; i++ {
			x, y := float64(a[r*n+i]), float64(b[r*n+i])
			l[r].add(i%Lanes, x, y, i/stretch)
			c.add(i, x, y)
		}
	}
}

// products32 adds xy, x² and y² to their lanes, four lanes in each of two turns: the
// twelve sums stay in registers.
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

// differences32 adds (x-y)² and |x-y| to their lanes, as products32 does, and keeps
// the maximum as an integer: the bits of values that are not negative are ordered as
// the values are.
func differences32(l *lanes, x, y []float32, at int) {
	y = y[:len(x)]
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
		*d = [4]float64{d0, d1, d2, d3}
		*s = [4]float64{s0, s1, s2, s3}
	}
	if e := math.Float64frombits(top); e > l.max[0] {
		l.max[0], l.at[0] = e, float64(at)
	}
}

// columns32 adds columns from to to-1 of one row.
func columns32(c *columns, x, y []float32, from, to int) {
	x, y = x[from:to], y[from:to]
	a2, b2, d2, top := c.a2[from:to], c.b2[from:to], c.d2[from:to], c.max[from:to]
	y, a2, b2, d2, top = y[:len(x)], a2[:len(x)], b2[:len(x)], d2[:len(x)], top[:len(x)]
	for i := range x {
		x, y := float64(x[i]), float64(y[i])
		d := x - y
		a2[i] += x * x
		b2[i] += y * y
		d2[i] += float64(d * d)
		top[i] = math.Float64frombits(max(math.Float64bits(top[i]), math.Float64bits(math.Abs(d))))
	}
}

// peak32Go finds the largest absolute value of each row; a NaN counts as larger
// than an infinity, and that as larger than any number, as their bits are:
//
//	for r := range p {
//		var bits uint32
//		for i := from; i < to; i++ {
//			bits = max(bits, math.Float32bits(x[r*cols+i])<<1)
//		}
//		p[r] = math.Float32frombits(bits >> 1)
//	}
func peak32Go(p, x []float32, cols, from, to int) {
	for r := range p {
		p[r] = largest32(x[r*cols+from : r*cols+to])
	}
}

// largest32 returns max |x|, of one row.
func largest32(x []float32) float32 {
	var m0, m1 uint32
	for len(x) >= 4 {
		p := (*[4]float32)(x)
		m0 = max(m0, math.Float32bits(p[0])<<1, math.Float32bits(p[1])<<1)
		m1 = max(m1, math.Float32bits(p[2])<<1, math.Float32bits(p[3])<<1)
		x = x[4:]
	}
	for _, v := range x {
		m0 = max(m0, math.Float32bits(v)<<1)
	}
	return math.Float32frombits(max(m0, m1) >> 1)
}

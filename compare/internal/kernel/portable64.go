package kernel

import "math"

// tile64Go is tile32Go for float64 values, where no product is exact and none is
// fused:
//
//	n := len(c.a2)
//	for r := range l {
//		l := &l[r]
//		for i := from; i < to; i++ {
//			x, y, j := a[r*n+i], b[r*n+i], i%Lanes
//			d := x - y
//			e := math.Abs(d)
//			l.dot[j] += float64(x * y)
//			l.a2[j] += float64(x * x)
//			l.b2[j] += float64(y * y)
//			l.d2[j] += float64(d * d)
//			l.s1[j] += e
//			if e > l.max[j] {
//				l.max[j], l.at[j] = e, float64(i/stretch)
//			}
//			c.a2[i] += float64(x * x)
//			c.b2[i] += float64(y * y)
//			c.d2[i] += float64(d * d)
//			c.max[i] = max(c.max[i], e)
//		}
//	}
func tile64Go(l []lanes, c *columns, a, b []float64, from, to int) {
	n := len(c.a2)
	end := to - to%Lanes
	for r := range l {
		x, y := a[r*n:(r+1)*n], b[r*n:(r+1)*n]
		// Note: a stretch at a time and a few sums at a time, whose lanes then stay
		// in registers.
		for i := from; i < end; i += stretch {
			k := min(i+stretch, end)
			products64(&l[r], x[i:k], y[i:k])
			differences64(&l[r], x[i:k], y[i:k], i/stretch)
			columns64(c, x, y, i, k)
		}
	}
	tail64(l, c, a, b, to)
}

// tail64 adds what is left of each row after the last whole group of eight columns.
func tail64(l []lanes, c *columns, a, b []float64, to int) {
	n := len(c.a2)
	for r := range l {
		for i := to - to%Lanes; i < to; i++ {
			x, y := a[r*n+i], b[r*n+i]
			l[r].add(i%Lanes, x, y, i/stretch)
			c.add(i, x, y)
		}
	}
}

// products64 is products32 for float64.
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

// differences64 is differences32 for float64.
func differences64(l *lanes, x, y []float64, at int) {
	y = y[:len(x)]
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
		*d = [4]float64{d0, d1, d2, d3}
		*s = [4]float64{s0, s1, s2, s3}
	}
	if e := math.Float64frombits(top); e > l.max[0] {
		l.max[0], l.at[0] = e, float64(at)
	}
}

// columns64 is columns32 for float64.
func columns64(c *columns, x, y []float64, from, to int) {
	x, y = x[from:to], y[from:to]
	a2, b2, d2, top := c.a2[from:to], c.b2[from:to], c.d2[from:to], c.max[from:to]
	y, a2, b2, d2, top = y[:len(x)], a2[:len(x)], b2[:len(x)], d2[:len(x)], top[:len(x)]
	for i := range x {
		x, y := x[i], y[i]
		d := x - y
		a2[i] += float64(x * x)
		b2[i] += float64(y * y)
		d2[i] += float64(d * d)
		top[i] = math.Float64frombits(max(math.Float64bits(top[i]), math.Float64bits(math.Abs(d))))
	}
}

// peak64Go is peak32Go for float64 values.
func peak64Go(p, x []float64, cols, from, to int) {
	for r := range p {
		p[r] = largest64(x[r*cols+from : r*cols+to])
	}
}

// largest64 returns max |x|, of one row.
func largest64(x []float64) float64 {
	var m0, m1 uint64
	for len(x) >= 4 {
		p := (*[4]float64)(x)
		m0 = max(m0, math.Float64bits(p[0])<<1, math.Float64bits(p[1])<<1)
		m1 = max(m1, math.Float64bits(p[2])<<1, math.Float64bits(p[3])<<1)
		x = x[4:]
	}
	for _, v := range x {
		m0 = max(m0, math.Float64bits(v)<<1)
	}
	return math.Float64frombits(max(m0, m1) >> 1)
}

package main

import "fmt"

// peak compares bits, not floats: a NaN is then larger than all else. n is a multiple
// of four vectors and may be 0.
func peak(f *file, e element) {
	fn := f.begin("peak"+e.bits+"NEON", fmt.Sprintf("p, x *%s, cols, rows, n int", e.goType))
	p, x, stride, rows, n := fn.param("p"), fn.param("x"), fn.param("cols"), fn.param("rows"), fn.param("n")
	px, i, bits := fn.gp(), fn.gp(), fn.gp()
	m, v, more, mask := fn.vectors(4), fn.vectors(4), fn.vec(), fn.vec()
	shape, size := "S4", 4
	if e.shift == 3 {
		shape, size = "D2", 8
	}
	fn.op("LSL $%d, %s", e.shift, stride)
	fn.op("MOVD $%#x, %s", uint64(1)<<(8*size-1)-1, bits) // all but the sign
	fn.op("VDUP %s, %v.%s", bits, mask, shape)

	// larger sets m to the larger of m and v as integers; there is no maximum of
	// 64-bit ones.
	larger := func(v, m vec) {
		if e.shift == 2 {
			fn.op("VUMAX %v.S4, %v.S4, %v.S4", v, m, m)
			return
		}
		fn.word(cmgt, more, v, m)
		fn.op("VBIT %v.B16, %v.B16, %v.B16", more, v, m)
	}

	fn.label("row")
	fn.op("MOVD %s, %s", x, px)
	fn.op("MOVD %s, %s", n, i)
	fn.zero(m...)
	fn.op("CBZ %s, across", i)

	fn.label("loop")
	fn.loadNext(px, v[:2])
	fn.loadNext(px, v[2:])
	for k := range m {
		fn.op("VAND %v.B16, %v.B16, %v.B16", mask, v[k], v[k])
		larger(v[k], m[k])
	}
	fn.next(4*16/size, i, "loop")

	fn.label("across")
	larger(m[1], m[0])
	larger(m[3], m[2])
	larger(m[2], m[0])
	if e.shift == 2 {
		fn.word(umaxv, m[0], m[0])
		fn.op("FMOVS.P %s, %d(%s)", m[0].f(), size, p)
	} else {
		fn.op("VDUP %v.D[1], %v.D2", m[0], v[0])
		larger(v[0], m[0])
		fn.op("FMOVD.P %s, %d(%s)", m[0].f(), size, p)
	}
	fn.op("ADD %s, %s", stride, x)
	fn.next(1, rows, "row")
}

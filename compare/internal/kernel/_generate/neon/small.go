package main

import "fmt"

// increments never fuses: an increment is rounded, so its products are not exact.
func increments(f *file, e element) {
	fn := f.begin("inc"+e.bits+"NEON", fmt.Sprintf("l *float64, a0, a, b0, b *%s, n int", e.goType))
	l, a0, a, b0, b, n := fn.param("l"), fn.param("a0"), fn.param("a"), fn.param("b0"), fn.param("b"), fn.param("n")
	var sums [4][2][]vec // d2, a2, b2, dot, four lanes each time
	for k := range sums {
		sums[k] = [2][]vec{fn.vectors(2), fn.vectors(2)}
		for h, v := range sums[k] {
			fn.load(l, 64*k+32*h, v)
		}
	}
	x, y, t := fn.vectors(2), fn.vectors(2), fn.vectors(2)
	fn.unless0(n)

	fn.label("loop")
	for h := range 2 {
		e.loadNext(fn, a, x)
		e.loadNext(fn, a0, t)
		fn.pairwise(fsub, x, x, t)
		e.loadNext(fn, b, y)
		e.loadNext(fn, b0, t)
		fn.pairwise(fsub, y, y, t)
		f64.madd(fn, sums[3][h], x, y, t)
		f64.madd(fn, sums[1][h], x, x, t)
		f64.madd(fn, sums[2][h], y, y, t)
		fn.pairwise(fsub, x, y, x)
		f64.madd(fn, sums[0][h], x, x, t)
	}
	fn.next(8, n, "loop")

	fn.label("done")
	for k := range sums {
		for h, v := range sums[k] {
			fn.store(v, l, 64*k+32*h)
		}
	}
}

// half widens eight 16-bit elements at a time, from src to v.
func half(f *file, name string, widen func(fn *function, src vec, v []vec)) {
	fn := f.begin(name, "dst *float32, src *byte, n int")
	dst, src, n := fn.param("dst"), fn.param("src"), fn.param("n")
	s, v := fn.vec(), fn.vectors(2)
	fn.unless0(n)

	fn.label("loop")
	fn.op("FMOVQ.P 16(%s), %s", src, s.f())
	widen(fn, s, v)
	fn.storeNext(v, dst)
	fn.next(8, n, "loop")
	fn.label("done")
}

func f16(f *file) {
	half(f, "f16NEON", func(fn *function, src vec, v []vec) {
		fn.word(widen16, v[0], src)
		fn.word(widen16u, v[1], src)
	})
}

func bf16(f *file) {
	half(f, "bf16NEON", func(fn *function, src vec, v []vec) {
		// Zeros between the elements, each below one.
		zero := fn.vec()
		fn.zero(zero)
		fn.op("VZIP1 %v.H8, %v.H8, %v.H8", src, zero, v[0])
		fn.op("VZIP2 %v.H8, %v.H8, %v.H8", src, zero, v[1])
	})
}

// narrow writes two words: the bits of all values together, and one that is not zero
// if a value does not survive the way to binary16 and back. A NaN does.
func narrow(f *file) {
	fn := f.begin("narrowNEON", "m *uint32, x *float32, n int")
	m, x, n := fn.param("m"), fn.param("x"), fn.param("n")
	bits, lost := fn.vec(), fn.vec()
	v, back, number := fn.vectors(2), fn.vec(), fn.vec()
	fn.zero(bits, lost)
	fn.unless0(n)

	fn.label("loop")
	fn.loadNext(x, v)
	for _, v := range v {
		fn.op("VORR %v.B16, %v.B16, %v.B16", v, bits, bits)
		fn.word(narrow32, back, v)
		fn.word(widen16, back, back)
		fn.word(fcmeq, back, back, v)
		fn.word(fcmeq, number, v, v) // no NaN; what is equal is none
		fn.op("VEOR %v.B16, %v.B16, %v.B16", back, number, back)
		fn.op("VORR %v.B16, %v.B16, %v.B16", back, lost, lost)
	}
	fn.next(8, n, "loop")

	fn.label("done")
	for i, s := range []vec{bits, lost} {
		lower, upper := fn.gp(), fn.gp()
		fn.op("VMOV %v.D[0], %s", s, lower)
		fn.op("VMOV %v.D[1], %s", s, upper)
		fn.op("ORR %s, %s", upper, lower)
		fn.op("ORR %s>>32, %s", lower, lower)
		fn.op("MOVW %s, %d(%s)", lower, 4*i, m)
	}
}

// fold is dst[i] = op(dst[i], src[i]), four at a time.
func fold(f *file, name string, op instruction) {
	fn := f.begin(name, "dst, src *float64, n int")
	dst, src, n := fn.param("dst"), fn.param("src"), fn.param("n")
	v, w := fn.vectors(2), fn.vectors(2)
	fn.unless0(n)

	fn.label("loop")
	fn.load(dst, 0, v)
	fn.loadNext(src, w)
	fn.pairwise(op, v, v, w)
	fn.storeNext(v, dst)
	fn.next(4, n, "loop")
	fn.label("done")
}

func add(f *file) { fold(f, "addNEON", fadd) }

func largest(f *file) { fold(f, "maxNEON", fmax) }

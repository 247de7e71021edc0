package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// inc never fuses: an increment is rounded, so its products are not exact. A sum is
// eight lanes, so two vectors of AVX2 or one of AVX-512.
func inc(e element, isa string, vec func() reg.VecVirtual) {
	begin("inc"+e.bits+isa, "func(l *float64, a0, a, b0, b *"+e.goType+", n int)")
	a0, a, b0, b, n, l := gp("a0"), gp("a"), gp("b0"), gp("b"), gp("n"), gp("l")
	width := int(vec().Size()) / 8 // in lanes
	var sums [4][]reg.VecVirtual   // d2, a2, b2, dot
	for k := range sums {
		sums[k] = vectors(8/width, vec)
		for h, v := range sums[k] {
			VMOVUPD(off(l, 64*k+8*width*h), v)
		}
	}
	x, y, t := vec(), vec(), vec()
	unless0(n)
	countUp(n, e.shift, a0, a, b0, b)
	Label("loop")
	for h := range 8 / width {
		add := func(k int, v reg.VecVirtual) { VADDPD(v, sums[k][h], sums[k][h]) }
		d := width * e.size * h
		e.load(at(a, n, d), x)
		e.load(at(a0, n, d), t)
		VSUBPD(t, x, x)
		e.load(at(b, n, d), y)
		e.load(at(b0, n, d), t)
		VSUBPD(t, y, y)
		VMULPD(x, y, t)
		add(3, t)
		VSUBPD(x, y, t)
		VMULPD(t, t, t)
		add(0, t)
		VMULPD(x, x, x)
		add(1, x)
		VMULPD(y, y, y)
		add(2, y)
	}
	next(8*e.size, n)
	Label("done")
	for k := range sums {
		for h, v := range sums[k] {
			VMOVUPD(v, off(l, 64*k+8*width*h))
		}
	}
	end()
}

// half widens eight 16-bit elements at a time.
func half(name string, widen func(operand.Mem, reg.VecVirtual)) {
	begin(name, "func(dst *float32, src *byte, n int)")
	dst, src, n := gp("dst"), gp("src"), gp("n")
	v := YMM()
	unless0(n)
	SHLQ(operand.U8(1), n)
	ADDQ(n, src)
	LEAQ(operand.Mem{Base: dst, Index: n, Scale: 2}, dst)
	NEGQ(n)
	Label("loop")
	widen(at(src, n, 0), v)
	VMOVUPS(v, operand.Mem{Base: dst, Index: n, Scale: 2})
	next(16, n)
	Label("done")
	end()
}

// narrow writes two words: the bits of all values together, and one that is not zero
// if a value does not survive the way to binary16 and back. NaN counts as equal.
func narrow() {
	begin("narrowAVX2", "func(m *uint32, x *float32, n int)")
	x, n, m := gp("x"), gp("n"), gp("m")
	z := zeros(2)
	bits, lost := z[0], z[1]
	v, w := YMM(), YMM()
	unless0(n)
	countUp(n, 2, x)
	Label("loop")
	VMOVUPS(at(x, n, 0), v)
	VORPS(v, bits, bits)
	VCVTPS2PH(operand.U8(0), v, w.AsX())
	VCVTPH2PS(w.AsX(), w)
	const notEqualOrdered = 12 // NEQ_OQ
	VCMPPS(operand.U8(notEqualOrdered), w, v, w)
	VORPS(w, lost, lost)
	next(32, n)
	Label("done")
	for i, s := range z {
		VEXTRACTF128(operand.U8(1), s, w.AsX())
		VORPS(w.AsX(), s.AsX(), s.AsX())
		VPSHUFD(operand.U8(0x4e), s.AsX(), w.AsX())
		VORPS(w.AsX(), s.AsX(), s.AsX())
		VPSHUFD(operand.U8(0xb1), s.AsX(), w.AsX())
		VORPS(w.AsX(), s.AsX(), s.AsX())
		VMOVSS(s.AsX(), off(m, 4*i))
	}
	end()
}

// fold is dst[i] = op(dst[i], src[i]), four at a time.
func fold(name string, op func(...operand.Op)) {
	begin(name, "func(dst, src *float64, n int)")
	dst, src, n := gp("dst"), gp("src"), gp("n")
	v := YMM()
	unless0(n)
	countUp(n, 3, dst, src)
	Label("loop")
	VMOVUPD(at(dst, n, 0), v)
	op(at(src, n, 0), v, v)
	VMOVUPD(v, at(dst, n, 0))
	next(32, n)
	Label("done")
	end()
}

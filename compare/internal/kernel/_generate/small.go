package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// inc never fuses: an increment is rounded, so its products are not exact.
func inc(e element) {
	begin("inc"+e.bits+"AVX2", "func(l *float64, a0, a, b0, b *"+e.goType+", n int)")
	a0, a, b0, b, n, l := gp("a0"), gp("a"), gp("b0"), gp("b"), gp("n"), gp("l")
	var sums [4][2]reg.VecVirtual
	for k := range sums {
		for h := range sums[k] {
			sums[k][h] = YMM()
			VMOVUPD(off(l, 64*k+32*h), sums[k][h])
		}
	}
	d2, a2, b2, dot := sums[0], sums[1], sums[2], sums[3]
	x, y, t := YMM(), YMM(), YMM()
	unless0(n)
	countUp(n, e.shift, a0, a, b0, b)
	Label("loop")
	for h := range 2 {
		d := 4 * e.size * h
		e.load(at(a, n, d), x)
		e.load(at(a0, n, d), t)
		VSUBPD(t, x, x)
		e.load(at(b, n, d), y)
		e.load(at(b0, n, d), t)
		VSUBPD(t, y, y)
		VMULPD(x, y, t)
		VADDPD(t, dot[h], dot[h])
		VSUBPD(x, y, t)
		VMULPD(t, t, t)
		VADDPD(t, d2[h], d2[h])
		VMULPD(x, x, x)
		VADDPD(x, a2[h], a2[h])
		VMULPD(y, y, y)
		VADDPD(y, b2[h], b2[h])
	}
	next(8*e.size, n)
	Label("done")
	for k := range sums {
		for h := range sums[k] {
			VMOVUPD(sums[k][h], off(l, 64*k+32*h))
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

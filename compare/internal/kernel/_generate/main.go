// Command _generate writes the AVX2 loops of package kernel. From this folder:
//
//	go run . -out ../loops_amd64.s -stubs ../loops_amd64.go -pkg kernel
//
// Each function is the assembly of a loop in ../portable.go and carries the same
// reference loop as its comment; check.sh compares the committed files with fresh
// ones.
package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!purego")
	abs64 := constant("abs64", 1<<63-1)
	abs32 := constant("abs32", 0x7fffffff7fffffff)
	for _, e := range []element{f32, f64} {
		row(e, abs64, abs32)
		col(e, abs64)
		inc(e)
	}
	half("f16AVX2", func(src operand.Mem, v reg.VecVirtual) {
		VCVTPH2PS(src, v)
	})
	half("bf16AVX2", func(src operand.Mem, v reg.VecVirtual) {
		VPMOVZXWD(src, v)
		VPSLLD(operand.U8(16), v, v)
	})
	fold("addAVX2", VADDPD)
	fold("maxAVX2", VMAXPD)
	Generate()
}

// constant is a 32-byte vector of equal 64-bit words.
func constant(name string, word uint64) operand.Mem {
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i := range 4 {
		DATA(8*i, operand.U64(word))
	}
	return m
}

// element is the type of the values a loop reads.
type element struct {
	suffix, goType string
	size           int
	shift          uint64 // log2(size)
	fused          bool   // products are exact, so a fused multiply-add gives the same bits
}

var (
	f32 = element{"32AVX2", "float32", 4, 2, true}
	f64 = element{"64AVX2", "float64", 8, 3, false}
)

// load widens four elements to float64.
func (e element) load(src operand.Mem, v reg.VecVirtual) {
	if e.size == 4 {
		VCVTPS2PD(src, v)
	} else {
		VMOVUPD(src, v)
	}
}

// madd adds x·y to acc; t is scratch for the product where it is rounded first.
func (e element) madd(x, y, acc, t reg.VecVirtual) {
	if e.fused {
		VFMADD231PD(x, y, acc)
		return
	}
	VMULPD(x, y, t)
	VADDPD(t, acc, acc)
}

func at(base, index reg.GPVirtual, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: index, Scale: 1, Disp: disp}
}

func gp(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

func zeros(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
		VXORPD(v[i], v[i], v[i])
	}
	return v
}

// countUp turns the pointers into ends and n into an index in bytes that runs from
// -n to zero, so that one flag ends the loop.
func countUp(n reg.GPVirtual, shift uint64, pointers ...reg.GPVirtual) {
	SHLQ(operand.U8(shift), n)
	for _, p := range pointers {
		ADDQ(n, p)
	}
	NEGQ(n)
}

// unless0 leaves the loop out where there is nothing to do.
func unless0(n reg.GPVirtual) {
	TESTQ(n, n)
	JZ(operand.LabelRef("done"))
}

func next(step int, n reg.GPVirtual) {
	ADDQ(operand.U8(step), n)
	JNE(operand.LabelRef("loop"))
}

// Offsets of the fields of lanes, in bytes.
const (
	offMax, offAt, offMaxA, offMaxB = 320, 384, 448, 512 // after dot, a2, b2, d2 and s1
)

// stretch is the constant of the same name in ../portable.go.
const stretch = 256

// row keeps two vectors of four lanes for each sum, one for the maximum of the
// difference and, as any lane may hold a maximum, one for each other maximum. After
// each stretch the lanes that grew note it in l.at.
func row(e element, abs64, abs32 operand.Mem) {
	TEXT("row"+e.suffix, NOSPLIT, "func(l *float64, a, b *"+e.goType+", n int)")
	Pragma("noescape")
	Doc(reference("row" + e.suffix)...)
	a, b, n, l := gp("a"), gp("b"), gp("n"), gp("l")
	field := func(off, half int) operand.Mem { return operand.Mem{Base: l, Disp: off + 32*half} }
	dot, a2, b2, d2, s1 := zeros(2), zeros(2), zeros(2), zeros(2), zeros(2)
	m := zeros(3) // max |a-b|, max |a|, max |b|
	x, y, t := YMM(), YMM(), YMM()
	VMOVUPD(m[0], field(offMax, 0))
	VMOVUPD(m[0], field(offAt, 0))
	at0, k, grown := GP64(), GP64(), GP32()
	XORQ(at0, at0)
	unless0(n)

	Label("next")
	MOVQ(operand.U32(stretch), k)
	CMPQ(n, k)
	CMOVQLT(n, k)
	SUBQ(k, n)
	countUp(k, e.shift, a, b)
	Label("loop")
	for h := range 2 {
		pa, pb := at(a, k, 4*e.size*h), at(b, k, 4*e.size*h)
		e.load(pa, x)
		e.load(pb, y)
		e.madd(x, y, dot[h], t)
		e.madd(x, x, a2[h], t)
		e.madd(y, y, b2[h], t)
		VSUBPD(y, x, x)
		VANDPD(abs64, x, x)
		VADDPD(x, s1[h], s1[h])
		VMAXPD(x, m[0], m[0])
		VMULPD(x, x, x)
		VADDPD(x, d2[h], d2[h])
		if e.size == 8 {
			VMOVUPD(abs64, t)
			VANDPD(pa, t, x)
			VMAXPD(x, m[1], m[1])
			VANDPD(pb, t, x)
			VMAXPD(x, m[2], m[2])
		}
	}
	if e.size == 4 {
		// Eight float32 at once.
		VMOVUPS(abs32, t)
		VANDPS(at(a, k, 0), t, x)
		VMAXPS(x, m[1], m[1])
		VANDPS(at(b, k, 0), t, x)
		VMAXPS(x, m[2], m[2])
	}
	next(8*e.size, k)

	const lessThan = 17 // LT_OQ
	VMOVUPD(field(offMax, 0), x)
	VCMPPD(operand.U8(lessThan), m[0], x, t)
	VMOVMSKPD(t, grown)
	TESTL(grown, grown)
	JZ(operand.LabelRef("same"))
	VMOVUPD(m[0], field(offMax, 0))
	VCVTSI2SDQ(at0, x.AsX(), x.AsX())
	VBROADCASTSD(x.AsX(), x)
	VMOVUPD(field(offAt, 0), y)
	VBLENDVPD(t, x, y, y)
	VMOVUPD(y, field(offAt, 0))
	Label("same")
	INCQ(at0)
	TESTQ(n, n)
	JNZ(operand.LabelRef("next"))

	Label("done")
	for i, v := range [][]reg.VecVirtual{dot, a2, b2, d2, s1} {
		VMOVUPD(v[0], field(64*i, 0))
		VMOVUPD(v[1], field(64*i, 1))
	}
	VMOVUPD(m[0], field(offMax, 1))
	VMOVUPD(field(offAt, 0), y)
	VMOVUPD(y, field(offAt, 1))
	for i, off := range []int{offMaxA, offMaxB} {
		v := m[1+i]
		if e.size == 4 {
			VCVTPS2PD(v.AsX(), x)
			VMOVUPD(x, field(off, 0))
			VEXTRACTF128(operand.U8(1), v, v.AsX())
			VCVTPS2PD(v.AsX(), v)
		} else {
			VMOVUPD(v, field(off, 0))
		}
		VMOVUPD(v, field(off, 1))
	}
	VZEROUPPER()
	RET()
}

// col adds up to a tile of rows, eight columns at a time, their sums in registers.
func col(e element, abs64 operand.Mem) {
	TEXT("col"+e.suffix, NOSPLIT, "func(a2, b2, d2, max *float64, a, b *"+e.goType+", cols, rows, n int)")
	Pragma("noescape")
	Doc(reference("col" + e.suffix)...)
	a, b, stride, n := gp("a"), gp("b"), gp("cols"), gp("n")
	sums := []reg.GPVirtual{gp("a2"), gp("b2"), gp("d2"), gp("max")}
	rows := gp("rows")
	SHLQ(operand.U8(e.shift), stride)
	SHLQ(operand.U8(3), n) // in bytes of the sums
	for _, p := range sums {
		ADDQ(n, p)
	}
	NEGQ(n)
	JZ(operand.LabelRef("done"))
	var acc [4][2]reg.VecVirtual
	for k := range acc {
		acc[k] = [2]reg.VecVirtual{YMM(), YMM()}
	}
	x, y, t := YMM(), YMM(), YMM()
	mask := YMM()
	VMOVUPD(abs64, mask)
	pa, pb, r := GP64(), GP64(), GP64()

	Label("loop")
	for k := range acc {
		VMOVUPD(at(sums[k], n, 0), acc[k][0])
		VMOVUPD(at(sums[k], n, 32), acc[k][1])
	}
	MOVQ(a, pa)
	MOVQ(b, pb)
	MOVQ(rows, r)
	Label("down")
	for h := range 2 {
		e.load(operand.Mem{Base: pa, Disp: 4 * e.size * h}, x)
		e.load(operand.Mem{Base: pb, Disp: 4 * e.size * h}, y)
		e.madd(x, x, acc[0][h], t)
		e.madd(y, y, acc[1][h], t)
		VSUBPD(y, x, x)
		VMULPD(x, x, t)
		VADDPD(t, acc[2][h], acc[2][h])
		VANDPD(mask, x, x)
		VMAXPD(x, acc[3][h], acc[3][h])
	}
	ADDQ(stride, pa)
	ADDQ(stride, pb)
	DECQ(r)
	JNE(operand.LabelRef("down"))
	for k := range acc {
		VMOVUPD(acc[k][0], at(sums[k], n, 0))
		VMOVUPD(acc[k][1], at(sums[k], n, 32))
	}
	ADDQ(operand.U8(8*e.size), a)
	ADDQ(operand.U8(8*e.size), b)
	next(64, n)
	Label("done")
	VZEROUPPER()
	RET()
}

// inc never fuses: an increment is rounded, so its products are not exact.
func inc(e element) {
	TEXT("inc"+e.suffix, NOSPLIT, "func(l *float64, a0, a, b0, b *"+e.goType+", n int)")
	Pragma("noescape")
	Doc(reference("inc" + e.suffix)...)
	a0, a, b0, b, n, l := gp("a0"), gp("a"), gp("b0"), gp("b"), gp("n"), gp("l")
	d2, a2, b2, dot := zeros(2), zeros(2), zeros(2), zeros(2)
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
	for k, v := range [][]reg.VecVirtual{d2, a2, b2, dot} {
		VMOVUPD(v[0], operand.Mem{Base: l, Disp: 64 * k})
		VMOVUPD(v[1], operand.Mem{Base: l, Disp: 64*k + 32})
	}
	VZEROUPPER()
	RET()
}

// half widens eight 16-bit elements at a time.
func half(name string, widen func(operand.Mem, reg.VecVirtual)) {
	TEXT(name, NOSPLIT, "func(dst *float32, src *byte, n int)")
	Pragma("noescape")
	Doc(reference(name)...)
	dst, src, n := gp("dst"), gp("src"), gp("n")
	v := YMM()
	SHLQ(operand.U8(1), n)
	ADDQ(n, src)
	LEAQ(operand.Mem{Base: dst, Index: n, Scale: 2}, dst)
	NEGQ(n)
	JZ(operand.LabelRef("done"))
	Label("loop")
	widen(at(src, n, 0), v)
	VMOVUPS(v, operand.Mem{Base: dst, Index: n, Scale: 2})
	next(16, n)
	Label("done")
	VZEROUPPER()
	RET()
}

// fold is dst[i] = op(dst[i], src[i]), four at a time.
func fold(name string, op func(...operand.Op)) {
	TEXT(name, NOSPLIT, "func(dst, src *float64, n int)")
	Pragma("noescape")
	Doc(reference(name)...)
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
	VZEROUPPER()
	RET()
}

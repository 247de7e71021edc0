package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peakAVX2 compares bits, not floats: a NaN is then larger than all else, and is not
// lost as it would be by VMAXPS. n is a multiple of four vectors and may be 0.
func peakAVX2(e element) {
	peakRows(e, "AVX2", 32, YMM, func(v, m, more reg.VecVirtual) { e.larger(v, m, more) })
}

// peakAVX512 is peakAVX2 with longer vectors.
func peakAVX512(e element) {
	peakRows(e, "AVX512", 64, ZMM, func(v, m, _ reg.VecVirtual) {
		if e.size == 4 {
			VPMAXUD(v, m, m)
		} else {
			VPMAXUQ(v, m, m)
		}
	})
}

func peakRows(e element, isa string, width int, vec func() reg.VecVirtual, larger func(v, m, more reg.VecVirtual)) {
	begin("peak"+e.bits+isa, "func(p, x *"+e.goType+", cols, rows, n int)")
	x, n, p, stride, rows := gp("x"), gp("n"), gp("p"), gp("cols"), gp("rows")
	i := GP64()
	SHLQ(operand.U8(e.shift), stride)
	SHLQ(operand.U8(e.shift), n)
	ADDQ(n, x)
	NEGQ(n)
	m := vectors(4, vec)
	mask, t, more := vec(), vec(), vec()
	VBROADCASTSD(*e.abs, mask)

	Label("row")
	for _, v := range m {
		if isa == "AVX2" {
			VPXOR(v, v, v)
		} else {
			VPXORQ(v, v, v)
		}
	}
	MOVQ(n, i)
	TESTQ(i, i)
	JZ(operand.LabelRef("across"))
	Label("loop")
	for k := range m {
		VANDPD(at(x, i, width*k), mask, t)
		larger(t, m[k], more)
	}
	next(4*width, i)
	Label("across")
	larger(m[1], m[0], more)
	larger(m[3], m[2], more)
	larger(m[2], m[0], more)
	y := m[0].AsY()
	if isa == "AVX512" {
		VEXTRACTF64X4(operand.U8(1), m[0], t.AsY())
		e.larger(t.AsY(), y, more.AsY())
	}
	VEXTRACTF128(operand.U8(1), y, t.AsX())
	e.larger(t.AsX(), m[0].AsX(), more.AsX())
	VPSHUFD(operand.U8(0x4e), m[0].AsX(), t.AsX()) // the upper half down
	e.larger(t.AsX(), m[0].AsX(), more.AsX())
	if e.size == 4 {
		VPSHUFD(operand.U8(0xb1), m[0].AsX(), t.AsX())
		e.larger(t.AsX(), m[0].AsX(), more.AsX())
		VMOVSS(m[0].AsX(), off(p, 0))
	} else {
		VMOVSD(m[0].AsX(), off(p, 0))
	}
	ADDQ(operand.U8(e.size), p)
	ADDQ(stride, x)
	DECQ(rows)
	JNE(operand.LabelRef("row"))
	end()
}

// larger sets m to the larger of m and v as integers, up to 32 bytes long; AVX2 has no
// maximum of 64-bit ones.
func (e element) larger(v, m, more operand.Op) {
	if e.size == 4 {
		VPMAXUD(v, m, m)
		return
	}
	VPCMPGTQ(m, v, more)
	VBLENDVPD(more, v, m, m)
}

package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The fields of lanes in ../lanes.go, in bytes, and the constant stretch there.
const (
	offDot = 64 * iota
	offA2
	offB2
	offD2
	offS1
	offMax
	offSeen
	offAt
	sizeLanes

	stretch = 256

	lessThan = 17 // the comparison LT_OQ
)

// tileLoop is what both instruction sets share: the tile is taken in stretches of
// columns, whose sums stay in the first-level cache from row to row. After a stretch
// each row notes which lanes of its maximum grew.
type tileLoop struct {
	e                element
	a, b, stride     reg.GPVirtual // the tile, and bytes from row to row
	c, pitch, pitch3 reg.GPVirtual // the columns: planes are pitch bytes apart
	k                reg.GPVirtual // columns of the stretch
	n, at            operand.Mem   // columns after it, its number
}

// plane is eight columns of a2, b2, d2 or max.
func (t *tileLoop) plane(c reg.GPVirtual, k, disp int) operand.Mem {
	switch k {
	case 1, 2:
		return operand.Mem{Base: c, Index: t.pitch, Scale: uint8(k), Disp: disp}
	case 3:
		return operand.Mem{Base: c, Index: t.pitch3, Scale: 1, Disp: disp}
	}
	return operand.Mem{Base: c, Disp: disp}
}

// open loads the parameters and opens the loop over stretches.
func (t *tileLoop) open() {
	t.a, t.b, t.c, t.stride, t.pitch = gp("a"), gp("b"), gp("c"), gp("cols"), gp("pitch")
	t.pitch3, t.k = GP64(), GP64()
	t.n, t.at = AllocLocal(8), AllocLocal(8)
	n := gp("n")
	unless0(n)
	MOVQ(n, t.n)
	MOVQ(gp("first"), t.at)
	SHLQ(operand.U8(3), t.pitch)
	LEAQ(operand.Mem{Base: t.pitch, Index: t.pitch, Scale: 2}, t.pitch3)
	SHLQ(operand.U8(t.e.shift), t.stride)
	Label("stretch")
	MOVQ(operand.U32(stretch), t.k)
	CMPQ(t.k, t.n)
	CMOVQGT(t.n, t.k)
	SUBQ(t.k, t.n)
}

// close goes on to the next stretch.
func (t *tileLoop) close() {
	LEAQ(operand.Mem{Base: t.c, Index: t.k, Scale: 8}, t.c)
	LEAQ(operand.Mem{Base: t.a, Index: t.k, Scale: uint8(t.e.size)}, t.a)
	LEAQ(operand.Mem{Base: t.b, Index: t.k, Scale: uint8(t.e.size)}, t.b)
	INCQ(t.at)
	CMPQ(t.n, operand.U8(0))
	JNE(operand.LabelRef("stretch"))
}

// tileAVX2 goes along one row of a stretch at a time, its lanes in registers.
func tileAVX2(e element) {
	begin("tile"+e.bits+"AVX2", "func(l *float64, c *float64, a, b *"+e.goType+", cols, pitch, rows, n, first int)")
	t := &tileLoop{e: e}
	t.open()
	pa, pb, pc, pl := GP64(), GP64(), GP64(), GP64()
	row, r, k := GP64(), GP64(), GP64()
	XORQ(row, row) // in bytes from the first row
	Load(Param("l"), pl)
	Load(Param("rows"), r)

	Label("row")
	LEAQ(at(t.a, row, 0), pa)
	LEAQ(at(t.b, row, 0), pb)
	MOVQ(t.c, pc)
	MOVQ(t.k, k)
	var acc [6][2]reg.VecVirtual // dot, a2, b2, d2, s1, max
	for f := range acc {
		for h := range acc[f] {
			acc[f][h] = YMM()
			VMOVUPD(off(pl, 64*f+32*h), acc[f][h])
		}
	}
	x, y, d, v := YMM(), YMM(), YMM(), YMM()
	Label("loop")
	for h := range 2 {
		sum := func(k int) operand.Mem { return t.plane(pc, k, 32*h) }
		e.load(off(pa, 4*e.size*h), x)
		e.load(off(pb, 4*e.size*h), y)
		VSUBPD(y, x, d)
		e.madd(x, y, acc[0][h], v)
		e.madd2(x, acc[1][h], sum(0), v)
		e.madd2(y, acc[2][h], sum(1), v)
		VANDPD(abs64, d, d)
		VADDPD(d, acc[4][h], acc[4][h])
		VMAXPD(d, acc[5][h], acc[5][h])
		VMAXPD(sum(3), d, v)
		VMOVUPD(v, sum(3))
		VMULPD(d, d, d)
		VADDPD(d, acc[3][h], acc[3][h])
		VADDPD(sum(2), d, d)
		VMOVUPD(d, sum(2))
	}
	ADDQ(operand.U8(8*e.size), pa)
	ADDQ(operand.U8(8*e.size), pb)
	ADDQ(operand.U8(64), pc)
	SUBQ(operand.U8(8), k)
	JNE(operand.LabelRef("loop"))

	for f := range acc {
		for h := range acc[f] {
			VMOVUPD(acc[f][h], off(pl, 64*f+32*h))
		}
	}
	VCVTSI2SDQ(t.at, x.AsX(), x.AsX())
	VBROADCASTSD(x.AsX(), x)
	for h := range 2 {
		most, seen, found := acc[5][h], off(pl, offSeen+32*h), off(pl, offAt+32*h)
		VMOVUPD(seen, d)
		VCMPPD(operand.U8(lessThan), most, d, d)
		VMOVUPD(most, seen)
		VMOVUPD(found, y)
		VBLENDVPD(d, x, y, y)
		VMOVUPD(y, found)
	}
	ADDQ(operand.U32(sizeLanes), pl)
	ADDQ(t.stride, row)
	DECQ(r)
	JNE(operand.LabelRef("row"))
	t.close()
	Label("done")
	end()
}

// tileAVX512 goes along four rows of a stretch at a time: their lanes and the sums
// of eight columns fill the registers. The number of rows is a multiple of four.
func tileAVX512(e element) {
	begin("tile"+e.bits+"AVX512", "func(l *float64, c *float64, a, b *"+e.goType+", cols, pitch, rows, n, first int)")
	t := &tileLoop{e: e}
	const quad = 4
	t.open()
	stride3 := GP64()
	LEAQ(operand.Mem{Base: t.stride, Index: t.stride, Scale: 2}, stride3)
	pa, pb, pc, pl := GP64(), GP64(), GP64(), GP64()
	r, k := GP64(), GP64()
	MOVQ(t.a, pa)
	MOVQ(t.b, pb)
	Load(Param("l"), pl)
	Load(Param("rows"), r)

	Label("quad")
	MOVQ(t.c, pc)
	MOVQ(t.k, k)
	var row [quad][6]reg.VecVirtual // dot, a2, b2, d2, s1, max
	for r := range row {
		for f := range row[r] {
			row[r][f] = ZMM()
			VMOVUPD(off(pl, sizeLanes*r+64*f), row[r][f])
		}
	}
	cell := func(base reg.GPVirtual, r int) operand.Mem {
		switch r {
		case 1, 2:
			return operand.Mem{Base: base, Index: t.stride, Scale: uint8(r)}
		case 3:
			return operand.Mem{Base: base, Index: stride3, Scale: 1}
		}
		return operand.Mem{Base: base}
	}
	acc := vectors(4, ZMM)
	x, y := ZMM(), ZMM()
	var v reg.VecVirtual
	if !e.fused {
		v = ZMM()
	}
	Label("loop")
	for k := range acc {
		VMOVUPD(t.plane(pc, k, 0), acc[k])
	}
	for r := range quad {
		dot, a2, b2, d2, s1, most := row[r][0], row[r][1], row[r][2], row[r][3], row[r][4], row[r][5]
		e.load(cell(pa, r), x)
		e.load(cell(pb, r), y)
		if e.fused {
			VFMADD231PD(x, y, dot)
			VFMADD231PD(x, x, a2)
			VFMADD231PD(x, x, acc[0])
			VFMADD231PD(y, y, b2)
			VFMADD231PD(y, y, acc[1])
		} else {
			VMULPD(x, y, v)
			VADDPD(v, dot, dot)
			VMULPD(x, x, v)
			VADDPD(v, a2, a2)
			VADDPD(v, acc[0], acc[0])
			VMULPD(y, y, v)
			VADDPD(v, b2, b2)
			VADDPD(v, acc[1], acc[1])
		}
		VSUBPD(y, x, x)
		VANDPD_BCST(abs64, x, x)
		VADDPD(x, s1, s1)
		VMAXPD(x, most, most)
		VMAXPD(x, acc[3], acc[3])
		VMULPD(x, x, x)
		VADDPD(x, d2, d2)
		VADDPD(x, acc[2], acc[2])
	}
	for k := range acc {
		VMOVUPD(acc[k], t.plane(pc, k, 0))
	}
	ADDQ(operand.U8(64), pc)
	ADDQ(operand.U8(8*e.size), pa)
	ADDQ(operand.U8(8*e.size), pb)
	SUBQ(operand.U8(8), k)
	JNE(operand.LabelRef("loop"))

	VCVTSI2SDQ(t.at, x.AsX(), x.AsX())
	VBROADCASTSD(x.AsX(), x)
	for r := range quad {
		most, seen, grown := row[r][5], off(pl, sizeLanes*r+offSeen), K()
		for f := range row[r] {
			VMOVUPD(row[r][f], off(pl, sizeLanes*r+64*f))
		}
		VMOVUPD(seen, y)
		VCMPPD(operand.U8(lessThan), most, y, grown)
		VMOVUPD(most, seen)
		VMOVUPD(x, grown, off(pl, sizeLanes*r+offAt))
	}
	ADDQ(operand.U32(quad*sizeLanes), pl)
	// From the end of the stretch to its start, four rows on.
	MOVQ(t.k, k)
	SHLQ(operand.U8(e.shift), k)
	SUBQ(k, pa)
	SUBQ(k, pb)
	LEAQ(operand.Mem{Base: pa, Index: t.stride, Scale: 4}, pa)
	LEAQ(operand.Mem{Base: pb, Index: t.stride, Scale: 4}, pb)
	SUBQ(operand.U8(quad), r)
	JNE(operand.LabelRef("quad"))
	t.close()
	Label("done")
	end()
}

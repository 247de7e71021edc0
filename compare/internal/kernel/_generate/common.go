package main

import (
	"github.com/layerparity/parity/compare/internal/kernel/_generate/twin"
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The masks that clear the sign of each float, as vectors of 32 bytes.
var abs64, abs32 operand.Mem

func makeConstants() {
	abs64 = constant("abs64", 1<<63-1)
	abs32 = constant("abs32", 0x7fffffff7fffffff)
}

func constant(name string, word uint64) operand.Mem {
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i := range 4 {
		DATA(8*i, operand.U64(word))
	}
	return m
}

// element is the type of the values a loop reads.
type element struct {
	bits, goType string
	size         int
	shift        uint64 // log2(size)
	fused        bool   // products are exact, so a fused multiply-add gives the same bits
	abs          *operand.Mem
}

var (
	f32 = element{"32", "float32", 4, 2, true, &abs32}
	f64 = element{"64", "float64", 8, 3, false, &abs64}
)

// load widens as many elements to float64 as v holds.
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

// madd2 adds x² to acc and to a sum in memory; where the product is exact x is lost,
// else t.
func (e element) madd2(x, acc reg.VecVirtual, sum operand.Mem, t reg.VecVirtual) {
	if e.fused {
		VFMADD231PD(x, x, acc)
		VFMADD213PD(sum, x, x)
		VMOVUPD(x, sum)
		return
	}
	VMULPD(x, x, t)
	VADDPD(t, acc, acc)
	VADDPD(sum, t, t)
	VMOVUPD(t, sum)
}

func at(base, index reg.GPVirtual, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: index, Scale: 1, Disp: disp}
}

func off(base reg.GPVirtual, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }

func gp(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// begin opens a function with the comment of its portable twin.
func begin(name, signature string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(twin.Comment(name)...)
}

func end() {
	VZEROUPPER()
	RET()
}

func vectors(n int, vec func() reg.VecVirtual) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = vec()
	}
	return v
}

func zeros(n int) []reg.VecVirtual {
	v := vectors(n, YMM)
	for _, r := range v {
		VXORPD(r, r, r)
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
	ADDQ(operand.U32(uint32(step)), n)
	JNE(operand.LabelRef("loop"))
}

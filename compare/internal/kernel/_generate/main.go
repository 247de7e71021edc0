// Command _generate writes the AVX2 and AVX-512 loops of package kernel. From this
// folder:
//
//	go run . -out ../loops_amd64.s -stubs ../loops_amd64.go -pkg kernel
//
// Each function is the assembly of a loop in ../portable*.go and carries the same
// comment; check.sh compares the committed files with fresh ones.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!purego")
	makeConstants()
	for _, e := range []element{f32, f64} {
		tileAVX2(e)
		peakAVX2(e)
		inc(e, "AVX2", YMM)
	}
	for _, e := range []element{f32, f64} {
		tileAVX512(e)
		peakAVX512(e)
		inc(e, "AVX512", ZMM)
	}
	half("f16AVX2", func(src operand.Mem, v reg.VecVirtual) {
		VCVTPH2PS(src, v)
	})
	half("bf16AVX2", func(src operand.Mem, v reg.VecVirtual) {
		VPMOVZXWD(src, v)
		VPSLLD(operand.U8(16), v, v)
	})
	narrow()
	fold("addAVX2", VADDPD)
	fold("maxAVX2", VMAXPD)
	Generate()
}

//go:build amd64 && !purego

package kernel

import (
	"os"

	"golang.org/x/sys/cpu"
)

// choose returns the fastest loops that this processor can run, or those named by
// PARITY_KERNEL: "portable" or "avx2".
func choose() *loops {
	x := &cpu.X86
	switch wish := os.Getenv("PARITY_KERNEL"); {
	case wish == "portable" || !x.HasAVX2 || !x.HasFMA || !x.HasF16C:
		return &portable
	case wish == "avx2" || !x.HasAVX512F || !x.HasAVX512DQ:
		return &avx2
	}
	return &avx512
}

// possible are all the loops that this processor can run.
func possible() []*loops {
	switch standard.loops {
	case &avx512:
		return []*loops{&portable, &avx2, &avx512}
	case &avx2:
		return []*loops{&portable, &avx2}
	}
	return []*loops{&portable}
}

// avx2 is the loops for AVX2, FMA and F16C.
var avx2 = loops{
	name:   "avx2",
	peak32: peakBy(32, peak32AVX2, rest32), peak64: peakBy(16, peak64AVX2, rest64),
	tile32: tileBy(tile32AVX2, tail32), tile64: tileBy(tile64AVX2, tail64),
	inc32: incBy(inc32AVX2, inc32Go), inc64: incBy(inc64AVX2, inc64Go),
	f16: widenBy(f16AVX2, f16Go), bf16: widenBy(bf16AVX2, bf16Go),
	narrow: narrowBy(narrowAVX2),
	add:    foldBy(addAVX2, addGo), max: foldBy(maxAVX2, maxGo),
}

// avx512 is avx2 with longer vectors where that pays.
var avx512 = loops{
	name:   "avx512",
	peak32: peakBy(64, peak32AVX512, rest32), peak64: peakBy(32, peak64AVX512, rest64),
	tile32: quadsBy(tile32AVX512, tail32, avx2.tile32), tile64: quadsBy(tile64AVX512, tail64, avx2.tile64),
	inc32: incBy(inc32AVX512, inc32Go), inc64: incBy(inc64AVX512, inc64Go),
	f16: avx2.f16, bf16: avx2.bf16,
	narrow: avx2.narrow,
	add:    avx2.add, max: avx2.max,
}

// quadsBy is tileBy for assembly that takes four rows at a time and leaves fewer to
// another loop.
func quadsBy[T any](asm tileAsm[T], tail func(l []lanes, c *columns, a, b []T, to int), fewer func(l []lanes, c *columns, a, b []T, from, to int)) func(l []lanes, c *columns, a, b []T, from, to int) {
	quads := tileBy(asm, tail)
	return func(l []lanes, c *columns, a, b []T, from, to int) {
		n := checkTile(l, c, a, b, from, to)
		k := whole(len(l), 4)
		if k > 0 {
			quads(l[:k], c, a, b, from, to)
		}
		if k < len(l) {
			fewer(l[k:], c, a[k*n:], b[k*n:], from, to)
		}
	}
}

//go:build arm64 && !purego

package kernel

import "os"

// choose returns the loops for NEON, which every processor of this architecture has,
// or those named by PARITY_KERNEL: "portable".
func choose() *loops {
	if os.Getenv("PARITY_KERNEL") == "portable" {
		return &portable
	}
	return &neon
}

// possible are all the loops that this processor can run.
func possible() []*loops {
	if standard.loops == &portable {
		return []*loops{&portable}
	}
	return []*loops{&portable, &neon}
}

// neon is the loops for NEON.
var neon = loops{
	name:   "neon",
	peak32: peakBy(16, peak32NEON, rest32), peak64: peakBy(8, peak64NEON, rest64),
	tile32: tileBy(tile32NEON, tail32), tile64: tileBy(tile64NEON, tail64),
	inc32: incBy(inc32NEON, inc32Go), inc64: incBy(inc64NEON, inc64Go),
	f16: widenBy(f16NEON, f16Go), bf16: widenBy(bf16NEON, bf16Go),
	narrow: narrowBy(narrowNEON),
	add:    foldBy(addNEON, addGo), max: foldBy(maxNEON, maxGo),
}

//go:build amd64 && !purego

package kernel

import (
	"os"

	"golang.org/x/sys/cpu"
)

//go:generate bash -c "cd _generate && go run . -out ../loops_amd64.s -stubs ../loops_amd64.go -pkg kernel"

// choose returns the assembly where the processor can run it and
// PARITY_KERNEL is not "portable".
func choose() *loops {
	if os.Getenv("PARITY_KERNEL") != "portable" && cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C {
		return &avx2
	}
	return &portable
}

var avx2 = loops{
	name: "avx2",
	row32: func(l *lanes, a, b []float32) {
		n := len(a) &^ (Lanes - 1)
		_ = b[:n]
		row32AVX2(&l.dot[0], first(a), first(b), n)
	},
	row64: func(l *lanes, a, b []float64) {
		n := len(a) &^ (Lanes - 1)
		_ = b[:n]
		row64AVX2(&l.dot[0], first(a), first(b), n)
	},
	col32: func(c *columns, a, b []float32, rows int) {
		cols := len(c.a2)
		n := cols &^ (Lanes - 1)
		_, _ = a[:rows*cols], b[:rows*cols]
		col32AVX2(first(c.a2), first(c.b2), first(c.d2), first(c.max), first(a), first(b), cols, rows, n)
		for r := range rows {
			for j := n; j < cols; j++ {
				c.add(j, float64(a[r*cols+j]), float64(b[r*cols+j]))
			}
		}
	},
	col64: func(c *columns, a, b []float64, rows int) {
		cols := len(c.a2)
		n := cols &^ (Lanes - 1)
		_, _ = a[:rows*cols], b[:rows*cols]
		col64AVX2(first(c.a2), first(c.b2), first(c.d2), first(c.max), first(a), first(b), cols, rows, n)
		for r := range rows {
			for j := n; j < cols; j++ {
				c.add(j, a[r*cols+j], b[r*cols+j])
			}
		}
	},
	inc32: func(l *incLanes, a0, a, b0, b []float32) {
		n := len(a) &^ (Lanes - 1)
		_, _, _ = a0[:n], b0[:n], b[:n]
		inc32AVX2(&l.d2[0], first(a0), first(a), first(b0), first(b), n)
	},
	inc64: func(l *incLanes, a0, a, b0, b []float64) {
		n := len(a) &^ (Lanes - 1)
		_, _, _ = a0[:n], b0[:n], b[:n]
		inc64AVX2(&l.d2[0], first(a0), first(a), first(b0), first(b), n)
	},
	f16: func(dst []float32, src []byte) {
		n := len(dst) &^ (Lanes - 1)
		_ = src[:2*len(dst)]
		f16AVX2(first(dst), first(src), n)
		f16Go(dst[n:], src[2*n:])
	},
	bf16: func(dst []float32, src []byte) {
		n := len(dst) &^ (Lanes - 1)
		_ = src[:2*len(dst)]
		bf16AVX2(first(dst), first(src), n)
		bf16Go(dst[n:], src[2*n:])
	},
	add: func(dst, src []float64) {
		n := len(dst) &^ 3
		_ = src[:len(dst)]
		addAVX2(first(dst), first(src), n)
		addGo(dst[n:], src[n:])
	},
	max: func(dst, src []float64) {
		n := len(dst) &^ 3
		_ = src[:len(dst)]
		maxAVX2(first(dst), first(src), n)
		maxGo(dst[n:], src[n:])
	},
}

// first returns the address of s's first element, nil for an empty one.
func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

//go:build amd64 && !purego

package kernel

import (
	"os"

	"golang.org/x/sys/cpu"
)

//go:generate bash -c "cd _generate && go run . -out ../loops_amd64.s -stubs ../loops_amd64.go -pkg kernel"

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

// whole is how many of n elements fill groups of step; the rest is left to Go.
func whole(n, step int) int { return n - n%step }

// avx2 is the loops for AVX2, FMA and F16C.
var avx2 = loops{
	name: "avx2",
	peak32: func(p, x []float32, cols, from, to int) {
		n := from + whole(to-from, 32)
		_ = x[:(len(p)-1)*cols+to]
		peak32AVX2(&p[0], &x[from], cols, len(p), n-from)
		rest32(p, x, cols, n, to)
	},
	peak64: func(p, x []float64, cols, from, to int) {
		n := from + whole(to-from, 16)
		_ = x[:(len(p)-1)*cols+to]
		peak64AVX2(&p[0], &x[from], cols, len(p), n-from)
		rest64(p, x, cols, n, to)
	},
	tile32: func(l []lanes, c *columns, a, b []float32, from, to int) {
		n := checkTile(l, c, a, b, from, to)
		tile32AVX2(&l[0].dot[0], &c.store[from], &a[from], &b[from], n, c.pitch, len(l), whole(to-from, Lanes), from/stretch)
		tail32(l, c, a, b, to)
	},
	tile64: func(l []lanes, c *columns, a, b []float64, from, to int) {
		n := checkTile(l, c, a, b, from, to)
		tile64AVX2(&l[0].dot[0], &c.store[from], &a[from], &b[from], n, c.pitch, len(l), whole(to-from, Lanes), from/stretch)
		tail64(l, c, a, b, to)
	},
	inc32: func(l *incLanes, a0, a, b0, b []float32) {
		n := whole(len(a), Lanes)
		a0, b0, b = a0[:len(a)], b0[:len(a)], b[:len(a)]
		inc32AVX2(&l.d2[0], first(a0), first(a), first(b0), first(b), n)
		inc32Go(l, a0[n:], a[n:], b0[n:], b[n:])
	},
	inc64: func(l *incLanes, a0, a, b0, b []float64) {
		n := whole(len(a), Lanes)
		a0, b0, b = a0[:len(a)], b0[:len(a)], b[:len(a)]
		inc64AVX2(&l.d2[0], first(a0), first(a), first(b0), first(b), n)
		inc64Go(l, a0[n:], a[n:], b0[n:], b[n:])
	},
	f16: func(dst []float32, src []byte) {
		n := whole(len(dst), 8)
		src = src[:2*len(dst)]
		f16AVX2(first(dst), first(src), n)
		f16Go(dst[n:], src[2*n:])
	},
	bf16: func(dst []float32, src []byte) {
		n := whole(len(dst), 8)
		src = src[:2*len(dst)]
		bf16AVX2(first(dst), first(src), n)
		bf16Go(dst[n:], src[2*n:])
	},
	narrow: func(x []float32) (bf16, f16 bool) {
		var m [2]uint32
		n := whole(len(x), 8)
		narrowAVX2(&m[0], first(x), n)
		bf16, f16 = narrowGo(x[n:])
		return bf16 && m[0]&0xffff == 0, f16 && m[1] == 0
	},
	add: func(dst, src []float64) {
		n := whole(len(dst), 4)
		src = src[:len(dst)]
		addAVX2(first(dst), first(src), n)
		addGo(dst[n:], src[n:])
	},
	max: func(dst, src []float64) {
		n := whole(len(dst), 4)
		src = src[:len(dst)]
		maxAVX2(first(dst), first(src), n)
		maxGo(dst[n:], src[n:])
	},
}

// avx512 is avx2 with longer vectors where that pays.
var avx512 = func() loops {
	lp := avx2
	lp.name = "avx512"
	lp.peak32 = func(p, x []float32, cols, from, to int) {
		n := from + whole(to-from, 64)
		_ = x[:(len(p)-1)*cols+to]
		peak32AVX512(&p[0], &x[from], cols, len(p), n-from)
		rest32(p, x, cols, n, to)
	}
	lp.peak64 = func(p, x []float64, cols, from, to int) {
		n := from + whole(to-from, 32)
		_ = x[:(len(p)-1)*cols+to]
		peak64AVX512(&p[0], &x[from], cols, len(p), n-from)
		rest64(p, x, cols, n, to)
	}
	lp.tile32 = func(l []lanes, c *columns, a, b []float32, from, to int) {
		n := checkTile(l, c, a, b, from, to)
		quads := whole(len(l), 4)
		if quads > 0 {
			tile32AVX512(&l[0].dot[0], &c.store[from], &a[from], &b[from], n, c.pitch, quads, whole(to-from, Lanes), from/stretch)
			tail32(l[:quads], c, a, b, to)
		}
		if quads < len(l) {
			avx2.tile32(l[quads:], c, a[quads*n:], b[quads*n:], from, to)
		}
	}
	lp.tile64 = func(l []lanes, c *columns, a, b []float64, from, to int) {
		n := checkTile(l, c, a, b, from, to)
		quads := whole(len(l), 4)
		if quads > 0 {
			tile64AVX512(&l[0].dot[0], &c.store[from], &a[from], &b[from], n, c.pitch, quads, whole(to-from, Lanes), from/stretch)
			tail64(l[:quads], c, a, b, to)
		}
		if quads < len(l) {
			avx2.tile64(l[quads:], c, a[quads*n:], b[quads*n:], from, to)
		}
	}
	lp.inc32 = func(l *incLanes, a0, a, b0, b []float32) {
		n := whole(len(a), Lanes)
		a0, b0, b = a0[:len(a)], b0[:len(a)], b[:len(a)]
		inc32AVX512(&l.d2[0], first(a0), first(a), first(b0), first(b), n)
		inc32Go(l, a0[n:], a[n:], b0[n:], b[n:])
	}
	lp.inc64 = func(l *incLanes, a0, a, b0, b []float64) {
		n := whole(len(a), Lanes)
		a0, b0, b = a0[:len(a)], b0[:len(a)], b[:len(a)]
		inc64AVX512(&l.d2[0], first(a0), first(a), first(b0), first(b), n)
		inc64Go(l, a0[n:], a[n:], b0[n:], b[n:])
	}
	return lp
}()

// checkTile panics where the assembly would run past a slice, and returns the
// number of columns.
func checkTile[T any](l []lanes, c *columns, a, b []T, from, to int) int {
	n := len(c.a2)
	_, _, _, _ = a[:len(l)*n], b[:len(l)*n], c.store[:4*c.pitch], c.a2[from:to]
	return n
}

// rest32 looks at what is left of each row from column from on.
func rest32(p, x []float32, cols, from, to int) {
	if from == to {
		return
	}
	for r := range p {
		p[r] = largest32([]float32{p[r], largest32(x[r*cols+from : r*cols+to])})
	}
}

// rest64 looks at what is left of each row from column from on.
func rest64(p, x []float64, cols, from, to int) {
	if from == to {
		return
	}
	for r := range p {
		p[r] = largest64([]float64{p[r], largest64(x[r*cols+from : r*cols+to])})
	}
}

// first returns the address of s's first element, nil for an empty one.
func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

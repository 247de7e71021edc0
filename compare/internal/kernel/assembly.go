//go:build (amd64 || arm64) && !purego

package kernel

//go:generate bash -c "cd _generate && go run . -out ../loops_amd64.s -stubs ../loops_amd64.go -pkg kernel"
//go:generate bash -c "cd _generate && go run ./neon -out ../loops_arm64.s -stubs ../loops_arm64.go"

// The functions of this file make a loop of its assembly, which takes whole groups of
// elements and checks nothing: they check the bounds and leave the rest to Go.

// peakBy takes step columns at a time.
func peakBy[T any](step int, asm func(p, x *T, cols, rows, n int), rest func(p, x []T, cols, from, to int)) func(p, x []T, cols, from, to int) {
	return func(p, x []T, cols, from, to int) {
		n := from + whole(to-from, step)
		_ = x[:(len(p)-1)*cols+to]
		asm(&p[0], &x[from], cols, len(p), n-from)
		rest(p, x, cols, n, to)
	}
}

// tileAsm is the assembly of a tile: c is the first column's a2 and first the number
// of the first stretch.
type tileAsm[T any] func(l, c *float64, a, b *T, cols, pitch, rows, n, first int)

// tileBy takes Lanes columns at a time.
func tileBy[T any](asm tileAsm[T], tail func(l []lanes, c *columns, a, b []T, to int)) func(l []lanes, c *columns, a, b []T, from, to int) {
	return func(l []lanes, c *columns, a, b []T, from, to int) {
		n := checkTile(l, c, a, b, from, to)
		asm(&l[0].dot[0], &c.store[from], &a[from], &b[from], n, c.pitch, len(l), whole(to-from, Lanes), from/stretch)
		tail(l, c, a, b, to)
	}
}

// incBy takes Lanes columns at a time.
func incBy[T any](asm func(l *float64, a0, a, b0, b *T, n int), rest func(l *incLanes, a0, a, b0, b []T)) func(l *incLanes, a0, a, b0, b []T) {
	return func(l *incLanes, a0, a, b0, b []T) {
		n := whole(len(a), Lanes)
		a0, b0, b = a0[:len(a)], b0[:len(a)], b[:len(a)]
		asm(&l.d2[0], first(a0), first(a), first(b0), first(b), n)
		rest(l, a0[n:], a[n:], b0[n:], b[n:])
	}
}

// widenBy takes eight elements at a time.
func widenBy(asm func(dst *float32, src *byte, n int), rest func(dst []float32, src []byte)) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) {
		n := whole(len(dst), 8)
		src = src[:2*len(dst)]
		asm(first(dst), first(src), n)
		rest(dst[n:], src[2*n:])
	}
}

// narrowBy takes eight values at a time. The assembly writes all bits of all values
// and a word that is not zero if one of them is no binary16.
func narrowBy(asm func(m *uint32, x *float32, n int)) func(x []float32) (bf16, f16 bool) {
	return func(x []float32) (bf16, f16 bool) {
		var m [2]uint32
		n := whole(len(x), 8)
		asm(&m[0], first(x), n)
		bf16, f16 = narrowGo(x[n:])
		return bf16 && m[0]&0xffff == 0, f16 && m[1] == 0
	}
}

// foldBy takes four columns at a time.
func foldBy(asm func(dst, src *float64, n int), rest func(dst, src []float64)) func(dst, src []float64) {
	return func(dst, src []float64) {
		n := whole(len(dst), 4)
		src = src[:len(dst)]
		asm(first(dst), first(src), n)
		rest(dst[n:], src[n:])
	}
}

// whole is how many of n elements fill groups of step; the rest is left to Go.
func whole(n, step int) int { return n - n%step }

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

package main

import "fmt"

// The fields of lanes in ../../lanes.go, in bytes, and the constant stretch there.
const (
	offMax    = 5 * 64
	offAt     = 7 * 64
	sizeLanes = 8 * 64

	stretch = 256
)

// element is the type of the values a loop reads.
type element struct {
	bits, goType string
	shift        int  // log2 of the size
	fused        bool // products are exact, so a fused multiply-add gives the same bits
}

var (
	f32 = element{"32", "float32", 2, true}
	f64 = element{"64", "float64", 3, false}
)

// loadNext reads four values as float64 and moves base on.
func (e element) loadNext(f *function, base gp, v []vec) {
	if e.shift == 3 {
		f.loadNext(base, v)
		return
	}
	f.op("FMOVQ.P 16(%s), %s", base, v[1].f())
	f.word(widen32, v[0], v[1])
	f.word(widen32u, v[1], v[1])
}

// tile takes stretches of columns, whose sums stay in the first-level cache from row
// to row, and goes along one row of a stretch at a time, its 48 lanes in 24 registers.
// After a stretch each row notes which lanes of its maximum grew.
func tile(f *file, e element) {
	fn := f.begin("tile"+e.bits+"NEON", fmt.Sprintf("l, c *float64, a, b *%s, cols, pitch, rows, n, first int", e.goType))
	l, c, a, b := fn.param("l"), fn.param("c"), fn.param("a"), fn.param("b")
	stride, pitch, rows, n, at := fn.param("cols"), fn.param("pitch"), fn.param("rows"), fn.param("n"), fn.param("first")
	var acc [6][2][]vec // dot, a2, b2, d2, s1, max, four lanes each time
	for f := range acc {
		acc[f] = [2][]vec{fn.vectors(2), fn.vectors(2)}
	}
	x, y, t, u := fn.vectors(2), fn.vectors(2), fn.vectors(2), fn.vectors(2)
	fn.unless0(n)
	fn.op("LSL $%d, %s", e.shift, stride)
	fn.op("LSL $3, %s", pitch)

	fn.label("stretch")
	k, row, rowA, rowB, left, number := fn.gp(), fn.gp(), fn.gp(), fn.gp(), fn.gp(), fn.gp()
	fn.op("MOVD $%d, %s", stretch, k)
	fn.op("CMP %s, %s", k, n)
	fn.op("CSEL LT, %s, %s, %s", n, k, k)
	fn.op("SUB %s, %s", k, n)
	fn.op("SCVTFD %s, %s", at, t[0].f())
	fn.op("FMOVD %s, %s", t[0].f(), number)
	fn.op("MOVD %s, %s", l, row)
	fn.op("MOVD %s, %s", a, rowA)
	fn.op("MOVD %s, %s", b, rowB)
	fn.op("MOVD %s, %s", rows, left)

	fn.label("row")
	pa, pb, i := fn.gp(), fn.gp(), fn.gp()
	planes := [4]gp{fn.gp(), fn.gp(), fn.gp(), fn.gp()} // a2, b2, d2, max
	fn.op("MOVD %s, %s", rowA, pa)
	fn.op("MOVD %s, %s", rowB, pb)
	fn.op("MOVD %s, %s", k, i)
	fn.op("MOVD %s, %s", c, planes[0])
	for p := range 3 {
		fn.op("ADD %s, %s, %s", pitch, planes[p], planes[p+1])
	}
	for f := range acc {
		for h, v := range acc[f] {
			fn.load(row, 64*f+32*h, v)
		}
	}

	fn.label("loop")
	for h := range 2 {
		dot, a2, b2, d2, s1, most := acc[0][h], acc[1][h], acc[2][h], acc[3][h], acc[4][h], acc[5][h]
		e.loadNext(fn, pa, x)
		e.loadNext(fn, pb, y)
		e.madd(fn, dot, x, y, t)
		e.square(fn, x, a2, planes[0], t, u)
		e.square(fn, y, b2, planes[1], t, u)
		fn.pairwise(fabd, x, x, y)
		fn.pairwise(fadd, s1, s1, x)
		fn.pairwise(fmax, most, most, x)
		fn.load(planes[3], 0, u)
		fn.pairwise(fmax, u, u, x)
		fn.storeNext(u, planes[3])
		f64.square(fn, x, d2, planes[2], t, u)
	}
	fn.next(8, i, "loop")

	for f := range acc[:5] {
		for h, v := range acc[f] {
			fn.store(v, row, 64*f+32*h)
		}
	}
	fn.op("VDUP %s, %v.D2", number, t[0])
	for h, most := range acc[5] {
		grown, found := x, y
		fn.load(row, offMax+32*h, grown) // what it was
		fn.pairwise(fcmgt, grown, most, grown)
		fn.store(most, row, offMax+32*h)
		fn.load(row, offAt+32*h, found)
		for k, v := range found {
			fn.op("VBIT %v.B16, %v.B16, %v.B16", grown[k], t[0], v)
		}
		fn.store(found, row, offAt+32*h)
	}
	fn.op("ADD $%d, %s", sizeLanes, row)
	fn.op("ADD %s, %s", stride, rowA)
	fn.op("ADD %s, %s", stride, rowB)
	fn.next(1, left, "row")

	fn.op("ADD %s<<3, %s", k, c)
	fn.op("ADD %s<<%d, %s", k, e.shift, a)
	fn.op("ADD %s<<%d, %s", k, e.shift, b)
	fn.op("ADD $1, %s", at)
	fn.op("CBNZ %s, stretch", n)
	fn.label("done")
}

// madd adds x·y to acc; t is scratch for the product where it is rounded first.
func (e element) madd(f *function, acc, x, y, t []vec) {
	if e.fused {
		f.fmla(acc, x, y)
		return
	}
	f.pairwise(fmul, t, x, y)
	f.pairwise(fadd, acc, acc, t)
}

// square adds x² to acc and to four columns of a plane; t and u are scratch.
func (e element) square(f *function, x, acc []vec, plane gp, t, u []vec) {
	e.madd(f, acc, x, x, t)
	f.load(plane, 0, u)
	if e.fused {
		f.fmla(u, x, x)
	} else {
		f.pairwise(fadd, u, u, t)
	}
	f.storeNext(u, plane)
}

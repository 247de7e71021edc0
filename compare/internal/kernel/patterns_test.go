package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bits32 and bits64 are values of any bit pattern, every fourth with the exponent of
// what is not finite; asked for finite ones, that exponent is made smaller.

func bits32(rng *rand.Rand, n int, onlyFinite bool) []float32 {
	v := make([]float32, n)
	for i := range v {
		b := rng.Uint32()
		if rng.IntN(4) == 0 {
			b |= 0x7f800000
		}
		if onlyFinite && b&0x7f800000 == 0x7f800000 {
			b &^= 1 << 23
		}
		v[i] = math.Float32frombits(b)
	}
	return v
}

func bits64(rng *rand.Rand, n int, onlyFinite bool) []float64 {
	v := make([]float64, n)
	for i := range v {
		b := rng.Uint64()
		if rng.IntN(4) == 0 {
			b |= 0x7ff << 52
		}
		if onlyFinite && b&(0x7ff<<52) == 0x7ff<<52 {
			b &^= 1 << 52
		}
		v[i] = math.Float64frombits(b)
	}
	return v
}

func sameBits32(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// sameOrNaN takes any NaN for any other: which one a sum of several holds is the
// processor's choice, and an increment of NaN is stored as one and the same.
func sameOrNaN(a, b [Lanes]float64) bool {
	return slices.EqualFunc(a[:], b[:], func(x, y float64) bool {
		return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
	})
}

// TestNoBitPatternTellsTheImplementationsApart gives each loop all that it may be
// given: any bits, or any finite ones where the worker makes sure of those.
func TestNoBitPatternTellsTheImplementationsApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, lp := range implementations() {
		for _, n := range loopSizes() {
			n = max(n, 1) // no tile is empty
			rows := 1 + rng.IntN(tileRows)

			x32, x64 := bits32(rng, n*rows, false), bits64(rng, n*rows, false)
			for _, clean := range []bool{false, true} { // a NaN hides all else in a peak
				if clean {
					x32, x64 = bits32(rng, n*rows, true), bits64(rng, n*rows, true)
				}
				p32, q32 := make([]float32, rows), make([]float32, rows)
				p64, q64 := make([]float64, rows), make([]float64, rows)
				lp.peak32(p32, x32, n, 0, n)
				peak32Go(q32, x32, n, 0, n)
				lp.peak64(p64, x64, n, 0, n)
				peak64Go(q64, x64, n, 0, n)
				if !sameBits32(p32, q32) || !sameBits(p64, q64) {
					t.Fatalf("%s: peaks of %d by %d: %x and %x, want %x and %x", lp.name, rows, n, p32, p64, q32, q64)
				}
			}

			tile := func(loop string, got, want func(l []lanes, c *columns)) {
				t.Helper()
				l, m := make([]lanes, rows), make([]lanes, rows)
				c, d := newColumns(make([]float64, 4*n), n), newColumns(make([]float64, 4*n), n)
				got(l, &c)
				want(m, &d)
				for r := range l {
					if !sameLanes(&l[r], &m[r]) {
						t.Fatalf("%s %s: row %d of %d by %d: %+v, want %+v", lp.name, loop, r, rows, n, l[r], m[r])
					}
				}
				if !sameBits(c.store, d.store) {
					t.Fatalf("%s %s: columns of %d by %d: %v, want %v", lp.name, loop, rows, n, c.store, d.store)
				}
			}
			y32, y64 := bits32(rng, n*rows, true), bits64(rng, n*rows, true)
			tile("tile32", func(l []lanes, c *columns) { lp.tile32(l, c, x32, y32, 0, n) },
				func(l []lanes, c *columns) { tile32Go(l, c, x32, y32, 0, n) })
			tile("tile64", func(l []lanes, c *columns) { lp.tile64(l, c, x64, y64, 0, n) },
				func(l []lanes, c *columns) { tile64Go(l, c, x64, y64, 0, n) })

			finite := rng.IntN(2) == 0
			a32, b32, a64, b64 := bits32(rng, n, finite), bits32(rng, n, finite), bits64(rng, n, finite), bits64(rng, n, finite)
			for _, loop := range []struct {
				name      string
				got, want func(*incLanes)
			}{
				{"inc32", func(l *incLanes) { lp.inc32(l, x32[:n], a32, y32[:n], b32) }, func(l *incLanes) { inc32Go(l, x32[:n], a32, y32[:n], b32) }},
				{"inc64", func(l *incLanes) { lp.inc64(l, x64[:n], a64, y64[:n], b64) }, func(l *incLanes) { inc64Go(l, x64[:n], a64, y64[:n], b64) }},
			} {
				var g, w incLanes
				loop.got(&g)
				loop.want(&w)
				if !sameOrNaN(g.d2, w.d2) || !sameOrNaN(g.a2, w.a2) || !sameOrNaN(g.b2, w.b2) || !sameOrNaN(g.dot, w.dot) {
					t.Fatalf("%s %s of %d: %+v, want %+v", lp.name, loop.name, n, g, w)
				}
			}
		}
		wide := slices.Repeat([]float32{math.MaxFloat32}, 8)
		for _, v := range bits32(rng, 1<<16, false) {
			v = math.Float32frombits(math.Float32bits(v) &^ (1<<rng.IntN(24) - 1)) // often a narrow one
			x := make([]float32, 8)
			x[rng.IntN(8)] = v
			lp.narrow(wide) // so that no register is clean
			bf16, f16 := lp.narrow(x)
			if wantBF16, wantF16 := narrowGo(x); bf16 != wantBF16 || f16 != wantF16 {
				t.Fatalf("%s narrow of %#08x: %v and %v, want %v and %v", lp.name, math.Float32bits(v), bf16, f16, wantBF16, wantF16)
			}
		}
	}
}

// TestEveryHalfHasTheSameBits holds the NaN to their payload and their quiet bit too.
func TestEveryHalfHasTheSameBits(t *testing.T) {
	raw, want := make([]byte, 2<<16), make([]float32, 1<<16)
	for i := range want {
		binary.LittleEndian.PutUint16(raw[2*i:], uint16(i))
		want[i] = f16Value(uint16(i))
	}
	for _, lp := range implementations() {
		got := make([]float32, 1<<16)
		lp.f16(got, raw)
		if !sameBits32(got, want) {
			t.Errorf("%s: a half has other bits", lp.name)
		}
	}
}

package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The reference loops: the comments of portable.go, word for word. Lane maxima are
// compared as one number, since any lane may hold them.

func referenceTile(l []lanes, c *columns, a, b []float64) {
	n := len(c.a2)
	for r := range l {
		l := &l[r]
		for i := range n {
			x, y, j := a[r*n+i], b[r*n+i], i%Lanes
			d := x - y
			e := math.Abs(d)
			l.dot[j] += float64(x * y)
			l.a2[j] += float64(x * x)
			l.b2[j] += float64(y * y)
			l.d2[j] += float64(d * d)
			l.s1[j] += e
			if e > l.max[j] {
				l.max[j], l.at[j] = e, float64(i/stretch)
			}
			c.a2[i] += float64(x * x)
			c.b2[i] += float64(y * y)
			c.d2[i] += float64(d * d)
			c.max[i] = max(c.max[i], e)
		}
	}
}

func referenceIncrements(a0, a, b0, b []float64) *incLanes {
	l := new(incLanes)
	for i := range a {
		x, y, j := a[i]-a0[i], b[i]-b0[i], i%Lanes
		d := y - x
		l.d2[j] += float64(d * d)
		l.a2[j] += float64(x * x)
		l.b2[j] += float64(y * y)
		l.dot[j] += float64(x * y)
	}
	return l
}

func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

func sameLanes(got, want *lanes) bool {
	for _, p := range [][2]*[Lanes]float64{{&got.dot, &want.dot}, {&got.a2, &want.a2}, {&got.b2, &want.b2}, {&got.d2, &want.d2}, {&got.s1, &want.s1}} {
		if !sameBits(p[0][:], p[1][:]) {
			return false
		}
	}
	most, at := got.top()
	wantMost, wantAt := want.top()
	return most == wantMost && at == wantAt
}

// loopSizes covers every tail, the stretch of the portable loops and its edges.
func loopSizes() []int {
	s := []int{1000, 1016, 1023, 1024, 1025, 1032, 2047, 2048, 2049, 4096, 10001}
	for n := range 70 {
		s = append(s, n)
	}
	return s
}

// mixed are finite values of very different sizes, some equal, some zero, some
// denormal, all representable in binary32.
func mixed(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		switch rng.IntN(10) {
		case 0:
			v[i] = 0
		case 1:
			v[i] = math.Copysign(0, -1)
		case 2:
			v[i] = float64(math.Float32frombits(rng.Uint32() & 0x807fffff))
		case 3:
			v[i] = float64(math.Float32frombits(rng.Uint32() &^ (1 << 30)))
		case 4:
			v[i] = 3
		default:
			v[i] = float64(float32(rng.NormFloat64()))
		}
	}
	return v
}

func toF32(v []float64) []float32 {
	s := make([]float32, len(v))
	for i, x := range v {
		s[i] = float32(x)
	}
	return s
}

func TestEveryImplementationSumsATileLikeTheReferenceLoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, lp := range implementations() {
		for _, n := range loopSizes() {
			for rows := 1; rows <= tileRows; rows++ {
				a, b := mixed(rng, n*rows), mixed(rng, n*rows)
				start := make([]float64, 4*(n+rows%2)) // planes may be further apart than they are long
				for i := range start {
					start[i] = rng.Float64()
				}
				check := func(loop string, sum func(l []lanes, c *columns)) {
					t.Helper()
					gotLanes, wantLanes := make([]lanes, rows), make([]lanes, rows)
					got, want := newColumns(slices.Clone(start), n), newColumns(slices.Clone(start), n)
					sum(gotLanes, &got)
					referenceTile(wantLanes, &want, a, b)
					for r := range rows {
						if !sameLanes(&gotLanes[r], &wantLanes[r]) {
							t.Fatalf("%s %s: row %d of %d by %d: %+v, want %+v", lp.name, loop, r, rows, n, gotLanes[r], wantLanes[r])
						}
					}
					if !sameBits(got.store, want.store) {
						t.Fatalf("%s %s: columns of %d by %d: %v, want %v", lp.name, loop, rows, n, got, want)
					}
				}
				check("tile32", func(l []lanes, c *columns) {
					eachChunk(n, func(from, to int) { lp.tile32(l, c, toF32(a), toF32(b), from, to) })
				})
				for i := range a { // full 53-bit mantissas: every product is rounded
					a[i] *= 1 + rng.Float64()
					b[i] *= 1 + rng.Float64()
				}
				check("tile64", func(l []lanes, c *columns) { eachChunk(n, func(from, to int) { lp.tile64(l, c, a, b, from, to) }) })
			}
		}
	}
}

// eachChunk is the columns as the worker goes through them.
func eachChunk(n int, f func(from, to int)) {
	for from := 0; from < n; from += chunk {
		f(from, min(from+chunk, n))
	}
}

func TestEveryImplementationFindsThePeaks(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, lp := range implementations() {
		for _, n := range loopSizes() {
			for rows := 1; rows <= tileRows && n > 0; rows++ {
				v := mixed(rng, n*rows)
				from := rng.IntN(n)
				to := from + 1 + rng.IntN(n-from)
				p32, p64 := make([]float32, rows), make([]float64, rows)
				lp.peak32(p32, toF32(v), n, from, to)
				lp.peak64(p64, v, n, from, to)
				for r := range rows {
					want := 0.0
					for _, x := range v[r*n+from : r*n+to] {
						want = max(want, math.Abs(x))
					}
					if float64(p32[r]) != want || p64[r] != want {
						t.Fatalf("%s: row %d of %d, columns %d to %d of %d: %v and %v, want %v", lp.name, r, rows, from, to, n, p32[r], p64[r], want)
					}
				}
			}
		}
	}
}

// TestAPeakThatIsNotFiniteShows makes sure of what the slow path hangs on: no NaN
// and no infinity goes unseen, wherever it stands and whatever stands beside it.
func TestAPeakThatIsNotFiniteShows(t *testing.T) {
	for _, lp := range implementations() {
		for _, bad := range []float64{math.NaN(), -math.NaN(), math.Inf(1), math.Inf(-1), math.Float64frombits(0xfff0000020000000)} {
			for _, n := range []int{1, 7, 8, 31, 64, 100, 257} {
				for i := range n {
					v := make([]float64, n)
					for k := range v {
						v[k] = -math.MaxFloat32
					}
					v[i] = bad
					p32, p64 := make([]float32, 1), make([]float64, 1)
					lp.peak32(p32, toF32(v), n, 0, n)
					lp.peak64(p64, v, n, 0, n)
					if finite(float64(p32[0])) || finite(p64[0]) {
						t.Fatalf("%s: %v at %d of %d went unseen", lp.name, bad, i, n)
					}
				}
			}
		}
	}
}

func TestEveryImplementationSumsIncrementsLikeTheReferenceLoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	same := func(got, want *incLanes) bool {
		return sameBits(got.d2[:], want.d2[:]) && sameBits(got.a2[:], want.a2[:]) &&
			sameBits(got.b2[:], want.b2[:]) && sameBits(got.dot[:], want.dot[:])
	}
	for _, lp := range implementations() {
		for _, n := range loopSizes() {
			var v [4][]float64
			for k := range v {
				v[k] = mixed(rng, n)
			}
			got := new(incLanes)
			lp.inc32(got, toF32(v[0]), toF32(v[1]), toF32(v[2]), toF32(v[3]))
			if want := referenceIncrements(v[0], v[1], v[2], v[3]); !same(got, want) {
				t.Fatalf("%s inc32 of %d: %+v, want %+v", lp.name, n, got, want)
			}
			for k := range v {
				for i := range v[k] {
					v[k][i] *= 1 + rng.Float64()
				}
			}
			*got = incLanes{}
			lp.inc64(got, v[0], v[1], v[2], v[3])
			if want := referenceIncrements(v[0], v[1], v[2], v[3]); !same(got, want) {
				t.Fatalf("%s inc64 of %d: %+v, want %+v", lp.name, n, got, want)
			}
		}
	}
}

func TestEveryImplementationFoldsBlocks(t *testing.T) {
	for _, lp := range implementations() {
		for _, n := range loopSizes() {
			dst, src := make([]float64, n), make([]float64, n)
			sum, top := make([]float64, n), make([]float64, n)
			for i := range n {
				dst[i], src[i] = float64(i%7), float64(i%5)/3
				sum[i], top[i] = dst[i]+src[i], max(dst[i], src[i])
			}
			got := slices.Clone(dst)
			if lp.add(got, src); !sameBits(got, sum) {
				t.Fatalf("%s add of %d: %v, want %v", lp.name, n, got, sum)
			}
			got = slices.Clone(dst)
			if lp.max(got, src); !sameBits(got, top) {
				t.Fatalf("%s max of %d: %v, want %v", lp.name, n, got, top)
			}
		}
	}
}

// TestEveryHalfIsWidened goes through all 65,536 values of both 16-bit types. The
// value of a binary16 is worked out from its definition in float64.
func TestEveryHalfIsWidened(t *testing.T) {
	raw := make([]byte, 2<<16)
	for i := range 1 << 16 {
		raw[2*i], raw[2*i+1] = byte(i), byte(i>>8)
	}
	half := func(i int) float64 {
		exp, man := i>>10&31, float64(i&1023)
		var f float64
		switch {
		case exp == 31 && man != 0:
			return math.NaN()
		case exp == 31:
			f = math.Inf(1)
		case exp == 0:
			f = man / (1 << 24)
		default:
			f = (1 + man/1024) * math.Pow(2, float64(exp-15))
		}
		if i&0x8000 != 0 {
			f = -f
		}
		return f
	}
	for _, lp := range implementations() {
		got := make([]float32, 1<<16)
		lp.f16(got, raw)
		for i, g := range got {
			want := half(i)
			if float64(g) != want && !(g != g && want != want) || math.Signbit(float64(g)) != (i&0x8000 != 0) {
				t.Fatalf("%s: half %#04x is %v, want %v", lp.name, i, g, want)
			}
		}
		lp.bf16(got, raw)
		for i, g := range got {
			if math.Float32bits(g) != uint32(i)<<16 {
				t.Fatalf("%s: bfloat16 %#04x is %#08x", lp.name, i, math.Float32bits(g))
			}
		}
		for n := range 40 { // tails
			lp.f16(got[:n], raw[4000:])
			for i := range n {
				if float64(got[i]) != half(2000+i) {
					t.Fatalf("%s: element %d of %d halves is %v", lp.name, i, n, got[i])
				}
			}
		}
	}
}

func Example_lanes() {
	l := [Lanes]float64{1, 2, 3, 4, 5, 6, 7, 8}
	fmt.Println(sum8(&l), max8(&l))
	// Output: 36 8
}

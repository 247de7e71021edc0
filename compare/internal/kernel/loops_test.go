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

func referenceRow(a, b []float64) *lanes {
	l := new(lanes)
	for i := range len(a) &^ 7 {
		x, y, j := a[i], b[i], i&7
		d := x - y
		l.dot[j] += float64(x * y)
		l.a2[j] += float64(x * x)
		l.b2[j] += float64(y * y)
		l.d2[j] += float64(d * d)
		l.s1[j] += math.Abs(d)
		if e := math.Abs(d); e > l.max[j] {
			l.max[j], l.at[j] = e, float64(i/stretch)
		}
		l.maxA[j] = max(l.maxA[j], math.Abs(x))
		l.maxB[j] = max(l.maxB[j], math.Abs(y))
	}
	return l
}

func referenceColumns(c *columns, a, b []float64, rows int) {
	n := len(c.a2)
	for r := range rows {
		for j := range n {
			x, y := a[r*n+j], b[r*n+j]
			d := x - y
			c.a2[j] += float64(x * x)
			c.b2[j] += float64(y * y)
			c.d2[j] += float64(d * d)
			c.max[j] = max(c.max[j], math.Abs(d))
		}
	}
}

func referenceIncrements(a0, a, b0, b []float64) *incLanes {
	l := new(incLanes)
	for i := range len(a) &^ 7 {
		x, y, j := a[i]-a0[i], b[i]-b0[i], i&7
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
	if max8(&got.max) != max8(&want.max) || foundIn(got) != foundIn(want) {
		return false
	}
	return max8(&got.maxA) == max8(&want.maxA) && max8(&got.maxB) == max8(&want.maxB)
}

// foundIn is the first stretch that reached the maximum.
func foundIn(l *lanes) float64 {
	s := math.Inf(1)
	for j, m := range l.max {
		if m == max8(&l.max) {
			s = min(s, l.at[j])
		}
	}
	return s
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

func narrow(v []float64) []float32 {
	s := make([]float32, len(v))
	for i, x := range v {
		s[i] = float32(x)
	}
	return s
}

func TestEveryImplementationSumsARowLikeTheReferenceLoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, lp := range implementations() {
		for _, n := range loopSizes() {
			a, b := mixed(rng, n), mixed(rng, n)
			want := referenceRow(a, b)
			got := &lanes{dot: [Lanes]float64{7: 99}} // what was there must not count
			if lp.row32(got, narrow(a), narrow(b)); !sameLanes(got, want) {
				t.Fatalf("%s row32 of %d: %+v, want %+v", lp.name, n, got, want)
			}
			for i := range a { // full 53-bit mantissas: every product is rounded
				a[i] *= 1 + rng.Float64()
				b[i] *= 1 + rng.Float64()
			}
			want = referenceRow(a, b)
			if lp.row64(got, a, b); !sameLanes(got, want) {
				t.Fatalf("%s row64 of %d: %+v, want %+v", lp.name, n, got, want)
			}
		}
	}
}

func TestEveryImplementationSumsColumnsLikeTheReferenceLoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, lp := range implementations() {
		for _, n := range loopSizes() {
			for rows := 1; rows <= tileRows; rows++ {
				a, b := mixed(rng, n*rows), mixed(rng, n*rows)
				start := make([]float64, 4*n)
				for i := range start {
					start[i] = rng.Float64()
				}
				cols := func() *columns {
					s := slices.Clone(start)
					return &columns{s[:n], s[n : 2*n], s[2*n : 3*n], s[3*n:]}
				}
				check := func(loop string, got, want *columns) {
					t.Helper()
					for k, p := range [][2][]float64{{got.a2, want.a2}, {got.b2, want.b2}, {got.d2, want.d2}, {got.max, want.max}} {
						if !sameBits(p[0], p[1]) {
							t.Fatalf("%s %s of %d rows by %d: sum %d differs", lp.name, loop, rows, n, k)
						}
					}
				}
				got, want := cols(), cols()
				lp.col32(got, narrow(a), narrow(b), rows)
				referenceColumns(want, a, b, rows)
				check("col32", got, want)
				for i := range a {
					a[i] *= 1 + rng.Float64()
				}
				got, want = cols(), cols()
				lp.col64(got, a, b, rows)
				referenceColumns(want, a, b, rows)
				check("col64", got, want)
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
			got := &incLanes{dot: [Lanes]float64{7: 99}}
			lp.inc32(got, narrow(v[0]), narrow(v[1]), narrow(v[2]), narrow(v[3]))
			if want := referenceIncrements(v[0], v[1], v[2], v[3]); !same(got, want) {
				t.Fatalf("%s inc32 of %d: %+v, want %+v", lp.name, n, got, want)
			}
			for k := range v {
				for i := range v[k] {
					v[k][i] *= 1 + rng.Float64()
				}
			}
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

// TestARowThatIsNotFiniteShows makes sure of what the slow path hangs on: the sum
// Σa²+Σb² of a row tells of every NaN and infinity, wherever it stands.
func TestARowThatIsNotFiniteShows(t *testing.T) {
	for _, lp := range implementations() {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for _, n := range []int{8, 16, 24, 1032} {
				for i := range n {
					for side := range 2 {
						v := [2][]float64{make([]float64, n), make([]float64, n)}
						v[side][i] = bad
						var l lanes
						lp.row32(&l, narrow(v[0]), narrow(v[1]))
						s32 := sum8(&l.a2) + sum8(&l.b2)
						lp.row64(&l, v[0], v[1])
						s64 := sum8(&l.a2) + sum8(&l.b2)
						if finite(s32) || finite(s64) {
							t.Fatalf("%s: %v at %d of %d went unseen", lp.name, bad, i, n)
						}
					}
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

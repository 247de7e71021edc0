package kernel

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// precision in bits of the mantissa: what the oracle itself rounds is some seventy
// digits below the bounds of these tests.
const precision = 300

func exact(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

func newBig() *big.Float { return new(big.Float).SetPrec(precision) }

// oracle holds the sums in exact arithmetic.
type oracle struct {
	dot, a2, b2, d2, s1 *big.Float
	absDot              *big.Float // Σ|ab|, what the error of dot is measured by
	max                 float64
}

func newOracle() *oracle {
	return &oracle{newBig(), newBig(), newBig(), newBig(), newBig(), newBig(), 0}
}

func (o *oracle) add(x, y float64) {
	if !finite(x) || !finite(y) {
		return
	}
	a, b := exact(x), exact(y)
	p, d := newBig().Mul(a, b), newBig().Sub(a, b)
	o.dot.Add(o.dot, p)
	o.absDot.Add(o.absDot, newBig().Abs(p))
	o.a2.Add(o.a2, newBig().Mul(a, a))
	o.b2.Add(o.b2, newBig().Mul(b, b))
	o.d2.Add(o.d2, newBig().Mul(d, d))
	o.s1.Add(o.s1, newBig().Abs(d))
	o.max = max(o.max, math.Abs(x-y))
}

// oneMinusCos is 1 - dot/√(a2·b2), and whether there is one.
func (o *oracle) oneMinusCos() (float64, bool) {
	if o.a2.Sign() == 0 || o.b2.Sign() == 0 {
		return 0, false
	}
	n := newBig().Sqrt(newBig().Mul(o.a2, o.b2))
	f, _ := newBig().Sub(exact(1), newBig().Quo(o.dot, n)).Float64()
	return f, true
}

// near tells whether got, times 2^exp, is want to 1e-12 of scale, the sum of the
// absolute values of want's terms.
func near(got float64, exp int, want, scale *big.Float) bool {
	g := newBig().SetMantExp(exact(got), exp)
	err := newBig().Abs(newBig().Sub(g, want))
	return err.Cmp(newBig().Mul(scale, exact(1e-12))) <= 0
}

func (o *oracle) check(m Moments) error {
	for _, c := range []struct {
		name        string
		got         float64
		exp         int
		want, scale *big.Float
	}{
		{"dot", m.Dot, 2 * m.Exp, o.dot, o.absDot},
		{"a2", m.A2, 2 * m.Exp, o.a2, o.a2},
		{"b2", m.B2, 2 * m.Exp, o.b2, o.b2},
		{"d2", m.D2, 2 * m.Exp, o.d2, o.d2},
		{"s1", m.S1, 0, o.s1, o.s1},
	} {
		if !near(c.got, c.exp, c.want, c.scale) {
			return fmt.Errorf("%s is %v·2^%d, want %v", c.name, c.got, c.exp, c.want.Text('g', 20))
		}
	}
	if m.Max != o.max {
		return fmt.Errorf("max is %v, want %v", m.Max, o.max)
	}
	return nil
}

func (o *oracle) checkColumn(c ColMoments) error {
	m := Moments{A2: c.A2, B2: c.B2, D2: c.D2, Max: c.Max, Exp: c.Exp}
	m.Dot = c.Dot()
	for _, p := range []struct {
		name string
		got  float64
		want *big.Float
		of   *big.Float
	}{
		{"a2", m.A2, o.a2, o.a2}, {"b2", m.B2, o.b2, o.b2}, {"d2", m.D2, o.d2, o.d2},
		{"dot", m.Dot, o.dot, newBig().Add(o.a2, o.b2)},
	} {
		if !near(p.got, 2*c.Exp, p.want, p.of) {
			return fmt.Errorf("%s is %v·2^%d, want %v", p.name, p.got, 2*c.Exp, p.want.Text('g', 20))
		}
	}
	if m.Max != o.max {
		return fmt.Errorf("max is %v, want %v", m.Max, o.max)
	}
	return nil
}

// decoded is what is really stored, as float64.
func decoded(o Operand, n int) []float64 {
	raw := o.Src.(memory).data[int(o.First)*o.Type.Size():][:n*o.Type.Size()]
	buf := make([]float64, len(raw)/8+1)
	b := bytesOf(buf)[:len(raw)]
	copy(b, raw)
	return widen(&portable, o.Type, o.Table, b, make([]float32, n), make([]float64, n))
}

// checkAgainstOracle runs p and compares every sum with exact arithmetic.
func checkAgainstOracle(t *testing.T, name string, p Pair) *Sums {
	t.Helper()
	s, err := Run(context.Background(), p, Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	x, y := decoded(p.Ref, p.Rows*p.Cols), decoded(p.Port, p.Rows*p.Cols)
	whole := newOracle()
	cols := make([]*oracle, p.Cols)
	for c := range cols {
		cols[c] = newOracle()
	}
	for r := range p.Rows {
		row := newOracle()
		for c := range p.Cols {
			i := r*p.Cols + c
			row.add(x[i], y[i])
			whole.add(x[i], y[i])
			cols[c].add(x[i], y[i])
		}
		if err := row.check(s.Row[r]); err != nil {
			t.Fatalf("%s: row %d: %v", name, r, err)
		}
	}
	if err := whole.check(s.Whole); err != nil {
		t.Fatalf("%s: whole: %v", name, err)
	}
	for c := range cols {
		if err := cols[c].checkColumn(s.Col[c]); err != nil {
			t.Fatalf("%s: column %d: %v", name, c, err)
		}
	}
	return s
}

// spread are normal values of one size, as activations are.
func spread(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64() * 3
	}
	return v
}

func TestSumsAreExactToTwelveDigits(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	shapes := [][2]int{{0, 0}, {0, 3}, {3, 0}, {1, 1}, {1, 2}, {2, 1}, {1, 7}, {7, 1}, {1, 8}, {3, 9}, {5, 15}, {4, 16}, {9, 17}, {65, 3}, {66, 31}, {1, 10001}, {10001, 1}, {2, 5000}, {3, 333}}
	types := [][2]Type{{F32, F32}, {F16, F16}, {BF16, BF16}, {F64, F64}, {F8, F8}, {F32, BF16}, {BF16, F16}, {F64, F32}, {F16, F64}, {F8, F64}}
	for _, s := range shapes {
		for k, ty := range types {
			if s[0]*s[1] > 5000 && k%4 != 0 {
				continue // exact arithmetic is slow, and size and type are independent
			}
			x, y := spread(rng, s[0]*s[1]+k), spread(rng, s[0]*s[1]+3)
			if k%2 == 0 { // the port as a slightly wrong copy
				for i := range min(len(x), len(y)) {
					y[i] = x[i] * (1 + 1e-3*rng.NormFloat64())
				}
			}
			p := Pair{Ref: operand(ty[0], x), Port: operand(ty[1], y), Rows: s[0], Cols: s[1]}
			p.Ref.First, p.Port.First = int64(k), 3
			checkAgainstOracle(t, fmt.Sprintf("%v of %v", s, ty), p)
		}
	}
}

func TestSumsOfVeryDifferentValuesAreExactToTwelveDigits(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for _, ty := range []Type{F32, F16, BF16, F64} {
		for _, s := range [][2]int{{5, 77}, {70, 6}} {
			p := Pair{Ref: operand(ty, mixed(rng, s[0]*s[1])), Port: operand(ty, mixed(rng, s[0]*s[1])), Rows: s[0], Cols: s[1]}
			checkAgainstOracle(t, fmt.Sprintf("%v of %v", s, ty), p)
		}
	}
}

// TestOneMinusCosKeepsItsDigits measures the figure itself: 1e-9 of its value, or
// 1e-17, from noise of every size down to one changed bit. Where the lengths
// differ too, (a2-b2) is what rounds, and the bound is 1e-17 plus their relative
// difference times 1e-15.
func TestOneMinusCosKeepsItsDigits(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	const n = 3000
	base := spread(rng, n)
	change := func(f func(i int, x float64) float64) []float64 {
		v := make([]float64, n)
		for i, x := range base {
			v[i] = f(i, float64(float32(x)))
		}
		return v
	}
	noise := func(size float64) func(int, float64) float64 {
		return func(_ int, x float64) float64 { return x * (1 + size*rng.NormFloat64()) }
	}
	cases := map[string][]float64{
		"equal":                  change(func(_ int, x float64) float64 { return x }),
		"one bit of one element": change(func(i int, x float64) float64 { return oneUp(i, 1234, x) }),
		"one percent longer":     change(func(_ int, x float64) float64 { return 1.01 * x }),
		"negated":                change(func(_ int, x float64) float64 { return -x }),
		"unrelated":              spread(rng, n),
		"half the angle":         change(func(_ int, x float64) float64 { return x + 3*rng.NormFloat64() }),
	}
	for _, size := range []float64{1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5} {
		cases[fmt.Sprintf("noise of %g", size)] = change(noise(size))
	}
	for _, ty := range []Type{F32, F64} {
		for name, v := range cases {
			p := Pair{Ref: operand(ty, base), Port: operand(ty, v), Rows: 3, Cols: n / 3}
			s := checkAgainstOracle(t, name, p)
			o := newOracle()
			x, y := decoded(p.Ref, n), decoded(p.Port, n)
			for i := range x {
				o.add(x[i], y[i])
			}
			want, _ := o.oneMinusCos()
			got := s.Whole.OneMinusCos()
			bound := 1e-17 + 1e-15*math.Abs(s.Whole.NormRatio()-1)
			if err := math.Abs(got - want); err > max(1e-9*want, bound) {
				t.Errorf("%v, %s: 1-cos is %v, want %v (off by %.2g)", ty, name, got, want, err)
			}
			if name == "one bit of one element" && ty == F32 && (got <= 0 || got > 1e-15) {
				t.Errorf("%s: 1-cos is %v", name, got)
			}
		}
	}
}

// oneUp is x, and for one index the next float32.
func oneUp(i, which int, x float64) float64 {
	if i == which {
		return float64(math.Nextafter32(float32(x), float32(math.Inf(1))))
	}
	return x
}

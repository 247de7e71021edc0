package compare

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

// oracle holds the sums of two vectors, exact.
type oracle struct {
	dot, a2, b2, d2, s1 *big.Float
	max, maxA           float64
	at, n               int
}

// exactly adds up with 600 bits: no product and no sum of these tests rounds.
func exactly(a, b []float64) oracle {
	z := func() *big.Float { return new(big.Float).SetPrec(600) }
	o := oracle{z(), z(), z(), z(), z(), 0, 0, -1, 0}
	for i := range a {
		if math.IsNaN(a[i]+b[i]) || math.IsInf(a[i], 0) || math.IsInf(b[i], 0) {
			continue
		}
		x, y := z().SetFloat64(a[i]), z().SetFloat64(b[i])
		d := z().Sub(x, y)
		o.dot.Add(o.dot, z().Mul(x, y))
		o.a2.Add(o.a2, z().Mul(x, x))
		o.b2.Add(o.b2, z().Mul(y, y))
		o.d2.Add(o.d2, z().Mul(d, d))
		d.Abs(d)
		o.s1.Add(o.s1, d)
		if f, _ := d.Float64(); o.at < 0 || f > o.max {
			o.max, o.at = f, i
		}
		o.maxA = math.Max(o.maxA, math.Abs(a[i]))
		o.n++
	}
	return o
}

// f rounds an exact number.
func f(x *big.Float) float64 { v, _ := x.Float64(); return v }

// root is the square root of the quotient of two exact sums.
func root(a, b *big.Float) float64 {
	return f(new(big.Float).SetPrec(600).Sqrt(new(big.Float).SetPrec(600).Quo(a, b)))
}

// oneMinusCos is 1 - dot/√(a2·b2) without any rounding but the last.
func (o oracle) oneMinusCos() float64 {
	z := func() *big.Float { return new(big.Float).SetPrec(600) }
	c := z().Quo(o.dot, z().Sqrt(z().Mul(o.a2, o.b2)))
	return f(z().Sub(big.NewFloat(1).SetPrec(600), c))
}

// figure asserts one figure to 1e-12 relative.
func figure(t *testing.T, where, name string, got Num, want float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= 1e-12*math.Abs(want)) && !(float64(got) == want) {
		t.Errorf("%s: %s is %v, exactly %v", where, name, float64(got), want)
	}
}

// Through files of every type, with every figure against exact sums of what the
// files hold.
func TestFiguresEqualAnExactOracles(t *testing.T) {
	types := []npy.DType{npy.Float32, npy.Float64, npy.Float16, npy.BFloat16}
	rng := rand.New(rand.NewPCG(11, 12))
	for _, ta := range types {
		for _, tb := range types {
			for _, shape := range [][]int{{1, 1}, {3, 7}, {5, 64}, {2, 501}, {1, 10001}} {
				where := fmt.Sprintf("%s against %s %v", ta, tb, shape)
				a := dumptest.Rand(rng, shape...)
				if shape[1] > 60 { // a massive activation, and something tiny
					a.Data[rng.IntN(len(a.Data))] = 22500
					a.Data[rng.IntN(len(a.Data))] = 1e-7
				}
				e := math.Pow(10, -1-6*rng.Float64())
				b := a.Noise(rng, e).As(tb)
				checkOracle(t, where, a.As(ta), b)
			}
		}
	}
}

// checkOracle writes, compares and checks one pair.
func checkOracle(t *testing.T, where string, a, b *dumptest.Array) {
	t.Helper()
	dir := t.TempDir()
	ref := dumptest.Dump{"x": a}.Write(t, filepath.Join(dir, "ref"))
	port := dumptest.Dump{"x": b}.Write(t, filepath.Join(dir, "port"))
	read := func(dir string, a *dumptest.Array) []float64 {
		as := a.DType
		return dumptest.Read(t, filepath.Join(dir, "x.npy"), as).Data
	}
	x, y := read(ref, a), read(port, b)
	c := compareFolders(t, ref, port)
	ck := c.Checkpoints[0]
	o := exactly(x, y)
	if ck.Figures == nil {
		t.Fatalf("%s: no figures: %s", where, ck.Reason)
	}
	figure(t, where, "rel_l2", ck.RelL2, root(o.d2, o.a2))
	figure(t, where, "norm_ratio", ck.NormRatio, root(o.b2, o.a2))
	figure(t, where, "norm_ref", ck.NormRef, root(o.a2, big.NewFloat(1)))
	figure(t, where, "norm_port", ck.NormPort, root(o.b2, big.NewFloat(1)))
	figure(t, where, "scale", ck.Scale, f(new(big.Float).SetPrec(600).Quo(o.dot, o.a2)))
	figure(t, where, "mean_diff", ck.MeanDiff, f(new(big.Float).SetPrec(600).Quo(o.s1, big.NewFloat(float64(o.n)))))
	figure(t, where, "max_diff", ck.MaxDiff, o.max)
	figure(t, where, "max_rel", ck.MaxRel, o.max/o.maxA)
	if f(o.d2) > 0 {
		figure(t, where, "snr_db", ck.SNR, 10*math.Log10(f(o.a2)/f(o.d2)))
	}
	want := o.oneMinusCos()
	if got := float64(ck.OneMinusCos); !(math.Abs(got-want) <= 1e-9*want) && !(math.Abs(got-want) <= 1e-17) {
		t.Errorf("%s: 1-cos is %v, exactly %v", where, got, want)
	}
	cols := a.Shape[len(a.Shape)-1]
	if o.max > 0 {
		if at := ck.MaxAt; len(at) != 2 || at[0]*cols+at[1] != o.at {
			t.Errorf("%s: the largest difference is at %v, exactly at %d of rows of %d", where, at, o.at, cols)
		}
		if float64(ck.MaxRef) != x[o.at] || float64(ck.MaxPort) != y[o.at] {
			t.Errorf("%s: values there %v and %v, want %v and %v", where, ck.MaxRef, ck.MaxPort, x[o.at], y[o.at])
		}
	}
	for _, tok := range ck.WorstTokens {
		row := exactly(x[tok.Token*cols:(tok.Token+1)*cols], y[tok.Token*cols:(tok.Token+1)*cols])
		figure(t, where, fmt.Sprintf("rel_l2 of token %d", tok.Token), tok.RelL2, root(row.d2, row.a2))
		figure(t, where, fmt.Sprintf("max_diff of token %d", tok.Token), tok.MaxDiff, row.max)
	}
	for _, d := range ck.WorstDims {
		var u, v []float64
		for at := d.Dim; at < len(x); at += cols {
			u, v = append(u, x[at]), append(v, y[at])
		}
		col := exactly(u, v)
		figure(t, where, fmt.Sprintf("rel_l2 of dim %d", d.Dim), d.RelL2, root(col.d2, col.a2))
		figure(t, where, fmt.Sprintf("max_diff of dim %d", d.Dim), d.MaxDiff, col.max)
	}
}

// The special cases, by hand; each has a meaning of its own and no epsilon.
func TestFiguresOfSpecialPairs(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		reason   string
		a, b     []float64
		cos, rel float64
		status   Status
		note     string
	}{
		{"both zero: equal", []float64{0, 0, 0, 0}, []float64{0, 0, 0, 0}, 1, 0, Equal, ""},
		{"minus zero is zero", []float64{0, 1, 0, 2}, []float64{math.Copysign(0, -1), 1, 0, 2}, 1, 0, Equal, ""},
		{"the port is zero", []float64{1, 2, 3, 4}, []float64{0, 0, 0, 0}, 0, 1, Enters, ""},
		{"the reference is zero", []float64{0, 0, 0, 0}, []float64{1, 2, 3, 4}, 0, inf, Enters, ""},
		{"the opposite", []float64{1, 2, 3, 4}, []float64{-1, -2, -3, -4}, -1, 2, Enters, ""},
		{"orthogonal", []float64{1, 0, 0, 0}, []float64{0, 1, 0, 0}, 0, math.Sqrt2, Enters, ""},
		{"NaN at one place on both sides: the rest is equal", []float64{nan, 2, 3, 4}, []float64{nan, 2, 3, 4}, 1, 0, Equal, "1 values are NaN or Inf at the same places"},
		{"Inf of one sign on both sides", []float64{inf, 2, 3, 4}, []float64{inf, 2, 3, 4}, 1, 0, Equal, "at the same places"},
		{"NaN in the port", []float64{1, 2, 3, 4}, []float64{nan, 2, 3, 4}, 1, 0, Enters, ""},
		{"Inf against -Inf", []float64{inf, 2, 3, 4}, []float64{-inf, 2, 3, 4}, 1, 0, Enters, ""},
		{"Inf against NaN", []float64{inf, 2, 3, 4}, []float64{nan, 2, 3, 4}, 1, 0, Enters, ""},
		{"NaN throughout on both sides: nothing is left to compare", []float64{nan, nan, nan, nan}, []float64{nan, nan, nan, nan}, nan, nan, Noted, "4 values are NaN or Inf at the same places"},
		{"nothing at all", nil, nil, nan, nan, Noted, ""},
		{"beyond the range of float32's squares", []float64{1e30, 2e30, 3e30, 1}, []float64{1e30, 2e30, 3e30, 1}, 1, 0, Equal, ""},
		{"tiny", []float64{1e-40, 2e-40, 3e-40, 1e-41}, []float64{2e-40, 4e-40, 6e-40, 2e-41}, 1, 1, Enters, ""},
	} {
		dir := t.TempDir()
		ref := dumptest.Dump{"x": dumptest.Floats(c.a, 1, len(c.a))}.Write(t, filepath.Join(dir, "ref"))
		port := dumptest.Dump{"x": dumptest.Floats(c.b, 1, len(c.b))}.Write(t, filepath.Join(dir, "port"))
		ck := compareFolders(t, ref, port).Checkpoints[0]
		same := func(got Num, want float64) bool {
			return float64(got) == want || math.IsNaN(want) && math.IsNaN(float64(got)) || math.Abs(float64(got)-want) < 1e-4*math.Abs(want)
		}
		if ck.Status != c.status || !same(ck.Cos, c.cos) || !same(ck.RelL2, c.rel) {
			t.Errorf("%s: %s, cos %v, rel_l2 %v; want %s, %v, %v", c.reason, ck.Status, ck.Cos, ck.RelL2, c.status, c.cos, c.rel)
		}
		if c.note != "" && (len(ck.Notes) == 0 || !contains(ck.Notes, c.note)) {
			t.Errorf("%s: notes %q do not say %q", c.reason, ck.Notes, c.note)
		}
	}
}

// contains tells whether one of the notes holds the words.
func contains(notes []string, words string) bool {
	for _, n := range notes {
		if strings.Contains(n, words) {
			return true
		}
	}
	return false
}

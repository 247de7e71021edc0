package kernel

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// equalSums tells where two results differ in any bit, "" if nowhere.
func equalSums(a, b *Sums) string {
	if a.Rows != b.Rows || a.Cols != b.Cols {
		return "shape"
	}
	if !equalMoments(a.Whole, b.Whole) {
		return fmt.Sprintf("whole: %+v and %+v", a.Whole, b.Whole)
	}
	for i := range a.Row {
		if !equalMoments(a.Row[i], b.Row[i]) {
			return fmt.Sprintf("row %d: %+v and %+v", i, a.Row[i], b.Row[i])
		}
	}
	for i := range a.Col {
		x, y := a.Col[i], b.Col[i]
		if !sameBits([]float64{x.A2, x.B2, x.D2, x.Max}, []float64{y.A2, y.B2, y.D2, y.Max}) || x.Exp != y.Exp {
			return fmt.Sprintf("column %d: %+v and %+v", i, x, y)
		}
	}
	if a.NonFinite != b.NonFinite {
		return fmt.Sprintf("%+v and %+v", a.NonFinite, b.NonFinite)
	}
	for _, p := range [][2][]int32{{a.RowNonFinite, b.RowNonFinite}, {a.RowMismatched, b.RowMismatched}} {
		if fmt.Sprint(p[0]) != fmt.Sprint(p[1]) || (p[0] == nil) != (p[1] == nil) {
			return fmt.Sprintf("counts per row: %v and %v", p[0], p[1])
		}
	}
	return ""
}

func equalMoments(x, y Moments) bool {
	return x.N == y.N && x.MaxAt == y.MaxAt && x.Exp == y.Exp &&
		sameBits([]float64{x.Dot, x.A2, x.B2, x.D2, x.S1, x.Max, x.MaxA, x.MaxB},
			[]float64{y.Dot, y.A2, y.B2, y.D2, y.S1, y.Max, y.MaxA, y.MaxB})
}

// drawPair is any pair: type by type, ragged shapes, an offset, and now and then
// values that are not finite or, in float64, whose squares are not.
func drawPair(rt *rapid.T) Pair {
	types := rapid.SampledFrom([]Type{F32, F16, BF16, F64, F8})
	shape := rapid.SampledFrom([][2]int{{1, 1}, {1, 5000}, {5000, 1}, {3, 8}, {64, 33}, {65, 7}, {129, 40}, {200, 100}, {0, 4}, {4, 0}, {2, 20001}, {1, 40000}, {9000, 2}, {70, 1025}})
	s := shape.Draw(rt, "shape")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 7))
	bad := rapid.SampledFrom([]int{0, 0, 1, 20}).Draw(rt, "values that are not finite")
	wild := rapid.SampledFrom([]float64{1, 1, 1, 1e200, 1e-200}).Draw(rt, "scale")
	side := func(name string) Operand {
		t := types.Draw(rt, name)
		first := rapid.IntRange(0, 9).Draw(rt, name+" first")
		v := mixed(rng, first+s[0]*s[1])
		if t == F64 {
			for i := range v {
				v[i] *= (1 + rng.Float64()) * wild
			}
		}
		for range bad {
			if len(v) > 0 {
				v[rng.IntN(len(v))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rng.IntN(3)]
			}
		}
		o := operand(t, v)
		o.First = int64(first)
		return o
	}
	return Pair{Ref: side("ref"), Port: side("port"), Rows: s[0], Cols: s[1]}
}

// TestNothingButTheValuesDecidesABit is the contract: loops, workers, the size of
// a read and the split into cells leave the result as it is.
func TestNothingButTheValuesDecidesABit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPair(rt)
		want, errs := runAll(context.Background(), []Pair{p}, Options{Workers: 1}, with(&portable))
		if errs[0] != nil {
			rt.Fatal(errs[0])
		}
		for _, lp := range implementations() {
			u := with(lp)
			u.readBytes = rapid.SampledFrom([]int{1, 100, 4096, 1 << 16, 512 << 10}).Draw(rt, "bytes a read")
			u.smallPair = rapid.SampledFrom([]int64{0, 1 << 40}).Draw(rt, "split from")
			o := Options{Workers: rapid.IntRange(1, 9).Draw(rt, "workers")}
			got, errs := runAll(context.Background(), []Pair{p}, o, u)
			if errs[0] != nil {
				rt.Fatal(errs[0])
			}
			if d := equalSums(got[0], want[0]); d != "" {
				rt.Fatalf("%s, %d workers, %d bytes a read: %s", lp.name, o.Workers, u.readBytes, d)
			}
		}
	})
}

func TestNothingButTheValuesDecidesABitOfIncrements(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x, y := drawPair(rt), drawPair(rt)
		p := IncPair{RefPrev: x.Ref, Ref: x.Ref, PortPrev: x.Port, Port: x.Port, Rows: x.Rows, Cols: x.Cols}
		if y.Rows == x.Rows && y.Cols == x.Cols {
			p.RefPrev, p.PortPrev = y.Ref, y.Port
		} else {
			p.RefPrev = x.Port
		}
		c := Chain{
			Ref:  []Operand{p.RefPrev, p.Ref, p.PortPrev, p.Ref},
			Port: []Operand{p.PortPrev, p.Port, p.Port, p.RefPrev},
			Rows: p.Rows, Cols: p.Cols,
		}
		bits := func(u tuning, workers int) string {
			all, err := runChain(context.Background(), c, Options{Workers: workers}, u)
			if err != nil {
				rt.Fatal(err)
			}
			one, err := RunIncrements(context.Background(), p, Options{Workers: workers})
			if err != nil {
				rt.Fatal(err)
			}
			var b strings.Builder
			for k, m := range all {
				for i, r := range m {
					v := []float64{r.D2, r.A2, r.B2, r.Dot}
					if k == 0 && !sameBits(v, []float64{one[i].D2, one[i].A2, one[i].B2, one[i].Dot}) {
						rt.Fatalf("row %d: %+v in a chain, %+v alone", i, r, one[i])
					}
					for _, x := range v {
						fmt.Fprintf(&b, "%x ", math.Float64bits(x))
					}
				}
			}
			return b.String()
		}
		want := bits(with(&portable), 1)
		for _, lp := range implementations() {
			u := with(lp)
			u.readBytes = rapid.SampledFrom([]int{1, 100, 4096, 512 << 10}).Draw(rt, "bytes a read")
			if bits(u, rapid.IntRange(1, 9).Draw(rt, "workers")) != want {
				rt.Fatalf("%s, %d bytes a read: bits differ", lp.name, u.readBytes)
			}
		}
	})
}

var update = flag.Bool("update", false, "write testdata/bits.golden afresh")

// goldenPairs are pairs made of integers only, so that every machine makes the same.
func goldenPairs() map[string]Pair {
	m := map[string]Pair{}
	for _, s := range [][2]int{{1, 1}, {7, 13}, {130, 257}, {3, 33000}} {
		for _, t := range [][2]Type{{F32, F32}, {F16, F16}, {BF16, BF16}, {F64, F64}, {F8, F8}, {F32, BF16}, {F64, F16}} {
			state := uint64(1)
			fill := func(typ Type) Operand {
				v := make([]float64, s[0]*s[1])
				for i := range v {
					state = state*6364136223846793005 + 1442695040888963407
					v[i] = float64(int64(state>>40)-1<<23) / (1 << 18) // ±32 in steps of 2^-18
					if typ == F64 {
						v[i] += float64(state>>20&0xfffff) / (1 << 50)
					}
				}
				return operand(typ, v)
			}
			m[fmt.Sprintf("[%d,%d] %v %v", s[0], s[1], t[0], t[1])] = Pair{Ref: fill(t[0]), Port: fill(t[1]), Rows: s[0], Cols: s[1]}
		}
	}
	return m
}

// digest is every bit of a result as one line: the whole pair readable, rows and
// columns hashed.
func digest(s *Sums) string {
	h := sha256.New()
	put := func(v ...float64) {
		for _, x := range v {
			_ = binary.Write(h, binary.LittleEndian, math.Float64bits(x))
		}
	}
	for _, r := range s.Row {
		put(r.Dot, r.A2, r.B2, r.D2, r.S1, r.Max, r.MaxA, r.MaxB, float64(r.MaxAt), float64(r.N))
	}
	for _, c := range s.Col {
		put(c.A2, c.B2, c.D2, c.Max)
	}
	w := s.Whole
	return fmt.Sprintf("dot %x a2 %x b2 %x d2 %x s1 %x max %x at %d rest %x",
		w.Dot, w.A2, w.B2, w.D2, w.S1, w.Max, w.MaxAt, h.Sum(nil)[:8])
}

// TestTheBitsAreThoseOfTheGoldenFile holds every machine and every version to the
// same bits.
func TestTheBitsAreThoseOfTheGoldenFile(t *testing.T) {
	const path = "testdata/bits.golden"
	pairs := goldenPairs()
	if *update {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, name := range sortedKeys(pairs) {
			s, err := Run(context.Background(), pairs[name], Options{})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(f, "%s: %s\n", name, digest(s))
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := 0
	for sc := bufio.NewScanner(f); sc.Scan(); seen++ {
		name, want, _ := strings.Cut(sc.Text(), ": ")
		for _, lp := range implementations() {
			s, errs := runAll(context.Background(), []Pair{pairs[name]}, Options{}, with(lp))
			if errs[0] != nil {
				t.Fatal(errs[0])
			}
			if got := digest(s[0]); got != want {
				t.Errorf("%s, %s:\n got %s\nwant %s", name, lp.name, got, want)
			}
		}
	}
	if seen != len(pairs) {
		t.Errorf("%d pairs in the golden file, want %d", seen, len(pairs))
	}
}

package diagnose

import (
	"math"
	"slices"
	"testing"
)

// rowsOf makes a float32 tensor of the given rows.
func rowsOf(rows ...[]float64) *Tensor {
	t := &Tensor{Rows: len(rows), Cols: len(rows[0]), Shape: []int{len(rows), len(rows[0])}, DType: "float32"}
	for _, r := range rows {
		t.Data = append(t.Data, r...)
	}
	return t
}

func TestDistanceCountsEveryTokenAlike(t *testing.T) {
	ref := rowsOf([]float64{1000, 0}, []float64{0, 1})
	port := rowsOf([]float64{1000, 0}, []float64{0, 2})
	// Whole: 1/√(10⁶+1); per token: 0 and 1, so √(1/2).
	e := distance(ref, port)
	if want := 1 / math.Sqrt(1e6+1); math.Abs(e.Whole-want) > 1e-15 || math.Abs(e.Token-math.Sqrt(0.5)) > 1e-15 {
		t.Errorf("distance = %+v, want whole %v, token %v", e, want, math.Sqrt(0.5))
	}
}

func TestDistanceOfWhatIsZeroOrNotFinite(t *testing.T) {
	zero, one := rowsOf([]float64{0, 0}), rowsOf([]float64{1, 0})
	nan, inf := rowsOf([]float64{math.NaN(), 0}), rowsOf([]float64{math.Inf(1), 0})
	for _, c := range []struct {
		reason    string
		ref, port *Tensor
		whole     float64
		token     float64
	}{
		{"both zero", zero, zero, 0, 0},
		{"only the reference zero", zero, one, math.Inf(1), 1},
		{"only the port zero", one, zero, 1, 1},
		{"infinite at the same place", inf, inf, 0, 0},
	} {
		if e := distance(c.ref, c.port); e.Whole != c.whole || e.Token != c.token {
			t.Errorf("%s: %+v, want %v, %v", c.reason, e, c.whole, c.token)
		}
	}
	if e := distance(one, nan); !math.IsNaN(e.Whole) || e.below(1) {
		t.Errorf("a NaN gives %+v, which must be below nothing", e)
	}
}

func TestRowScalesLeaveZeroTokensToTheCaller(t *testing.T) {
	ref := rowsOf([]float64{3, 4}, []float64{0, 0}, []float64{1, 0})
	port := rowsOf([]float64{6, 8}, []float64{1, 0}, []float64{1, 1})
	alpha, resid := rowScales(ref, port)
	if alpha[0] != 2 || resid[0] != 0 || !math.IsNaN(alpha[1]) || alpha[2] != 1 || math.Abs(resid[2]-1/math.Sqrt2) > 1e-15 {
		t.Errorf("scales %v, residuals %v, want [2 NaN 1], [0 NaN 0.7071]", alpha, resid)
	}
}

func TestAProofNeedsDataEnergyAndTheFloor(t *testing.T) {
	e := func(v float64) errorOf { return errorOf{v, v} }
	for _, c := range []struct {
		reason string
		t      trial
		proof  string
	}{
		{"below four floors", trial{before: e(0.5), after: e(4e-6), floor: 1e-6, values: 100}, "exact"},
		{"just above four floors, 99 % explained", trial{before: e(0.5), after: e(4.1e-6), floor: 1e-6, values: 100}, "fit"},
		{"98 % explained", trial{before: e(0.5), after: e(0.0707), floor: 1e-6, values: 100}, ""},
		{"error below its floor from the start", trial{before: e(1e-6), after: e(5e-7), floor: 1e-6, values: 100}, ""},
		{"as many parameters as values", trial{before: e(0.5), after: e(0), floor: 1e-6, values: 100, params: 100}, ""},
		{"a quarter as many", trial{before: e(0.5), after: e(0), floor: 1e-6, values: 100, params: 25}, "exact"},
		{"NaN afterwards", trial{before: e(0.5), after: e(math.NaN()), floor: 1e-6, values: 100}, ""},
		{"one massive token is explained, the others are not", trial{before: e(0.5), after: errorOf{1e-7, 0.4}, floor: 1e-6, values: 100}, ""},
	} {
		if p, _ := c.t.proof(); string(p) != c.proof {
			t.Errorf("%s: proof %q, want %q", c.reason, p, c.proof)
		}
	}
}

func TestRangesAreCutAfterSixRuns(t *testing.T) {
	if got, want := rangesOf([]int{0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := rangesOf([]int{0, 2, 4, 6, 8, 10, 12}), "0, 2, 4, 6, 8, 10, …"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFractionNamesReciprocals(t *testing.T) {
	for x, want := range map[float64]string{1.0 / 12: "1/12 (0.0833333)", 0.3: "0.3", 2.5: "2.5", -0.25: "1/-4 (-0.25)"} {
		if got := fraction(x); got != want {
			t.Errorf("fraction(%v) = %q, want %q", x, got, want)
		}
	}
}

func TestClassesOfRowsHaveToLieApart(t *testing.T) {
	resid := make([]float64, 6)
	two := []float64{1, 39.25, 39.25, 1, 1, 39.25}
	classes := classify(two, resid)
	if len(classes) != 2 || !slices.Equal(classes[0].tokens, []int{0, 3, 4}) || classes[1].scale != 39.25 || !apart(classes, two) {
		t.Errorf("classes %+v, want tokens 0 3 4 at 1 and 1 2 5 at 39.25", classes)
	}
	ramp := []float64{1, 1.0001, 1.0002, 1.0003, 1.0004, 1.0005}
	if classes := classify(ramp, resid); len(classes) > 1 && apart(classes, ramp) {
		t.Errorf("a continuum was cut into %+v", classes)
	}
	if classify([]float64{1, 2, 3, 4, 5, 6}, resid) != nil {
		t.Error("six numbers are no three classes")
	}
}

func TestTransposedProductsNeedNoMatrix(t *testing.T) {
	// x·(W x)ᵀ by hand: W = [[1 2] [3 4]], tokens (1, 0), (0, 1), (1, 1).
	x := rowsOf([]float64{1, 0}, []float64{0, 1}, []float64{1, 1})
	y := rowsOf([]float64{1, 2}, []float64{3, 4}, []float64{4, 6})  // x·W
	yt := rowsOf([]float64{1, 3}, []float64{2, 4}, []float64{3, 7}) // x·Wᵀ
	if g := gram(x, y); !slices.Equal(g.Data, []float64{1, 3, 4, 2, 4, 6, 3, 7, 10}) {
		t.Fatalf("x·yᵀ = %v", g.Data)
	}
	if a, b := gram(x, yt), turned(gram(x, y)); !slices.Equal(a.Data, b.Data) {
		t.Errorf("x·(x·Wᵀ)ᵀ = %v, (x·(x·W)ᵀ)ᵀ = %v", a.Data, b.Data)
	}
}

func TestCombinedAntisymmetryIsFarFromChanceOnlyWhereItHolds(t *testing.T) {
	x := gaussians(11, 200, 4, func(int) float64 { return 1 })
	var odd, plain [][]float64
	for i := range x.Rows {
		r := x.Row(i)
		plain = append(plain, r)
		odd = append(odd, []float64{r[0], r[1], -r[1], -r[0]})
	}
	reversed := func(o, k int) (int, int) { return o, 3 - k }
	if z := antisymmetry(odd, reversed); z < 100 {
		t.Errorf("exact antisymmetry lies %v errors from chance", z)
	}
	if z := antisymmetry(plain, reversed); math.Abs(z) > 4 {
		t.Errorf("independent numbers lie %v errors from chance", z)
	}
}

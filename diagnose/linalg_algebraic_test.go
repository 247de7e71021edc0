package diagnose

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

func TestLeastSquaresFindsTheLineThroughFourPoints(t *testing.T) {
	// y = 1 + 2x through (0, 1.1), (1, 2.9), (2, 5.1), (3, 6.9): by hand
	// slope = Σ(x-1.5)(y-4)/5 = (4.35+0.55+0.55+4.35)/5 = 1.96, a = 4-2.94.
	a := mat.NewDense(4, 2, []float64{1, 0, 1, 1, 1, 2, 1, 3})
	b := mat.NewDense(4, 1, []float64{1.1, 2.9, 5.1, 6.9})
	x, err := leastSquares(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if got := []float64{x.At(0, 0), x.At(1, 0)}; math.Abs(got[0]-1.06) > 1e-12 || math.Abs(got[1]-1.96) > 1e-12 {
		t.Errorf("coefficients %v, want [1.06 1.96]", got)
	}
}

func TestLeastSquaresRefusesWhatHasNoUniqueSolution(t *testing.T) {
	b3 := mat.NewDense(3, 1, []float64{1, 2, 3})
	for reason, a := range map[string]*mat.Dense{
		"two equal columns":        mat.NewDense(3, 2, []float64{1, 1, 2, 2, 3, 3}),
		"a zero column":            mat.NewDense(3, 2, []float64{1, 0, 2, 0, 3, 0}),
		"more unknowns than rows":  mat.NewDense(3, 4, []float64{1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1}),
		"an infinite value inside": mat.NewDense(3, 2, []float64{1, math.Inf(1), 2, 1, 3, 5}),
	} {
		if _, err := leastSquares(a, b3); err == nil {
			t.Errorf("%s: solved", reason)
		}
	}
}

func TestCombineWeighsTokensAlikeWhateverTheirSize(t *testing.T) {
	// Two tokens of two dims. Token 0 is a thousand times larger and follows
	// y = p; token 1 follows y = 3p. Unweighted, token 0 decides: 1.000002. With
	// weights 1/‖p‖ both count alike: 2.
	p := []float64{1000, 0, 0, 1}
	y := []float64{1000, 0, 0, 3}
	c, err := combine(y, [][]float64{p}, 2, []float64{1e-3, 1})
	if err != nil || math.Abs(c[0]-2) > 1e-12 {
		t.Errorf("weighted: %v, %v, want 2", c, err)
	}
	c, err = combine(y, [][]float64{p}, 2, unitWeights(2))
	if want := (1e6 + 3) / (1e6 + 1); err != nil || math.Abs(c[0]-want) > 1e-12 {
		t.Errorf("unweighted: %v, %v, want %v", c, err, want)
	}
	if _, err := combine(y, [][]float64{p, p}, 2, unitWeights(2)); err == nil {
		t.Error("two equal parts were told apart")
	}
}

func TestAffineIsTheLeastSquaresLine(t *testing.T) {
	a, b, r := affine([]float64{0, 1, 2, 3}, []float64{1.1, 2.9, 5.1, 6.9})
	// rss = 0.04²·... by hand: residuals 0.04 -0.12 0.12 -0.04, rss 0.032, syy 19.24.
	if want := math.Sqrt(0.032 / 19.24); math.Abs(a-1.06) > 1e-12 || math.Abs(b-1.96) > 1e-12 || math.Abs(r-want) > 1e-12 {
		t.Errorf("affine = %v, %v, %v, want 1.06, 1.96, %v", a, b, r, want)
	}
	if a, b, r := affine([]float64{2, 2}, []float64{5, 7}); a != 6 || b != 0 || r != 0 {
		t.Errorf("a single x gives %v, %v, %v, want the mean 6, 0, 0", a, b, r)
	}
}

// TestAssignFindsTheCheapestMatching tries all permutations.
func TestAssignFindsTheCheapestMatching(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		cost := make([][]float64, n)
		for i := range cost {
			cost[i] = rapid.SliceOfN(rapid.Float64Range(-5, 5), n, n).Draw(t, "row")
		}
		best := math.Inf(1)
		var walk func(i int, used int, sum float64)
		walk = func(i, used int, sum float64) {
			if i == n {
				best = min(best, sum)
				return
			}
			for j := range n {
				if used&(1<<j) == 0 {
					walk(i+1, used|1<<j, sum+cost[i][j])
				}
			}
		}
		walk(0, 0, 0)
		var got float64
		seen := map[int]bool{}
		for i, j := range assign(cost) {
			got += cost[i][j]
			seen[j] = true
		}
		if len(seen) != n || math.Abs(got-best) > 1e-9 {
			t.Fatalf("assignment over %d columns costs %v, the cheapest %v", len(seen), got, best)
		}
	})
}

package kernel

import (
	"context"
	"math"
	"testing"
)

// figures in the order cos, 1-cos, rel_l2, max_rel, norm ratio, scale, mean diff, SNR.
func figures(m Moments) [8]float64 {
	return [8]float64{m.Cos(), m.OneMinusCos(), m.RelL2(), m.MaxRel(), m.NormRatio(), m.Scale(), m.MeanDiff(), m.SNR()}
}

func momentsOf(t *testing.T, ty Type, ref, port []float64) Moments {
	t.Helper()
	s, err := Run(context.Background(), Pair{Ref: operand(ty, ref), Port: operand(ty, port), Rows: 1, Cols: len(ref)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Whole
}

func TestFiguresOfSpecialPairs(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		why       string
		ref, port []float64
		want      [8]float64
	}{
		{"worked out by hand: (3,4) and (4,3)", []float64{3, 4}, []float64{4, 3},
			[8]float64{24. / 25, 1. / 25, math.Sqrt(2) / 5, 0.25, 1, 24. / 25, 1, 10 * math.Log10(25./2)}},
		{"equal", []float64{3, 4}, []float64{3, 4}, [8]float64{1, 0, 0, 0, 1, 1, 0, inf}},
		{"twice as long: the cosine does not see it", []float64{3, 4}, []float64{6, 8},
			[8]float64{1, 0, 1, 1, 2, 2, 3.5, 0}},
		{"opposite", []float64{3, 4}, []float64{-3, -4}, [8]float64{-1, 2, 2, 2, 1, -1, 7, -20 * math.Log10(2)}},
		{"at a right angle", []float64{1, 0}, []float64{0, 1}, [8]float64{0, 1, math.Sqrt2, 1, 1, 0, 1, -10 * math.Log10(2)}},
		{"both zero are equal", []float64{0, 0}, []float64{0, 0}, [8]float64{1, 0, 0, 0, 1, 1, 0, inf}},
		{"the sign of zero does not count", []float64{0, 0}, []float64{math.Copysign(0, -1), 0}, [8]float64{1, 0, 0, 0, 1, 1, 0, inf}},
		{"only the reference is zero", []float64{0, 0}, []float64{3, 4}, [8]float64{0, 1, inf, inf, inf, nan, 3.5, math.Inf(-1)}},
		{"only the port is zero", []float64{3, 4}, []float64{0, 0}, [8]float64{0, 1, 1, 1, 0, 0, 3.5, 0}},
		{"nothing to compare", nil, nil, [8]float64{nan, nan, nan, nan, nan, nan, nan, nan}},
		{"nothing finite to compare", []float64{nan, 1}, []float64{1, inf}, [8]float64{nan, nan, nan, nan, nan, nan, nan, nan}},
	} {
		for _, ty := range []Type{F32, F64} {
			got := figures(momentsOf(t, ty, c.ref, c.port))
			for i, g := range got {
				w := c.want[i]
				if !(math.IsNaN(g) && math.IsNaN(w)) && g != w && !(math.Abs(g-w) <= 4e-16*math.Abs(w)) {
					t.Errorf("%s (%v): figure %d is %v, want %v", c.why, ty, i, g, w)
				}
			}
		}
	}
}

// TestANaNFailsEveryThreshold: sums that are themselves not finite must show as
// NaN, never as a clamped 0.
func TestANaNFailsEveryThreshold(t *testing.T) {
	nan := math.NaN()
	m := Moments{N: 1, Dot: nan, A2: nan, B2: 1, D2: nan, S1: nan, Max: nan, MaxA: 1}
	for i, g := range figures(m) {
		if i != 4 && g >= 0 {
			t.Errorf("figure %d of a NaN is %v", i, g)
		}
	}
	if c := (ColMoments{A2: nan, B2: 1, D2: nan}); c.OneMinusCos() >= 0 || c.RelL2() >= 0 {
		t.Errorf("a column of NaN has 1-cos %v, rel %v", c.OneMinusCos(), c.RelL2())
	}
}

func TestColumnsHaveTheFiguresOfRows(t *testing.T) {
	ref, port := []float64{3, 1, 4, 2}, []float64{4, 1, 3, 2} // column 0: (3,4) and (4,3); column 1: equal
	s, err := Run(context.Background(), Pair{Ref: operand(F32, ref), Port: operand(F32, port), Rows: 2, Cols: 2}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Col[0]
	if c.Dot() != 24 || math.Abs(c.Cos()-0.96) > 1e-15 || math.Abs(c.OneMinusCos()-0.04) > 1e-16 ||
		c.NormRatio() != 1 || c.Scale() != 0.96 || math.Abs(c.RelL2()-math.Sqrt2/5) > 1e-16 || c.SNR() != 10*math.Log10(12.5) {
		t.Errorf("column (3,4)/(4,3): %+v, cos %v, rel %v", c, c.Cos(), c.RelL2())
	}
	if c := s.Col[1]; c.OneMinusCos() != 0 || c.RelL2() != 0 || c.Scale() != 1 {
		t.Errorf("equal column: %+v", c)
	}
}

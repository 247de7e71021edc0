package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestSquaresBeyondFloat64AreScaled runs float64 pairs whose values are finite and
// whose squares are not, or vanish, against exact arithmetic.
func TestSquaresBeyondFloat64AreScaled(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	const rows, cols = 67, 9
	for _, size := range []float64{1e154, 1e200, 1e300, 1e-160, 1e-200, 1e-290} {
		x, y := spread(rng, rows*cols), spread(rng, rows*cols)
		for i := range x {
			x[i] *= size
			y[i] = x[i] + 1e-3*size*y[i]
		}
		s := checkAgainstOracle(t, fmt.Sprintf("values of %g", size), Pair{Ref: operand(F64, x), Port: operand(F64, y), Rows: rows, Cols: cols})
		if s.Whole.Exp == 0 {
			t.Errorf("values of %g are not scaled: %+v", size, s.Whole)
		}
		if c := s.Whole.Cos(); !(c > 0.999 && c < 1) {
			t.Errorf("values of %g: cos %v", size, c)
		}
		if c := s.Col[4].Cos(); !(c > 0.99 && c <= 1) {
			t.Errorf("values of %g: cos of a column %v", size, c)
		}
	}
}

func TestOneHugeRowAmongOthersIsScaled(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	const rows, cols = 10, 20
	x, y := spread(rng, rows*cols), spread(rng, rows*cols)
	for c := range cols {
		x[3*cols+c] *= 1e250
		y[3*cols+c] *= 1e250
		x[7*cols+c] *= 1e-250
		y[7*cols+c] *= 1e-250
	}
	s := checkAgainstOracle(t, "one huge row", Pair{Ref: operand(F64, x), Port: operand(F64, y), Rows: rows, Cols: cols})
	if s.Row[0].Exp != 0 || s.Row[3].Exp == 0 || s.Row[7].Exp == 0 {
		t.Errorf("exponents %d, %d, %d", s.Row[0].Exp, s.Row[3].Exp, s.Row[7].Exp)
	}
}

// TestSumsThatOnlyTogetherOverflow has rows that fit and a total that does not.
func TestSumsThatOnlyTogetherOverflow(t *testing.T) {
	const rows, cols = 300, 1
	x := make([]float64, rows)
	for i := range x {
		x[i] = 9e153
	}
	s := checkAgainstOracle(t, "rows that fit", Pair{Ref: operand(F64, x), Port: operand(F64, x), Rows: rows, Cols: cols})
	if s.Whole.Exp == 0 || s.Row[0].Exp != 0 || s.Col[0].Exp == 0 || s.Whole.Cos() != 1 {
		t.Errorf("whole %+v, row %+v, column %+v", s.Whole, s.Row[0], s.Col[0])
	}
}

// TestInfinityBesideHugeValues: a true infinity is left out, what is left is scaled.
func TestInfinityBesideHugeValues(t *testing.T) {
	x := []float64{1e300, math.Inf(1), -2e300, 3e300}
	s := checkAgainstOracle(t, "infinity", Pair{Ref: operand(F64, x), Port: operand(F64, x), Rows: 1, Cols: 4})
	if s.Whole.N != 3 || s.NonFinite.Matched != 1 || s.Whole.Exp == 0 || s.Whole.OneMinusCos() != 0 {
		t.Errorf("%+v, %+v", s.Whole, s.NonFinite)
	}
}

func TestADifferenceBeyondFloat64IsInfinite(t *testing.T) {
	m := momentsOf(t, F64, []float64{1.5e308, 1}, []float64{-1.5e308, 1})
	if !math.IsInf(m.Max, 1) || m.MaxAt != 0 || m.N != 2 {
		t.Errorf("%+v", m)
	}
	if c := m.Cos(); math.Abs(c+1) > 1e-15 || math.Abs(m.RelL2()-2) > 1e-15 {
		t.Errorf("cos %v, rel %v", c, m.RelL2())
	}
}

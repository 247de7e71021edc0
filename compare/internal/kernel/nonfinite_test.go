package kernel

import (
	"context"
	"math"
	"reflect"
	"testing"
)

// TestValuesThatAreNotFinite places each kind by hand in a [4, 9] pair.
func TestValuesThatAreNotFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	const cols = 9
	for _, ty := range []Type{F32, F16, BF16, F64} {
		ref, port := make([]float64, 4*cols), make([]float64, 4*cols)
		for i := range ref {
			ref[i], port[i] = float64(i%5), float64(i%5)
		}
		port[1*cols+2] += 2  // the largest finite difference, in a row with NaN
		ref[1*cols+0] = nan  // NaN on one side
		port[1*cols+8] = inf // in the tail of the row
		ref[2*cols+3], port[2*cols+3] = nan, nan
		ref[2*cols+4], port[2*cols+4] = -inf, -inf
		ref[2*cols+5], port[2*cols+5] = inf, -inf
		for c := range cols { // a row with nothing to compare
			ref[3*cols+c], port[3*cols+c] = inf, inf
		}
		s, err := Run(context.Background(), Pair{Ref: operand(ty, ref), Port: operand(ty, port), Rows: 4, Cols: cols}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := NonFinite{
			RefNaN: 2, RefPosInf: 1 + 9, RefNegInf: 1,
			PortNaN: 1, PortPosInf: 1 + 9, PortNegInf: 2,
			Matched: 2 + 9, Mismatched: 3, FirstMismatch: cols, FirstAt: cols,
		}
		if s.NonFinite != want {
			t.Errorf("%v: %+v, want %+v", ty, s.NonFinite, want)
		}
		if !reflect.DeepEqual(s.RowNonFinite, []int32{0, 2, 3, 9}) || !reflect.DeepEqual(s.RowMismatched, []int32{0, 2, 1, 0}) {
			t.Errorf("%v: per row %v and %v", ty, s.RowNonFinite, s.RowMismatched)
		}
		for r, n := range []int64{9, 7, 6, 0} {
			if s.Row[r].N != n {
				t.Errorf("%v: row %d compares %d positions, want %d", ty, r, s.Row[r].N, n)
			}
		}
		if s.Row[3] != noMoments {
			t.Errorf("%v: the row with nothing to compare is %+v", ty, s.Row[3])
		}
		if s.Whole.N != 22 || s.Whole.D2 != 4 || s.Whole.Max != 2 || s.Whole.MaxAt != 1*cols+2 || s.Row[1].MaxAt != 2 {
			t.Errorf("%v: whole %+v", ty, s.Whole)
		}
		// Column 0 holds 0, [NaN], 3, [Inf]; column 2 holds 2, 1 against 3, 0, [Inf].
		if c := s.Col[0]; c != (ColMoments{A2: 9, B2: 9}) {
			t.Errorf("%v: column 0 is %+v", ty, c)
		}
		if c := s.Col[2]; c != (ColMoments{A2: 4 + 1, B2: 4 + 9, D2: 4, Max: 2}) {
			t.Errorf("%v: column 2 is %+v", ty, c)
		}
	}
}

func TestAMatchedPlaceIsNoMismatch(t *testing.T) {
	ref := []float64{1, math.Inf(1), 2}
	s, err := Run(context.Background(), Pair{Ref: operand(F32, ref), Port: operand(F32, ref), Rows: 1, Cols: 3}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.NonFinite.Matched != 1 || s.NonFinite.FirstMismatch != -1 || s.NonFinite.FirstAt != 1 || s.RowMismatched != nil || s.RowNonFinite[0] != 1 {
		t.Errorf("%+v, %v, %v", s.NonFinite, s.RowNonFinite, s.RowMismatched)
	}
	if s.Whole.N != 2 || s.Whole.OneMinusCos() != 0 {
		t.Errorf("the rest is not compared: %+v", s.Whole)
	}
}

// TestEveryPlaceOfANaN walks one NaN through a pair whose rows are split into
// groups, tiles and tails, and compares with the same pair holding zeros there.
func TestEveryPlaceOfANaN(t *testing.T) {
	const rows, cols = 6, 19
	for _, lp := range implementations() {
		for at := range rows * cols {
			ref, port := make([]float64, rows*cols), make([]float64, rows*cols)
			for i := range ref {
				ref[i], port[i] = float64(i%11), float64(i%13)
			}
			run := func() *Sums {
				s, errs := runAll(context.Background(), []Pair{{Ref: operand(F32, ref), Port: operand(F32, port), Rows: rows, Cols: cols}}, Options{}, with(lp))
				if errs[0] != nil {
					t.Fatal(errs[0])
				}
				return s[0]
			}
			ref[at], port[at] = 0, 0
			want := run()
			ref[at], port[at] = math.NaN(), 1
			got := run()
			if got.NonFinite.FirstMismatch != int64(at) || got.NonFinite.RefNaN != 1 || got.RowMismatched[at/cols] != 1 || got.Whole.N != rows*cols-1 {
				t.Fatalf("%s: NaN at %d: %+v", lp.name, at, got.NonFinite)
			}
			want.NonFinite, want.RowNonFinite, want.RowMismatched = got.NonFinite, got.RowNonFinite, got.RowMismatched
			want.Whole.N--
			want.Row[at/cols].N--
			if d := equalSums(got, want); d != "" {
				t.Fatalf("%s: NaN at %d: %s", lp.name, at, d)
			}
		}
	}
}

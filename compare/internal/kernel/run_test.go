package kernel

import (
	"context"
	"testing"
)

func TestRunGivesTheSumsWorkedOutByHand(t *testing.T) {
	ref := []float64{1, 2, 3, -4, 0, 6}
	port := []float64{1, 1, 3, 4, 0, 6}
	for _, typ := range []Type{F32, F16, BF16, F64, F8} {
		s, err := Run(context.Background(), Pair{Ref: operand(typ, ref), Port: operand(typ, port), Rows: 2, Cols: 3}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		row0 := Moments{N: 3, Dot: 1 + 2 + 9, A2: 1 + 4 + 9, B2: 1 + 1 + 9, D2: 1, S1: 1, Max: 1, MaxAt: 1, MaxA: 3, MaxB: 3}
		row1 := Moments{N: 3, Dot: -16 + 36, A2: 16 + 36, B2: 16 + 36, D2: 64, S1: 8, Max: 8, MaxAt: 0, MaxA: 6, MaxB: 6}
		whole := Moments{N: 6, Dot: 32, A2: 66, B2: 63, D2: 65, S1: 9, Max: 8, MaxAt: 3, MaxA: 6, MaxB: 6}
		if s.Row[0] != row0 || s.Row[1] != row1 || s.Whole != whole {
			t.Errorf("%v: rows %+v, whole %+v", typ, s.Row, s.Whole)
		}
		cols := []ColMoments{{A2: 17, B2: 17, D2: 64, Max: 8}, {A2: 4, B2: 1, D2: 1, Max: 1}, {A2: 45, B2: 45}}
		for i, c := range cols {
			if s.Col[i] != c {
				t.Errorf("%v: column %d is %+v, want %+v", typ, i, s.Col[i], c)
			}
		}
	}
}

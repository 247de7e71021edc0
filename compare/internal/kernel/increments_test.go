package kernel

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
)

func TestIncrementsWorkedOutByHand(t *testing.T) {
	// ref goes from (1,1,1) to (2,3,0): x = (1,2,-1). port goes from (1,1,1) to
	// (2,2,2): y = (1,1,1). y-x = (0,-1,2).
	prev, ref, port := []float64{1, 1, 1}, []float64{2, 3, 0}, []float64{2, 2, 2}
	for _, ty := range []Type{F32, F16, BF16, F64, F8} {
		p := IncPair{RefPrev: operand(ty, prev), Ref: operand(ty, ref), PortPrev: operand(F32, prev), Port: operand(ty, port), Rows: 1, Cols: 3}
		m, err := RunIncrements(context.Background(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want := (IncMoments{D2: 5, A2: 6, B2: 3, Dot: 2}); m[0] != want {
			t.Errorf("%v: %+v, want %+v", ty, m[0], want)
		}
	}
}

// TestIncrementsAreExactToTwelveDigits takes each rounded increment as given: the
// kernel's are float64 differences.
func TestIncrementsAreExactToTwelveDigits(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 1))
	for _, s := range [][2]int{{1, 1}, {3, 77}, {9, 500}, {1, 17000}} {
		for _, ty := range []Type{F32, F64} {
			var o [4]Operand
			var v [4][]float64
			for k := range o {
				o[k] = operand(ty, spread(rng, s[0]*s[1]))
				v[k] = decoded(o[k], s[0]*s[1])
			}
			m, err := RunIncrements(context.Background(), IncPair{o[0], o[1], o[2], o[3], s[0], s[1]}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for r := range m {
				w := newOracle()
				for i := r * s[1]; i < (r+1)*s[1]; i++ {
					w.add(v[1][i]-v[0][i], v[3][i]-v[2][i])
				}
				if !near(m[r].A2, 0, w.a2, w.a2) || !near(m[r].B2, 0, w.b2, w.b2) || !near(m[r].D2, 0, w.d2, w.d2) || !near(m[r].Dot, 0, w.dot, w.absDot) {
					t.Fatalf("%v of %v: row %d is %+v", s, ty, r, m[r])
				}
			}
		}
	}
}

func TestARowOfIncrementsThatIsNotFiniteIsNaN(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, ty := range []Type{F32, F64} {
			for side := range 4 {
				for at := range 20 {
					var v [4][]float64
					for k := range v {
						v[k] = make([]float64, 40)
						for i := range v[k] {
							v[k][i] = float64(i * k)
						}
					}
					v[side][20+at] = bad
					m, err := RunIncrements(context.Background(), IncPair{operand(ty, v[0]), operand(ty, v[1]), operand(ty, v[2]), operand(ty, v[3]), 2, 20}, Options{})
					if err != nil {
						t.Fatal(err)
					}
					for i, x := range []float64{m[1].D2, m[1].A2, m[1].B2, m[1].Dot} {
						if !math.IsNaN(x) {
							t.Fatalf("%v in operand %d at %d: sum %d is %v", bad, side, at, i, x)
						}
					}
					if !finite(m[0].D2) || m[0].A2 == 0 {
						t.Fatalf("the row beside it is %+v", m[0])
					}
				}
			}
		}
	}
}

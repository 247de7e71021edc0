package kernel

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
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

// TestAChainReadsEachCheckpointOnce walks the increments 1, 2, 4 of the reference and
// 1, 2, 5 of the port.
func TestAChainReadsEachCheckpointOnce(t *testing.T) {
	const rows, cols = 300, 40
	level := func(x float64) Operand {
		v := make([]float64, rows*cols)
		for i := range v {
			v[i] = x
		}
		return operand(F32, v)
	}
	c := Chain{
		Ref:  []Operand{level(0), level(1), level(3), level(7)},
		Port: []Operand{level(0), level(1), level(3), level(8)},
		Rows: rows, Cols: cols,
	}
	var read atomic.Int64
	m, err := RunChain(context.Background(), c, Options{Progress: func(n int64) { read.Add(n) }})
	if err != nil {
		t.Fatal(err)
	}
	for r := range rows {
		for i, want := range []IncMoments{{0, 1, 1, 1}, {0, 4, 4, 4}, {1, 16, 25, 20}} {
			want.D2, want.A2, want.B2, want.Dot = cols*want.D2, cols*want.A2, cols*want.B2, cols*want.Dot
			if m[i][r] != want {
				t.Fatalf("increment %d of row %d is %+v, want %+v", i, r, m[i][r], want)
			}
		}
	}
	if read.Load() != 4*2*4*rows*cols {
		t.Errorf("%d bytes were read", read.Load())
	}
	for _, n := range []int{0, 1} {
		if m, err := RunChain(context.Background(), Chain{Ref: c.Ref[:n], Port: c.Port[:n], Rows: rows, Cols: cols}, Options{}); err != nil || len(m) != 0 {
			t.Errorf("a chain of %d: %v, %v", n, m, err)
		}
	}
	if _, err := RunChain(context.Background(), Chain{Ref: c.Ref, Port: c.Port[:3], Rows: rows, Cols: cols}, Options{}); err == nil {
		t.Error("a chain with a checkpoint missing on one side is summed")
	}
}

package diagnose

import (
	"math"
	"math/rand/v2"
	"testing"
)

// gaussians returns a [rows, cols] tensor of normal values, row t times size(t).
func gaussians(seed uint64, rows, cols int, size func(t int) float64) *Tensor {
	r := rand.New(rand.NewPCG(seed, 7))
	x := &Tensor{Name: "x", Rows: rows, Cols: cols, Shape: []int{rows, cols}, DType: "float32"}
	for t := range rows {
		for range cols {
			x.Data = append(x.Data, float64(float32(r.NormFloat64()*size(t))))
		}
	}
	return x
}

// normOf works a norm out in the plainest way, independently of normFit.
func normOf(x *Tensor, gain []float64, width int, s func(ms float64) float64, centre bool) *Tensor {
	y := &Tensor{Name: "y", Rows: x.Rows, Cols: x.Cols, Shape: x.Shape, DType: x.DType, Data: make([]float64, len(x.Data))}
	for lo := 0; lo < len(x.Data); lo += width {
		var mean, ms float64
		for _, v := range x.Data[lo : lo+width] {
			mean += v / float64(width)
		}
		if !centre {
			mean = 0
		}
		for _, v := range x.Data[lo : lo+width] {
			ms += (v - mean) * (v - mean) / float64(width)
		}
		for i, v := range x.Data[lo : lo+width] {
			y.Data[lo+i] = float64(float32((v - mean) / s(ms) * gain[(lo+i)%x.Cols]))
		}
	}
	return y
}

func TestFitNormReadsTheRuleOffInputAndOutput(t *testing.T) {
	const rows, cols = 24, 64
	gain := make([]float64, cols)
	r := rand.New(rand.NewPCG(3, 3))
	for i := range gain {
		gain[i] = 1 + 0.3*r.NormFloat64()
	}
	x := gaussians(1, rows, cols, func(t int) float64 { return math.Pow(1.3, float64(t%12)) * 0.01 })
	for _, c := range []struct {
		reason  string
		eps     float64
		outside bool
		width   int
		centre  bool
	}{
		{"eps 1e-5 inside the root, mean squares from 1e-4", 1e-5, false, cols, false},
		{"eps 1e-3 outside the root", 1e-3, true, cols, false},
		{"a norm per head of 16 dims", 1e-4, false, 16, false},
		{"a layer norm", 1e-4, false, cols, true},
	} {
		s := func(ms float64) float64 { return math.Sqrt(ms + c.eps) }
		if c.outside {
			s = func(ms float64) float64 { return math.Sqrt(ms) + c.eps }
		}
		y := normOf(x, gain, c.width, s, c.centre)
		n, ok := fitNorm(x, y, c.width, c.centre)
		if !ok {
			t.Errorf("%s: not fitted", c.reason)
			continue
		}
		if form := map[bool]string{false: "inside", true: "outside"}[c.outside]; n.Form != form {
			t.Errorf("%s: eps %s the root, want %s", c.reason, n.Form, form)
		}
		if math.Abs(n.Eps-c.eps) > 1e-3*c.eps {
			t.Errorf("%s: eps %v, want %v", c.reason, n.Eps, c.eps)
		}
		if n.Resid > 2e-7 {
			t.Errorf("%s: residual %v, want float32 rounding", c.reason, n.Resid)
		}
		for d, g := range gain {
			if math.Abs(n.Gain[d]-g) > 1e-5 {
				t.Errorf("%s: gain of dim %d is %v, want %v", c.reason, d, n.Gain[d], g)
				break
			}
		}
	}
}

func TestFitNormSaysSoWhereItCannotTellEps(t *testing.T) {
	gain := make([]float64, 32)
	for i := range gain {
		gain[i] = 1
	}
	// All tokens have the size 1 to a few percent: an eps of 1e-9 is out of reach.
	x := gaussians(2, 16, 32, func(int) float64 { return 1 })
	y := normOf(x, gain, 32, func(ms float64) float64 { return math.Sqrt(ms + 1e-9) }, false)
	n, ok := fitNorm(x, y, 32, false)
	if !ok || n.EpsErr < 3e-10 {
		t.Errorf("eps %v ± %v: the error should be of the size of 1e-9 or more", n.Eps, n.EpsErr)
	}
}

func TestFitNormRefusesThreeTokens(t *testing.T) {
	x := gaussians(2, 3, 32, func(int) float64 { return 1 })
	if _, ok := fitNorm(x, x, 32, false); ok {
		t.Error("a gain per dim was read off three tokens")
	}
}

func TestFitNormLeavesAZeroTokenOut(t *testing.T) {
	gain := make([]float64, 32)
	for i := range gain {
		gain[i] = 2
	}
	x := gaussians(2, 12, 32, func(t int) float64 {
		if t == 5 {
			return 0
		}
		return float64(1 + t)
	})
	y := normOf(x, gain, 32, func(ms float64) float64 { return math.Sqrt(ms + 0.5) }, false)
	n, ok := fitNorm(x, y, 32, false)
	if !ok || math.Abs(n.Eps-0.5) > 1e-4 || math.Abs(n.Gain[0]-2) > 1e-4 {
		t.Errorf("eps %v, gain %v, want 0.5 and 2", n.Eps, n.Gain)
	}
}

func TestFitLayerNormReadsTheBiasToo(t *testing.T) {
	const rows, cols = 20, 32
	gain, bias := make([]float64, cols), make([]float64, cols)
	for d := range gain {
		gain[d], bias[d] = 1+float64(d)/50, float64(d-16)/10
	}
	x := gaussians(4, rows, cols, func(t int) float64 { return 0.02 * float64(1+t%7) })
	y := normOf(x, gain, cols, func(ms float64) float64 { return math.Sqrt(ms + 1e-4) }, true)
	for i := range y.Data {
		y.Data[i] += bias[i%cols]
	}
	n, ok := fitLayerNorm(x, y)
	if !ok || math.Abs(n.Eps-1e-4) > 1e-7 {
		t.Fatalf("eps %v ± %v, want 1e-4", n.Eps, n.EpsErr)
	}
	for d := range gain {
		if math.Abs(n.Gain[d]-gain[d]) > 1e-4 || math.Abs(n.Bias[d]-bias[d]) > 1e-4 {
			t.Fatalf("dim %d: gain %v, bias %v, want %v, %v", d, n.Gain[d], n.Bias[d], gain[d], bias[d])
		}
	}
	if _, ok := fitLayerNorm(x.takeRows([]int{0, 1, 2, 3, 4, 5, 6}), y.takeRows([]int{0, 1, 2, 3, 4, 5, 6})); ok {
		t.Error("two numbers per dim were read off seven tokens")
	}
}

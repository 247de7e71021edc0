package corpus

import (
	"math"
	"testing"
)

func TestRounding(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		why           string
		in, bf16, f16 float64
	}{
		{"exact in both", 1.5, 1.5, 1.5},
		{"half a bfloat16 step ties to even", 1 + 1.0/256, 1, 1 + 1.0/256},
		{"three half steps tie to even, up", 1 + 3.0/256, 1 + 2.0/128, 1 + 3.0/256},
		{"half a float16 step ties to even", 1 + 1.0/2048, 1, 1},
		{"the largest float16", 65504, 65536, 65504},
		{"below halfway to the next step", 65519, 65536, 65504},
		{"halfway to the next step overflows float16", 65520, 65536, inf},
		{"negative overflow", -1e6, -999424, -inf},
		{"smallest subnormal float16", math.Ldexp(1, -24), math.Ldexp(1, -24), math.Ldexp(1, -24)},
		{"half of it ties to zero", math.Ldexp(1, -25), math.Ldexp(1, -25), 0},
		{"subnormal steps are 2^-24", 1.6 * math.Ldexp(1, -24), math.Ldexp(205, -31), math.Ldexp(1, -23)},
		{"infinity stays", inf, inf, inf},
		{"zero", 0, 0, 0},
		{"position 257", 257, 256, 257},
	} {
		if got := float64(roundBF16(c.in)); got != c.bf16 {
			t.Errorf("%s: bfloat16(%v) = %v, want %v", c.why, c.in, got, c.bf16)
		}
		if got := float64(roundF16(c.in)); got != c.f16 {
			t.Errorf("%s: float16(%v) = %v, want %v", c.why, c.in, got, c.f16)
		}
	}
	if nan := math.NaN(); !math.IsNaN(float64(roundBF16(nan))) || !math.IsNaN(float64(roundF16(nan))) {
		t.Error("NaN does not stay")
	}
}

func TestActivationsAtOne(t *testing.T) {
	// From tables of the normal distribution and of exp.
	for name, want := range map[string]float64{
		"silu": 0.7310585786, "gelu": 0.8413447461, "gelu_tanh": 0.8411919906, "quick_gelu": 0.8457957660, "relu": 1, "relu2": 1,
	} {
		if got := activations[name](1); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s(1) = %.10f, want %.10f", name, got, want)
		}
		if got := activations[name](-20); math.Abs(got) > 1e-6 {
			t.Errorf("%s(-20) = %v, want almost 0", name, got)
		}
	}
}

func TestInverseFrequencies(t *testing.T) {
	check := func(why string, r Rope, hd int, pair int, want float64) {
		t.Helper()
		if got := r.InvFreq(hd)[pair]; math.Abs(got-want) > 1e-12*want {
			t.Errorf("%s: pair %d has %v, want %v", why, pair, got, want)
		}
	}
	check("plain, 1e4^(-2*2/8)", Rope{Theta: 1e4}, 8, 2, 0.01)
	check("partial width takes its own exponent", Rope{Theta: 1e4, Width: 4}, 8, 1, 0.01)
	check("or the whole head's", Rope{Theta: 1e4, Width: 4, DenominatorFullHead: true}, 8, 1, 0.1)
	check("linear divides all", Rope{Theta: 1e4, Scaling: "linear", Factor: 4}, 8, 2, 0.0025)
	l3 := Rope{Theta: 1e8, Scaling: "llama3", Factor: 8, Original: 8192, LowFreq: 1, HighFreq: 4}
	check("llama3 leaves waves below 2048", l3, 8, 0, 1)
	check("llama3 divides waves above 8192", l3, 8, 2, 1e-4/8)
	// A wave of 4096 lies a third of the way from 4 to 1 turns short of it:
	// smooth = (8192/4096 - 1) / 3.
	mid := Rope{Theta: math.Pow(4096/(2*math.Pi), 4), Scaling: "llama3", Factor: 8, Original: 8192, LowFreq: 1, HighFreq: 4}
	w := 2 * math.Pi / 4096
	check("llama3 blends between", mid, 8, 1, w*(2.0/3/8+1.0/3))
	yarn := Rope{Theta: 1e4, Scaling: "yarn", Factor: 4, Original: 4096, BetaFast: 32, BetaSlow: 1}
	check("yarn leaves the first pair", yarn, 128, 0, 1)
	check("yarn divides the last", yarn, 128, 63, math.Pow(1e4, -126.0/128)/4)
}

func TestPictureTokensHaveThreePositions(t *testing.T) {
	s := toy().with(func(s *Spec) { s.Image = [2]int{8, 32} })
	for at, want := range map[int][3]int{7: {7, 7, 7}, 8: {8, 8, 8}, 13: {8, 8, 13}, 14: {8, 9, 8}, 31: {8, 11, 13}, 32: {14, 14, 14}} {
		if got := s.grid(at); got != want {
			t.Errorf("token %d is at %v, want %v", at, got, want)
		}
	}
}

func TestOrders(t *testing.T) {
	check := func(why string, got, want []int) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %v, want %v", why, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", why, got, want)
				return
			}
		}
	}
	check("pairs side by side", pairedOrder(6), []int{0, 3, 1, 4, 2, 5})
	check("per head", perHead([]int{1, 0}, 2), []int{1, 0, 3, 2})
	check("blocks", blocks(6, 2, 0, 1), []int{4, 5, 0, 1, 2, 3})
	check("strided", strided(6, 2), []int{0, 3, 1, 4, 2, 5})
	check("inside", inside(5, 1, []int{2, 1, 0}), []int{0, 3, 2, 1, 4})
	check("fused over two ranks", fusedOrder(4, 2, 2), []int{0, 1, 4, 6, 2, 3, 5, 7})
}

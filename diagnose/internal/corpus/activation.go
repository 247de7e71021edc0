package corpus

import "math"

// activations are the functions that a gated MLP may use.
var activations = map[string]func(float64) float64{
	"silu":       func(x float64) float64 { return x / (1 + math.Exp(-x)) },
	"gelu":       func(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) },
	"gelu_tanh":  geluTanh,
	"quick_gelu": func(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) },
	"relu":       func(x float64) float64 { return max(0, x) },
	"relu2":      func(x float64) float64 { return max(0, x) * max(0, x) },
}

func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

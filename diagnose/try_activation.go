package diagnose

import "math"

// activationTransforms are the non-linearities of the usual MLPs.
var activationTransforms = []TransformSpec{
	activationSpec("silu", "x·σ(x)", "the sigmoid-weighted unit of SwiGLU", func(x float64) float64 { return x * sigmoid(x) }),
	activationSpec("gelu", "x·Φ(x), by the error function", "the exact GELU", func(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) }),
	activationSpec("gelu_tanh", "x/2·(1 + tanh(√(2/π)·(x + 0.044715x³)))", "GELU's tanh form", func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}),
	activationSpec("quick_gelu", "x·σ(1.702x)", "the sigmoid form of CLIP", func(x float64) float64 { return x * sigmoid(1.702*x) }),
	activationSpec("relu", "max(x, 0)", "the rectifier", func(x float64) float64 { return math.Max(x, 0) }),
	activationSpec("relu2", "max(x, 0)²", "the squared rectifier", func(x float64) float64 { return math.Max(x, 0) * math.Max(x, 0) }),
	activationSpec("sigmoid", "1/(1 + e⁻ˣ)", "the logistic function", sigmoid),
	activationSpec("tanh", "tanh x", "the hyperbolic tangent", math.Tanh),
}

func activationSpec(name, formula, doc string, f func(float64) float64) TransformSpec {
	return TransformSpec{
		Name: name, Doc: doc, Formula: "x := " + formula,
		apply: func(_ *tryEnv, v *tryValue, _ tryArgs) (*tryValue, error) { return mapValues(v, f), nil },
	}
}

// sigmoid is 1/(1+e^-x), without overflow at either end.
func sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

package diagnose

import (
	"fmt"
	"math"
)

// constant is a number with a name that a scale may turn out to be.
type constant struct {
	Name  string
	Value float64
	// What says what such a factor usually means at a given tap ("" anywhere).
	What string
}

// namedTolerance is how near a fitted scale has to be to bear a constant's name
// (docs: |ln(alpha/const)| < 1e-3, pattern P01).
const namedTolerance = 1e-3

// constants lists the factors that a model's facts make likely, most telling
// first; every one is also tried inverted and squared where that has a sense.
func (c *Context) constants() []constant {
	ref, port := c.Facts(Ref), c.Facts(Port)
	hidden := firstOf(ref.HiddenSize, port.HiddenSize)
	if hidden == 0 {
		if t, ok := c.Tensor(Ref, "post_embed"); ok {
			hidden = t.Cols
		}
	}
	headDim := firstOf(ref.HeadDim, port.HeadDim)
	if headDim == 0 && ref.NumHeads > 0 {
		headDim = hidden / ref.NumHeads
	}
	var out []constant
	add := func(name string, v float64, what string) {
		if v > 0 && !math.IsInf(v, 0) && v != 1 {
			out = append(out, constant{name, v, what})
		}
	}
	root := func(n int, sym, whatBig, whatSmall string) {
		if n < 2 {
			return
		}
		s := math.Sqrt(float64(n))
		add(fmt.Sprintf("sqrt(%d) = sqrt(%s)", n, sym), s, whatBig)
		add(fmt.Sprintf("1/sqrt(%d) = 1/sqrt(%s)", n, sym), 1/s, whatSmall)
	}
	atEmbed := c.At == "post_embed"
	big, small := "", ""
	if atEmbed {
		big, small = "the embedding scale is applied twice, or only here", "the embedding scale is missing here"
	}
	root(hidden, "hidden_size", big, small)
	for _, fact := range []string{"embedding_multiplier", "scale_emb", "routed_scaling_factor", "residual_multiplier", "logits_scaling", "logit_scale", "attention_multiplier", "mscale", "attention_factor", "lm_head_multiplier"} {
		for _, f := range []Facts{ref, port} {
			v, ok := f.Raw[fact].(float64)
			if !ok {
				continue
			}
			add(fmt.Sprintf("%s = %g", fact, v), v, "the multiplier is applied once more than on the other side")
			add(fmt.Sprintf("1/%s = 1/%g", fact, v), 1/v, "the multiplier is applied once less than on the other side")
			add(fmt.Sprintf("%s^2 = %g", fact, v*v), v*v, "the multiplier is there where the other side divides by it")
			add(fmt.Sprintf("1/%s^2", fact), 1/(v*v), "the side divides where the other multiplies")
		}
	}
	for _, f := range []Facts{ref, port} {
		add(fmt.Sprintf("routed_scaling_factor = %g", f.RoutedScalingFactor), f.RoutedScalingFactor, "the routed scale is applied once more than on the other side")
		add(fmt.Sprintf("1/routed_scaling_factor = 1/%g", f.RoutedScalingFactor), 1/f.RoutedScalingFactor, "the routed scale is applied once less than on the other side")
		add(fmt.Sprintf("residual_multiplier = %g", f.ResidualMultiplier), f.ResidualMultiplier, "the residual multiplier is applied once more than on the other side")
		add(fmt.Sprintf("1/residual_multiplier = 1/%g", f.ResidualMultiplier), 1/f.ResidualMultiplier, "the residual multiplier is missing here")
	}
	for _, w := range c.worlds() {
		add(fmt.Sprintf("%d = number of ranks", w), float64(w), "a reduction over ranks is done twice, or a replica is summed")
		add(fmt.Sprintf("1/%d = 1/number of ranks", w), 1/float64(w), "a mean over ranks where the other side sums")
	}
	root(headDim, "head_dim", "the query scale is missing here", "the query scale is applied twice, or only here")
	if hidden > 1 {
		s := math.Sqrt(float64(hidden))
		b := roundFloat("bfloat16", s)
		add(fmt.Sprintf("bf16(sqrt(%d))/sqrt(%d)", hidden, hidden), b/s, "the embedding scale is rounded to bfloat16 here, and not on the other side")
		add(fmt.Sprintf("sqrt(%d)/bf16(sqrt(%d))", hidden, hidden), s/b, "the embedding scale is kept in full precision here, rounded to bfloat16 on the other side")
		add(fmt.Sprintf("%d = hidden_size", hidden), float64(hidden), "")
		add(fmt.Sprintf("1/%d = 1/hidden_size", hidden), 1/float64(hidden), "")
	}
	for e := 1; e <= 16; e++ {
		p := math.Ldexp(1, e)
		add(fmt.Sprintf("%g = 2^%d", p, e), p, "")
		add(fmt.Sprintf("1/%g = 2^-%d", p, e), 1/p, "")
	}
	return out
}

// worlds returns the numbers of ranks that the dumps or manifests speak of.
func (c *Context) worlds() []int {
	var out []int
	if n := len(c.Ranks()); n > 1 {
		out = append(out, n)
	}
	for _, s := range []Side{Ref, Port} {
		for _, k := range []string{"tp", "tensor_parallel_size", "world"} {
			if v, ok := c.Facts(s).Raw[k].(float64); ok && v > 1 {
				out = append(out, int(v))
			}
		}
	}
	return out
}

// name finds the constant that a fitted scale is, within tol relative; ok is
// false where none is near.
func name(scale, tol float64, among []constant) (constant, bool) {
	for _, k := range among {
		if near(scale, k.Value, tol) {
			return k, true
		}
	}
	return constant{}, false
}

// firstOf returns the first value that is not zero.
func firstOf[T comparable](v ...T) T {
	var zero T
	for _, x := range v {
		if x != zero {
			return x
		}
	}
	return zero
}

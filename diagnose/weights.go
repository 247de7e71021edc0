package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
	"gonum.org/v1/gonum/mat"
)

// weightsHypothesis: a linear map runs with the wrong matrix.
var weightsHypothesis = Hypothesis{
	ID:     "weights",
	Causes: []string{"weights.unloaded", "weights.transposed", "weights.swapped"},
	Taps:   []string{"q", "k", "v", "attn_out", "mlp_gate", "mlp_up", "mlp_out", "router_logits", "logits", "conv_out"},
	Needs:  "the linear's output, and its input to tell a transposed matrix",
	Silent: "the output still resembles the reference's, or an input is already wrong",
	Source: "cross-match of equal shapes; X·Ypᵀ = (X·Yrᵀ)ᵀ for a transposed square matrix, which needs no matrix; cosine near 0 with a usual norm for a matrix never loaded; pattern P23",
	Test:   testWeights,
}

func testWeights(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || distance(ref, port).Token < orderMinimum || c.inherited() {
		return nil
	}
	for _, test := range []func(*Context, *Tensor, *Tensor) (compare.Finding, bool){zeroOutput, crossMatch, transposed, otherLayer, unloaded} {
		if f, ok := test(c, ref, port); ok {
			return []compare.Finding{f}
		}
	}
	return nil
}

// zeroOutput: the port's output is zero where the reference's is not.
func zeroOutput(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if dot(port.Data, port.Data) != 0 || dot(ref.Data, ref.Data) == 0 {
		return compare.Finding{}, false
	}
	f := c.signature("weights.unloaded", trial{before: distance(ref, port), after: distance(ref, port), floor: c.localFloor(c.At), values: len(ref.Data)})
	sides(&f, "non-zero", "zero")
	f.Claim = fmt.Sprintf("the port's %s is zero in every value: its weight is zero, or never loaded", c.At)
	f.For = append(f.For, "every value is exactly zero; the input agrees within its floor")
	f.Verify = "list the checkpoint's missing and unexpected keys; print the norm of the weight after loading"
	f.Fix = "load the weight"
	return f, true
}

// crossMatch: the port's tensor is the reference's tensor of another tap.
func crossMatch(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	for _, tap := range []string{"q", "k", "v"} {
		name := c.TapName(tap)
		if c.Layer < 0 || name == c.At || c.Tap == "mlp_gate" || c.Tap == "mlp_up" {
			continue
		}
		other, ok := c.Tensor(Ref, name)
		if !ok || other.Rows != port.Rows || other.Cols != port.Cols {
			continue
		}
		t := trial{before: distance(ref, port), after: distance(other, port), floor: c.localFloor(name), values: len(port.Data)}
		f, ok := c.finding("weights.swapped", t)
		if !ok {
			continue
		}
		sides(&f, c.At, name)
		f.Claim = fmt.Sprintf("the port's %s is the reference's %s", c.At, name)
		f.For = append(f.For, fmt.Sprintf("equal to %s; to the reference's own %s only %s", g2(t.after.Whole), c.At, g2(t.before.Whole)))
		f.Try = c.tryLine("from(%s)", name)
		if mine, ok := c.Tensor(Port, name); ok && mine.Cols == ref.Cols {
			back := distance(ref, mine)
			if back.below(exactFloors * t.floor) {
				f.After = compare.Num(back.Whole) // of the reference's own tensor, as the try line has it
				f.Claim += fmt.Sprintf(", and the reverse: %s and %s are exchanged", c.Tap, tap)
				f.For = append(f.For, fmt.Sprintf("the port's %s is the reference's %s to %s", name, c.At, g2(back.Whole)))
			} else {
				f.Try = c.tryLine("target(ref:%s)", name)
			}
		}
		f.Verify = "see which part of a fused projection, or which key, each of them is taken from"
		f.Fix = "take each from its own part"
		return f, true
	}
	return compare.Finding{}, false
}

// transposed: with inputs X, Yr = X·W and Yp = X·Wᵀ, the products X·Ypᵀ and
// (X·Yrᵀ)ᵀ are equal, whatever W is: [T, T] numbers and nothing fitted.
func transposed(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	in := c.inputs(c.At)
	if len(in) != 1 {
		return compare.Finding{}, false
	}
	xr, xp, ok := c.Pair(in[0])
	if !ok || xr.Cols != ref.Cols || xr.Rows != ref.Rows {
		return compare.Finding{}, false
	}
	if ref.Rows < minTokens {
		c.Note("weights.transposed at %s needs at least %d tokens, the dump has %d", c.At, minTokens, ref.Rows)
		return compare.Finding{}, false
	}
	gr, gp := gram(xr, ref), gram(xp, port)
	t := trial{before: distance(gr, gp), after: distance(gr, turned(gp)), floor: c.localFloor(c.At), values: len(gr.Data)}
	f, ok := c.finding("weights.transposed", t)
	if !ok {
		return f, false
	}
	sides(&f, "x·W", "x·Wᵀ")
	f.Claim = fmt.Sprintf("the port's %s multiplies by the transpose of the reference's matrix", c.At)
	f.For = append(f.For,
		fmt.Sprintf("x·portᵀ equals (x·refᵀ)ᵀ to %s, untransposed only to %s, over %d products of tokens; nothing is fitted. before and after are of these products", g2(t.after.Whole), g2(t.before.Whole), len(gr.Data)),
		fmt.Sprintf("the outputs themselves are unlike (rel_l2 %s) with a norm ratio of %s", g2(distance(ref, port).Whole), g3(math.Sqrt(dot(port.Data, port.Data)/dot(ref.Data, ref.Data)))))
	f.Try = c.tryLine("gram(%s) | transpose", in[0])
	f.Verify = "see whether the format stores [in, out] or [out, in] (GPT-2's Conv1D stores [in, out]); a square matrix hides the mistake"
	f.Fix = "transpose the weight when loading"
	return f, true
}

// gram returns X·Yᵀ, [T, T].
func gram(x, y *Tensor) *Tensor {
	var g mat.Dense
	g.Mul(mat.NewDense(x.Rows, x.Cols, x.Data), mat.NewDense(y.Rows, y.Cols, y.Data).T())
	return &Tensor{Name: y.Name, DType: y.DType, Rows: x.Rows, Cols: y.Rows, Shape: []int{x.Rows, y.Rows}, Data: g.RawMatrix().Data}
}

// turned is the transpose of a matrix.
func turned(t *Tensor) *Tensor {
	out := &Tensor{Name: t.Name, DType: t.DType, Rows: t.Cols, Cols: t.Rows, Shape: []int{t.Cols, t.Rows}, Data: make([]float64, len(t.Data))}
	for i := range t.Rows {
		for j, v := range t.Row(i) {
			out.Data[j*t.Rows+i] = v
		}
	}
	return out
}

// otherLayer: the port's output resembles the reference's of another layer far
// more than of its own. Streams of near layers resemble each other, so outputs
// of one matrix do too.
func otherLayer(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if c.Layer < 0 {
		return compare.Finding{}, false
	}
	own := tokenCosine(ref, port)
	best, where := own, ""
	for _, n := range c.Names(Ref) {
		if l, tap := SplitName(n); tap != c.Tap || l == c.Layer {
			continue
		}
		t, ok := c.Tensor(Ref, n)
		if !ok || t.Rows != port.Rows || t.Cols != port.Cols {
			continue
		}
		if cos := tokenCosine(t, port); cos > best {
			best, where = cos, n
		}
	}
	if where == "" || best < 0.5 || best < own+0.3 {
		return compare.Finding{}, false
	}
	f := c.signature("weights.swapped", trial{before: distance(ref, port), after: distance(ref, port), floor: c.localFloor(c.At), values: len(ref.Data)})
	sides(&f, c.At, where)
	f.Values["weights_of"] = where
	f.Claim = fmt.Sprintf("the port's %s resembles the reference's %s (median cosine %s), not its own (%s): the matrix of that layer was loaded here", c.At, where, g3(best), g3(own))
	f.For = append(f.For, "inputs of the layer agree within their floor")
	f.Against = append(f.Against, fmt.Sprintf("a proof needs more tokens than dims (%d), or the weights", ref.Cols))
	f.Verify = "compare the checkpoint's keys with the layers they were loaded into"
	f.Fix = "load this layer's own weight"
	return f, true
}

// tokenCosine is the median over tokens of the cosine.
func tokenCosine(x, y *Tensor) float64 {
	cos := make([]float64, x.Rows)
	for t := range cos {
		a, b := x.Row(t), y.Row(t)
		cos[t] = dot(a, b) / math.Sqrt(dot(a, a)*dot(b, b))
	}
	return medianOf(cos)
}

// unloaded: a right input gives an output that has nothing to do with the
// reference's.
func unloaded(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if len(c.inputs(c.At)) == 0 {
		return compare.Finding{}, false
	}
	cos := tokenCosine(ref, port)
	limit := 3 / math.Sqrt(float64(ref.Cols))
	if !(math.Abs(cos) < max(0.1, limit)) || ref.Cols < 8 {
		return compare.Finding{}, false
	}
	if blockMix(ref, port) {
		return compare.Finding{}, false
	}
	for _, h := range []Hypothesis{mlpHypothesis, orderHypothesis, fusedHypothesis, strideHypothesis, rankHypothesis, quantHypothesis} {
		if h.Applies(c.Tap) && len(h.Test(c)) > 0 {
			return compare.Finding{}, false // it has something to do with it after all
		}
	}
	ratio := math.Sqrt(dot(port.Data, port.Data) / dot(ref.Data, ref.Data))
	f := c.signature("weights.unloaded", trial{before: distance(ref, port), after: distance(ref, port), floor: c.localFloor(c.At), values: len(ref.Data)})
	sides(&f, "its weight", "an unrelated one")
	f.Claim = fmt.Sprintf("the port's %s has nothing to do with the reference's (median cosine %s, norm ratio %s) although its input agrees: an unrelated matrix, never loaded or another's", c.At, g2(cos), g3(ratio))
	f.For = append(f.For, "no permutation, transpose, shard or other tap of the layer explains it")
	f.Against = append(f.Against, "a matrix cannot be read off fewer tokens than dims; dump the weight to settle it")
	f.Verify = "list the checkpoint's missing and unexpected keys; compare the weight's norm and first values on both sides"
	f.Fix = "load the weight under its key"
	return f, true
}

// blockMix tells whether some of the dims are right, so that the matrix as a
// whole was loaded.
func blockMix(ref, port *Tensor) bool {
	_, resid := colScales(ref, port)
	right := 0
	for _, r := range resid {
		if r < 0.05 {
			right++
		}
	}
	return right*20 > len(resid)
}

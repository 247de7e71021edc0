package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// precisionHypothesis: the port's values lie on a coarser grid than its dtype,
// or nothing but rounding differs.
var precisionHypothesis = Hypothesis{
	ID:     "precision",
	Causes: []string{"numerics.low_precision", "benign.precision", "benign.rerun_noise"},
	Taps:   []string{"*"},
	Needs:  "the checkpoint itself; layer outputs for the step ratio",
	Silent: "the error is above what the stated dtypes can cause and the values lie on no coarser grid",
	Source: "ref rounded to a 16-bit type against port; step ratio e_l/e_(l-1) over layers (toy bf16: at most 1.25 per layer, a fault 4.8); pattern P19",
	Test:   testPrecision,
}

func testPrecision(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || isInteger(ref) || !ref.finite() || !port.finite() {
		return nil
	}
	if f, ok := coarseGrid(c, ref, port); ok {
		return []compare.Finding{f}
	}
	if f, ok := coarseProducts(c, ref, port); ok {
		return []compare.Finding{f}
	}
	if f, ok := onlyRounding(c, ref, port); ok {
		return []compare.Finding{f}
	}
	return nil
}

// coarseGrid: a port that says float32 whose values are all of a 16-bit type.
func coarseGrid(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if u, ok := rounding[port.DType]; ok && u > 0x1p-24 || unitOf(port, port) > 0x1p-24 {
		return compare.Finding{}, false // it says so itself
	}
	for _, dtype := range []string{"bfloat16", "float16"} {
		if !onGrid(port, dtype) || onGrid(ref, dtype) {
			continue
		}
		got := ref.mapRows(func(_ int, row []float64) {
			for i, v := range row {
				row[i] = roundFloat(dtype, v)
			}
		})
		t := trial{before: distance(port, ref), after: distance(port, got), floor: c.localFloor(c.At), values: len(ref.Data)}
		if !(t.before.Token < 0.05) || t.before.below(c.localFloor(c.At)/localGain) {
			continue
		}
		f := c.signature("numerics.low_precision", t)
		if p, ok := t.proof(); ok {
			f.Proof = p
		}
		sides(&f, firstOf(ref.DType, "float32"), dtype)
		f.Claim = fmt.Sprintf("the port's %s is dumped as float32 but every value is one of %s: it was computed, or passed on, in that type", c.At, dtype)
		f.For = append(f.For,
			fmt.Sprintf("all %d values lie on %s's grid, the reference's do not", len(port.Data), dtype),
			fmt.Sprintf("the reference rounded to %s is the port to %s (unrounded %s)", dtype, g2(t.after.Whole), g2(t.before.Whole)))
		if agrees := c.gridNeighbours(dtype); agrees != "" {
			f.For = append(f.For, agrees)
		}
		f.Try = c.tryLine("from(ref:%s) | round(%s) | target(port)", c.At, dtype)
		f.Verify = "look for a cast, an autocast region or a kernel that stores in 16 bits here"
		f.Fix = "keep this step in float32"
		return f, true
	}
	return compare.Finding{}, false
}

// productErrors are the errors that matrix products leave when their inputs are
// rounded to a type, relative to the output, with some room on either side.
var productErrors = []struct {
	low, high float64
	name      string
}{
	{1e-4, 9e-4, "TF32 or float16 (11 bits)"},
	{9e-4, 7e-3, "bfloat16 (8 bits)"},
	{7e-3, 3e-2, "8-bit integers or floats"},
}

// coarseProducts: a float32 port whose linear differs by what inputs rounded to a
// narrower type would cause: evenly over tokens and dims, without direction.
func coarseProducts(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	switch c.Tap {
	case "q", "k", "v", "attn_out", "mlp_gate", "mlp_up", "mlp_out", "router_logits", "logits":
	default:
		return compare.Finding{}, false
	}
	e := distance(ref, port)
	if unitOf(ref, port) > 0x1p-24 || e.below(c.FloorOf(c.At)) || c.inherited() || len(c.inputs(c.At)) == 0 || ref.Rows < minTokens {
		return compare.Finding{}, false
	}
	alpha, resid := rowScales(ref, port)
	if math.Abs(medianOf(alpha)-1) > 0.1*e.Token || greatest(resid) > 4*medianOf(resid) || least(resid) < medianOf(resid)/4 {
		return compare.Finding{}, false
	}
	_, cols := colScales(ref, port)
	if m := medianOf(cols); spreadOf(cols, m) > m/2 {
		return compare.Finding{}, false
	}
	mean := meanDiff(ref, port)
	if dot(mean, mean)*float64(ref.Rows) > 0.5*squareDiff(ref, port) {
		return compare.Finding{}, false // an offset, not noise
	}
	for _, p := range productErrors {
		if e.Token < p.low || e.Token >= p.high {
			continue
		}
		f := c.signature("numerics.low_precision", trial{before: e, after: e, floor: c.localFloor(c.At), values: len(ref.Data)})
		sides(&f, "float32 products", "products of inputs rounded to "+p.name)
		f.Claim = fmt.Sprintf("the port's %s differs by %s, evenly over tokens and dims and in no direction, while its input agrees: products of inputs rounded to %s would do that", c.At, g2(e.Token), p.name)
		f.For = append(f.For, fmt.Sprintf("relative error per token %s to %s, median scale off by %s", g2(least(resid)), g2(greatest(resid)), g2(math.Abs(medianOf(alpha)-1))))
		f.Against = append(f.Against, "quantised weights look the same in one output; repeat in full precision to settle it")
		f.Verify = "look for a matmul precision setting (allow_tf32, autocast), or quantised weights"
		f.Fix = "compute this product in float32, or hold the comparison to the coarser floor"
		return f, true
	}
	return compare.Finding{}, false
}

// squareDiff is Σ(port-ref)².
func squareDiff(ref, port *Tensor) float64 {
	var s float64
	for i, v := range ref.Data {
		s += (port.Data[i] - v) * (port.Data[i] - v)
	}
	return s
}

// gridNeighbours says whether the module's inputs lie on the same grid.
func (c *Context) gridNeighbours(dtype string) string {
	for _, in := range c.inputs(c.At) {
		if t, ok := c.Tensor(Port, in); ok {
			if onGrid(t, dtype) {
				return fmt.Sprintf("so do those of its input %s: the whole port runs in it", in)
			}
			return fmt.Sprintf("those of its input %s do not: it is this step", in)
		}
	}
	return ""
}

// onGrid tells whether all values are exactly of a dtype, and not all whole or
// zero.
func onGrid(t *Tensor, dtype string) bool {
	telling := 0
	for _, v := range t.Data {
		if roundFloat(dtype, v) != v {
			return false
		}
		if v != math.Trunc(v) {
			telling++
		}
	}
	return telling*4 >= len(t.Data) || telling >= 64
}

// maxStep is the growth of the error from layer to layer that rounding alone
// stays below.
const maxStep = 2

// reorderNoise is the relative error per token that float32 runs which differ in
// the order of their sums stay below: the float32 floor of e, 1e-10.
const reorderNoise = 1.5e-5

// onlyRounding: everything dumped is below its floor and grows slowly.
func onlyRounding(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if last, ok := c.lastLayer(); c.Layer >= 0 && (!ok || c.At != last) {
		return compare.Finding{}, false // told once, at the end of the model
	}
	e := distance(ref, port)
	if e.Token == 0 || e.Token > c.FloorOf(c.At) {
		return compare.Finding{}, false
	}
	prev, worst, layers := 0.0, 0.0, 0
	for _, n := range c.Names(Ref) {
		if _, tap := SplitName(n); tap != "layer" {
			continue
		}
		r, p, ok := c.Pair(n)
		if !ok {
			continue
		}
		v := medianRowError(r, p)
		if !(v <= c.FloorOf(n)) {
			return compare.Finding{}, false
		}
		if prev > 0 && layers > 1 {
			worst = max(worst, v/prev)
		}
		prev = v
		layers++
	}
	if layers < 2 || worst > maxStep {
		return compare.Finding{}, false
	}
	cause, what := "benign.rerun_noise", "noise between two right runs: another order of sums, kernel or batch size"
	if ref.DType != port.DType && ref.DType != "" && port.DType != "" || unitOf(port, port) > 0x1p-24 && e.Token > reorderNoise {
		cause, what = "benign.precision", fmt.Sprintf("rounding of %s", firstOf(port.DType, "the coarser dtype"))
	}
	if cause == "benign.rerun_noise" && e.Token > reorderNoise {
		cause, what = "benign.precision", "of a size that another order of sums does not reach: coarser products, weights or storage than the dumps state"
	}
	f := c.signature(cause, trial{before: e, after: e, floor: c.FloorOf(c.At), values: len(ref.Data)})
	sides(&f, firstOf(ref.DType, "float32"), firstOf(port.DType, "float32"))
	f.Values["step_ratio"] = compare.Num(worst)
	f.Claim = fmt.Sprintf("the error is %s: no layer of %d is above its floor and none makes it more than %s times the layer before", what, layers, g3(max(1, worst)))
	f.For = append(f.For, fmt.Sprintf("rel %s at %s against a floor of %s", g2(e.Token), c.At, g2(c.FloorOf(c.At))))
	f.Fix = "nothing to fix in the model"
	return f, true
}

// medianRowError is the median over tokens of the relative error.
func medianRowError(ref, port *Tensor) float64 {
	e := make([]float64, ref.Rows)
	for t := range e {
		d2, r2 := rowDistance(ref.Row(t), port.Row(t))
		e[t] = math.Sqrt(d2 / r2)
		if d2 == 0 {
			e[t] = 0
		}
	}
	return medianOf(e)
}

package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare"
)

// nonFiniteHypothesis: the port holds NaN or Inf where the reference does not.
var nonFiniteHypothesis = Hypothesis{
	ID:     "non_finite",
	Causes: []string{"numerics.overflow", "numerics.nan"},
	Taps:   []string{"*"},
	Needs:  "the checkpoint itself; attention_mask to know padding",
	Silent: "both sides are finite at the same places",
	Source: "first non-finite value; |ref| > 65504 there for float16; pattern P18",
	Test:   testNonFinite,
}

func testNonFinite(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok {
		return nil
	}
	var inf, nan, over int
	var rows []int
	first, largest := -1, 0.0
	for i, v := range port.Data {
		r := ref.Data[i]
		if isFinite(v) || !isFinite(r) {
			continue
		}
		if first < 0 {
			first = i
		}
		if math.IsInf(v, 0) {
			inf++
		} else {
			nan++
		}
		if math.Abs(r) > maxHalf {
			over++
			largest = max(largest, math.Abs(r))
		}
		if t := i / port.Cols; len(rows) == 0 || rows[len(rows)-1] != t {
			rows = append(rows, t)
		}
	}
	if first < 0 {
		return nil
	}
	got := port.like(slices.Clone(port.Data))
	for i, v := range got.Data {
		if !isFinite(v) {
			got.Data[i] = ref.Data[i]
		}
	}
	t := trial{before: errorOf{math.Inf(1), math.Inf(1)}, after: distance(ref, got), floor: c.localFloor(c.At), values: len(ref.Data)}
	cause := "numerics.nan"
	if inf > 0 && over > 0 || inf > 0 && nan == 0 {
		cause = "numerics.overflow"
	}
	f := c.signature(cause, t)
	place := fmt.Sprintf("token %d, dim %d", first/port.Cols, first%port.Cols)
	sides(&f, ref.Data[first], port.Data[first])
	f.Values["token"], f.Values["dim"] = first/port.Cols, first%port.Cols
	f.Values["inf"], f.Values["nan"] = inf, nan
	f.For = append(f.For, fmt.Sprintf("first at %s: reference %s, port %v", place, g6(ref.Data[first]), port.Data[first]))
	f.Try = c.tryLine("finite")
	if t.after.below(exactFloors * max(t.floor, c.FloorOf(c.At))) {
		f.For = append(f.For, fmt.Sprintf("everywhere else the tensors agree (rel_l2 %s)", g2(t.after.Whole)))
		if over == inf+nan {
			f.Proof = compare.ProofExact
		}
	}
	if cause == "numerics.overflow" {
		f.Claim = fmt.Sprintf("%s overflows in the port: %s infinite, first at %s, where the reference has %s", c.At, plural(inf, "value"), place, g6(ref.Data[first]))
		if over > 0 {
			f.Claim += ", beyond float16's 65504"
			f.For = append(f.For, fmt.Sprintf("the reference is beyond 65504 at %d of the %d places (largest %s)", over, inf+nan, g6(largest)))
		} else {
			f.Against = append(f.Against, "the reference is within float16's range there, so the sum overflowed on the way, or it is another cause")
		}
		f.Verify = "see in which dtype the product is summed and stored"
		f.Fix = "keep this product in bfloat16 or float32, or scale it down before"
		return []compare.Finding{f}
	}
	f.Claim = fmt.Sprintf("%s becomes NaN in the port: %s, first at %s, where the reference has %s", c.At, plural(nan, "value"), place, g6(ref.Data[first]))
	if pads := c.padRows(port.Rows); pads != nil {
		want := pads
		if len(port.Shape) == 3 && c.Tap == "attn_probs" {
			want = nil
			for h := range port.Shape[0] {
				for _, t := range pads {
					want = append(want, h*port.Shape[1]+t)
				}
			}
		}
		if slices.Equal(want, rows) {
			f.Values["rows"] = "padding"
			f.For = append(f.For, "exactly the padding rows are NaN: a softmax over keys that are all masked is 0/0")
		}
	}
	f.Verify = "look for 0/0 and inf-inf: a row whose keys are all masked, a norm of a zero row, a score of -inf minus -inf"
	f.Fix = "give a fully masked row zeros (or any finite value), and guard the division"
	return []compare.Finding{f}
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// padRows lists the rows that attention_mask marks as padding; nil without one.
func (c *Context) padRows(rows int) []int {
	m, ok := c.Tensor(Port, "attention_mask")
	if !ok {
		return nil
	}
	var out []int
	for i, v := range m.Data {
		if v == 0 && i < max(rows, len(m.Data)) {
			out = append(out, i)
		}
	}
	return out
}

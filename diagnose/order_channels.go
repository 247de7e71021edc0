package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare"
)

// channelOrder tests the axes of a tensor with more than two: the channels of an
// image or latent are one of them.
func channelOrder(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if len(ref.Shape) < 3 || !equalShape(ref.Shape, port.Shape) || isTokenHeads(c.Tap) {
		return compare.Finding{}, false
	}
	for axis := len(ref.Shape) - 1; axis >= 0; axis-- {
		n := ref.Shape[axis]
		if n < 2 || n > 1024 || len(ref.Data) < 4*n*n {
			continue
		}
		a, b := axisFirst(ref, axis), axisFirst(port, axis)
		if !sameMultiset(a, b, true, c.orderTolerance()) {
			continue
		}
		p, ok := matchItems(a, b, true)
		if !ok || isIdentity(p) {
			continue
		}
		got := port.like(axisBack(b.takeRows(inverse(p)), ref.Shape, axis))
		t := c.tryOn(ref, port, got, 0)
		f, ok := c.finding("order.channels", t)
		if !ok {
			continue
		}
		sides(&f, "in order", fmt.Sprintf("order [%s]", join(p, 16)))
		f.Values["axis"] = axis
		f.Claim = fmt.Sprintf("the port's axis %d (%d entries) at %s is the reference's in the order [%s]", axis, n, c.At, join(p, 16))
		if n == 3 && p[0] == 2 && p[1] == 1 {
			f.Claim += ": BGR for RGB"
		}
		f.For = append(f.For, fmt.Sprintf("after putting them back rel_l2 is %s (before %s)", g2(t.after.Whole), g2(t.before.Whole)))
		f.Try = c.tryLine("permute_axis(%s, %d)", listArg(inverse(p)), axis)
		f.Verify = "compare the layout that the preprocessing writes with the one that the first layer reads (channel order, patch order)"
		f.Fix = "put the channels in the reference's order"
		c.benignLayout(&f)
		return f, true
	}
	return compare.Finding{}, false
}

// isTokenHeads tells whether a tap may be [T, heads, head_dim], whose heads are
// dims and no channels.
func isTokenHeads(tap string) bool {
	switch tap {
	case "q", "k", "v", "q_norm", "k_norm", "q_rope", "k_rope", "attn_ctx":
		return true
	}
	return false
}

func equalShape(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i, v := range a {
		if v != b[i] {
			return false
		}
	}
	return true
}

// axisFirst lays a tensor out with one axis as rows and the others as columns.
func axisFirst(t *Tensor, axis int) *Tensor {
	outer, n, inner := axisSpans(t.Shape, axis)
	out := &Tensor{Name: t.Name, DType: t.DType, Rows: n, Cols: outer * inner, Shape: []int{n, outer * inner}, Data: make([]float64, len(t.Data))}
	for o := range outer {
		for i := range n {
			copy(out.Data[i*out.Cols+o*inner:i*out.Cols+(o+1)*inner], t.Data[(o*n+i)*inner:(o*n+i+1)*inner])
		}
	}
	return out
}

// axisBack is the inverse of axisFirst.
func axisBack(t *Tensor, shape []int, axis int) []float64 {
	outer, n, inner := axisSpans(shape, axis)
	data := make([]float64, len(t.Data))
	for o := range outer {
		for i := range n {
			copy(data[(o*n+i)*inner:(o*n+i+1)*inner], t.Data[i*t.Cols+o*inner:i*t.Cols+(o+1)*inner])
		}
	}
	return data
}

func axisSpans(shape []int, axis int) (outer, n, inner int) {
	outer, inner = 1, 1
	for i, v := range shape {
		switch {
		case i < axis:
			outer *= v
		case i > axis:
			inner *= v
		}
	}
	return outer, shape[axis], inner
}

// channelHypothesis: each channel of an image or latent is scaled and shifted by
// its own numbers: a normalisation by mean and std that one side lacks.
var channelHypothesis = Hypothesis{
	ID:     "channel_affine",
	Causes: []string{"norm.gain"},
	Taps:   []string{"*"},
	Needs:  "a tensor before the layers with a channel axis",
	Silent: "one channel needs other numbers than another place of the same channel",
	Source: "per-channel regression p = s_c·r + m_c, constant over time and place; pattern P04 (latent mean and std)",
	Test:   testChannelAffine,
}

func testChannelAffine(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || len(ref.Shape) < 2 || !equalShape(ref.Shape, port.Shape) || c.Layer >= 0 || isLogits(c.Tap) || slices.Contains(normTaps, c.Tap) || !ref.finite() || !port.finite() {
		return nil
	}
	if a := dot(ref.Data, port.Data) / dot(ref.Data, ref.Data); a != 0 && !math.IsNaN(a) {
		if p, ok := c.tryOn(ref, port, port.scaled(1/a), 1).proof(); ok && p == compare.ProofExact {
			return nil // one number for all channels: scale.constant says it
		}
	}
	for axis, n := range ref.Shape {
		if len(ref.Shape) == 2 && axis == 0 {
			continue // tokens
		}
		if n < 2 || n > 4096 || len(ref.Data) < 2*valuesPerParam*n*4 {
			continue
		}
		a, b := axisFirst(ref, axis), axisFirst(port, axis)
		slope, shift := make([]float64, n), make([]float64, n)
		got := b.mapRows(func(i int, row []float64) {
			s0, s1, _ := affine(a.Row(i), row)
			shift[i], slope[i] = s0, s1
			for k := range row {
				if s1 != 0 {
					row[k] = (row[k] - s0) / s1
				}
			}
		})
		t := c.tryOn(ref, port, port.like(axisBack(got, ref.Shape, axis)), 2*n)
		f, ok := c.finding("norm.gain", t)
		if !ok || medianOf(absAll(shift)) < 1e-3*rmsAll(port.Data) && spreadOf(slope, medianOf(slope)) < 1e-3 || spreadOf(slope, medianOf(slope))+spreadOf(shift, medianOf(shift)) < 1e-4 {
			continue
		}
		if len(ref.Shape) == 2 && f.Proof != compare.ProofExact {
			continue
		}
		f.Values["scale"], f.Values["shift"] = nums(slope), nums(shift)
		sides(&f, "x", "s·x + m per channel")
		f.Claim = fmt.Sprintf("each of %d channels (axis %d) of %s is the reference's, scaled and shifted by its own numbers: a normalisation by mean and std that one side lacks or does twice", n, axis, c.At)
		f.For = append(f.For,
			fmt.Sprintf("scales %s, shifts %s", join(rounded(slope), 6), join(rounded(shift), 6)),
			fmt.Sprintf("with them taken out rel_l2 is %s (before %s)", g2(t.after.Whole), g2(t.before.Whole)))
		f.Try = c.tryLine("fit_axis(%d)", axis)
		f.Verify = "compare the numbers with the config's lists of means and stds"
		f.Fix = "normalise each channel once, as the reference does"
		return []compare.Finding{f}
	}
	return nil
}

func absAll(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Abs(v)
	}
	return out
}

func rmsAll(x []float64) float64 { return math.Sqrt(dot(x, x) / float64(max(1, len(x)))) }

func isLogits(tap string) bool { return tap == "logits" || tap == "last_logits" }

func nums(x []float64) []any {
	out := make([]any, len(x))
	for i, v := range x {
		out[i] = compare.Num(v)
	}
	return out
}

func rounded(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		if v != 0 {
			p := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
			out[i] = math.Round(v*p) / p
		}
	}
	return out
}

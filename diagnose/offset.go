package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// offsetHypothesis: the port differs from the reference by one vector, the same
// at every token: a bias that one side lacks, or adds several times.
var offsetHypothesis = Hypothesis{
	ID:     "offset",
	Causes: []string{"offset.bias", "parallel.bias", "benign.offset"},
	Taps:   []string{"*"},
	Needs:  "the checkpoint itself, at least 4 tokens",
	Silent: "the difference changes from token to token (a gain, a rotation), or one number of it decides",
	Source: "std over tokens of (port-ref) against its mean; pattern P05 (bias not loaded: -b; bias added on every rank: (tp-1)·b)",
	Test:   testOffset,
}

func testOffset(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || isInteger(ref) || !ref.finite() || !port.finite() {
		return nil
	}
	if ref.Rows < minTokens {
		return nil
	}
	if c.Tap == "attn_probs" || moeTaps[c.Tap] || c.inherited() {
		return nil
	}
	mean := meanDiff(ref, port)
	got := port.mapRows(func(_ int, row []float64) {
		for d := range row {
			row[d] -= mean[d]
		}
	})
	t := c.tryOn(ref, port, got, ref.Cols)
	f, ok := c.finding("offset.bias", t)
	broad := offsetBreadth(ref, port, mean)
	if !ok {
		// A bias smaller than the rounding is still no rounding: its mean over
		// tokens stands out in most dims.
		if t.explained() < 0.85 || broad < 0.5 || !t.after.below(exactFloors*t.floor) {
			return nil
		}
		f = c.signature("offset.bias", t)
	}
	if broad < 0.1 && f.Proof != compare.ProofExact {
		return nil
	}
	std := rmsOf(ref, got)
	size := math.Sqrt(dot(mean, mean) / float64(len(mean)))
	coef := dot(meanRow(ref), mean) / dot(mean, mean)
	sides(&f, "bias b", fmt.Sprintf("differs by one vector of rms %s", g3(size)))
	f.Values["offset_rms"] = compare.Num(size)
	f.Values["spread_over_tokens"] = compare.Num(std)
	f.Claim = fmt.Sprintf("port - reference at %s is one vector, the same at every token: a bias that one side does not add", c.At)
	f.For = append(f.For,
		fmt.Sprintf("rms of the vector %s, rms of what changes from token to token %s, over %s", g3(size), g2(std), plural(ref.Rows, "token")),
		fmt.Sprintf("without it rel_l2 is %s (before %s); %.0f %% of the dims carry it", g2(t.after.Whole), g2(t.before.Whole), 100*broad))
	f.Try = c.tryLine("fit_offset")
	f.Verify = "look whether the linear's bias is in the checkpoint, loaded, and added once, on both sides"
	f.Fix = "add the bias as the reference does"
	if coef < -0.5 {
		f.Values["port"] = "no bias"
		f.Claim += "; the port lacks it"
		f.For = append(f.For, fmt.Sprintf("the reference's mean over tokens holds %s times the missing vector", g3(-coef)))
		f.Fix = "load and add the bias"
	}
	if tp, ok := c.biasPerRank(coef); ok {
		f.Cause = "parallel.bias"
		f.Values["reference"], f.Values["port"] = 1, tp
		f.Values["tp"] = tp
		f.Claim = fmt.Sprintf("port - reference at %s is one vector, the same at every token, of the size of %d biases: each of %d ranks adds the bias before the sum", c.At, tp-1, tp)
		f.For = append(f.For, fmt.Sprintf("the reference's mean over tokens holds %s of the vector; 1/(tp-1) would be %s", g3(coef), g3(1/float64(tp-1))))
		f.Fix = "add the bias on one rank only, or after the all-reduce"
		f.Verify = "look where the row-parallel linear adds its bias: on every rank, before the reduce"
	}
	if agree, n := c.downstreamAgrees(c.At); agree {
		f.Cause = "benign.offset"
		f.For = append(f.For, fmt.Sprintf("all of the next %s agree within their floors: what reads the tensor takes the offset out again (a key's bias under a softmax, a norm that subtracts the mean)", plural(n, "checkpoint")))
		f.Fix = "nothing to fix in the model"
	}
	return []compare.Finding{f}
}

// biasPerRank tells whether the offset is (tp-1) biases: the reference's mean
// over tokens then holds the bias once, which is 1/(tp-1) of the offset. Only
// where the dumps speak of ranks, and the coefficient fits their number.
func (c *Context) biasPerRank(coef float64) (tp int, ok bool) {
	for _, n := range c.worlds() {
		if n > 1 && math.Abs(coef-1/float64(n-1)) < 0.3/float64(n-1) {
			return n, true
		}
	}
	return 0, false
}

// meanDiff is the mean over tokens of y - x, per dim.
func meanDiff(x, y *Tensor) []float64 {
	mean := make([]float64, x.Cols)
	for t := range x.Rows {
		a, b := x.Row(t), y.Row(t)
		for d := range mean {
			mean[d] += (b[d] - a[d]) / float64(x.Rows)
		}
	}
	return mean
}

// meanRow is the mean over tokens.
func meanRow(x *Tensor) []float64 {
	mean := make([]float64, x.Cols)
	for t := range x.Rows {
		for d, v := range x.Row(t) {
			mean[d] += v / float64(x.Rows)
		}
	}
	return mean
}

// rmsOf is the root mean square of y - x.
func rmsOf(x, y *Tensor) float64 {
	var s float64
	for i, v := range x.Data {
		s += (y.Data[i] - v) * (y.Data[i] - v)
	}
	return math.Sqrt(s / float64(max(1, len(x.Data))))
}

// offsetBreadth is the share of dims whose mean difference is more than five
// standard errors from zero.
func offsetBreadth(ref, port *Tensor, mean []float64) float64 {
	n := 0
	for d, m := range mean {
		var s float64
		for t := range ref.Rows {
			e := port.Row(t)[d] - ref.Row(t)[d] - m
			s += e * e
		}
		if m*m > 25*s/float64(ref.Rows*(ref.Rows-1)) && m != 0 {
			n++
		}
	}
	return float64(n) / float64(len(mean))
}

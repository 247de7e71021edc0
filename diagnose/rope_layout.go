package diagnose

import (
	"fmt"

	"github.com/layerparity/parity/compare"
)

// ropeLayoutHypothesis: the dims of each head are stored in the order of the
// other pairing. Whether that is a fault is decided downstream.
var ropeLayoutHypothesis = Hypothesis{
	ID:     "rope_layout",
	Causes: []string{"rope.layout", "benign.layout"},
	Taps:   []string{"q", "k", "q_norm", "k_norm", "q_rope", "k_rope"},
	Needs:  "the tensor itself, and what follows it (attn_probs, attn_ctx or the layer's output) to tell a fault from a matter of storage",
	Silent: "no reordering of each head's dims between interleaved and half-split order turns the port into the reference",
	Source: "the row permutation of Llama's q and k weights in GGUF and HF converters (place 2i against i and i+d/2); B3 pair 3 of the field's bug reports",
	Test:   testRopeLayout,
}

func testRopeLayout(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || ref.Rows == 0 {
		return nil
	}
	d := c.headDim(c.At, ref.Cols)
	if d == 0 || d%2 != 0 {
		return nil
	}
	before := distance(ref, port).Whole
	for _, order := range []string{"interleaved_to_half", "half_to_interleaved"} {
		if !permutedError(ref, port, d, order, before) {
			continue
		}
		t, ok := tryTrial(c, fmt.Sprintf("permute(%s, block=%d)", order, d), 1)
		if !ok {
			continue
		}
		agree, checked := c.downstreamAgrees(c.At)
		cause := "rope.layout"
		if agree {
			cause = "benign.layout"
		}
		f, ok := c.finding(cause, t)
		if !ok {
			continue
		}
		a, b := "half", "interleaved"
		if order == "half_to_interleaved" {
			a, b = b, a
		}
		sides(&f, a, b)
		f.Values["head_dim"] = d
		f.Try = c.tryLine("permute(%s, block=%d)", order, d)
		f.For = []string{fmt.Sprintf("reordering each head's %d dims from %s to %s order takes rel_l2 from %s to %s", d, b, a, g2(t.before.Whole), g2(t.after.Whole))}
		if agree {
			f.Claim = fmt.Sprintf("port keeps the dims of each head of %s in %s order, reference in %s order; what follows agrees, so it is a matter of storage", c.Tap, b, a)
			f.For = append(f.For, fmt.Sprintf("the next %s agree within their floors", plural(checked, "checkpoint")))
			f.Fix = "nothing; state \"columns\" in the manifest, or compare after reordering"
			f.Verify = "scores are sums over a head's dims, so an order that q and k share cancels"
			return []compare.Finding{f}
		}
		f.Claim = fmt.Sprintf("port's %s holds the dims of each head in %s order, reference in %s order, and what follows does not agree: the rotation pairs other dims than the weights were stored for", c.Tap, b, a)
		if next, rel, ok := nextBad(c); ok {
			f.For = append(f.For, fmt.Sprintf("%s differs by rel_l2 %s, so the order does not cancel", next, g2(rel)))
		} else if checked == 0 {
			f.Against = append(f.Against, "nothing after it was dumped on both sides, so it may be a matter of storage only")
		}
		f.Verify = "see whether the q and k weights were permuted at conversion (GGUF stores Llama's rows for interleaved pairs) and which pairs this code's rotation takes"
		f.Fix = "undo the permutation of the q and k rows, or rotate interleaved pairs; never both"
		return []compare.Finding{f}
	}
	return nil
}

// permutedError is the quick test before a trial: at most a third of the error
// is left.
func permutedError(ref, port *Tensor, d int, order string, before float64) bool {
	idx := namedOrder(order, d)
	var d2, r2 float64
	for t := 0; t < ref.Rows; t++ {
		x, y := ref.Row(t), port.Row(t)
		for j, r := range x {
			e := y[j/d*d+idx[j%d]] - r
			d2 += e * e
			r2 += r * r
		}
	}
	return relative(d2, r2) < before/3
}

// nextBad is the nearest checkpoint after this one, other than rotated or normed
// forms, that is above its floor.
func nextBad(c *Context) (name string, rel float64, ok bool) {
	layer, _ := SplitName(c.At)
	for _, n := range c.descendants(c.At, 24) {
		l, t := SplitName(n)
		if l == layer && (t == "q_norm" || t == "k_norm" || t == "q_rope" || t == "k_rope") {
			continue
		}
		ref, port, found := c.Pair(n)
		if !found || isInteger(ref) {
			continue
		}
		if e := distance(ref, port); e.Token > c.FloorOf(n) {
			return n, e.Whole, true
		}
	}
	return "", 0, false
}

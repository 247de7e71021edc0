package diagnose

import (
	"fmt"
	"strings"

	"github.com/layerparity/parity/compare"
)

// fusedHypothesis: q, k and v (or gate and up) together hold the reference's
// dims in another order, so that each alone is no permutation of its partner.
var fusedHypothesis = Hypothesis{
	ID:     "fused_order",
	Causes: []string{"order.dims", "parallel.shard_order"},
	Taps:   []string{"q", "k", "v", "mlp_gate", "mlp_up"},
	Needs:  "all parts of the fused projection (q, k and v, or mlp_gate and mlp_up), at least 4 tokens",
	Silent: "every part is a permutation of its own partner, or the parts together are none",
	Source: "assignment on the columns of the parts side by side; [q0 k0 v0 q1 k1 v1] read as [q k v], pattern P07",
	Test:   testFused,
}

func testFused(c *Context) []compare.Finding {
	taps := []string{"q", "k", "v"}
	if strings.HasPrefix(c.Tap, "mlp_") {
		taps = []string{"mlp_gate", "mlp_up"}
	}
	var ref, port *Tensor
	var widths []int
	offset, at := 0, 0
	names := make([]string, len(taps))
	for i, tap := range taps {
		r, p, ok := c.Pair(c.TapName(tap))
		if !ok || !p.finite() || !r.finite() || r.Rows < minTokens {
			return nil
		}
		if tap == c.Tap {
			offset = at
		}
		at += r.Cols
		widths = append(widths, r.Cols)
		names[i] = c.TapName(tap)
		if i == 0 {
			ref, port = flattened(r), flattened(p)
			continue
		}
		if r.Rows != ref.Rows {
			return nil
		}
		ref, port = beside(ref, r), beside(port, p)
	}
	if distance(ref, port).Token < orderMinimum || !sameMultiset(ref, port, false, c.orderTolerance()) {
		return nil
	}
	found := namedPerm{}
	for _, tp := range append(c.worlds(), 2, 4, 8, 16) {
		if p := fusedOrder(widths, tp); p != nil && !isIdentity(p) {
			name := fmt.Sprintf("the shards of %d ranks joined in rank order", tp)
			for _, k := range []namedPerm{{name, "[a0 b0 a1 b1] was read as [a b]", p}, {name + ", taken apart the other way", "the weight was resharded though it was whole", inverse(p)}} {
				if found.perm == nil && plausible(ref, port, k.perm, false) {
					found = k
				}
			}
		}
	}
	if found.perm == nil {
		p, ok := matchItems(ref, port, false)
		if !ok {
			return nil
		}
		order, block := compressed(p)
		if wholeParts(p, widths) {
			return nil // whole parts exchanged: their weights are swapped
		}
		found = namedPerm{fmt.Sprintf("blocks of %d in the order [%s]", block, join(order, 16)), "parts of the fused projection are split at other places than they were joined", p}
	}
	if within(found.perm, offset, offset+widthOf(c, ref)) {
		return nil // a permutation of this part alone: order.dims says it
	}
	back := inverse(found.perm)
	mine, here, ok := c.Pair(c.At)
	if !ok {
		return nil
	}
	got := port.takeCols(back[offset : offset+mine.Cols])
	t := c.tryOn(mine, here, got, 0)
	f, ok := c.finding("order.dims", t)
	if !ok {
		return nil
	}
	if f.Proof == compare.ProofExact && len(c.worlds()) > 0 || strings.Contains(found.name, "ranks") {
		f.Cause = "parallel.shard_order"
	}
	order, block := compressed(back)
	sides(&f, strings.Join(taps, ", "), found.name)
	f.Values["block"] = block
	f.Claim = fmt.Sprintf("%s of the port hold the reference's dims among them in another order, %s: %s", strings.Join(names, ", "), found.name, found.meaning)
	f.For = append(f.For, fmt.Sprintf("side by side every dim has its partner; put back, %s is the reference's to %s (before %s)", c.At, g2(t.after.Whole), g2(t.before.Whole)))
	f.Try = c.tryLine("concat(%s) | permute(%s, block=%d) | slice(%d, %d, axis=cols)", strings.Join(names, ", "), listArg(order), block, offset, offset+mine.Cols)
	f.Verify = "compare the order in which the fused weight is stored (or gathered over ranks) with the order in which it is split"
	f.Fix = "split each rank's shard into its parts first, then join part by part"
	return []compare.Finding{f}
}

// wholeParts tells whether every part holds all of one part, in order.
func wholeParts(p, widths []int) bool {
	starts := map[int]int{}
	at := 0
	for _, w := range widths {
		starts[at] = w
		at += w
	}
	at = 0
	for _, w := range widths {
		if starts[p[at]] != w {
			return false
		}
		for i := range w {
			if p[at+i] != p[at]+i {
				return false
			}
		}
		at += w
	}
	return true
}

// flattened is a tensor as plain rows and columns.
func flattened(t *Tensor) *Tensor {
	d := *t
	d.Shape = []int{t.Rows, t.Cols}
	return &d
}

// beside joins two tensors of equal rows.
func beside(a, b *Tensor) *Tensor {
	out := &Tensor{Name: a.Name, DType: a.DType, Rows: a.Rows, Cols: a.Cols + b.Cols, Shape: []int{a.Rows, a.Cols + b.Cols}, Data: make([]float64, 0, len(a.Data)+len(b.Data))}
	for t := range a.Rows {
		out.Data = append(append(out.Data, a.Row(t)...), b.Row(t)...)
	}
	return out
}

// widthOf is the width of this context's own checkpoint.
func widthOf(c *Context, fallback *Tensor) int {
	if t, ok := c.Tensor(Ref, c.At); ok {
		return t.Cols
	}
	return fallback.Cols
}

// within tells whether the places [lo, hi) hold only items of [lo, hi).
func within(p []int, lo, hi int) bool {
	for _, v := range p[lo:hi] {
		if v < lo || v >= hi {
			return false
		}
	}
	return true
}

// strideHypothesis: the same memory read through other strides: heads and tokens
// exchanged, or a matrix in column order.
var strideHypothesis = Hypothesis{
	ID:     "strides",
	Causes: []string{"order.dims"},
	Taps:   []string{"*"},
	Needs:  "the checkpoint itself",
	Silent: "no view of the same memory gives the reference",
	Source: "[T, H, d] read as [H, T, d], or [T, D] as [D, T]: strides of a non-contiguous tensor ignored (pattern P27)",
	Test:   testStrides,
}

func testStrides(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || ref.Rows < minTokens || !ref.finite() || !port.finite() || c.Tap == "attn_probs" || distance(ref, port).Token < orderMinimum {
		return nil
	}
	for _, w := range append([]int{1}, c.headWidths(ref.Cols)...) {
		for _, inverse := range []bool{false, true} {
			got := restride(port, w, inverse)
			if d2, r2 := rowDistance(ref.Row(1), got.Row(1)); d2 > 0.01*r2 {
				continue
			}
			t := c.tryOn(ref, port, got, 0)
			f, ok := c.finding("order.dims", t)
			if !ok {
				continue
			}
			what := fmt.Sprintf("[%d tokens, %d heads, %d] and [%d heads, %d tokens, %d]", ref.Rows, ref.Cols/w, w, ref.Cols/w, ref.Rows, w)
			if w == 1 {
				what = "rows and columns"
			}
			sides(&f, "row order", what+" exchanged")
			f.Claim = fmt.Sprintf("the port's memory at %s is the reference's read through other strides: %s are exchanged", c.At, what)
			f.For = append(f.For, fmt.Sprintf("laid out again rel_l2 is %s (before %s)", g2(t.after.Whole), g2(t.before.Whole)))
			f.Try = c.tryLine("restride(%d, inverse=%v)", w, inverse)
			f.Verify = "look for a transpose or permute that is followed by a view, or a kernel that ignores strides"
			f.Fix = "make the tensor contiguous before the view, or pass its strides"
			c.benignLayout(&f)
			return []compare.Finding{f}
		}
	}
	return nil
}

// restride takes the memory of t as [C/w, T, w] and lays it out as [T, C/w, w];
// inverse goes the other way.
func restride(t *Tensor, w int, inverse bool) *Tensor {
	heads := t.Cols / w
	out := t.like(make([]float64, len(t.Data)))
	for i := range t.Rows {
		for h := range heads {
			a, b := (i*heads+h)*w, (h*t.Rows+i)*w
			if inverse {
				a, b = b, a
			}
			copy(out.Data[a:a+w], t.Data[b:b+w])
		}
	}
	return out
}

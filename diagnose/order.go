package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/layerparity/parity/compare"
)

// orderHypothesis: the port holds the reference's values in another order, of
// tokens, of dims, or of the channels of an image.
var orderHypothesis = Hypothesis{
	ID:     "order",
	Causes: []string{"order.tokens", "order.dims", "order.channels", "benign.layout", "parallel.shard_order", "quant.nibble_order"},
	Taps:   []string{"*"},
	Needs:  "the checkpoint itself; for dims at least 4 tokens",
	Silent: "the values are not the same multiset of rows or columns, or the map is no bijection",
	Source: "assignment on the correlation of rows and columns, then the map's runs; patterns P07, P08",
	Test:   testOrder,
}

// orderMinimum is the error below which an order is not worth a search: two
// vectors that changed places are unlike.
const orderMinimum = 0.02

func testOrder(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || c.Tap == "attn_probs" {
		return nil
	}
	if distance(ref, port).Whole < max(orderMinimum, 2*c.localFloor(c.At)) && distance(ref, port).Token < max(orderMinimum, 2*c.localFloor(c.At)) {
		return nil
	}
	for _, test := range []func(c *Context, ref, port *Tensor) (compare.Finding, bool){channelOrder, dimOrder, tokenOrder, tokenShift} {
		if f, ok := test(c, ref, port); ok {
			return []compare.Finding{f}
		}
	}
	return nil
}

// orderTolerance bounds the difference of two multisets of norms.
func (c *Context) orderTolerance() float64 { return exactFloors * c.localFloor(c.At) }

// tokenOrder tests permutations of rows.
func tokenOrder(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if ref.Rows < minTokens || !sameMultiset(ref, port, true, c.orderTolerance()) {
		return compare.Finding{}, false
	}
	try := func(p []int) (trial, bool) {
		t := c.tryOn(ref, port, port.takeRows(inverse(p)), 0)
		proof, ok := t.proof()
		return t, ok && proof == compare.ProofExact
	}
	var found namedPerm
	var t trial
	ok := false
	for _, k := range tokenOrders(ref.Rows, c.worlds()) {
		if !plausible(ref, port, k.perm, true) {
			continue
		}
		if t, ok = try(k.perm); ok {
			found = k
			break
		}
	}
	if !ok && ref.Cols < 2*minTokens { // of a few numbers a token finds some partner always
		return compare.Finding{}, false
	}
	if !ok {
		p, bijective := matchItems(ref, port, true)
		if !bijective || isIdentity(p) {
			return compare.Finding{}, false
		}
		if t, ok = try(p); !ok {
			return compare.Finding{}, false
		}
		found = namedPerm{"", "", p}
	}
	moved := movedItems(found.perm)
	f, ok := c.finding("order.tokens", t)
	if !ok {
		return f, false
	}
	order, block := compressed(found.perm)
	if found.name == "" {
		found.name = fmt.Sprintf("%s of %s in the order [%s]", plural(len(order), "block"), plural(block, "token"), join(order, 16))
		if len(moved) < ref.Rows {
			found.name += fmt.Sprintf(" (only tokens %s move)", rangesOf(moved))
		}
		found.meaning = "rows were scattered in another order than they were gathered"
		if isIdentity(applyTwice(found.perm)) {
			found.meaning = "two groups of rows changed places"
		}
	}
	sides(&f, "in order", found.name)
	f.Values["block"], f.Values["moved"] = block, len(moved)
	f.Claim = fmt.Sprintf("the port's tokens at %s are the reference's, %s: %s", c.At, found.name, found.meaning)
	f.For = append(f.For, fmt.Sprintf("every token has its partner: after putting them back rel_l2 is %s (before %s); the map has %s", g2(t.after.Whole), g2(t.before.Whole), plural(runCount(found.perm), "run")))
	back, b := compressed(inverse(found.perm))
	f.Try = c.tryLine("permute(%s, block=%d, axis=rows)", listArg(back), b)
	f.Verify = "see how the sequence is split over ranks, windows or requests, and where it is put back together"
	f.Fix = "gather the tokens in the order in which they were split"
	c.benignLayout(&f)
	return f, true
}

// applyTwice is the permutation after itself.
func applyTwice(p []int) []int { return permOf(len(p), func(i int) int { return p[p[i]] }) }

// movedItems lists what is not in its place.
func movedItems(p []int) []int {
	var out []int
	for i, v := range p {
		if i != v {
			out = append(out, i)
		}
	}
	return out
}

// plausible checks a permutation on a few items before the whole tensor is
// built.
func plausible(ref, port *Tensor, p []int, rows bool) bool {
	n := len(p)
	step := max(1, n/5)
	for i := 0; i < n; i += step {
		var d2, r2 float64
		if rows {
			d2, r2 = rowDistance(ref.Row(p[i]), port.Row(i))
		} else {
			for t := range ref.Rows {
				x, y := ref.Data[t*ref.Cols+p[i]], port.Data[t*ref.Cols+i]
				d2, r2 = d2+(y-x)*(y-x), r2+x*x
			}
		}
		if d2 > 0.05*r2 {
			return false
		}
	}
	return true
}

// tokenShift tests a shift whose end did not come round: port_t = ref_(t-n).
func tokenShift(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	for _, n := range []int{1, -1, 2, -2, 3, -3, 4, -4, 8, -8} {
		m := ref.Rows - max(n, -n)
		if m < minTokens {
			continue
		}
		worst := 0.0
		for t := range ref.Rows {
			if s := t - n; s >= 0 && s < ref.Rows {
				d2, r2 := rowDistance(ref.Row(s), port.Row(t))
				if r2 > 0 {
					worst = max(worst, d2/r2)
				}
			}
		}
		if !(math.Sqrt(worst) <= c.orderTolerance()) {
			continue
		}
		got := ref.like(append([]float64(nil), ref.Data...))
		for t := range ref.Rows {
			if to := t - n; to >= 0 && to < ref.Rows {
				copy(got.Row(to), port.Row(t))
			}
		}
		f, ok := c.finding("order.tokens", c.tryOn(ref, port, got, 0))
		if !ok {
			continue
		}
		sides(&f, 0, n)
		f.Values["shift"] = n
		f.Claim = fmt.Sprintf("the port's token t at %s is the reference's token t%+d: the rows are shifted by %d", c.At, -n, n)
		f.For = append(f.For, fmt.Sprintf("%d of %d rows match after the shift, the worst to %s", m, ref.Rows, g2(math.Sqrt(worst))))
		f.Try = c.tryLine("shift(%d)", -n)
		f.Verify = "compare the token ids that were fed, then the row that the position or the slice starts at"
		f.Fix = "start at the reference's row"
		return f, true
	}
	return compare.Finding{}, false
}

// dimOrder tests permutations of columns.
func dimOrder(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	few := ref.Rows < minTokens
	if few && len(ref.Data) < 64 {
		c.Note("order.dims at %s needs at least %d tokens, the dump has %d", c.At, minTokens, ref.Rows)
		return compare.Finding{}, false
	}
	if ref.Cols < 4 || !sameMultiset(ref, port, false, c.orderTolerance()) {
		return compare.Finding{}, false
	}
	try := func(p []int) (trial, bool) {
		t := c.tryOn(ref, port, port.takeCols(inverse(p)), 0)
		proof, ok := t.proof()
		return t, ok && proof == compare.ProofExact
	}
	var found namedPerm
	var t trial
	ok := false
	for _, k := range append(c.fusedOrders(ref.Cols), dimOrders(ref.Cols, c.headWidths(ref.Cols))...) {
		if len(k.perm) != ref.Cols || !plausible(ref, port, k.perm, false) {
			continue
		}
		if t, ok = try(k.perm); ok {
			found = k
			break
		}
	}
	if !ok && few { // an order that has a name is no chance, partners of single numbers are
		c.Note("order.dims at %s needs at least %d tokens for an order without a name, the dump has %d", c.At, minTokens, ref.Rows)
		return compare.Finding{}, false
	}
	if !ok {
		p, bijective := matchItems(ref, port, false)
		if !bijective || isIdentity(p) {
			return compare.Finding{}, false
		}
		if t, ok = try(p); !ok {
			return compare.Finding{}, false
		}
		found = namedPerm{"", "", p}
	}
	f, ok := c.finding("order.dims", t)
	if !ok {
		return f, false
	}
	order, block := compressed(found.perm)
	if found.name == "" {
		found.name = fmt.Sprintf("in %s of %s, order [%s]", plural(len(order), "block"), plural(block, "dim"), join(order, 16))
		found.meaning = c.blockMeaning(ref.Cols, block)
	}
	sides(&f, "in order", found.name)
	f.Values["block"], f.Values["moved"] = block, len(movedItems(found.perm))
	f.Claim = fmt.Sprintf("the port's dims at %s are the reference's, %s: %s", c.At, found.name, found.meaning)
	f.For = append(f.For, fmt.Sprintf("every dim has its partner: after putting them back rel_l2 is %s (before %s); the map has %s", g2(t.after.Whole), g2(t.before.Whole), plural(runCount(found.perm), "run")))
	f.Try = c.tryLine("%s", permuteCall(inverse(found.perm), c.headWidths(ref.Cols)))
	f.Verify = "compare the order in which the weight's rows are stored with the order in which the code splits them (fused projections, shards joined in rank order, halves, pairs)"
	f.Fix = "reorder when loading, or split as the weights are stored"
	if c.isShardOrder(found.perm, block) {
		f.Cause = "parallel.shard_order"
	}
	if c.quantised() && block <= 8 && (strings.HasPrefix(found.name, "neighbours") || strings.HasPrefix(found.name, "each eight")) {
		f.Cause = "quant.nibble_order"
	}
	c.benignLayout(&f)
	return f, true
}

// permuteCall writes a permutation of dims as a transform, by name where the
// transform knows the order.
func permuteCall(p, widths []int) string {
	for _, w := range append(widths, len(p)) {
		for _, word := range orderWords {
			if w < 2 || w%2 != 0 || len(p)%w != 0 {
				continue
			}
			in := namedOrder(word, w)
			if slices.Equal(p, permOf(len(p), func(i int) int { return i/w*w + in[i%w] })) {
				return fmt.Sprintf("permute(%s, block=%d)", word, w)
			}
		}
	}
	order, block := compressed(p)
	return fmt.Sprintf("permute(%s, block=%d)", listArg(order), block)
}

// benignLayout relabels an order that what reads it takes back.
func (c *Context) benignLayout(f *compare.Finding) {
	agree, n := c.downstreamAgrees(c.At)
	if !agree {
		return
	}
	f.Cause = "benign.layout"
	f.For = append(f.For, fmt.Sprintf("the next %s downstream agree within their floors, so what reads the tensor expects this order", plural(n, "checkpoint")))
	f.Claim += "; only the layout differs, everything computed from it agrees"
	f.Fix = "nothing to fix in the model; state the order in the dump's manifest (\"columns\")"
}

// headWidths lists the widths at which an order may repeat.
func (c *Context) headWidths(cols int) []int {
	var out []int
	if w := c.headWidth(cols); w > 0 {
		out = append(out, w)
	}
	for _, w := range []int{64, 128, 32, 16, 96, 80, 256} {
		if w < cols && cols%w == 0 && (len(out) == 0 || out[0] != w) {
			out = append(out, w)
		}
	}
	return out
}

// fusedOrders lists the orders of a fused projection that was joined shard by
// shard, for every number of ranks that may have been used.
func (c *Context) fusedOrders(cols int) []namedPerm {
	f := c.Facts(Ref)
	var splits [][]int
	if w := c.headWidth(cols); w > 0 && f.NumHeads > 0 {
		kv := firstOf(f.NumKVHeads, f.NumHeads)
		if q, k := f.NumHeads*w, kv*w; q+2*k == cols {
			splits = append(splits, []int{q, k, k})
		}
	}
	splits = append(splits, []int{cols / 2, cols - cols/2})
	if cols%3 == 0 {
		splits = append(splits, []int{cols / 3, cols / 3, cols / 3})
	}
	var out []namedPerm
	for _, parts := range splits {
		for _, tp := range append(c.worlds(), 2, 4, 8, 16) {
			p := fusedOrder(parts, tp)
			if p == nil || isIdentity(p) {
				continue
			}
			name := fmt.Sprintf("%d fused parts of %s dims in the shards of %d ranks", len(parts), join(parts, 3), tp)
			out = append(out,
				namedPerm{name, "the shards were joined in rank order: [a0 b0 a1 b1] read as [a b]", p},
				namedPerm{name + ", taken apart the other way", "the weight is stored shard by shard and was read as one", inverse(p)})
		}
	}
	return out
}

// blockMeaning guesses what a block of that size is.
func (c *Context) blockMeaning(cols, block int) string {
	hd := c.headWidth(cols)
	switch {
	case hd > 0 && block == hd:
		return "heads are in another order"
	case hd > 0 && block == hd/2:
		return "half heads moved: pairs of a rotation, or a cut inside a head"
	case hd > 0 && block > hd && block%hd == 0:
		return fmt.Sprintf("groups of %d heads moved: shards, or kv groups", block/hd)
	case cols%block == 0 && cols/block <= 16 && block > 1:
		return fmt.Sprintf("%d equal shards moved", cols/block)
	}
	return "single dims or short runs moved: a column split, a packing order or a channel order"
}

// isShardOrder tells whether the runs know of ranks and the blocks are shards.
func (c *Context) isShardOrder(p []int, block int) bool {
	for _, w := range c.worlds() {
		if len(p)%w == 0 && block == len(p)/w {
			return true
		}
	}
	return false
}

// quantised tells whether a manifest says so.
func (c *Context) quantised() bool {
	for _, s := range []Side{Ref, Port} {
		if q, ok := c.Facts(s).Raw["quantization"]; ok && q != nil && q != "" {
			return true
		}
	}
	return false
}

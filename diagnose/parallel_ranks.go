package diagnose

import (
	"fmt"
	"math"
	"strings"

	"github.com/layerparity/parity/compare"
)

// rankHypothesis compares the ranks of each run with each other and with the
// other run.
var rankHypothesis = Hypothesis{
	ID:     "ranks",
	Causes: []string{"parallel.partial_sum", "parallel.shard_order", "parallel.shard_copy", "parallel.replica", "parallel.rng"},
	Taps:   []string{"*"},
	Needs:  "the dumps of all ranks; of one rank only the shape of a partial sum can be seen",
	Silent: "the port's ranks relate to each other as the reference's do",
	Source: "sum over ranks against the reference; equality of replicas; pattern P26",
	Test:   testRanks,
}

func testRanks(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || distance(ref, port).Token <= exactFloors*c.localFloor(c.At) || isInteger(ref) {
		return nil
	}
	if len(c.Ranks()) < 2 {
		if f, ok := onePartial(c, ref, port); ok {
			return []compare.Finding{f}
		}
		return nil
	}
	r, okR := c.overRanks(Ref)
	p, okP := c.overRanks(Port)
	if !okR || !okP {
		return nil
	}
	for _, test := range []func(*Context, *Tensor, *Tensor, []*Tensor, []*Tensor) (compare.Finding, bool){partialSum, rankOrder, differentReplica, replicaElsewhere} {
		if f, ok := test(c, ref, port, r, p); ok {
			return []compare.Finding{f}
		}
	}
	return nil
}

// overRanks reads the checkpoint on every rank of the step; ok is false where
// one lacks it or has another shape.
func (c *Context) overRanks(s Side) ([]*Tensor, bool) {
	var out []*Tensor
	for _, rank := range c.Ranks() {
		src, ok := c.Part(c.Step(), rank)
		if !ok {
			return nil, false
		}
		t, ok := src.Tensor(s, c.At)
		if !ok || len(out) > 0 && (t.Rows != out[0].Rows || t.Cols != out[0].Cols) {
			return nil, false
		}
		out = append(out, t)
	}
	return out, true
}

// rankTaps writes the checkpoint on every rank as arguments of a transform.
func (c *Context) rankTaps(side Side) []string {
	var out []string
	for _, rank := range c.Ranks() {
		out = append(out, fmt.Sprintf("%srank_%02d/%s", map[Side]string{Ref: "ref:", Port: ""}[side], rank, c.At))
	}
	return out
}

// equalRanks tells whether all ranks hold one tensor, within a bound.
func equalRanks(t []*Tensor, bound float64) bool {
	for _, o := range t[1:] {
		if !distance(t[0], o).below(bound) {
			return false
		}
	}
	return true
}

// partialSum: the ranks' tensors add up to the reference's.
func partialSum(c *Context, ref, port *Tensor, r, p []*Tensor) (compare.Finding, bool) {
	bound := exactFloors * c.localFloor(c.At)
	if !equalRanks(r, bound) || equalRanks(p, bound) {
		return compare.Finding{}, false
	}
	ones := make([]float64, len(p))
	for i := range ones {
		ones[i] = 1
	}
	sum := linear(p, ones)
	t := c.tryOn(ref, port, sum, 0)
	f, ok := c.finding("parallel.partial_sum", t)
	if !ok {
		return f, false
	}
	n := len(p)
	norm := math.Sqrt(dot(port.Data, port.Data) / dot(ref.Data, ref.Data))
	sides(&f, fmt.Sprintf("sum over %d ranks", n), "each rank's own part")
	f.Values["tp"] = n
	f.Claim = fmt.Sprintf("%s holds each rank's own partial sum in the port; the %d ranks add up to the reference: the all-reduce after this product is missing", c.At, n)
	f.For = append(f.For,
		fmt.Sprintf("the sum over ranks is the reference to %s, one rank alone only to %s", g2(t.after.Whole), g2(t.before.Whole)),
		fmt.Sprintf("it is no constant 1/%d: the norm ratio is %s (1/√%d is %s) and the direction differs", n, g3(norm), n, g3(1/math.Sqrt(float64(n)))))
	f.Try = c.tryLine("sum(%s)", strings.Join(c.rankTaps(Port), ", "))
	f.Verify = "see whether the row-parallel linear reduces its output, and over which group"
	f.Fix = "add the all-reduce after the product"
	return f, true
}

// rankOrder: the port's rank holds what another rank of the reference holds.
func rankOrder(c *Context, ref, port *Tensor, r, p []*Tensor) (compare.Finding, bool) {
	bound := exactFloors * c.localFloor(c.At)
	if equalRanks(r, bound) {
		return compare.Finding{}, false
	}
	for i, t := range r {
		if c.Ranks()[i] == c.Rank() {
			continue
		}
		tr := trial{before: distance(port, ref), after: distance(port, t), floor: c.localFloor(c.At), values: len(ref.Data)}
		f, ok := c.finding("parallel.shard_order", tr)
		if !ok || f.Proof != compare.ProofExact {
			continue
		}
		if equalRanks(p, bound) {
			f.Cause = "parallel.shard_copy"
		}
		sides(&f, fmt.Sprintf("shard %d", c.Rank()), fmt.Sprintf("shard %d", c.Ranks()[i]))
		f.Claim = fmt.Sprintf("rank %d of the port holds at %s what rank %d of the reference holds", c.Rank(), c.At, c.Ranks()[i])
		if f.Cause == "parallel.shard_copy" {
			f.Claim += "; so does every rank: all loaded the same shard"
		}
		f.For = append(f.For, fmt.Sprintf("equal to %s; to its own shard only %s", g2(tr.after.Whole), g2(tr.before.Whole)))
		f.Try = c.tryLine("target(%s)", c.rankTaps(Ref)[i])
		f.Verify = "see how the loader and the gather number the ranks"
		f.Fix = "give every rank its own shard"
		return f, true
	}
	return compare.Finding{}, false
}

// differentReplica: what every rank of the reference holds alike, the port's
// ranks do not.
func differentReplica(c *Context, ref, port *Tensor, r, p []*Tensor) (compare.Finding, bool) {
	bound := exactFloors * c.localFloor(c.At)
	if !equalRanks(r, bound) || equalRanks(p, bound) {
		return compare.Finding{}, false
	}
	right, odd := -1, 0
	for i, t := range p {
		switch {
		case distance(ref, t).below(bound):
			if right < 0 {
				right = i
			}
		default:
			odd++
		}
	}
	if right < 0 {
		return compare.Finding{}, false
	}
	t := c.tryOn(ref, port, p[right], 0)
	f, ok := c.finding("parallel.replica", t)
	if !ok {
		return f, false
	}
	sides(&f, "equal on all ranks", fmt.Sprintf("%d of %d ranks differ", odd, len(p)))
	f.Claim = fmt.Sprintf("%s should be equal on all ranks and is in the reference; rank %d of the port has another, rank %d has the reference's", c.At, c.Rank(), c.Ranks()[right])
	f.For = append(f.For, fmt.Sprintf("rank %d agrees to %s, rank %d differs by %s; its inputs agree", c.Ranks()[right], g2(t.after.Whole), c.Rank(), g2(t.before.Whole)))
	f.Try = c.tryLine("from(%s)", c.rankTaps(Port)[right])
	f.Verify = "compare the replicated parameters over ranks right after loading"
	f.Fix = "broadcast the replicated parameters from one rank, or load them on each"
	if c.isNoise() {
		f.Cause = "parallel.rng"
		f.Claim = fmt.Sprintf("the ranks of the reference hold the same %s; rank %d of the port drew another", c.At, c.Rank())
		f.Verify = "count the draws of each rank before this step; look for a draw under a rank condition"
		f.Fix = "draw on one rank and broadcast, or draw the same number of times on every rank"
		if step, ok := c.forkStep(bound); ok {
			f.Values["step"] = step
			f.Claim += fmt.Sprintf("; before step %d the ranks agreed: the generators forked there, by one draw more or less", step)
		}
	}
	return f, true
}

// replicaElsewhere: a reduced output is wrong though this rank's inputs are
// right, since another rank fed it from a replica that differs.
func replicaElsewhere(c *Context, ref, port *Tensor, _, p []*Tensor) (compare.Finding, bool) {
	if c.Tap != "attn_out" && c.Tap != "mlp_out" || c.inherited() || !equalRanks(p, exactFloors*c.localFloor(c.At)) {
		return compare.Finding{}, false
	}
	tap := "input_norm"
	if c.Tap == "mlp_out" {
		tap = "post_attn_norm"
	}
	for _, rank := range c.Ranks() {
		src, ok := c.Part(c.Step(), rank)
		if !ok || rank == c.Rank() {
			continue
		}
		there := NewContext(src, c.TapName(tap), c.FloorOf, c.Note)
		r, q, ok := there.Pair(there.At)
		if !ok || there.inherited() || distance(r, q).Token <= there.FloorOf(there.At) {
			continue
		}
		if mine, ok := c.Tensor(Ref, there.At); !ok || !distance(mine, r).below(exactFloors*c.localFloor(there.At)) {
			continue // not a replica
		}
		e := distance(ref, port)
		f := c.signature("parallel.replica", trial{before: e, after: e, floor: c.localFloor(c.At), values: len(ref.Data)})
		sides(&f, "equal on all ranks", fmt.Sprintf("rank %d has another %s", rank, there.At))
		f.Values["rank"] = rank
		f.Claim = fmt.Sprintf("%s is wrong on every rank because rank %d feeds the sum from another %s, which is equal on all ranks of the reference", c.At, rank, there.At)
		f.For = append(f.For, fmt.Sprintf("on rank %d %s differs by %s while its input agrees; on rank %d it agrees", rank, there.At, g2(distance(r, q).Whole), c.Rank()))
		f.Verify = fmt.Sprintf("explain rank %d by itself (--rank %d); compare the replicated parameters over ranks right after loading", rank, rank)
		f.Fix = "broadcast the replicated parameters from one rank, or load them on each"
		return f, true
	}
	return compare.Finding{}, false
}

// forkStep is the first step at which the port's ranks differ at this
// checkpoint; ok only where an earlier step agrees.
func (c *Context) forkStep(bound float64) (step int, ok bool) {
	agreed := false
	for _, s := range c.Steps() {
		var all []*Tensor
		for _, rank := range c.Ranks() {
			src, found := c.Part(s, rank)
			if !found {
				return 0, false
			}
			t, found := src.Tensor(Port, c.At)
			if !found {
				return 0, false
			}
			all = append(all, t)
		}
		if !equalRanks(all, bound) {
			return s, agreed
		}
		agreed = true
	}
	return 0, false
}

// onePartial is the shape of a partial sum in the dump of one rank: the port's
// part is at right angles to what is missing, so that <p,r>/<r,r> and |p|²/|r|²
// are both 1/tp while the direction is far off.
func onePartial(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	switch c.Tap {
	case "attn_out", "mlp_out", "moe_shared", "moe_routed":
	default:
		return compare.Finding{}, false
	}
	if c.inherited() {
		return compare.Finding{}, false
	}
	alpha := make([]float64, ref.Rows)
	ratio := make([]float64, ref.Rows)
	for t := range alpha {
		x, y := ref.Row(t), port.Row(t)
		alpha[t], ratio[t] = dot(x, y)/dot(x, x), dot(y, y)/dot(x, x)
	}
	a, q := medianOf(alpha), medianOf(ratio)
	for _, n := range []float64{2, 4, 8} {
		if math.Abs(a*n-1) > 0.2 || math.Abs(q*n-1) > 0.2 {
			continue
		}
		f := c.signature("parallel.partial_sum", trial{before: distance(ref, port), after: distance(ref, port), floor: c.localFloor(c.At), values: len(ref.Data)})
		sides(&f, "whole sum", fmt.Sprintf("looks like 1 of %g parts", n))
		f.Values["tp"] = int(n)
		f.Claim = fmt.Sprintf("%s looks like one of %g partial sums in the port: an all-reduce may be missing", c.At, n)
		f.For = append(f.For, fmt.Sprintf("per token <port,ref>/|ref|² is %s and |port|²/|ref|² is %s, both near 1/%g, which independent parts of a sum have; it is no scale, since the direction differs", g3(a), g3(q), n))
		f.Against = append(f.Against, "one rank's dump cannot prove it: dump the other ranks and add them up")
		f.Verify = "dump all ranks, and see whether their sum is the reference"
		f.Fix = "add the all-reduce after the product"
		return f, true
	}
	return compare.Finding{}, false
}

// paddingHypothesis: the port's queries attend to keys that the reference does
// not have.
var paddingHypothesis = Hypothesis{
	ID:     "padding",
	Causes: []string{"parallel.padding"},
	Taps:   []string{"attn_probs"},
	Needs:  "attn_probs of both sides",
	Silent: "both sides have the same number of keys",
	Source: "sequence padding for divisibility enters attention: extra keys with mass, and the reference's probabilities once they are taken away",
	Test:   testPadding,
}

func testPadding(c *Context) []compare.Finding {
	ref, ok := c.Tensor(Ref, c.At)
	port, ok2 := c.Tensor(Port, c.At)
	if !ok || !ok2 || len(ref.Shape) != 3 || len(port.Shape) != 3 || ref.Shape[0] != port.Shape[0] || port.Cols <= ref.Cols || port.Cols > 2*ref.Cols {
		return nil
	}
	extra := port.Cols - ref.Cols
	heads, rows := ref.Shape[0], ref.Shape[1]
	if port.Shape[1] < rows {
		return nil
	}
	var keep []int
	for h := range heads {
		for t := range rows {
			keep = append(keep, h*port.Shape[1]+t)
		}
	}
	q := port.takeRows(keep)
	cut := q.takeCols(permOf(ref.Cols, func(i int) int { return i }))
	got := unitRows(cut)
	var mass float64
	for t := range q.Rows {
		for _, v := range q.Row(t)[ref.Cols:] {
			mass += v / float64(q.Rows)
		}
	}
	if mass < 1e-9 {
		return nil // there, but masked
	}
	tr := trial{before: distance(ref, cut), after: distance(ref, got), floor: c.FloorOf(c.At), values: len(ref.Data)}
	f, ok := c.finding("parallel.padding", tr)
	if !ok {
		return nil
	}
	sides(&f, plural(ref.Cols, "key"), plural(port.Cols, "key"))
	f.Values["padding"], f.Values["mass"] = extra, compare.Num(mass)
	f.Claim = fmt.Sprintf("the port attends to %s more at the end than the reference has, with %s of the probability: rows of sequence padding are not masked", plural(extra, "key"), g3(mass))
	f.For = append(f.For, fmt.Sprintf("without these keys, and the rest brought to sum one, the probabilities are the reference's to %s (before %s)", g2(tr.after.Whole), g2(tr.before.Whole)))
	if port.Shape[1] == rows {
		f.Try = c.tryLine("slice(0, %d, axis=cols) | unit_rows", ref.Cols)
	} else {
		f.Proof = compare.ProofFit
	}
	f.Verify = "see where the sequence is padded to a multiple of the ranks, and whether the mask knows it"
	f.Fix = "mask the padding keys, or cut the padding before attention"
	return []compare.Finding{f}
}

package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// embeddingHypothesis: the ids are the same and the rows are not the rows of
// those ids.
var embeddingHypothesis = Hypothesis{
	ID:     "embedding",
	Causes: []string{"input.embedding"},
	Taps:   []string{"post_embed"},
	Needs:  "post_embed and prompt_tokens; logits and post_final_norm to recognise the head's rows",
	Silent: "the ids differ (the guards say so), or every row is its own id's up to a scale or rounding",
	Source: "each port row looked up among the reference's rows; zero rows by id (vocabulary shards); rows of the head by h·e = logit; patterns P22, P23",
	Test:   testEmbedding,
}

func testEmbedding(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || ref.Rows < 2 {
		return nil
	}
	ids, same := c.tokenIDs(ref.Rows)
	if ids == nil || !same {
		return nil
	}
	for _, test := range []func(*Context, *Tensor, *Tensor, []int) (compare.Finding, bool){zeroRows, headRows, otherRows} {
		if f, ok := test(c, ref, port, ids); ok {
			return []compare.Finding{f}
		}
	}
	return nil
}

// tokenIDs returns the reference's ids where they are one per row, and whether
// the port's are the same; nil where they were not dumped.
func (c *Context) tokenIDs(rows int) (ids []int, same bool) {
	r, ok := c.Tensor(Ref, "prompt_tokens")
	p, ok2 := c.Tensor(Port, "prompt_tokens")
	if !ok || !ok2 || len(r.Data) != rows || len(p.Data) != rows {
		return nil, false
	}
	same = true
	for i, v := range r.Data {
		ids = append(ids, int(v))
		same = same && p.Data[i] == v
	}
	return ids, same
}

// zeroRows: some rows are zero in the port and right otherwise.
func zeroRows(c *Context, ref, port *Tensor, ids []int) (compare.Finding, bool) {
	var zero []int
	lo, hi, okLo, okHi := math.MaxInt, -1, -1, math.MaxInt
	floor := c.localFloor(c.At)
	for t := range ref.Rows {
		d2, r2 := rowDistance(ref.Row(t), port.Row(t))
		p2 := dot(port.Row(t), port.Row(t))
		switch {
		case p2 == 0 && r2 > 0:
			zero = append(zero, t)
			if ids != nil {
				lo, hi = min(lo, ids[t]), max(hi, ids[t])
			}
		case d2 > exactFloors*exactFloors*floor*floor*r2:
			return compare.Finding{}, false
		case ids != nil:
			okLo, okHi = max(okLo, ids[t]), min(okHi, ids[t])
		}
	}
	if len(zero) == 0 || len(zero) == ref.Rows {
		return compare.Finding{}, false
	}
	keep := ref.like(append([]float64(nil), port.Data...))
	for _, t := range zero {
		copy(keep.Row(t), ref.Row(t))
	}
	f := c.signature("input.embedding", trial{before: distance(ref, port), after: distance(ref, keep), floor: floor, values: len(ref.Data)})
	sides(&f, "no zero rows", fmt.Sprintf("%d zero rows", len(zero)))
	f.Claim = fmt.Sprintf("%s of post_embed are zero in the port (tokens %s), the others are right", plural(len(zero), "row"), rangesOf(zero))
	switch {
	case ids == nil:
	case lo > okLo:
		f.Claim += fmt.Sprintf(": ids from %d on, while ids up to %d have their rows: a shard of the vocabulary is not added", lo, okLo)
		f.Values["first_zero_id"] = lo
	case hi < okHi:
		f.Claim += fmt.Sprintf(": ids up to %d, while ids from %d on have their rows: a shard of the vocabulary is not added", hi, okHi)
		f.Values["last_zero_id"] = hi
	}
	f.For = append(f.For, fmt.Sprintf("all other rows agree (rel_l2 of the rest %s)", g2(float64(f.After))))
	f.Verify = "see whether the embedding is sharded over the vocabulary and the shards' rows are added over ranks"
	f.Fix = "add the shards' rows (all-reduce after a vocabulary-parallel embedding), or load the missing rows"
	return f, true
}

// headRows: the port's rows are those of the output head, which the reference's
// own logits tell: logits[s, id] = h_s·head_id.
func headRows(c *Context, ref, port *Tensor, ids []int) (compare.Finding, bool) {
	h, ok := c.Tensor(Ref, "post_final_norm")
	logits, ok2 := c.Tensor(Ref, "logits")
	if ids == nil || !ok || !ok2 || h.Cols != port.Cols || h.Rows != logits.Rows || distance(ref, port).Token < 0.5 {
		return compare.Finding{}, false
	}
	want, got := headProducts(h, port, logits, ids)
	if want == nil {
		return compare.Finding{}, false
	}
	_, own := headProducts(h, ref, logits, ids)
	t := trial{before: distance(want, own), after: distance(want, got), floor: c.FloorOf("logits"), values: len(want.Data)}
	f, ok := c.finding("input.embedding", t)
	if !ok || !t.after.below(exactFloors*max(t.floor, 1e-5)) {
		return f, false
	}
	f.Proof = compare.ProofFit // measured on products, not on the checkpoint
	sides(&f, "embedding rows", "rows of the output head")
	f.Claim = "the port's post_embed holds the rows of the reference's output head, not of its embedding"
	f.For = append(f.For, fmt.Sprintf("the reference's own logits of the prompt's ids are post_final_norm times the port's embedding rows to %s (times the reference's rows: %s); before and after are of these %d products", g2(t.after.Whole), g2(t.before.Whole), len(want.Data)))
	f.Verify = "compare which key of the checkpoint the embedding was loaded from (embed_tokens against lm_head)"
	f.Fix = "load the embedding from its own key"
	return f, true
}

// headProducts returns the logits of the rows' ids and h·row for them, [S, T].
func headProducts(h, rows, logits *Tensor, ids []int) (want, got *Tensor) {
	for _, id := range ids {
		if id < 0 || id >= logits.Cols {
			return nil, nil
		}
	}
	want = &Tensor{Rows: h.Rows, Cols: len(ids), Data: make([]float64, h.Rows*len(ids))}
	got = want.like(make([]float64, len(want.Data)))
	for s := range h.Rows {
		for t, id := range ids {
			want.Data[s*len(ids)+t] = logits.Row(s)[id]
			got.Data[s*len(ids)+t] = dot(h.Row(s), rows.Row(t))
		}
	}
	return want, got
}

// otherRows: rows of the port are the reference's rows of other tokens.
func otherRows(c *Context, ref, port *Tensor, ids []int) (compare.Finding, bool) {
	floor := c.localFloor(c.At)
	from := make([]int, ref.Rows)
	moved, lost := 0, 0
	shift := map[int]int{}
	for t := range ref.Rows {
		from[t] = -1
		best := math.Inf(1)
		for s := range ref.Rows {
			d2, r2 := rowDistance(ref.Row(s), port.Row(t))
			if d2 < best*r2 && r2 > 0 {
				best = d2 / r2
				from[t] = s
			}
		}
		if d2, r2 := rowDistance(ref.Row(t), port.Row(t)); d2 <= exactFloors*exactFloors*floor*floor*r2 {
			from[t] = t
			continue
		}
		if !(math.Sqrt(best) <= exactFloors*floor) {
			lost++
			continue
		}
		moved++
		if ids != nil {
			shift[ids[from[t]]-ids[t]]++
		}
	}
	if moved < 2 || moved < 3*lost {
		return compare.Finding{}, false
	}
	// port_t = ref_from[t]; a bijection is order.tokens.
	seen := map[int]bool{}
	bijection := lost == 0
	for _, s := range from {
		if seen[s] {
			bijection = false
		}
		seen[s] = true
	}
	if bijection {
		return compare.Finding{}, false
	}
	want := ref.like(append([]float64(nil), ref.Data...))
	for t, s := range from {
		if s >= 0 {
			copy(want.Row(t), ref.Row(s))
		}
	}
	f := c.signature("input.embedding", trial{before: distance(ref, port), after: distance(port, want), floor: floor, values: len(ref.Data)})
	sides(&f, "rows of its ids", "rows of other ids")
	f.Claim = fmt.Sprintf("%s of post_embed are, in the port, the reference's rows of other tokens", plural(moved, "row"))
	for s, n := range shift {
		if n == moved && s != 0 {
			f.Claim += fmt.Sprintf(": the table is off by %d ids", s)
			f.Values["id_shift"] = s
		}
	}
	f.For = append(f.For, fmt.Sprintf("with the rows looked up so, the port's are met to %s", g2(float64(f.After))))
	f.Verify = "compare the ids that reach the lookup, and the offset of the table (padding row, added tokens)"
	f.Fix = "look up the reference's rows"
	return f, true
}

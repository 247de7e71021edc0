package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// blockHypothesis: equal blocks of dims or of tokens of one dump: some right, the
// others copies, zero, stale or another stream's noise.
var blockHypothesis = Hypothesis{
	ID:     "blocks",
	Causes: []string{"parallel.shard_copy", "parallel.shard_missing", "parallel.rng"},
	Taps:   []string{"*"},
	Needs:  "the checkpoint itself",
	Silent: "right and wrong dims (or tokens) do not lie in equal blocks, or the checkpoint mixes tokens or heads",
	Source: "block equality and cosine per block; patterns P09, P23 (every rank loaded shard 0; only one shard saved; each rank drew its own noise)",
	Test:   testBlocks,
}

// blockCounts are the numbers of shards that are tried, fewest first.
var blockCounts = []int{2, 3, 4, 6, 8, 12, 16}

func testBlocks(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || distance(ref, port).Token < orderMinimum || c.inherited() {
		return nil
	}
	switch c.Tap {
	case "q_rope", "k_rope", "q_norm", "k_norm", "attn_probs", "attn_ctx", "layer", "ffn_inp", "expert_ids", "expert_weights":
		return nil // rotations, head maps and sums of streams have tests of their own
	}
	for _, test := range []func(*Context, *Tensor, *Tensor) (compare.Finding, bool){copiedTokens, copiedDims, ownNoise, missingDims} {
		if f, ok := test(c, ref, port); ok {
			return []compare.Finding{f}
		}
	}
	return nil
}

// isNoise tells whether a checkpoint is drawn and not computed: an input without
// token ids.
func (c *Context) isNoise() bool {
	return c.Layer < 0 && len(c.inputs(c.At)) == 0 && !c.Has(Ref, "prompt_tokens") && !isLogits(c.Tap)
}

// copies tests whether the port is block 0 of the reference n times, and the
// reference is not. dims chooses the axis.
func (c *Context) copies(ref, port *Tensor, n int, dims bool) (trial, bool) {
	size := ref.Rows
	if dims {
		size = ref.Cols
	}
	if size%n != 0 || size/n < 2 {
		return trial{}, false
	}
	at := permOf(size, func(i int) int { return i % (size / n) })
	take := (*Tensor).takeRows
	if dims {
		take = (*Tensor).takeCols
	}
	want := take(ref, at)
	t := trial{before: distance(port, ref), after: distance(port, want), floor: c.localFloor(c.At), values: len(ref.Data)}
	p, ok := t.proof()
	return t, ok && p == compare.ProofExact
}

func copiedDims(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	for _, n := range blockCounts {
		t, ok := c.copies(ref, port, n, true)
		if !ok {
			continue
		}
		f, _ := c.finding("parallel.shard_copy", t)
		sides(&f, fmt.Sprintf("%d different shards", n), fmt.Sprintf("shard 0, %d times", n))
		f.Values["shards"] = n
		f.Claim = fmt.Sprintf("the port's %s is the reference's first %d dims, %d times: every rank loaded shard 0", c.At, ref.Cols/n, n)
		f.For = append(f.For, fmt.Sprintf("block 0 of the reference repeated gives the port to %s (the reference itself: %s)", g2(t.after.Whole), g2(t.before.Whole)))
		f.Try = c.tryLine("from(ref:%s) | slice(0, %d, axis=cols) | tile(%d, axis=cols) | target(port)", c.At, ref.Cols/n, n)
		f.Verify = "see how the loader takes the rank's slice (rank index, world size), and in which process group it asks for the rank"
		f.Fix = "load shard r on rank r"
		return f, true
	}
	return compare.Finding{}, false
}

func copiedTokens(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	for _, n := range blockCounts {
		t, ok := c.copies(ref, port, n, false)
		if !ok {
			continue
		}
		cause := "parallel.shard_copy"
		if c.isNoise() {
			cause = "parallel.rng"
		}
		f, _ := c.finding(cause, t)
		sides(&f, fmt.Sprintf("%d different blocks of tokens", n), fmt.Sprintf("the first block, %d times", n))
		f.Values["shards"], f.Values["block"] = n, ref.Rows/n
		f.Claim = fmt.Sprintf("the port's %s holds the reference's first %d tokens %d times", c.At, ref.Rows/n, n)
		if cause == "parallel.rng" {
			f.Claim += ": every rank drew the same noise for its own tokens"
			f.Fix = "draw the whole sequence's noise from one generator and slice it, or seed by rank"
		} else {
			f.Claim += ": every rank got the first shard of the sequence"
			f.Fix = "hand shard r of the sequence to rank r"
		}
		f.For = append(f.For, fmt.Sprintf("block 0 of the reference repeated gives the port to %s (the reference itself: %s)", g2(t.after.Whole), g2(t.before.Whole)))
		f.Try = c.tryLine("from(ref:%s) | slice(0, %d) | tile(%d, axis=rows) | target(port)", c.At, ref.Rows/n, n)
		f.Verify = "see which generator each rank draws from, and which slice it keeps"
		return f, true
	}
	return compare.Finding{}, false
}

// blockErrors is the token-normalised error of each of n equal blocks.
func blockErrors(ref, port *Tensor, n int, dims bool) []float64 {
	out := make([]float64, n)
	for b := range n {
		if dims {
			w := ref.Cols / n
			cols := permOf(w, func(i int) int { return b*w + i })
			out[b] = distance(ref.takeCols(cols), port.takeCols(cols)).Whole
			continue
		}
		w := ref.Rows / n
		rows := permOf(w, func(i int) int { return b*w + i })
		out[b] = distance(ref.takeRows(rows), port.takeRows(rows)).Whole
	}
	return out
}

// rightAndWrong splits equal blocks into those at the floor and those that are
// far from it; ok is false where one is in between or all are of one kind.
func rightAndWrong(e []float64, floor float64) (right, wrong []int, ok bool) {
	for b, v := range e {
		switch {
		case v <= 2*floor:
			right = append(right, b)
		case v > 0.5:
			wrong = append(wrong, b)
		default:
			return nil, nil, false
		}
	}
	return right, wrong, len(right) > 0 && len(wrong) > 0
}

// ownNoise: some blocks of tokens are right, the others have nothing to do with
// the reference, from the first checkpoint on.
func ownNoise(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	// Beside token ids too: no table and no ids make rows that have nothing to do
	// with the reference exactly from a shard's edge on.
	if !c.isNoise() && c.Tap != "post_embed" {
		return compare.Finding{}, false
	}
	for _, n := range blockCounts {
		if ref.Rows%n != 0 || ref.Rows/n < 2 {
			continue
		}
		right, wrong, ok := rightAndWrong(blockErrors(ref, port, n, false), c.localFloor(c.At))
		if !ok {
			continue
		}
		w := ref.Rows / n
		if !eachRowDiffers(ref, port, wrong, w) {
			continue // the break lies inside a block
		}
		var cos []float64
		for _, b := range wrong {
			rows := permOf(w, func(i int) int { return b*w + i })
			cos = append(cos, math.Abs(tokenCosine(ref.takeRows(rows), port.takeRows(rows))))
		}
		if greatest(cos) > 0.3 {
			continue
		}
		kept := port.mapRows(func(t int, row []float64) {
			if containsInt(wrong, t/w) {
				copy(row, ref.Row(t))
			}
		})
		f := c.signature("parallel.rng", trial{before: distance(ref, port), after: distance(ref, kept), floor: c.localFloor(c.At), values: len(ref.Data)})
		sides(&f, "one draw for the whole sequence", fmt.Sprintf("blocks %s of %d drawn otherwise", rangesOf(wrong), n))
		f.Values["blocks"], f.Values["block"] = n, w
		f.Claim = fmt.Sprintf("tokens %s of %s are the reference's, all others have nothing to do with it: each rank drew its own noise for its shard of %d tokens", blockTokens(right, w), c.At, w)
		f.For = append(f.For,
			fmt.Sprintf("the break lies exactly at a multiple of %d tokens (%d blocks)", w, n),
			fmt.Sprintf("median cosine of the other blocks at most %s; the right blocks agree to %s", g2(greatest(cos)), g2(float64(f.After))))
		f.Verify = "see where the initial noise is drawn: per rank after the split, or once before it"
		f.Fix = "draw the whole sequence's noise with one shared generator, then split it"
		return f, true
	}
	return compare.Finding{}, false
}

// eachRowDiffers tells whether no token of the blocks is near the reference's.
func eachRowDiffers(ref, port *Tensor, blocks []int, w int) bool {
	for _, b := range blocks {
		for t := b * w; t < (b+1)*w; t++ {
			if d2, r2 := rowDistance(ref.Row(t), port.Row(t)); d2 <= 0.1*r2 {
				return false
			}
		}
	}
	return true
}

func blockTokens(blocks []int, w int) string {
	var idx []int
	for _, b := range blocks {
		for i := range w {
			idx = append(idx, b*w+i)
		}
	}
	return rangesOf(idx)
}

func containsInt(list []int, v int) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// missingDims: some blocks of dims are right, the others zero or wrong.
func missingDims(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if c.isNoise() || ref.Rows < minTokens {
		return compare.Finding{}, false
	}
	if len(testOrder(c)) > 0 || fusedHypothesis.Applies(c.Tap) && len(testFused(c)) > 0 {
		return compare.Finding{}, false // they are there, at other places
	}
	for _, n := range blockCounts {
		if ref.Cols%n != 0 || ref.Cols/n < 4 {
			continue
		}
		right, wrong, ok := rightAndWrong(blockErrors(ref, port, n, true), c.localFloor(c.At))
		if !ok {
			continue
		}
		w := ref.Cols / n
		zero := true
		var cos []float64
		for _, b := range wrong {
			cols := permOf(w, func(i int) int { return b*w + i })
			r, p := ref.takeCols(cols), port.takeCols(cols)
			zero = zero && dot(p.Data, p.Data) == 0
			cos = append(cos, tokenCosine(r, p))
			if _, res := rowScales(r, p); medianOf(res) < exactFloors*c.localFloor(c.At) {
				return compare.Finding{}, false // scaled, not missing
			}
		}
		kept := port.mapRows(func(t int, row []float64) {
			for d := range row {
				if containsInt(wrong, d/w) {
					row[d] = ref.Row(t)[d]
				}
			}
		})
		f := c.signature("parallel.shard_missing", trial{before: distance(ref, port), after: distance(ref, kept), floor: c.localFloor(c.At), values: len(ref.Data)})
		state := fmt.Sprintf("are not (median cosine %s): stale, or never loaded", g2(medianOf(cos)))
		if zero {
			state = "are zero"
		}
		sides(&f, fmt.Sprintf("%d right blocks", n), fmt.Sprintf("%d of %d blocks right", len(right), n))
		f.Values["blocks"], f.Values["block"] = n, w
		f.Claim = fmt.Sprintf("dims %s of the port's %s are the reference's, dims %s %s", blockTokens(right, w), c.At, blockTokens(wrong, w), state)
		f.For = append(f.For, fmt.Sprintf("right and wrong dims lie in whole blocks of %d; the right ones agree to %s", w, g2(float64(f.After))))
		f.Against = append(f.Against, "whether the weight or the kernel left them out is not known from the output")
		f.Verify = "compare the weight's rows of these dims on both sides; see how the checkpoint was saved (one rank's shard, an average kept for one shard)"
		f.Fix = "save and load all shards"
		return f, true
	}
	return compare.Finding{}, false
}

package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// tiedHypothesis: the output head is the embedding table on one side only. The
// rows of the table that the prompt uses are in post_embed, so that many logits
// can be worked out.
var tiedHypothesis = Hypothesis{
	ID:     "tied",
	Causes: []string{"weights.tied"},
	Taps:   []string{"logits", "last_logits"},
	Needs:  "prompt_tokens, post_embed, post_final_norm and logits",
	Silent: "both sides are tied or neither is",
	Source: "logits[s, id_t] = c·h_s·e_t for a tied head, with e_t the embedding row of token t; pattern P23",
	Test:   testTied,
}

func testTied(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || distance(ref, port).Token <= exactFloors*c.localFloor(c.At) || c.inherited() {
		return nil
	}
	embed, ok := c.Tensor(Ref, "post_embed")
	if !ok {
		return nil
	}
	ids, same := c.tokenIDs(embed.Rows)
	if ids == nil || !same {
		c.Note("weights.tied at %s: prompt_tokens with one id a row are needed on both sides", c.At)
		return nil
	}
	var rest [2]errorOf
	var value [2]*Tensor
	for _, s := range []Side{Ref, Port} {
		got, want := c.tiedLogits(s, ids)
		if got == nil {
			return nil
		}
		rest[s] = distance(want, got)
		value[s] = got
	}
	bound := exactFloors * c.FloorOf(c.At)
	refTied, portTied := rest[Ref].Whole <= bound, rest[Port].Whole <= bound
	if refTied == portTied {
		return nil
	}
	// Another matrix gives logits of another direction; a cap, a scale or a bias on
	// the same ones does not.
	other := Port
	if portTied {
		other = Ref
	}
	if _, own := c.tiedLogits(other, ids); cosineOf(value[other], own) > sameHead {
		return nil
	}
	f := c.signature("weights.tied", trial{floor: c.FloorOf(c.At), values: len(value[Ref].Data)})
	f.Proof = compare.ProofFit
	n := len(value[Ref].Data)
	if refTied {
		// The port's own final hidden state times the embedding rows gives the
		// reference's logits.
		_, want := c.tiedLogits(Ref, ids)
		_, have := c.tiedLogits(Port, ids)
		f.Before, f.After = compare.Num(distance(want, have).Whole), compare.Num(distance(want, value[Port]).Whole)
		sides(&f, "the embedding table", "a matrix of its own")
		f.Claim = "the reference's head is its embedding table (tied), the port's is another matrix"
		f.For = append(f.For, fmt.Sprintf("of %d logits of the prompt's own ids: h·embedding gives the reference's to %s, the port's only to %s; the port's h·embedding gives the reference's to %s", n, g2(rest[Ref].Whole), g2(rest[Port].Whole), g2(float64(f.After))))
		f.Fix = "tie the head to the embedding after loading (tie_word_embeddings)"
	} else {
		_, have := c.tiedLogits(Port, ids)
		_, want := c.tiedLogits(Ref, ids)
		f.Before, f.After = compare.Num(distance(have, want).Whole), compare.Num(rest[Port].Whole)
		sides(&f, "a matrix of its own", "the embedding table")
		f.Claim = "the port's head is the embedding table (tied), the reference's is another matrix"
		f.For = append(f.For, fmt.Sprintf("of %d logits of the prompt's own ids: h·embedding gives the port's to %s, the reference's only to %s", n, g2(rest[Port].Whole), g2(rest[Ref].Whole)))
		f.Fix = "load the head's own weight, and do not tie"
	}
	f.For = append(f.For, "before and after are of these logits")
	if hr, hp, ok := c.Pair("post_final_norm"); ok {
		f.For = append(f.For, fmt.Sprintf("post_final_norm agrees to %s, so the head alone differs", g2(distance(hr, hp).Whole)))
	}
	f.Verify = "print tie_word_embeddings on both sides, and whether the head's key is in the checkpoint"
	return []compare.Finding{f}
}

// sameHead is the cosine above which logits are of the same head.
const sameHead = 0.8

// cosineOf is the cosine of two tensors as one vector each; 0 where one is zero.
func cosineOf(a, b *Tensor) float64 {
	n := dot(a.Data, a.Data) * dot(b.Data, b.Data)
	if n == 0 {
		return 0
	}
	return dot(a.Data, b.Data) / math.Sqrt(n)
}

// tiedLogits returns h·e for the prompt's ids, up to the one scale that fits the
// run's own logits best (an embedding scale, a logit scale), and these logits.
func (c *Context) tiedLogits(s Side, ids []int) (got, want *Tensor) {
	h, ok := c.Tensor(s, "post_final_norm")
	e, ok2 := c.Tensor(s, "post_embed")
	l, ok3 := c.Tensor(s, c.At)
	if !ok || !ok2 || !ok3 || h.Cols != e.Cols {
		return nil, nil
	}
	if l.Rows < h.Rows {
		h = h.takeRows(lastRows(h.Rows, l.Rows))
	}
	want, got = headProducts(h, e, l, ids)
	if want == nil {
		return nil, nil
	}
	if n := dot(got.Data, got.Data); n > 0 {
		scale := dot(got.Data, want.Data) / n
		// A scale is read off as one named number or not at all: of an unrelated
		// head it would be anything.
		if _, named := name(math.Abs(scale), 1e-2, c.constants()); named {
			got = got.scaled(scale)
		}
	}
	return got, want
}

// lastRows lists the last k of n rows.
func lastRows(n, k int) []int {
	out := make([]int, k)
	for i := range out {
		out[i] = n - k + i
	}
	return out
}

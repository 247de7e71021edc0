package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// tokenProfile is how the error of a checkpoint lies over its tokens.
type tokenProfile struct {
	// e is the relative error of each token, floor what counts as exact.
	e     []float64
	floor float64
	// cos is each token's cosine, for tokens that are unrelated.
	cos []float64
}

// profileOf measures a checkpoint; ok is false without at least 4 tokens.
func profileOf(c *Context, name string) (p tokenProfile, ok bool) {
	ref, port, ok := c.Pair(name)
	if !ok || ref.Rows < minTokens || isInteger(ref) || !ref.finite() || !port.finite() {
		return p, false
	}
	p.floor = c.FloorOf(name)
	for t := 0; t < ref.Rows; t++ {
		x, y := ref.Row(t), port.Row(t)
		d2, r2 := rowDistance(x, y)
		p.e = append(p.e, relative(d2, r2))
		n := math.Sqrt(r2 * dot(y, y))
		switch {
		case d2 == 0:
			p.cos = append(p.cos, 1)
		case n == 0:
			p.cos = append(p.cos, 0)
		default:
			p.cos = append(p.cos, dot(x, y)/n)
		}
	}
	return p, true
}

// exact tells whether a token is at the floor, or so far below the others that it
// cannot have their error.
func (p tokenProfile) exact(t int) bool {
	return p.e[t] <= p.floor || p.e[t] <= 0.01*medianOf(p.e)
}

func (p tokenProfile) count(from, to int) (exact int) {
	for t := from; t < to; t++ {
		if p.exact(t) {
			exact++
		}
	}
	return exact
}

// profileKind is one line of the table in docs/diagnosis.md: what a profile says.
type profileKind struct {
	id string
	// cause is what it points to by itself, "" where only classes of causes can
	// be told apart.
	cause string
	// is tests for it; text is printed with numbers put in.
	is   func(p tokenProfile) (text string, values map[string]any, ok bool)
	says string
	not  string
	taps string
}

// profileKinds is the table, the most particular first.
var profileKinds = []profileKind{
	{
		id: "none", is: func(p tokenProfile) (string, map[string]any, bool) {
			return "every token is at its floor", nil, p.count(0, len(p.e)) == len(p.e)
		},
		says: "nothing differs here",
	},
	{
		id: "last_exact", cause: "attention.mask",
		is: func(p tokenProfile) (string, map[string]any, bool) {
			n := len(p.e)
			ok := p.exact(n-1) && p.count(0, n-1) <= n/20
			// Only the token before the last may see almost everything too.
			return fmt.Sprintf("only the last token is exact (%s), token 0 is off by %s and the one in the middle by %s", g2(p.e[n-1]), g2(p.e[0]), g2(p.e[n/2])), nil, ok
		},
		says: "one side is causal and the other sees both ways",
		not:  "RoPE, scale",
		taps: "attn_probs (probability above the diagonal)",
	},
	{
		id: "from_edge", cause: "",
		is: func(p tokenProfile) (string, map[string]any, bool) {
			n, w := len(p.e), 0
			for w < n && p.exact(w) {
				w++
			}
			// An error that grows out of the floor has no edge.
			ok := w >= 2 && w < n && p.count(w, n) <= (n-w)/10 && p.e[w] > 0.3*medianOf(p.e[w:])
			return fmt.Sprintf("tokens 0 to %d are exact (at most %s), token %d is off by %s and nearly all after it", w-1, g2(maxAbs(p.e[:max(w, 1)])), w, g2(p.e[min(w, n-1)])), map[string]any{"first_token": w}, ok
		},
		says: "something that begins at that token: a window of so many keys, positions that lose their last bits (256 in bfloat16, 2048 in float16), the edge of a chunk, padding",
		not:  "anything that acts on a short context",
		taps: "attn_probs (longest look-back), q_rope and position_ids",
	},
	{
		id: "token0_exact", cause: "",
		is: func(p tokenProfile) (string, map[string]any, bool) {
			n := len(p.e)
			ok := p.exact(0) && p.count(1, n) <= n/10
			return fmt.Sprintf("token 0 is exact (%s), the others are not: token 1 is off by %s, the last by %s, the median by %s", g2(p.e[0]), g2(p.e[1]), g2(p.e[n-1]), g2(medianOf(p.e))), nil, ok
		},
		says: "under a causal mask token 0 sees only itself, whatever the scores are: so the scores differ (RoPE layout, theta, scaling, width; q or k norm; attention scale; softcap)",
		not:  "V, the output projection, the head map, the MLP, biases, norms of the residual stream",
		taps: "q, k, q_rope, k_rope, attn_probs",
	},
	{
		id: "blocks", cause: "parallel.rng",
		is:   exactBlocks,
		says: "tokens of some ranks match and the others are unrelated: noise or data drawn on each rank, or a missing gather",
		not:  "a fault of the arithmetic",
		taps: "the first latent or embedding of every rank",
	},
	{
		id: "bimodal", cause: "",
		is: func(p tokenProfile) (string, map[string]any, bool) {
			n, far := len(p.e), 0
			for _, e := range p.e {
				if e > 30*p.floor {
					far++
				}
			}
			ex := p.count(0, n)
			ok := far > 0 && far <= n/3 && ex+far >= n*9/10
			return fmt.Sprintf("%d of %d tokens are exact and %d far off, few between", ex, n, far), map[string]any{"tokens": far}, ok
		},
		says: "a rare path: other experts for these tokens, or rows of one kind (image, padding, one request)",
		not:  "a fault that acts on every token",
		taps: "router_logits and expert_ids; attention_mask",
	},
	{
		id: "decays", cause: "",
		is: func(p tokenProfile) (string, map[string]any, bool) {
			n := len(p.e)
			early, late := meanOf(p.e[:max(1, n/16)]), meanOf(p.e[n-max(1, n/4):])
			ok := p.count(0, n) == 0 && early > 2*late && p.e[0] >= 0.8*maxAbs(p.e)
			return fmt.Sprintf("every token is off, token 0 most: %s, the last quarter %s", g2(p.e[0]), g2(late)), nil, ok
		},
		says: "averaging over keys hides it: V or its head map, a sink in the softmax, or a partial sum before the reduce",
		not:  "the MLP",
		taps: "v, attn_probs, attn_ctx",
	},
	{
		id: "flat", cause: "",
		is: func(p tokenProfile) (string, map[string]any, bool) {
			m := meanOf(p.e)
			cv := spreadOver(p.e, m) / m
			ok := p.count(0, len(p.e)) == 0 && cv < 0.25
			return fmt.Sprintf("every token is off by about the same: mean %s, coefficient of variation %s", g2(m), g2(cv)), map[string]any{"cv": compare.Num(cv)}, ok
		},
		says: "a bias, a scale or gain, the residual algebra, the activation or another part of the MLP",
		not:  "masks and RoPE",
		taps: "input_norm, attn_out, post_attn_norm, mlp_act, mlp_out",
	},
	{
		id: "all", cause: "",
		is: func(p tokenProfile) (string, map[string]any, bool) {
			return fmt.Sprintf("token 0 is off by %s, the median token by %s, the last by %s", g2(p.e[0]), g2(medianOf(p.e)), g2(p.e[len(p.e)-1])), nil, !p.exact(0)
		},
		says: "token 0 is wrong: V, the output projection, the head map, a mask that lets it see the future, the key-value write, or something outside attention (not valid with a learned sink)",
		not:  "Q, K, RoPE, window",
		taps: "v, attn_ctx, attn_out, post_attn_norm, mlp_out",
	},
	{
		id: "some", cause: "",
		is: func(p tokenProfile) (string, map[string]any, bool) {
			var bad []int
			for t := range p.e {
				if !p.exact(t) {
					bad = append(bad, t)
				}
			}
			return fmt.Sprintf("tokens %s are off, the others are exact", rangesOf(bad)), nil, true
		},
		says: "rows of one kind: padding, one request of a batch, image tokens",
		not:  "a fault that acts on every token",
		taps: "attention_mask, position_ids",
	},
}

// exactBlocks finds equal blocks of tokens of which some match and the others are
// unrelated.
func exactBlocks(p tokenProfile) (string, map[string]any, bool) {
	n := len(p.e)
	for _, parts := range []int{2, 4, 8, 3, 6} {
		if n%parts != 0 || n/parts < 2 {
			continue
		}
		size, good, bad := n/parts, 0, 0
		for b := 0; b < parts; b++ {
			switch ex := p.count(b*size, (b+1)*size); {
			case ex == size:
				good++
			case ex == 0 && math.Abs(meanOf(p.cos[b*size:(b+1)*size])) < 0.3:
				bad++
			}
		}
		if good > 0 && bad > 0 && good+bad == parts {
			return fmt.Sprintf("of %d blocks of %d tokens %d are exact and %d unrelated (cosine near 0)", parts, size, good, bad),
				map[string]any{"blocks": parts, "block": size}, true
		}
	}
	return "", nil, false
}

func meanOf(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s / float64(len(x))
}

// spreadOver is the standard deviation around m.
func spreadOver(x []float64, m float64) float64 {
	s := 0.0
	for _, v := range x {
		s += (v - m) * (v - m)
	}
	return math.Sqrt(s / float64(len(x)))
}

// classify returns the first line of the table that fits, with its numbers.
func (p tokenProfile) classify() (k profileKind, text string, values map[string]any) {
	for _, k = range profileKinds {
		if text, values, ok := k.is(p); ok {
			return k, text, values
		}
	}
	return profileKind{}, "", nil
}

// tokenHypothesis reads the token profile where only hidden states tell.
var tokenHypothesis = Hypothesis{
	ID:     "token_profile",
	Causes: []string{"attention.mask", "attention.window", "parallel.rng"},
	Taps:   []string{"layer", "ffn_inp", "attn_out", "attn_ctx"},
	Needs:  "the checkpoint with at least 4 tokens, the first layer whose output is wrong",
	Silent: "the profile does not point to one cause; its reading is then a line of reasoning only",
	Source: "token-0 invariant and token profiles of a decoder under a causal mask, each fault injected alone",
	Test:   testTokenProfile,
}

func testTokenProfile(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok {
		return nil
	}
	p, ok := profileOf(c, c.At)
	if !ok {
		c.Note("token profile at %s needs at least %d tokens", c.At, minTokens)
		return nil
	}
	if c.inherited() {
		return nil
	}
	k, text, values := p.classify()
	cause := k.cause
	if k.id == "from_edge" {
		cause = edgeCause(c, values["first_token"].(int))
	}
	if cause == "" {
		if k.says != "" && k.id != "none" {
			c.Note("token profile at %s: %s. That speaks for: %s. It rules out: %s. Dump to settle it: %s", c.At, text, k.says, k.not, k.taps)
		}
		return nil
	}
	e := distance(ref, port)
	f := c.signature(cause, trial{before: e, after: e, floor: c.FloorOf(c.At)})
	for key, v := range values {
		f.Values[key] = v
	}
	f.Claim = fmt.Sprintf("by the profile over tokens alone: %s", k.says)
	f.For = []string{text, "rules out: " + k.not}
	f.Against = []string{"only the shape of the error speaks for it; these taps would prove it: " + k.taps}
	f.Verify = "dump " + k.taps + " of this layer on both sides and explain again"
	return []compare.Finding{f}
}

// edgeCause is what a first wrong token points to: a window, unless the number is
// one at which positions lose bits or a chunk ends.
func edgeCause(c *Context, first int) string {
	switch {
	case first >= 256 && first&(first-1) == 0:
		return "" // 256, 2048: positions in 16 bits, or a window of that size
	case c.Step() > 0:
		return ""
	}
	for _, f := range []Facts{c.Facts(Ref), c.Facts(Port)} {
		if w := f.SlidingWindow; w > 0 && first >= w-1 && first <= w+1 {
			return "attention.window"
		}
	}
	return ""
}

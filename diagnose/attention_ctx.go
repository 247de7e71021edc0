package diagnose

import (
	"fmt"
	"slices"

	"github.com/layerparity/parity/compare"
)

// contextHypothesis: the probabilities agree and the context does not, so other
// values are summed, or other probabilities than the dumped ones.
var contextHypothesis = Hypothesis{
	ID:     "attention_context",
	Causes: []string{"attention.head_map", "parallel.padding", "attention.mask"},
	Taps:   []string{"attn_ctx"},
	Needs:  "attn_ctx, v and attn_probs of both sides",
	Silent: "each side's context is the same sum of its own values",
	Source: "context[t,h] = Σ_s p[h,t,s]·v[s,map[h]] read off per head; pattern P14",
	Test:   testContext,
}

func testContext(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return nil
	}
	if f, ok := extraKeys(c); ok {
		return []compare.Finding{f}
	}
	r, errR, okR := valueHeads(c, Ref, ref)
	p, errP, okP := valueHeads(c, Port, port)
	if !okR || !okP || slices.Equal(r.kv, p.kv) {
		return nil
	}
	expr := "from(attn_probs) | attend(v, map=" + formatList(floats(p.kv)) + r.cacheArg() + ") | target(port)"
	t, ok := tryTrial(c, expr, len(p.kv))
	if !ok {
		return nil
	}
	f, ok := c.finding("attention.head_map", t)
	if !ok {
		return nil
	}
	headMapWords(&f, r.kv, p.kv, r.heads)
	f.Try = c.tryLine("%s", expr)
	f.For = []string{
		fmt.Sprintf("value head of each query head, recomputed from each side's own attn_probs and v: reference %v leaves %s, port %v leaves %s", r.kv, g2(errR), p.kv, g2(errP)),
		fmt.Sprintf("rel_l2 between the sides before: %s", g2(t.before.Whole)),
	}
	return []compare.Finding{f}
}

// valueMap is the value head of every query head.
type valueMap struct {
	kv    []int
	heads int
	cache bool
}

func (m valueMap) cacheArg() string {
	if m.cache {
		return ", cache=true"
	}
	return ""
}

// valueHeads finds for each head the value head that repeats its context, and the
// relative error that all together leave. ok is false where a tensor is missing
// or some head fits none.
func valueHeads(c *Context, side Side, ctx *Tensor) (m valueMap, err float64, ok bool) {
	probs, ok := c.Tensor(side, c.TapName("attn_probs"))
	if !ok || !probs.finite() {
		return m, 0, false
	}
	g, bad := gridOf(probs)
	if bad != nil || ctx.Cols%g.Heads != 0 {
		return m, 0, false
	}
	d := ctx.Cols / g.Heads
	v, ok := c.Tensor(side, c.TapName("v"))
	if !ok {
		return m, 0, false
	}
	batch := g.Blocks / g.Heads
	if v.Rows != batch*g.S {
		if v, ok = c.cached(side, "v"); !ok {
			return m, 0, false
		}
		m.cache = true
	}
	if v.Cols%d != 0 || v.Rows != batch*g.S || ctx.Rows != batch*g.T {
		return m, 0, false
	}
	m.heads = v.Cols / d
	m.kv = make([]int, g.Heads)
	left := make([]float64, g.Heads)
	var total float64
	for kv := range m.heads {
		same := make([]int, g.Heads)
		for h := range same {
			same[h] = kv
		}
		out, bad := attend(probs.Data, g, v, d, same)
		if bad != nil {
			return m, 0, false
		}
		for h := range same {
			var d2 float64
			for t := 0; t < ctx.Rows; t++ {
				for i, y := range ctx.Row(t)[h*d : (h+1)*d] {
					e := out[t*ctx.Cols+h*d+i] - y
					d2 += e * e
				}
			}
			if kv == 0 || d2 < left[h] {
				left[h], m.kv[h] = d2, kv
			}
		}
	}
	for _, x := range ctx.Data {
		total += x * x
	}
	var sum float64
	for _, x := range left {
		sum += x
	}
	err = relative(sum, total)
	return m, err, err < 0.05
}

// extraKeys: the port's probabilities are over more keys than the reference's, and
// without those they give the reference's context.
func extraKeys(c *Context) (compare.Finding, bool) {
	r, okR := c.Tensor(Ref, c.TapName("attn_probs"))
	p, okP := c.Tensor(Port, c.TapName("attn_probs"))
	if !okR || !okP || p.Cols <= r.Cols || r.Rows != p.Rows || c.Step() > 0 && c.firstPosition(Ref, 1) > 0 {
		return compare.Finding{}, false
	}
	g, err := gridOf(p)
	if err != nil {
		return compare.Finding{}, false
	}
	expr := fmt.Sprintf("from(attn_probs) | slice(0, %d, axis=cols) | normalize() | attend(v)", r.Cols)
	t, ok := tryTrial(c, expr, 1)
	if !ok {
		return compare.Finding{}, false
	}
	cause := "attention.mask"
	if massAbove(r.Data, grid{Blocks: g.Blocks, Heads: g.Heads, T: g.T, S: r.Cols}) > 0 {
		cause = "parallel.padding" // seen both ways: no causal mask that could hide a tail
	}
	f, ok := c.finding(cause, t)
	if !ok {
		return f, false
	}
	extra := 0.0
	for i := 0; i < p.Rows; i++ {
		for _, v := range p.Row(i)[r.Cols:] {
			extra += v
		}
	}
	f.Values["reference"], f.Values["port"] = r.Cols, p.Cols
	f.Claim = fmt.Sprintf("port attends to %d keys, reference to %d: padding at the end of the sequence takes part", p.Cols, r.Cols)
	f.Try = c.tryLine("%s", expr)
	f.For = []string{
		fmt.Sprintf("the %d keys at the end hold a share of %s of the port's probability", p.Cols-r.Cols, g2(extra/float64(p.Rows))),
		fmt.Sprintf("without them, and normalised again, the port's probabilities give the reference's context: rel_l2 %s before, %s after", g2(t.before.Whole), g2(t.after.Whole)),
	}
	f.Verify = "print the number of tokens before and after the sequence is padded to a multiple of the ranks, and the mask that attention gets"
	f.Fix = "mask the padded keys in attention; cutting the padded rows off afterwards is not enough"
	return f, true
}

package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/layerparity/parity/compare"
)

// fusedKernelHypothesis: a fused kernel writes no probabilities, so scale, mask, window,
// softcap, head map and (without q_rope) the rotation are fitted to the context.
var fusedKernelHypothesis = Hypothesis{
	ID: "attention_fused",
	Causes: []string{
		"attention.scale", "attention.softcap", "attention.window", "attention.mask", "attention.head_map",
		"rope.layout", "rope.theta", "rope.scaling", "rope.width", "rope.applied",
	},
	Taps:   []string{"attn_ctx"},
	Needs:  "attn_ctx, v, and q_rope and k_rope (or q and k) of both sides; for dumps without attn_probs",
	Silent: "probabilities were dumped, or a side's context follows no rule of its own queries, keys and values",
	Source: "context = softmax(mask(cap(scale·q·k)))·v, one rule changed at a time; patterns P10 to P14",
	Test:   testFusedKernel,
}

// fusedRule is what a fused kernel does.
type fusedRule struct {
	scale, cap float64
	window     int // 0 for none
	full       bool
	kv         []int
	rope       *ropeRule
}

// fusedSide is one side's tensors, with a sample of query rows.
type fusedSide struct {
	q, k, v, ctx *Tensor
	names        [2]string
	d, heads     int
	kvs          int
	rows         []int
	pos          [][]float64
	unit         float64
}

func testFusedKernel(c *Context) []compare.Finding {
	if c.Has(Ref, c.TapName("attn_probs")) && c.Has(Port, c.TapName("attn_probs")) || c.Step() > 0 {
		return nil
	}
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return nil
	}
	a, okA := fusedTensors(c, Ref, ref)
	b, okB := fusedTensors(c, Port, port)
	if !okA || !okB {
		c.Note("attention at %s: without attn_probs it needs v, and q_rope and k_rope (or q and k), of both sides", c.At)
		return nil
	}
	r, errR := a.identify(c, nil)
	if !(errR <= a.tolerance()) {
		c.Note("attention at %s: no rule tried repeats the reference's context of its own q, k and v (best rel_l2 %s)", c.At, g2(errR))
		return nil
	}
	p, errP := b.identify(c, &r)
	if !(errP <= 0.1) {
		c.Note("attention at %s: no single change of rule repeats the port's context of its own q, k and v (best rel_l2 %s)", c.At, g2(errP))
		return nil
	}
	return fusedFindings(c, r, p, b, errR, errP)
}

// fusedTensors gathers a side's tensors; one request at a time.
func fusedTensors(c *Context, side Side, ctx *Tensor) (f *fusedSide, ok bool) {
	f = &fusedSide{ctx: ctx}
	g := grid{Blocks: 1, Heads: 1, T: ctx.Rows, S: ctx.Rows}
	if f.q, f.k, f.names, ok = queriesKeys(c, side, g); !ok {
		return nil, false
	}
	if f.v, ok = c.Tensor(side, c.TapName("v")); !ok || !f.v.finite() || f.v.Rows != ctx.Rows {
		return nil, false
	}
	f.d = c.headDim(f.names[0], f.q.Cols)
	if f.d == 0 || f.q.Cols%f.d != 0 || f.q.Cols != ctx.Cols || f.k.Cols != f.v.Cols || f.k.Cols%f.d != 0 || c.batch(ctx.Rows) > 1 {
		return nil, false
	}
	f.heads, f.kvs = f.q.Cols/f.d, f.k.Cols/f.d
	f.pos = c.positions(side, ctx.Rows)
	f.unit = unitOf(f.q, ctx)
	step := max(1, ctx.Rows/sampleQueries)
	for t := ctx.Rows - 1; t >= 0; t -= step {
		f.rows = append(f.rows, t)
	}
	return f, len(f.rows) >= minTokens
}

func (f *fusedSide) tolerance() float64 { return math.Max(1e-4, 8*f.unit) }

// err is the relative error of the sampled rows of some heads under a rule.
func (f *fusedSide) err(r fusedRule, heads []int) float64 {
	var d2, y2 float64
	for _, h := range heads {
		e, y := f.headErr(r, h, r.kv[h])
		d2, y2 = d2+e, y2+y
	}
	return relative(d2, y2)
}

// headErr is Σ(got-want)² and Σ want² of one head's sampled rows, with the keys
// and values of key-value head kv.
func (f *fusedSide) headErr(r fusedRule, h, kv int) (d2, y2 float64) {
	d := f.d
	q, k := f.q.takeCols(span(h*d, d)), f.k.takeCols(span(kv*d, d))
	if r.rope != nil {
		q = q.like(r.rope.rotate(q.Data, q.Rows, d, d, f.pos, false))
		k = k.like(r.rope.rotate(k.Data, k.Rows, d, d, f.pos, false))
	}
	p := make([]float64, f.ctx.Rows)
	got := make([]float64, d)
	for _, t := range f.rows {
		for s := range p {
			p[s] = math.Inf(-1)
			if (r.full || s <= t) && (r.window == 0 || t-s < r.window) {
				p[s] = r.scale * dot(q.Row(t), k.Row(s))
				if r.cap > 0 {
					p[s] = softcap(p[s], r.cap)
				}
			}
		}
		softmaxRow(p, math.Inf(-1))
		clear(got)
		for s, w := range p {
			if w == 0 {
				continue
			}
			for i, x := range f.v.Row(s)[kv*d : (kv+1)*d] {
				got[i] += w * x
			}
		}
		for i, y := range f.ctx.Row(t)[h*d : (h+1)*d] {
			d2 += (got[i] - y) * (got[i] - y)
			y2 += y * y
		}
	}
	return d2, y2
}

// sample is the heads that searches in one number look at.
func (f *fusedSide) sample() []int {
	return slices.Compact([]int{0, f.heads - 1})
}

// identify finds the rule: from the usual one (or the other side's) by one change
// after the other, as long as each explains most of what is left.
func (f *fusedSide) identify(c *Context, start *fusedRule) (fusedRule, float64) {
	r := fusedRule{scale: 1 / math.Sqrt(float64(f.d)), kv: headMap(f.heads, f.kvs)}
	if start != nil {
		r = *start
	} else {
		facts := c.Facts(Ref)
		r.window, r.cap = 0, facts.AttnSoftcap
	}
	all := span(0, f.heads)
	if start == nil && f.names[0] != "q_rope" {
		if rules := append(ropePriors(c, Ref), ropePriors(c, Port)...); len(rules) > 0 {
			r.rope = &rules[0]
		} else {
			r.rope = &ropeRule{Layout: "half", Theta: 1e4}
		}
	}
	e := f.err(r, all)
	for range 3 {
		if e <= f.tolerance() {
			break
		}
		best, bestErr := r, e
		for _, change := range []func(*Context, fusedRule) fusedRule{f.scaled, f.windowed, f.masked, f.mapped, f.capped, f.rotated} {
			q := change(c, r)
			if x := f.err(q, all); x < occam*bestErr {
				best, bestErr = q, x
			}
		}
		if bestErr >= occam*e {
			break
		}
		r, e = best, bestErr
	}
	return r, e
}

// scaled tries another scale, over a grid and refined.
func (f *fusedSide) scaled(_ *Context, r fusedRule) fusedRule {
	with := func(l float64) fusedRule { q := r; q.scale = math.Exp(l); return q }
	cost := func(l float64) float64 { return f.err(with(l), f.sample()) }
	at, least := 0.0, math.Inf(1)
	for i := -16; i <= 16; i++ {
		l := math.Log(r.scale) + float64(i)/4
		if x := cost(l); x < least {
			at, least = l, x
		}
	}
	return with(goldenSection(cost, at-0.25, at+0.25))
}

// windowed tries every window, and none.
func (f *fusedSide) windowed(_ *Context, r fusedRule) fusedRule {
	best, least := r, math.Inf(1)
	for n := 0; n < f.ctx.Rows; n++ {
		q := r
		q.window = n
		if x := f.err(q, f.sample()[:1]); x < occam*least {
			best, least = q, x
		}
	}
	return best
}

func (f *fusedSide) masked(_ *Context, r fusedRule) fusedRule {
	r.full = !r.full
	return r
}

// mapped finds the key-value head that repeats each head's context best.
func (f *fusedSide) mapped(_ *Context, r fusedRule) fusedRule {
	kv := make([]int, f.heads)
	for h := range kv {
		least := math.Inf(1)
		for m := range f.kvs {
			if e, _ := f.headErr(r, h, m); e < least {
				least, kv[h] = e, m
			}
		}
	}
	r.kv = kv
	return r
}

// capped tries a soft cap, another one, and none.
func (f *fusedSide) capped(_ *Context, r fusedRule) fusedRule {
	none := r
	none.cap = 0
	with := func(l float64) fusedRule { q := r; q.cap = math.Exp(l); return q }
	cost := func(l float64) float64 { return f.err(with(l), f.sample()) }
	at, least := 0.0, math.Inf(1)
	for i := 0; i <= 24; i++ {
		l := math.Log(0.5) + float64(i)/4
		if x := cost(l); x < least {
			at, least = l, x
		}
	}
	if f.err(none, f.sample()) <= least {
		return none
	}
	q := with(goldenSection(cost, at-0.25, at+0.25))
	if nice := math.Round(q.cap); near(nice, q.cap, 0.01) && nice > 0 {
		q.cap = nice
	}
	return q
}

// rotated tries other rotations where q and k were dumped before it.
func (f *fusedSide) rotated(c *Context, r fusedRule) fusedRule {
	if r.rope == nil {
		return r
	}
	cost := func(rule ropeRule) float64 {
		q := r
		q.rope = &rule
		return f.err(q, f.sample()[:1])
	}
	rule, _ := searchRope(append(ropePriors(c, Ref), ropePriors(c, Port)...), f.d, f.tolerance(), cost)
	r.rope = &rule
	return r
}

// expr writes the rule as a chain from the side's own tensors to its context.
func (r fusedRule) expr(f *fusedSide) string {
	args := []string{f.names[0], f.names[1], "scale=" + formatNum(r.scale)}
	heads := ""
	if !slices.Equal(r.kv, headMap(f.heads, f.kvs)) {
		heads = ", map=" + formatList(floats(r.kv))
		args = append(args, heads[2:])
	}
	if r.rope != nil {
		args = append(args, r.rope.scoreArgs()...)
	}
	steps := []string{"scores(" + strings.Join(args, ", ") + ")"}
	if r.cap > 0 {
		steps = append(steps, "softcap("+formatNum(r.cap)+")")
	}
	if !r.full {
		steps = append(steps, "causal()")
	}
	if r.window > 0 {
		steps = append(steps, fmt.Sprintf("window(%d)", r.window))
	}
	return strings.Join(append(steps, "softmax()", "attend(v"+heads+")"), " | ")
}

// fusedFindings turns the difference of two rules into findings with one proof.
func fusedFindings(c *Context, r, p fusedRule, b *fusedSide, errR, errP float64) []compare.Finding {
	expr := p.expr(b) + " | target(port)"
	t, ok := tryTrial(c, expr, 2)
	if !ok {
		return nil
	}
	own := b.err(r, span(0, b.heads))
	if !(errP < 0.3*own) {
		return nil // the reference's rule explains the port as well
	}
	evidence := []string{
		fmt.Sprintf("no probabilities were dumped; the reference's context follows from its own q, k and v to %s, the port's with its own rule to %s, with the reference's rule to %s only", g2(errR), g2(errP), g2(own)),
	}
	var out []compare.Finding
	add := func(cause string, fill func(f *compare.Finding)) {
		f, ok := c.finding(cause, t)
		if !ok {
			return
		}
		f.For = append(f.For, evidence...)
		f.Try = c.tryLine("%s", expr)
		fill(&f)
		out = append(out, f)
	}
	if r.rope != nil && p.rope != nil {
		for _, x := range plainDiffs(*r.rope, *p.rope, b.d) {
			add(x.cause, func(f *compare.Finding) {
				sides(f, x.ref, x.port)
				f.Claim, f.Verify, f.Fix = x.claim, x.verify, x.fix
			})
		}
	}
	if !slices.Equal(r.kv, p.kv) {
		add("attention.head_map", func(f *compare.Finding) { headMapWords(f, r.kv, p.kv, b.kvs) })
	}
	if r.full != p.full {
		word := map[bool]string{false: "causal", true: "none: every query sees the keys after it"}
		add("attention.mask", func(f *compare.Finding) {
			maskWords(f, "attention.mask", maskRule{kind: "mask", text: word[r.full]}, maskRule{kind: "mask", text: word[p.full]})
		})
	}
	if r.window != p.window {
		rule := func(n int) maskRule {
			if n == 0 {
				return maskRule{kind: "none", text: "no window"}
			}
			return maskRule{kind: "window", n: n, text: fmt.Sprintf("a window of %d keys", n)}
		}
		add("attention.window", func(f *compare.Finding) {
			maskWords(f, "attention.window", rule(r.window), rule(p.window))
		})
	}
	if r.cap != p.cap && !near(r.cap, p.cap, 2e-3) {
		add("attention.softcap", func(f *compare.Finding) {
			softcapWords(f, attnFound{cap: r.cap, scale: r.scale}, attnFound{cap: p.cap, scale: p.scale})
		})
	}
	if math.Abs(math.Log(r.scale/p.scale)) > 1e-3 {
		add("attention.scale", func(f *compare.Finding) {
			scaleWords(c, f, r.scale, p.scale/r.scale)
			sides(f, r.scale, p.scale)
		})
	}
	return out
}

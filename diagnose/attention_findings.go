package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// scaleFinding: scores of the port are a constant times those of the reference.
func scaleFinding(c *Context, ref, port *Tensor, g grid, r, p attnFound) (compare.Finding, bool) {
	expr, own := fmt.Sprintf("log() | scale(%s) | softmax()", formatNum(r.scale/p.scale)), false
	if r.cap > 0 || r.sinks != nil || c.inherited() {
		// The probabilities alone do not give the scores back.
		expr, own = p.expr(Port, "port:attn_probs")+" | target(port)", true
	} else if s, ok := slopeBetween(port.Data, ref.Data, g); ok && near(s, r.scale/p.scale, 1e-3) {
		expr = fmt.Sprintf("log() | scale(%s) | softmax()", formatNum(s))
	}
	t, ok := tryTrial(c, expr, 1)
	if ok && own {
		t, ok = ownTrial(c, port, t, r, p)
	}
	if !ok {
		return compare.Finding{}, false
	}
	f, ok := c.finding("attention.scale", t)
	if !ok {
		return f, false
	}
	scaleWords(c, &f, r.scale, p.scale/r.scale)
	sides(&f, r.scale, p.scale)
	f.Try = c.tryLine("%s", expr)
	f.For = append(f.For,
		fmt.Sprintf("log-probabilities are linear in the side's own q·k to %s (reference) and %s (port)", g2(r.misfit), g2(p.misfit)),
		fmt.Sprintf("rel_l2 %s before, %s after (floor %s)", g2(t.before.Whole), g2(t.after.Whole), g2(t.floor)))
	return f, true
}

// ownTrial grades the port's rule on the port's own inputs against the reference's
// rule on the same: where both repeat the port's probabilities nothing is wrong
// here, whatever was inherited.
func ownTrial(c *Context, port *Tensor, t trial, r, p attnFound) (trial, bool) {
	q := r
	q.q, q.k, q.cache, q.rope = p.q, p.k, p.cache, p.rope
	byRef, ok := tryTrial(c, q.expr(Port, "port:attn_probs")+" | target(port)", 0)
	if !ok {
		return t, false
	}
	t.before, t.floor = byRef.after, c.ruleFloor(port)
	return t, true
}

// scaleWords fills values, claim and advice of a scale. refScale 0 means that only
// the ratio is known.
func scaleWords(c *Context, f *compare.Finding, refScale, slope float64) {
	f.Values["slope"] = compare.Num(slope)
	f.Claim = fmt.Sprintf("port's scores are %s times the reference's", g6(slope))
	if refScale > 0 {
		f.Claim = fmt.Sprintf("port scales q·k by %s, reference by %s: a factor of %s", nameScale(c, refScale*slope), nameScale(c, refScale), g6(slope))
		f.Values["named_reference"], f.Values["named_port"] = nameScale(c, refScale), nameScale(c, refScale*slope)
		f.Values["named"] = nameScale(c, refScale*slope)
	}
	if k, ok := nameRatio(c, slope); ok {
		f.Claim += " = " + k
		f.Values["named_slope"] = k
		if refScale <= 0 {
			f.Values["named"] = k
		}
	}
	f.For = append(f.For, fmt.Sprintf("the log-odds between any two keys are %s times the reference's, at every token and head", g6(slope)))
	f.Verify = "print the scale that reaches the softmax in both codes: 1/sqrt(head_dim), query_pre_attn_scalar, a multiplier of the config, mscale of YaRN, or a kernel's default on top of an explicit one"
	f.Fix = "scale the scores once, by the reference's constant"
}

// scaleNames are the constants that a score is scaled by in published models.
func scaleNames(c *Context) []constant {
	var out []constant
	add := func(name string, v float64) {
		if v > 0 && !math.IsInf(v, 0) {
			out = append(out, constant{Name: name, Value: v})
		}
	}
	root := func(name string, n float64) {
		if n > 0 {
			add(fmt.Sprintf("1/sqrt(%s = %s)", name, shortNum(n)), 1/math.Sqrt(n))
		}
	}
	d := float64(c.headDim(c.At, 0))
	ref, port := c.Facts(Ref), c.Facts(Port)
	hidden := float64(firstOf(ref.HiddenSize, port.HiddenSize))
	heads := float64(c.numHeads())
	root("head_dim", d)
	for _, f := range []Facts{ref, port} {
		for _, key := range []string{"query_pre_attn_scalar", "qk_head_dim", "kv_lora_rank"} {
			root(key, anyNumber(f.Raw[key]))
		}
		for _, key := range []string{"attention_multiplier", "attention_scale", "scaling"} {
			add(key, anyNumber(f.Raw[key]))
		}
		if n := anyNumber(f.Raw["kv_lora_rank"]) + anyNumber(f.Raw["qk_rope_head_dim"]); n > 0 {
			root("kv_lora_rank+qk_rope_head_dim", n)
		}
	}
	if heads > 0 && hidden > 0 && hidden/heads != d {
		root("hidden/heads", hidden/heads)
	}
	root("hidden_size", hidden)
	if d > 0 {
		add("1/head_dim", 1/d)
		add("sqrt(head_dim)/head_dim²", math.Pow(d, -1.5))
	}
	add("1", 1)
	return out
}

// nameScale names an absolute scale, or prints it.
func nameScale(c *Context, v float64) string {
	if k, ok := name(v, 1e-3, scaleNames(c)); ok {
		return k.Name
	}
	if n := math.Round(1 / (v * v)); n >= 2 && n < 1e6 && near(1/math.Sqrt(n), v, 1e-5) {
		return fmt.Sprintf("1/sqrt(%s)", shortNum(n))
	}
	return g6(v)
}

// nameRatio names the ratio of the port's scale to the reference's.
func nameRatio(c *Context, slope float64) (string, bool) {
	d := float64(c.headDim(c.At, 0))
	hidden := float64(firstOf(c.Facts(Ref).HiddenSize, c.Facts(Port).HiddenSize))
	var ratios []constant
	if d > 0 {
		ratios = append(ratios,
			constant{Name: "1/sqrt(head_dim): scaled twice", Value: 1 / math.Sqrt(d)},
			constant{Name: "sqrt(head_dim): not scaled", Value: math.Sqrt(d)})
	}
	if d > 0 && hidden > 0 {
		ratios = append(ratios,
			constant{Name: "sqrt(head_dim/hidden_size): divided by the root of the hidden size", Value: math.Sqrt(d / hidden)},
			constant{Name: "sqrt(hidden_size/head_dim)", Value: math.Sqrt(hidden / d)})
	}
	for _, f := range []Facts{c.Facts(Ref), c.Facts(Port)} {
		for _, key := range []string{"mscale", "attention_factor"} {
			m := anyNumber(f.Raw[key])
			if !(m > 0) {
				continue
			}
			ratios = append(ratios, constant{Name: key + "²", Value: m * m}, constant{Name: "1/" + key + "²", Value: 1 / (m * m)})
		}
	}
	if k, ok := name(slope, 1e-3, ratios); ok {
		return k.Name, true
	}
	if n := math.Round(slope * slope); n >= 2 && near(slope*slope, n, 1e-3) {
		return fmt.Sprintf("sqrt(%s)", shortNum(n)), true
	}
	return "", false
}

// softcapFinding: the scores bend on one side, or at another height.
func softcapFinding(c *Context, port *Tensor, r, p attnFound) (compare.Finding, bool) {
	expr, own := p.expr(Port, "port:attn_probs")+" | target(port)", true
	if r.cap > 0 && !c.inherited() {
		// The reference's rule on the port's queries and keys gives the reference.
		q := r
		q.q, q.k = p.q, p.k
		expr, own = q.expr(Port, "ref:attn_probs"), false
	}
	t, ok := tryTrial(c, expr, 2)
	if ok && own {
		t, ok = ownTrial(c, port, t, r, p)
	}
	if !ok {
		return compare.Finding{}, false
	}
	f, ok := c.finding("attention.softcap", t)
	if !ok {
		return f, false
	}
	softcapWords(&f, r, p)
	if math.Abs(math.Log(r.scale/p.scale)) > 1e-3 {
		f.Claim += fmt.Sprintf("; the scale differs too: port %s, reference %s", nameScale(c, p.scale), nameScale(c, r.scale))
	}
	f.Try = c.tryLine("%s", expr)
	f.For = []string{
		fmt.Sprintf("reference: %s leaves %s of its log-probabilities, port: %s leaves %s", r.text(), g2(r.misfit), p.text(), g2(p.misfit)),
		fmt.Sprintf("rel_l2 %s before, %s after (floor %s)", g2(t.before.Whole), g2(t.after.Whole), g2(t.floor)),
	}
	return f, true
}

// softcapWords fills a softcap's values, claim and advice.
func softcapWords(f *compare.Finding, r, p attnFound) {
	word := func(a attnFound) any {
		if a.cap > 0 {
			return a.cap
		}
		return "none"
	}
	text := func(a attnFound) string {
		if a.cap > 0 {
			return fmt.Sprintf("caps the scores at %s", g6(a.cap))
		}
		return "does not cap the scores"
	}
	sides(f, word(r), word(p))
	f.Values["scale_reference"], f.Values["scale_port"] = compare.Num(r.scale), compare.Num(p.scale)
	f.Claim = fmt.Sprintf("port %s, reference %s (x := c·tanh(x/c) before the softmax)", text(p), text(r))
	f.Verify = "look for attn_logit_softcapping in the config and for the tanh in the kernel: fused attention often has no soft cap and drops it without a word"
	f.Fix = "cap the scores as the reference does, after the scale and before the mask"
}

// headMapFinding: query heads read other key-value heads.
func headMapFinding(c *Context, r, p attnFound) (compare.Finding, bool) {
	expr := p.expr(Port, "port:attn_probs") + " | target(port)"
	t, ok := tryTrial(c, expr, len(p.kv))
	if !ok {
		return compare.Finding{}, false
	}
	f, ok := c.finding("attention.head_map", t)
	if !ok {
		return f, false
	}
	headMapWords(&f, r.kv, p.kv, r.kvHeads)
	f.Try = c.tryLine("%s", expr)
	f.For = []string{
		fmt.Sprintf("each head's log-probabilities against its own q and every key head: the reference fits %v to %s, the port %v to %s", r.kv, g2(r.misfit), p.kv, g2(p.misfit)),
		fmt.Sprintf("with its own map, recomputing from the port's %s and %s leaves rel_l2 %s (before %s)", p.q, p.k, g2(t.after.Whole), g2(t.before.Whole)),
	}
	return f, true
}

// headMapWords fills a head map's values, claim and advice.
func headMapWords(f *compare.Finding, ref, port []int, kv int) {
	f.Values["reference"], f.Values["port"] = ref, port
	f.Claim = fmt.Sprintf("key-value head of each query head: port %s, reference %s", mapText(port, kv), mapText(ref, kv))
	f.Verify = "compare repeat_interleave (0,0,1,1) with repeat or tile (0,1,0,1) where key-value heads are expanded, and the order of heads in sharded key-value weights"
	f.Fix = "read key-value head h·kv_heads/heads in query head h"
}

// mapText names a head map: "repeated (0,0,1,1)", "tiled (0,1,0,1)".
func mapText(m []int, kv int) string {
	kind := ""
	repeated, tiled, reversed := true, true, true
	for h, v := range m {
		r := h * kv / len(m)
		repeated = repeated && v == r
		tiled = tiled && v == h%kv
		reversed = reversed && v == kv-1-r
	}
	switch {
	case repeated:
		kind = "repeated "
	case tiled:
		kind = "tiled "
	case reversed:
		kind = "reversed "
	}
	return kind + fmt.Sprint(m)
}

// sinkFinding: one side's rows lose probability to a key without a value.
func sinkFinding(c *Context, ref, port *Tensor, g grid, r, p attnFound) (compare.Finding, bool) {
	expr := p.expr(Port, "port:attn_probs") + " | target(port)"
	switch {
	case c.inherited(), r.sinks != nil && p.sinks != nil:
	case p.sinks != nil:
		expr = "normalize()"
	default:
		expr = "from(ref:attn_probs) | normalize() | target(port)"
	}
	return sinkWords(c, expr, ref, port, g, r.sinks, p.sinks)
}

// sinkFromSums finds a sink without queries and keys: rows of one side sum to
// less than one, and the other side's are the same rows divided by their sums.
func sinkFromSums(c *Context, ref, port *Tensor, g grid) (compare.Finding, bool) {
	lossR, lossP := loss(ref.Data, g), loss(port.Data, g)
	switch {
	case lossP > 0.02 && lossR < 0.005:
		return sinkWords(c, "normalize()", ref, port, g, nil, []float64{})
	case lossR > 0.02 && lossP < 0.005:
		return sinkWords(c, "from(ref:attn_probs) | normalize() | target(port)", ref, port, g, []float64{}, nil)
	}
	return compare.Finding{}, false
}

// loss is the largest lack of a row's sum to one, among rows that see a key.
func loss(p []float64, g grid) float64 {
	most := 0.0
	for b := 0; b < g.Blocks; b++ {
		for t := 0; t < g.T; t++ {
			sum := 0.0
			for _, v := range g.row(p, b, t) {
				sum += v
			}
			if sum > 0 {
				most = math.Max(most, 1-sum)
			}
		}
	}
	return most
}

func sinkWords(c *Context, expr string, ref, port *Tensor, g grid, refSinks, portSinks []float64) (compare.Finding, bool) {
	t, ok := tryTrial(c, expr, 1)
	if !ok {
		return compare.Finding{}, false
	}
	f, ok := c.finding("attention.sink", t)
	if !ok {
		return f, false
	}
	word := func(s []float64) any {
		switch {
		case s == nil:
			return "none"
		case len(s) == 0:
			return "sink"
		}
		return positionList(s)
	}
	f.Values["reference"], f.Values["port"] = word(refSinks), word(portSinks)
	with, without := "port", "reference"
	if refSinks != nil {
		with, without = without, with
	}
	f.Claim = fmt.Sprintf("%s's softmax has a sink (a learned score in the denominator that no value belongs to), %s's has none", with, without)
	if refSinks != nil && portSinks != nil {
		f.Claim = "both softmaxes have a sink for each head, with other scores"
	}
	f.Try = c.tryLine("%s", expr)
	f.For = []string{
		fmt.Sprintf("rows of probabilities sum to as little as %s in the reference, %s in the port", g6(1-loss(ref.Data, g)), g6(1-loss(port.Data, g))),
		fmt.Sprintf("scale and mask are the same: with the sinks accounted for rel_l2 is %s (before %s)", g2(t.after.Whole), g2(t.before.Whole)),
	}
	f.Verify = "look for the sinks parameter in the checkpoint and for the extra column in the softmax; the token-0 invariant does not hold with one"
	f.Fix = "add exp(sink) of each head to the softmax's denominator, or leave it out on both sides"
	return f, true
}

package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare"
)

// attentionHypothesis: the two sides turn the same queries and keys into
// different probabilities.
var attentionHypothesis = Hypothesis{
	ID: "attention",
	Causes: []string{
		"attention.scale", "attention.softcap", "attention.mask", "attention.window", "attention.sink", "attention.head_map",
		"state.chunk", "rope.layout", "rope.theta", "rope.scaling", "rope.width", "rope.applied",
	},
	Taps:   []string{"attn_probs"},
	Needs:  "attn_probs; q_rope and k_rope beside it give each side's absolute scale, softcap, sink and head map",
	Silent: "both sides see the same keys, and their log-probabilities are related by no scale, cap, sink or other key head",
	Source: "log p_port - log p_ref is linear in the score for a scale, bends for a softcap, is constant in a row for a sink; the support of p shows the mask. Patterns P11 to P14; Gemma 2's soft cap (arXiv 2408.00118)",
	Test:   testAttention,
}

func testAttention(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return nil
	}
	g, err := gridOf(ref)
	if err != nil || len(ref.Data) != len(port.Data) {
		return nil
	}
	a, b := supports(ref.Data, port.Data, g)
	if !a.equal(b) {
		if fs := testMask(c, ref, port, g, a, b); fs != nil {
			return fs
		}
	}
	r, okR := attentionOf(c, Ref, ref, g)
	p, okP := attentionOf(c, Port, port, g)
	if okR && okP {
		if fs, decided := compareAttention(c, ref, port, g, r, p); decided {
			return fs
		}
	} else {
		c.Note("attention at %s: %s", c.At, missingScores(c, okR, okP))
	}
	return relativeAttention(c, ref, port, g)
}

func missingScores(c *Context, okR, okP bool) string {
	if c.both(c.TapName("q_rope")) && c.both(c.TapName("k_rope")) {
		side := Ref
		if okR {
			side = Port
		}
		return fmt.Sprintf("the %s's probabilities follow no scale, softcap, sink or head map of its own q_rope and k_rope", side)
	}
	return "q_rope and k_rope were not dumped on both sides, so scale, softcap and head map are known against the reference only"
}

// testMask explains probabilities whose visible keys differ.
func testMask(c *Context, ref, port *Tensor, g grid, a, b support) []compare.Finding {
	ra, rb, ok := maskRules(a, b)
	if !ok {
		c.Note("attention mask at %s: %s keys are visible in the reference and %s in the port, by no rule tried (causal, window, look-ahead, chunk, padding, alignment)",
			c.At, fmt.Sprint(count(a.seen)), fmt.Sprint(count(b.seen)))
		ra, rb = ownCells(a, b)
	}
	expr, own := maskProof(c, ref, port, a, b, ra, rb)
	if expr == "" {
		return nil
	}
	t, ok := tryTrial(c, expr, 1)
	if !ok {
		return nil
	}
	cause := maskCause(c, ra, rb)
	f, ok := c.finding(cause, t)
	if !ok {
		// The mask explains only a part: look at what is left on the shared keys.
		if f, ok = maskAndScale(c, cause, expr, own); !ok {
			return nil
		}
	} else {
		f.Try = c.tryLine("%s", expr)
	}
	maskWords(&f, cause, ra, rb)
	f.For = append(maskEvidence(c, ref, port, g, a, b), f.For...)
	f.For = append(f.For, fmt.Sprintf("rel_l2 %s before, %s after the what-if (floor %s)", g2(float64(f.Before)), g2(float64(f.After)), g2(float64(f.Floor))))
	return []compare.Finding{f}
}

func count(x []bool) (n int) {
	for _, v := range x {
		if v {
			n++
		}
	}
	return n
}

// maskCause files a pair of rules under a cause.
func maskCause(c *Context, ra, rb maskRule) string {
	either := func(kind string) bool { return ra.kind == kind || rb.kind == kind }
	switch {
	case either("chunk"), either("topleft") && c.Step() > 0:
		if either("chunk") {
			return "state.chunk"
		}
		return "attention.mask"
	case either("window"), either("ahead") && !either("none") && !either("causal"):
		return "attention.window"
	}
	return "attention.mask"
}

// maskProof is the chain that shows the difference: the reference's rule applied
// to the port where the port sees more, else the port's rule applied to the
// reference.
func maskProof(c *Context, ref, port *Tensor, a, b support, ra, rb maskRule) (expr string, own bool) {
	switch {
	case a.subset(b) && ra.apply != "" && !c.inherited():
		return ra.apply + " | normalize()", false
	case b.subset(a) && rb.apply != "" && !c.inherited():
		return "from(ref:attn_probs) | " + rb.apply + " | normalize() | target(port)", true
	}
	g, err := gridOf(port)
	if err != nil {
		return "", false
	}
	p, ok := attentionOf(c, Port, port, g)
	if !ok {
		if a.subset(b) && ra.apply != "" {
			return ra.apply + " | normalize()", false
		}
		return "", false
	}
	return p.expr(Port, "port:attn_probs") + " | target(port)", true
}

// maskAndScale tries the mask with a scale of the scores on top.
func maskAndScale(c *Context, cause, expr string, own bool) (compare.Finding, bool) {
	if own {
		return compare.Finding{}, false
	}
	chain, err := ParseTransforms(expr)
	if err != nil {
		return compare.Finding{}, false
	}
	_, got, want, err := evaluateTry(c, chain)
	if err != nil {
		return compare.Finding{}, false
	}
	g, err := gridOf(want)
	if err != nil {
		return compare.Finding{}, false
	}
	s, ok := slopeBetween(got.Data, want.Data, g)
	if !ok {
		return compare.Finding{}, false
	}
	full := fmt.Sprintf("%s | log() | scale(%s) | softmax()", expr, formatNum(s))
	t, ok := tryTrial(c, full, 2)
	if !ok {
		return compare.Finding{}, false
	}
	f, ok := c.finding(cause, t)
	if ok {
		f.Try = c.tryLine("%s", full)
		f.Values["slope"] = compare.Num(1 / s)
		f.For = append(f.For, fmt.Sprintf("on the keys that both see the scores differ too, by a factor of %s", g6(1/s)))
	}
	return f, ok
}

// maskWords fills a mask finding's values and sentences.
func maskWords(f *compare.Finding, cause string, ra, rb maskRule) {
	f.Values["reference"], f.Values["port"] = ra.value(), rb.value()
	f.Claim = fmt.Sprintf("port's mask: %s; reference's: %s", rb.text, ra.text)
	f.Verify = "print the mask, or the arguments that stand for it (is_causal, window_size, attention_mask), at this layer in both codes"
	f.Fix = "mask as the reference does"
	switch {
	case cause == "attention.window" && ra.kind == "window" && rb.kind == "window":
		f.Claim = fmt.Sprintf("port's window is %d keys, reference's %d (the query's own included)", rb.n, ra.n)
		if d := rb.n - ra.n; d == 1 || d == -1 {
			f.Claim += ": an inclusive bound against an exclusive one"
			f.Verify = "compare the bound: q - k < window against q - k <= window, and window_size=(w, 0) of flash attention, which looks back w keys besides the query's own"
			f.Fix = "shift the bound by one"
		}
	case cause == "attention.window" && ra.kind == "window":
		f.Claim = fmt.Sprintf("reference sees a window of %d keys, port %s", ra.n, rb.text)
		f.Fix = "give this layer's kernel the window"
	case cause == "attention.window" && rb.kind == "window":
		f.Claim = fmt.Sprintf("port sees a window of %d keys, reference %s", rb.n, ra.text)
		f.Verify = "see whether this layer slides in the model (layer_types, sliding_window_pattern)"
	case cause == "attention.mask" && rb.kind == "none":
		f.Claim = fmt.Sprintf("port sees keys that the reference hides; reference: %s, port: %s", ra.text, rb.text)
	case cause == "attention.mask" && ra.kind == "none":
		f.Claim = fmt.Sprintf("port hides keys that the reference sees; port: %s, reference: %s", rb.text, ra.text)
	case cause == "state.chunk":
		f.Claim = fmt.Sprintf("port's queries see the keys of their own chunk only (%s); reference: %s", rb.text, ra.text)
		f.Fix = "give every chunk the keys of the chunks before it"
	}
	if ra.kind == "topleft" || rb.kind == "topleft" {
		f.Verify = "look at the causal flag where queries are fewer than keys: is_causal of PyTorch's SDPA aligns the mask at the top left, decode and later chunks need the bottom right"
		f.Fix = "pass an explicit mask, or a bottom-right causal bias, where there are keys of earlier steps"
	}
}

// value is the rule's figure for Finding.Values.
func (r maskRule) value() any {
	switch r.kind {
	case "window", "ahead", "chunk":
		return r.n
	}
	return r.text
}

// maskEvidence lists where the supports part.
func maskEvidence(c *Context, ref, port *Tensor, g grid, a, b support) []string {
	backA, aheadA := a.reach()
	backB, aheadB := b.reach()
	out := []string{fmt.Sprintf("longest look-back %d keys in the reference, %d in the port; look-ahead %d and %d", backA, backB, max(aheadA, 0), max(aheadB, 0))}
	if x, y := massAbove(ref.Data, g), massAbove(port.Data, g); x > 0 || y > 0 {
		out = append(out, fmt.Sprintf("probability on keys after the query: %s per query in the reference, %s in the port", g2(x), g2(y)))
	}
	first := -1
	for i, v := range a.seen {
		if v != b.seen[i] {
			if row := i / a.s % a.t; first < 0 || row < first {
				first = row
			}
		}
	}
	out = append(out, fmt.Sprintf("the first query that sees other keys is token %d of %d", first, g.T))
	return out
}

// massAbove is the mean probability on keys after the query.
func massAbove(p []float64, g grid) float64 {
	sum := 0.0
	for b := 0; b < g.Blocks; b++ {
		for t := 0; t < g.T; t++ {
			for s, v := range g.row(p, b, t) {
				if s > t+g.past() {
					sum += v
				}
			}
		}
	}
	return sum / float64(g.Blocks*g.T)
}

// slopeBetween is the slope of want's log-probabilities on got's.
func slopeBetween(got, want []float64, g grid) (float64, bool) {
	x := make([]float64, len(got))
	for i, v := range got {
		x[i] = math.Log(v)
	}
	s, _, ok := fitSlope(scoreRows(x, want, g))
	return s, ok && s > 0
}

// relativeAttention explains the port's probabilities by the reference's alone: a
// sink, or a scale of the scores.
func relativeAttention(c *Context, ref, port *Tensor, g grid) []compare.Finding {
	if c.inherited() { // queries of another size scale the scores, too
		return nil
	}
	if f, ok := sinkFromSums(c, ref, port, g); ok {
		return []compare.Finding{f}
	}
	if f, ok := temperatureFinding(c, ref, port, g); ok {
		return []compare.Finding{f}
	}
	s, ok := slopeBetween(port.Data, ref.Data, g)
	if !ok || math.Abs(s-1) < 1e-4 {
		return nil
	}
	expr := fmt.Sprintf("log() | scale(%s) | softmax()", formatNum(s))
	t, ok := tryTrial(c, expr, 1)
	if !ok {
		return nil
	}
	f, ok := c.finding("attention.scale", t)
	if !ok {
		return nil
	}
	scaleWords(c, &f, 0, 1/s)
	f.Try = c.tryLine("%s", expr)
	return []compare.Finding{f}
}

// compareAttention explains the difference by both sides' own rules. decided is
// false where the rules agree and so say nothing.
func compareAttention(c *Context, ref, port *Tensor, g grid, r, p attnFound) (fs []compare.Finding, decided bool) {
	if r.rope != nil && p.rope != nil {
		if fs := ropeByScores(c, *r.rope, *p.rope, p.expr(Port, "port:attn_probs")+" | target(port)", r.d); fs != nil {
			return fs, true
		}
	}
	switch {
	case !slices.Equal(r.kv, p.kv):
		return one(headMapFinding(c, r, p))
	case (r.sinks == nil) != (p.sinks == nil), otherSinks(r.sinks, p.sinks):
		return one(sinkFinding(c, ref, port, g, r, p))
	case (r.cap > 0) != (p.cap > 0) || r.cap > 0 && math.Abs(math.Log(r.cap/p.cap)) > 2e-3:
		return one(softcapFinding(c, port, r, p))
	case math.Abs(math.Log(r.scale/p.scale)) > 1e-4:
		if math.Max(r.misfit, p.misfit) > 1e-4 {
			if f, ok := temperatureFinding(c, ref, port, g); ok {
				return []compare.Finding{f}, true
			}
		}
		return one(scaleFinding(c, ref, port, g, r, p))
	}
	return nil, false
}

// otherSinks tells whether two lists of sinks are both there and differ.
func otherSinks(a, b []float64) bool {
	for i := range min(len(a), len(b)) {
		if math.Abs(a[i]-b[i]) > 0.05 {
			return true
		}
	}
	return false
}

func one(f compare.Finding, ok bool) ([]compare.Finding, bool) {
	if !ok {
		return nil, false
	}
	return []compare.Finding{f}, true
}

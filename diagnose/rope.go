package diagnose

import (
	"fmt"
	"math"
	"strings"

	"github.com/layerparity/parity/compare"
)

// ropeHypothesis: the two sides rotate q or k by different rules.
var ropeHypothesis = Hypothesis{
	ID: "rope",
	Causes: []string{
		"rope.layout", "rope.theta", "rope.scaling", "rope.width", "rope.position", "rope.precision",
		"rope.applied", "rope.sections", "state.position", "benign.offset", "benign.layout",
	},
	Taps:   []string{"q_rope", "k_rope"},
	Needs:  "q_rope or k_rope; q or k (q_norm or k_norm) beside it settle both sides' rules, without them the reference's rule is taken from its manifest",
	Silent: "both sides follow one rule, or what is dumped after the rotation is no rotation of what is dumped before it",
	Source: "Su et al., RoFormer (arXiv 2104.09864); Peng et al., YaRN (arXiv 2309.00071); Meta's Llama 3.1 frequency scaling; pattern P10 of the field's bug reports",
	Test:   testRope,
}

func testRope(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return nil
	}
	r, p, ok := ropeRules(c, ref, port)
	if !ok {
		return nil
	}
	diffs := compareRopes(c, r, p)
	if len(diffs) == 0 {
		noteShortPrompt(c, r.rule, ref.Rows)
		return nil
	}
	return ropeFindings(c, r, p, diffs)
}

// preTap names what a rotated tap is computed from: the normed projection where
// that side dumped one.
func preTap(c *Context, side Side, tap string) (string, bool) {
	base := strings.TrimSuffix(tap, "_rope")
	for _, t := range []string{base + "_norm", base} {
		if c.Has(side, c.TapName(t)) {
			return c.TapName(t), true
		}
	}
	return "", false
}

// ropeRules identifies both sides' rules at c.At. ok is false where that cannot
// be done; c.Note says why.
func ropeRules(c *Context, ref, port *Tensor) (r, p ropeFound, ok bool) {
	f := once(c, fmt.Sprintf("rope %d %d %s", c.Step(), c.Rank(), c.At), func(c *Context) ropePair {
		r, p, ok := findRopeRules(c, ref, port)
		return ropePair{r, p, ok}
	})
	return f.ref, f.port, f.ok
}

// ropePair is what findRopeRules found.
type ropePair struct {
	ref, port ropeFound
	ok        bool
}

func findRopeRules(c *Context, ref, port *Tensor) (r, p ropeFound, ok bool) {
	d := c.headDim(c.At, ref.Cols)
	if d == 0 {
		c.Note("rope at %s: the head's width is not known; it needs head_dim in a manifest, or attn_probs", c.At)
		return r, p, false
	}
	preRef, okRef := preOf(c, Ref, c.Tap, ref)
	prePort, okPort := preOf(c, Port, c.Tap, port)
	unit := unitOf(ref, port)
	switch {
	case okRef && okPort:
		r, ok = identifyRope(c, c.positions(Ref, ref.Rows), preRef, ref, d, ropePriors(c, Ref))
		if !ok || !r.good(unitOf(preRef, ref)) {
			c.Note("rope at %s: the reference's tensor is no rotation of what it was dumped before (norm after the rotation, or a scale)", c.At)
			return r, p, false
		}
		p, ok = identifyRope(c, c.positions(Port, port.Rows), prePort, port, d, append([]ropeRule{r.rule}, ropePriors(c, Port)...))
	default:
		r, p, ok = ropeFromReference(c, ref, port, d)
	}
	if ok {
		r, p = r.still(c, Ref), p.still(c, Port)
	}
	if !ok || !p.good(unit) {
		c.Note("rope at %s: the port's tensor is no rotation of its pairs under any rule tried (layouts, widths, theta, linear, llama3 and yarn scaling, offsets, positions, sections, 16-bit positions and tables)", c.At)
		return r, p, false
	}
	p.adopt(r)
	return r, p, true
}

func preOf(c *Context, side Side, tap string, post *Tensor) (*Tensor, bool) {
	name, ok := preTap(c, side, tap)
	if !ok {
		return nil, false
	}
	t, ok := c.Tensor(side, name)
	return t, ok && t.Rows == post.Rows && t.Cols == post.Cols && t.finite()
}

// ropeFromReference works without q or k before the rotation: the reference's
// tensor is turned back by the rule of its manifest, else by common ones, and
// stands for both sides' input. That is only right where the projections agree,
// so the port has to follow a rule to rounding.
func ropeFromReference(c *Context, ref, port *Tensor, d int) (r, p ropeFound, ok bool) {
	best := math.Inf(1)
	for _, rule := range guessedRules(c) {
		pos := c.positions(Ref, ref.Rows)
		pre := ref.like(rule.rotate(ref.Data, ref.Rows, ref.Cols, d, pos, true))
		q, found := identifyRope(c, c.positions(Port, port.Rows), pre, port, d, append([]ropeRule{rule}, ropePriors(c, Port)...))
		if !found || q.rule.Freqs != nil {
			continue
		}
		if score := q.err * float64(1+q.params); score < occam*best {
			best = score
			m := measureTurns(pre, ref, d, geometry{rule.Layout, rule.Dims, rule.Start}, pos)
			r, p, ok = ropeFound{rule: rule, err: m.errorOf(rule), turns: m}, q, true
		}
	}
	return r, p, ok
}

// commonThetas are those of the large model families.
var commonThetas = []float64{1e4, 5e5, 1e6, 1e5, 1.5e5, 2.5e5, 5e6, 1e7, 8e6}

// guessedRules are the manifests' rules, and where there is none the thetas of
// the large model families in both layouts.
func guessedRules(c *Context) []ropeRule {
	out := append(ropePriors(c, Ref), ropePriors(c, Port)...)
	var both []ropeRule
	for _, r := range out {
		for _, layout := range []string{"half", "interleaved"} {
			q := r
			q.Layout = layout
			both = append(both, q)
		}
	}
	if len(both) > 0 {
		return both
	}
	for _, theta := range commonThetas {
		for _, layout := range []string{"half", "interleaved"} {
			both = append(both, ropeRule{Layout: layout, Theta: theta})
		}
	}
	return both
}

// ropePriors are the rules that the manifests state, the side's own first, and at
// a later step what the side did at the first one.
func ropePriors(c *Context, side Side) []ropeRule {
	var out []ropeRule
	if c.Step() > 0 {
		if r, ok := ropeOfFirstStep(c, side); ok {
			out = append(out, r)
		}
	}
	for _, s := range []Side{side, Ref, Port} {
		if r, ok := statedRope(c.Facts(s), c.headDim(c.At, 0)); ok {
			out = append(out, r)
			if r.Scaling != "" {
				r.Scaling = ""
				out = append(out, r)
			}
		}
	}
	return out
}

// ropeOfFirstStep identifies a side's rule at the first step that dumped the tap.
func ropeOfFirstStep(c *Context, side Side) (ropeRule, bool) {
	steps := c.Steps()
	if len(steps) == 0 || steps[0] >= c.Step() {
		return ropeRule{}, false
	}
	part, ok := c.Part(steps[0], c.Rank())
	if !ok {
		return ropeRule{}, false
	}
	d := *c
	d.Source = part
	post, ok := d.Tensor(side, d.At)
	if !ok {
		return ropeRule{}, false
	}
	pre, ok := preOf(&d, side, d.Tap, post)
	if !ok {
		return ropeRule{}, false
	}
	f, ok := identifyRope(&d, d.positions(side, post.Rows), pre, post, d.headDim(d.At, post.Cols), ropePriors(&d, side))
	if !ok || !f.good(unitOf(pre, post)) {
		return ropeRule{}, false
	}
	f.rule.Positions, f.rule.Offset = nil, 0
	return f.rule, true
}

// statedRope reads the rule of a manifest.
func statedRope(f Facts, headDim int) (ropeRule, bool) {
	if f.RopeTheta <= 0 {
		return ropeRule{}, false
	}
	r := ropeRule{Layout: "half", Theta: f.RopeTheta}
	if f.PartialRotaryFactor > 0 && f.PartialRotaryFactor < 1 && headDim > 0 {
		r.Dims = int(f.PartialRotaryFactor*float64(headDim)) / 2 * 2
	}
	m, _ := f.Raw["rope_scaling"].(map[string]any)
	if m == nil {
		m, _ = f.Raw["rope_parameters"].(map[string]any)
	}
	kind, _ := m["rope_type"].(string)
	if kind == "" {
		kind, _ = m["type"].(string)
	}
	num := func(key string) float64 { return anyNumber(m[key]) }
	factor := num("factor")
	if factor <= 0 {
		return r, true
	}
	switch kind {
	case "linear":
		r.Scaling, r.Factor = kind, factor
	case "llama3":
		r.Scaling, r.Factor = kind, factor
		r.Low, r.High, r.Orig = num("low_freq_factor"), num("high_freq_factor"), num("original_max_position_embeddings")
	case "yarn":
		r.Scaling, r.Factor, r.Orig = kind, factor, num("original_max_position_embeddings")
		r.BetaFast, r.BetaSlow = num("beta_fast"), num("beta_slow")
	}
	return r, true
}

// anyNumber reads a JSON number however it was decoded; 0 for anything else.
func anyNumber(v any) float64 {
	switch x := v.(type) {
	case float64:
		return x
	case int:
		return float64(x)
	case int64:
		return float64(x)
	}
	return 0
}

// noteShortPrompt says how long a prompt would have to be before a missing
// long-context scaling shows, where the manifest states one.
func noteShortPrompt(c *Context, r ropeRule, rows int) {
	if r.Scaling != "llama3" && r.Scaling != "yarn" {
		return
	}
	if need := tokensToSee(r, c.headDim(c.At, 0), c.FloorOf(c.At)); need > rows {
		c.Note("rope at %s: %s scaling shows above the floor only from about %d tokens on, the dump has %d", c.At, r.Scaling, need, rows)
	}
}

// tokensToSee is the prompt length at which leaving out a rule's scaling changes
// the rotated tensor by ten floors: pair i moves by Δw_i·t, one of n pairs.
func tokensToSee(r ropeRule, headDim int, floor float64) int {
	if headDim == 0 {
		return 0
	}
	plain := r
	plain.Scaling = ""
	a, b := r.frequencies(headDim), plain.frequencies(headDim)
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	if sum == 0 {
		return 0
	}
	// rel² = Σ_i (Δw_i·t)²/n averaged over t up to T: Σ Δw²·T²/(3n).
	return int(math.Ceil(10 * floor * math.Sqrt(3*float64(len(a))/sum)))
}

// adopt replaces what the port's rule says differently by what the reference's
// says, one property at a time, where that explains the port as well.
func (f *ropeFound) adopt(r ropeFound) {
	if f.rule.None || r.rule.None || f.rule.Freqs != nil {
		return
	}
	limit := 1.05*f.err + snapSlack
	try := func(change func(q *ropeRule)) {
		q := f.rule
		change(&q)
		if e := f.turns.errorOf(q); e <= limit {
			f.rule, f.err = q, e
		}
	}
	try(func(q *ropeRule) { q.Theta = r.rule.Theta })
	try(func(q *ropeRule) { q.Mscale = r.rule.Mscale })
	try(func(q *ropeRule) {
		o := r.rule
		q.Scaling, q.Factor, q.Low, q.High, q.Orig, q.BetaFast, q.BetaSlow = o.Scaling, o.Factor, o.Low, o.High, o.Orig, o.BetaFast, o.BetaSlow
	})
	try(func(q *ropeRule) {
		o := r.rule
		q.RoundPos, q.RoundFreq, q.RoundAngle, q.RoundTable = o.RoundPos, o.RoundFreq, o.RoundAngle, o.RoundTable
	})
	try(func(q *ropeRule) { q.Sections, q.SectionOrder = r.rule.Sections, r.rule.SectionOrder })
	if f.turns.geometry == (geometry{r.rule.Layout, r.rule.Dims, r.rule.Start}) {
		try(func(q *ropeRule) { q.Den, q.Pairs = r.rule.Den, r.rule.Pairs })
	}
}

// still tells a step that did not turn because it stood at position 0 from a layer
// without rotation: by what the same side did at the first step.
func (f ropeFound) still(c *Context, side Side) ropeFound {
	if !f.rule.None || c.Step() <= 0 {
		return f
	}
	if r, ok := ropeOfFirstStep(c, side); ok && !r.None {
		r.Positions = []float64{0}
		f.rule, f.params = r, 1
		f.turns.geometry = geometry{r.Layout, r.Dims, r.Start}
	}
	return f
}

// describe is the rule in a few words, for lists over layers.
func (r ropeRule) describe() string {
	if r.None {
		return "not rotated"
	}
	s := fmt.Sprintf("%s pairs, theta %s", r.Layout, shortNum(r.Theta))
	if r.Freqs != nil {
		s = r.Layout + " pairs, frequencies of no known law"
	}
	if r.Scaling != "" || r.Mscale != 0 {
		s += ", scaling " + r.scalingText()
	}
	return s
}

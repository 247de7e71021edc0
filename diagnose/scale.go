package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare"
)

// scaleHypothesis: the port's tensor is the reference's times one number, one
// number for each class of rows, or one number for each token.
var scaleHypothesis = Hypothesis{
	ID:     "scale",
	Causes: []string{"scale.constant", "scale.row_class", "scale.per_token"},
	Taps:   []string{"*"},
	Needs:  "the checkpoint itself",
	Silent: "the scale is not the same over tokens, or 1 within the rounding; after a norm, whose eps and gain are asked first",
	Source: "port_t = α_t·ref_t, α_t = <r_t,p_t>/<r_t,r_t>; patterns P01, P02, P03 of the field's bug reports (missing or doubled embedding scale, muP multipliers, routed scale applied twice)",
	Test:   testScale,
}

func testScale(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || isInteger(ref) || c.Tap == "attn_probs" {
		return nil // rows of probabilities sum to one: a factor there is a sink's
	}
	alpha, resid := rowScales(ref, port)
	a := medianOf(alpha)
	if math.IsNaN(a) {
		return nil
	}
	if moeTaps[c.Tap] && len(testMoE(c)) > 0 {
		return nil // the router's own rule says more
	}
	if f, ok := constantScale(c, ref, port, alpha, resid, a); ok {
		return []compare.Finding{f}
	}
	if slices.Contains(normTaps, c.Tap) && len(testNorm(c)) > 0 {
		return nil // the norm's own rule says more than numbers per token
	}
	if f, ok := rowClassScale(c, ref, port, alpha, resid); ok {
		return []compare.Finding{f}
	}
	if f, ok := fewRowsScale(c, ref, port); ok {
		return []compare.Finding{f}
	}
	if f, ok := perTokenScale(c, ref, port, alpha, resid); ok {
		return []compare.Finding{f}
	}
	return nil
}

// constantScale tests one number for all tokens.
func constantScale(c *Context, ref, port *Tensor, alpha, resid []float64, a float64) (compare.Finding, bool) {
	if a == 0 || !scaleIsReal(alpha, resid, a, ref.Cols, c.At == "post_embed") {
		return compare.Finding{}, false
	}
	t := c.tryOn(ref, port, port.scaled(1/a), 1)
	f, ok := c.finding("scale.constant", t)
	k, named := name(a, max(namedTolerance, 2*medianOf(resid)/math.Sqrt(float64(ref.Cols))), c.constants())
	if near(a, 1, 0.02) {
		k, named = name(a, 1e-4, c.constants()) // next to 1, a name has to be met closely
	}
	if !ok {
		// Rounding to 16 bits hides a scale next to 1 from the energy, not from
		// the mean over dims.
		if !(named && c.At == "post_embed" || t.explained() > 0.8 && len(alpha) >= minTokens) || !t.after.below(exactFloors*t.floor) {
			return f, false
		}
		f = c.signature("scale.constant", t)
	}
	sides(&f, 1.0, a)
	f.Claim = fmt.Sprintf("port = %s x reference at every token", fraction(a))
	if named {
		f.Values["named"] = k.Name
		f.Claim = fmt.Sprintf("port = %s x reference at every token: %s", g6(a), k.Name)
		if k.What != "" {
			f.Claim += "; " + k.What
		}
	}
	f.For = append(f.For,
		fmt.Sprintf("median scale over %s %s, spread %s", plural(len(alpha), "token"), g6(a), g2(spreadOf(alpha, a))),
		fmt.Sprintf("after dividing by it rel_l2 is %s (before %s)", g2(t.after.Whole), g2(t.before.Whole)),
		fmt.Sprintf("the direction is the same: median residual per token %s", g2(medianOf(resid))))
	if c.At == "post_embed" {
		if n, agree, ok := c.hiddenByNorm(); ok && agree {
			f.For = append(f.For, fmt.Sprintf("%s agrees within its floor while the residual stream does not: a scale before the first norm, which divides it out", n))
		}
	}
	f.Try = c.tryLine("scale(%s)", formatNum(1/a))
	f.Verify = "look for the factor in both codes before changing one: config multipliers, a scale folded into the weights at conversion, a scale inside the embedding class that a caller applies again"
	f.Fix = fmt.Sprintf("apply the factor on both sides the same number of times (the port's values would have to be multiplied by %s to follow the reference's rule)", g6(1/a))
	return f, true
}

// fraction prints a number, as 1/n where it is the reciprocal of a whole one.
func fraction(a float64) string {
	if n := math.Round(1 / a); math.Abs(n) > 2 && math.Abs(n) < 1e6 && near(1/a, n, 1e-6) {
		return fmt.Sprintf("1/%g (%s)", n, g6(a))
	}
	return g6(a)
}

// scaleIsReal tells a scale from rounding: docs/metrics.md asks for a
// deviation over 1e-4 and ten times the residual. A residual that is random
// averages out over the dims: where nine tokens of ten agree on the scale to a
// tenth of its deviation, three times the residual will do.
func scaleIsReal(alpha, resid []float64, a float64, cols int, strictOK bool) bool {
	dev := math.Abs(a - 1)
	if !(dev > 1e-4) {
		return false
	}
	agree := 0
	n := 0
	for t, v := range alpha {
		if math.IsNaN(v) {
			continue
		}
		n++
		if math.Abs(v-a) <= 0.1*dev || math.Abs(v-a) <= 4*resid[t]*math.Abs(a)/math.Sqrt(float64(cols)) {
			agree++
		}
	}
	if n == 0 || float64(agree) < 0.9*float64(n) {
		return false
	}
	r := medianOf(resid)
	if dev > 3*r {
		return true
	}
	return strictOK && dev > 10*r/math.Sqrt(float64(cols))
}

// rowClass is a set of tokens that share one scale.
type rowClass struct {
	scale  float64
	tokens []int
}

// rowClassScale tests two or three numbers, each met by several tokens: text and
// image rows, pads, one request of a batch.
func rowClassScale(c *Context, ref, port *Tensor, alpha, resid []float64) (compare.Finding, bool) {
	if ref.Rows < 2*minTokens {
		c.Note("scale.row_class at %s needs at least %d tokens, the dump has %d", c.At, 2*minTokens, ref.Rows)
		return compare.Finding{}, false
	}
	classes := classify(alpha, resid)
	if len(classes) < 2 || len(classes) > 3 {
		return compare.Finding{}, false
	}
	for _, k := range classes {
		if len(k.tokens) < 2 || k.scale == 0 {
			return compare.Finding{}, false
		}
	}
	if !apart(classes, alpha) {
		return compare.Finding{}, false
	}
	got := port.mapRows(func(int, []float64) {})
	for _, k := range classes {
		for _, t := range k.tokens {
			row := got.Row(t)
			for i := range row {
				row[i] /= k.scale
			}
		}
	}
	t := c.tryOn(ref, port, got, len(classes))
	f, ok := c.finding("scale.row_class", t)
	if !ok {
		return f, false
	}
	f.Claim = fmt.Sprintf("port = reference times one of %d numbers, by the kind of row:", len(classes))
	scales := map[string]any{}
	var apply []string
	for i, k := range classes {
		f.Claim += fmt.Sprintf(" x%s on %s (%s)", g6(k.scale), plural(len(k.tokens), "token"), rangesOf(k.tokens))
		scales[rangesOf(k.tokens)] = compare.Num(k.scale)
		if i < len(classes)-1 {
			f.Claim += ","
		}
		if math.Abs(k.scale-1) > 1e-9 {
			apply = append(apply, fmt.Sprintf("scale_rows(%s, %s)", formatNum(1/k.scale), listArg(k.tokens)))
		}
		if n, ok := name(k.scale, namedTolerance, c.constants()); ok {
			f.For = append(f.For, fmt.Sprintf("x%s is %s", g6(k.scale), n.Name))
			f.Values["named"] = n.Name
		}
	}
	f.Values["reference"], f.Values["port"] = compare.Num(1), scales
	f.For = append(f.For, fmt.Sprintf("after dividing each class by its number rel_l2 is %s (before %s)", g2(t.after.Whole), g2(t.before.Whole)))
	f.Try = c.tryLine("%s", joinPipe(apply))
	f.Verify = "see which tokens these rows are (image, audio, padding, another request of the batch) and where the two kinds are scaled"
	f.Fix = "scale each kind of row as the reference does: usually the text multiplier was also applied to the features of another modality, or the reverse"
	return f, true
}

// classify groups tokens whose scales are equal within their noise. More than
// three groups, or a token that fits none, returns nil.
func classify(alpha, resid []float64) []rowClass {
	var classes []rowClass
	for t, a := range alpha {
		if math.IsNaN(a) {
			continue
		}
		found := false
		for i, k := range classes {
			if math.Abs(a-k.scale) <= max(1e-4, 3*resid[t])*math.Abs(k.scale) {
				classes[i].tokens = append(classes[i].tokens, t)
				found = true
				break
			}
		}
		if !found {
			if len(classes) == 3 {
				return nil
			}
			classes = append(classes, rowClass{scale: a, tokens: []int{t}})
		}
	}
	for i, k := range classes {
		var own []float64
		for _, t := range k.tokens {
			own = append(own, alpha[t])
		}
		classes[i].scale = medianOf(own)
		if math.Abs(classes[i].scale-1) < 1e-4 {
			classes[i].scale = 1
		}
	}
	slices.SortFunc(classes, func(a, b rowClass) int { return b.tokens[0] - a.tokens[0] })
	slices.Reverse(classes)
	return classes
}

// apart tells whether the classes are ten times further from each other than
// their tokens are among themselves; a continuum cut in three is not.
func apart(classes []rowClass, alpha []float64) bool {
	within, between := 0.0, math.Inf(1)
	for i, k := range classes {
		for _, t := range k.tokens {
			within = max(within, math.Abs(alpha[t]-k.scale))
		}
		for _, o := range classes[:i] {
			between = min(between, math.Abs(k.scale-o.scale))
		}
	}
	return between > 10*within
}

// perTokenScale tests one free number for each token: eps, a norm that is
// missing or extra, the sum of top-k weights, per-token quantisation.
func perTokenScale(c *Context, ref, port *Tensor, alpha, resid []float64) (compare.Finding, bool) {
	if ref.Rows < minTokens || ref.Cols < 8 {
		return compare.Finding{}, false
	}
	a := medianOf(alpha)
	if spread := spreadOf(alpha, a); spread < 1e-4*math.Abs(a) || spread < 3*medianOf(resid)*math.Abs(a) {
		return compare.Finding{}, false // one number, or noise
	}
	got := port.mapRows(func(t int, row []float64) {
		if s := alpha[t]; !math.IsNaN(s) && s != 0 {
			for i := range row {
				row[i] /= s
			}
		}
	})
	t := c.tryOn(ref, port, got, ref.Rows)
	f, ok := c.finding("scale.per_token", t)
	if !ok {
		return f, false
	}
	lo, hi := slices.Min(finiteOf(alpha)), slices.Max(finiteOf(alpha))
	f.Values["reference"] = compare.Num(1)
	f.Values["port"] = fmt.Sprintf("%s to %s", g6(lo), g6(hi))
	f.Claim = fmt.Sprintf("port = reference times one number per token, from %s to %s; the direction of every token is the same", g6(lo), g6(hi))
	f.For = append(f.For, fmt.Sprintf("with one scale per token rel_l2 is %s (before %s)", g2(t.after.Whole), g2(t.before.Whole)))
	f.Against = append(f.Against, "which quantity the numbers follow is not known from this checkpoint alone")
	if in, slope, ok := c.followsRMS(alpha); ok {
		f.For = append(f.For, fmt.Sprintf("log scale is linear in the log rms of %s with slope %s: a norm is there on one side and not on the other", in, g2(slope)))
	}
	f.Try = c.tryLine("fit(rows)")
	f.Verify = "dump the module's input: a scale per token comes from a norm (eps, missing, over another span), from expert weights that are not normalised, or from per-token quantisation"
	f.Fix = "find the per-token factor that only one side applies"
	return f, true
}

// followsRMS tells whether per-token scales are a power of the rms of one of
// the checkpoint's inputs.
func (c *Context) followsRMS(alpha []float64) (in string, slope float64, ok bool) {
	for _, in := range c.inputs(c.At) {
		x, found := c.Tensor(Port, in)
		if !found || x.Rows != len(alpha) {
			continue
		}
		var lx, ly []float64
		for t, a := range alpha {
			if ms := dot(x.Row(t), x.Row(t)) / float64(x.Cols); ms > 0 && a > 0 {
				lx, ly = append(lx, math.Log(ms)/2), append(ly, math.Log(a))
			}
		}
		if len(lx) < minTokens {
			continue
		}
		if _, b, r := affine(lx, ly); r < 0.02 && math.Abs(math.Abs(b)-1) < 0.05 {
			return in, b, true
		}
	}
	return "", 0, false
}

// hiddenByNorm tells whether the first norm's output agrees although its input
// does not.
func (c *Context) hiddenByNorm() (name string, agree, ok bool) {
	name = LayerName(0, "input_norm")
	ref, port, ok := c.Pair(name)
	if !ok {
		return name, false, false
	}
	return name, distance(ref, port).Token <= c.FloorOf(name)*10, true
}

package diagnose

import (
	"math"
	"reflect"
	"slices"
)

// occam is how much smaller the error of a later, less simple rule has to be to
// be taken over an earlier one.
const occam = 0.8

// ropeFound is the rule that one side's tensors follow.
type ropeFound struct {
	rule ropeRule
	// err is the relative error that it leaves, shape what free angles leave.
	err, shape float64
	turns      *turns
	// params counts what was fitted and not read from a manifest or the other
	// side.
	params int
}

// good tells whether the rule repeats the rotation to rounding: a few times what
// free angles leave, or a few units of the dtype.
func (f ropeFound) good(unit float64) bool {
	return f.err <= math.Max(4*unit, 2e-5) || f.shape <= math.Max(8*unit, 1e-4) && f.err <= 1.5*f.shape
}

// identifyRope finds the rule that turns pre into post, whose rows are stated to be
// at pos. priors are rules that are
// plausible beforehand (the manifest's, the other side's), simplest first; ok is
// false where pre and post are not related by a rotation of pairs at all.
func identifyRope(c *Context, pos [][]float64, pre, post *Tensor, headDim int, priors []ropeRule) (f ropeFound, ok bool) {
	if headDim == 0 || pre.Rows != post.Rows || pre.Cols != post.Cols || pre.Rows == 0 || pre.Cols%headDim != 0 {
		return f, false
	}
	if distance(post, pre).Whole <= 4*unitOf(pre, post)*0.1 {
		m := measureTurns(pre, post, headDim, geometry{layout: "half"}, pos)
		none := ropeRule{None: true}
		return ropeFound{rule: none, err: m.errorOf(none), turns: m}, true
	}
	m := bestTurns(c, pre, post, headDim, pos)
	if m == nil {
		return f, false
	}
	unit := unitOf(pre, post)
	shape := m.shapeError()
	// Rounded tables keep lengths only to their own precision.
	if !(shape <= math.Max(8*unit, 5e-3)) {
		return ropeFound{turns: m, shape: shape, err: math.Inf(1)}, false
	}
	if m.rows > searchRows {
		// A rule that some rows show is tried on all of them; where it fails, as
		// it does where rows have places of their own or a law has to be fitted to
		// the phases of neighbours, all rows are searched.
		f, ok := searchTurns(m.sample(searchRows), priors, unit)
		if ok && f.rule.Positions == nil && f.good(unit) {
			if e := m.errorOf(f.rule); e <= 1.5*f.err+snapSlack || e <= 1.1*shape+snapSlack {
				f.turns, f.err, f.shape = m, e, shape
				return f, true
			}
		}
	}
	return searchTurns(m, priors, unit)
}

// searchRows is how many rows a rule is searched on at first.
const searchRows = 96

// searchTurns tries rules on what was measured, the simplest first; ok is false
// where not even no rotation could be weighed.
func searchTurns(m *turns, priors []ropeRule, unit float64) (f ropeFound, ok bool) {
	f = ropeFound{turns: m, shape: m.shapeError(), err: math.Inf(1)}
	s := &ropeSearch{m: m, best: &f, unit: unit}
	s.none()
	base := s.priors(priors)
	if s.settled() {
		return f, true
	}
	fits, _ := m.fitPairs()
	base = append(base, s.laws(fits, priors)...)
	for _, step := range []func(){
		func() { s.variants(base) },
		func() { s.sections(base) },
		func() {
			if !s.steady(fits) { // rows at other places than stated bend the phases
				s.places(base)
			}
		},
		func() { s.free(fits) },
	} {
		if s.settled() {
			break
		}
		step()
	}
	return f, !math.IsInf(f.err, 0)
}

// ropeSearch keeps the best rule while candidates come from the simplest to the
// least simple.
type ropeSearch struct {
	m    *turns
	best *ropeFound
	unit float64
}

// offer takes a rule if it is clearly better than the best so far.
func (s *ropeSearch) offer(r ropeRule, params int) float64 {
	e := s.m.errorOf(r)
	if e < occam*s.best.err-1e-10 {
		s.best.rule, s.best.err, s.best.params = r, e, params
	}
	return e
}

// settled tells whether the best rule leaves no more than free angles do, so that
// no other can be better, or no more than float32 frequencies and angles that are
// off by a unit or two make: engines compute theta^(-2i/d) in different ways.
func (s *ropeSearch) settled() bool {
	e := s.best.err
	return e <= 1.1*s.best.shape+snapSlack || e <= s.unit/2 ||
		s.unit <= 0x1p-23 && e <= math.Max(4*s.unit, 0x1p-23*s.m.turned(s.best.rule))
}

// steady tells whether one speed a pair, from the stated positions, repeats the
// rotation as well as free angles do: then no row stands elsewhere.
func (s *ropeSearch) steady(fits []pairFit) bool {
	r, ok := s.perPair(fits)
	return ok && s.m.errorOf(r) <= 1.1*s.best.shape+snapSlack
}

// perPair is the rule with one fitted frequency a pair.
func (s *ropeSearch) perPair(fits []pairFit) (ropeRule, bool) {
	r := s.m.rule()
	r.Freqs = make([]float64, s.m.n)
	for i, f := range fits {
		if !f.ok {
			return r, false
		}
		r.Freqs[i] = f.w
	}
	r.Mscale = s.attentionFactor()
	return r, s.m.rows >= minTokens
}

// attentionFactor is the length of cos and sin, 0 where it is one.
func (s *ropeSearch) attentionFactor() float64 {
	if g := s.m.gain(); math.Abs(g-1) > math.Max(1e-4, s.unit) {
		return g
	}
	return 0
}

func (s *ropeSearch) none() { s.offer(ropeRule{None: true}, 0) }

// fit puts a rule into the geometry that was measured. A rule of another width
// can mean three things there: its own law over the new width, the old exponents,
// or the old number of turning pairs.
func (s *ropeSearch) fit(r ropeRule) []ropeRule {
	if r.None {
		return nil
	}
	old, now := r, r
	now.Layout, now.Dims, now.Start, now.Freqs = s.m.layout, s.m.dims, s.m.start, nil
	if r.Freqs != nil {
		if len(r.Freqs) != s.m.n {
			return nil
		}
		now.Freqs = r.Freqs
		return []ropeRule{now}
	}
	out := []ropeRule{now}
	oldWidth := old.width(s.m.headDim)
	if oldWidth == 2*s.m.n {
		if oldWidth < s.m.headDim && now.Den == 0 {
			full := now
			full.Den = s.m.headDim
			out = append(out, full)
		}
		return out
	}
	natural := now
	natural.Den, natural.Pairs = 0, 0
	kept := natural
	kept.Den = orInt(old.Den, oldWidth)
	few := kept
	few.Pairs = oldWidth / 2
	out = []ropeRule{natural, kept}
	if few.Pairs < s.m.n {
		out = append(out, few)
	}
	return out
}

func orInt(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

// priors offers the rules that are plausible beforehand, and returns them in the
// measured geometry.
func (s *ropeSearch) priors(rules []ropeRule) []ropeRule {
	var base []ropeRule
	for _, r := range rules {
		for _, q := range s.fit(r) {
			s.offer(q, 0)
			q.Positions, q.Offset, q.RoundPos, q.RoundFreq, q.RoundAngle, q.RoundTable = nil, 0, "", "", "", ""
			if slices.ContainsFunc(base, func(b ropeRule) bool { return reflect.DeepEqual(b, q) }) {
				continue
			}
			s.offer(q, 0)
			base = append(base, q)
			if s.settled() {
				return base
			}
		}
	}
	return base
}

// variants offers each base rule with one thing changed: an attention factor,
// float32 or 16-bit arithmetic, the other direction, an offset, two rotations.
func (s *ropeSearch) variants(base []ropeRule) {
	g := s.m.gain()
	for _, r := range base {
		quiet := r
		quiet.RoundFreq, quiet.RoundAngle = "float32", "float32"
		s.offer(quiet, 0)
	}
	for _, r := range base {
		if s.settled() {
			return
		}
		if math.Abs(g-1) > math.Max(1e-4, s.unit) {
			q := r
			q.Mscale = s.snap(g, func(v float64) ropeRule { x := r; x.Mscale = v; return x })
			s.offer(q, 1)
		}
		neg := r
		neg.Negative = true
		s.offer(neg, 1)
		twice := r
		if twice.Scaling == "" {
			twice.Scaling, twice.Factor = "linear", 0.5
			s.offer(twice, 1)
		}
		for _, q := range roundings(r) {
			s.offer(q, 1)
		}
	}
}

// roundings lists the ways of computing a rule partly in 16 bits.
func roundings(r ropeRule) []ropeRule {
	var out []ropeRule
	for _, dt := range []string{"bfloat16", "float16"} {
		for mask := 1; mask < 16; mask++ {
			q := r
			if mask&1 != 0 {
				q.RoundPos = dt
			}
			if mask&2 != 0 {
				q.RoundFreq = dt
			}
			if mask&4 != 0 {
				q.RoundTable = dt
			}
			if mask&8 != 0 {
				q.RoundAngle = dt
			}
			if mask == 1 || mask == 2 || mask == 4 || mask == 8 || mask == 3 || mask == 6 || mask == 11 || mask == 15 {
				out = append(out, q)
			}
		}
	}
	return out
}

// laws fits theta, a linear factor and the published scalings to the measured
// frequencies.
func (s *ropeSearch) laws(fits []pairFit, priors []ropeRule) []ropeRule {
	n := s.m.n
	turning := 0
	negative := 0
	for i, f := range fits {
		if f.ok && math.Abs(f.w) > 5*f.sigma {
			turning = i + 1
			if f.w < 0 {
				negative++
			}
		}
	}
	if turning < 2 {
		return nil
	}
	if negative*2 > turning {
		flipped := append([]pairFit(nil), fits...)
		for i := range flipped {
			flipped[i].w, flipped[i].at = -flipped[i].w, -flipped[i].at
		}
		fits = flipped
	}
	base := s.m.rule()
	base.Negative = negative*2 > turning
	base.Mscale = s.attentionFactor()
	den := 2 * n
	var out []ropeRule
	take := func(r ropeRule, params int) {
		r = s.snapRule(r)
		s.offer(r, params)
		out = append(out, r)
		if off := commonOffset(fits); math.Abs(off) > 1e-3 {
			q := r
			q.Offset = off
			if near := math.Round(off); math.Abs(off-near) < 0.05 {
				q.Offset = near
			}
			if q.Offset != 0 {
				if q.Negative {
					q.Offset = -q.Offset
				}
				s.offer(q, params+1)
			}
		}
	}
	if l := fitLaw(fits, 1, n, den, false); l.ok && l.theta > 1 {
		r := base
		r.Theta = l.theta
		take(r, 1)
	}
	if l := fitLaw(fits, 0, n, den, true); l.ok && l.theta > 1 && l.factor > 0 {
		r := base
		r.Theta, r.Scaling, r.Factor = l.theta, "linear", l.factor
		if math.Abs(l.factor-1) > 1e-3 {
			take(r, 2)
		}
	}
	thetas := slices.Clone(commonThetas)
	for _, r := range priors {
		if r.Theta > 1 && !slices.Contains(thetas, r.Theta) {
			thetas = append(thetas, r.Theta)
		}
	}
	for _, r := range scaledLaws(base, fits, den, thetas) {
		take(r, 2)
	}
	return out
}

// originals are the trained context lengths that a scaling is tried with: powers
// of two and one and a half times those, from 32 to 1 Mi.
var originals = func() (out []float64) {
	for n := 32.0; n <= 1<<20; n *= 2 {
		out = append(out, n, 1.5*n)
	}
	return out
}()

// scaledLaws fits theta on the pairs that llama3 and yarn leave alone and the
// factor on those that they divide, for each trained length, and keeps for each
// kind the lengths that explain the speeds best. Where hardly a pair is left alone
// theta is none that can be fitted: those that are given, and those of the large
// families, are tried as they are.
func scaledLaws(base ropeRule, fits []pairFit, den int, thetas []float64) []ropeRule {
	var out []ropeRule
	for _, kind := range []string{"llama3", "yarn"} {
		var rules []ropeRule
		var misses []float64
		for _, orig := range originals {
			for _, theta := range append([]float64{0}, thetas...) {
				r := base
				r.Scaling, r.Orig, r.Factor, r.Theta = kind, orig, 2, theta
				if kind == "llama3" {
					r.Low, r.High = llama3Low, llama3High
				} else {
					r.BetaFast, r.BetaSlow = yarnFast, yarnSlow
				}
				if fitFactor(&r, fits, den) && r.Factor > 1.01 {
					rules, misses = append(rules, r), append(misses, missOf(r, fits, den))
				}
			}
		}
		for range min(scaledKept, len(rules)) {
			best := 0
			for i, m := range misses {
				if m < misses[best] {
					best = i
				}
			}
			out = append(out, rules[best])
			misses[best] = math.Inf(1)
		}
	}
	return out
}

// scaledKept is how many trained lengths of a kind are measured on the tensors.
const scaledKept = 3

// missOf is the sum of squared differences of the pairs' speeds from a law, in
// their standard errors.
func missOf(r ropeRule, fits []pairFit, den int) (s float64) {
	for i, f := range fits {
		if f.ok {
			e := (r.scaled(math.Pow(r.Theta, -2*float64(i)/float64(den)), i, den) - f.w) / f.sigma
			s += e * e
		}
	}
	return s
}

// fitFactor alternates between theta (unless r gives one) on the kept pairs and the factor on the
// divided ones; false where no pair is divided.
func fitFactor(r *ropeRule, fits []pairFit, den int) bool {
	given := r.Theta > 1
	// Theta first of few pairs, which no scaling has reached, then of more.
	for n := 2; n <= len(fits) && !given; n++ {
		l := fitLaw(fits, 1, n, den, false)
		if !l.ok || l.theta <= 1 {
			continue
		}
		if n > 2 {
			// A pair that leaves the law of the ones before it is scaled.
			w := math.Pow(r.Theta, -2*float64(n-1)/float64(den))
			if !near(fits[n-1].w, w, 0.02) {
				break
			}
		}
		r.Theta = l.theta
	}
	if r.Theta <= 1 {
		return false
	}
	for range 4 {
		var kept []pairFit
		var num, sum float64
		for i, f := range fits {
			w := math.Pow(r.Theta, -2*float64(i)/float64(den))
			share := r.scaled(w, i, den) / w // 1 kept, 1/factor divided
			use := f
			if share < 1-1e-9 {
				use.ok = false
			}
			kept = append(kept, use)
			if f.ok && f.w > 3*f.sigma && share < 1/r.Factor+1e-9 {
				wt := (f.w / f.sigma) * (f.w / f.sigma)
				num += wt * math.Log(w/f.w)
				sum += wt
			}
		}
		if sum == 0 {
			return false
		}
		if l := fitLaw(kept, 1, len(kept), den, false); !given && l.ok && l.theta > 1 {
			r.Theta = l.theta
		}
		r.Factor = math.Exp(num / sum)
		if !(r.Factor > 1) {
			return false
		}
	}
	return true
}

// snapRule rounds theta, factor and attention factor to values that people write, where the error
// does not grow.
func (s *ropeSearch) snapRule(r ropeRule) ropeRule {
	r.Theta = s.snap(r.Theta, func(v float64) ropeRule { q := r; q.Theta = v; return q })
	if r.Scaling != "" {
		r.Factor = s.snap(r.Factor, func(v float64) ropeRule { q := r; q.Factor = v; return q })
		r.Theta = s.snap(r.Theta, func(v float64) ropeRule { q := r; q.Theta = v; return q })
	}
	if r.Mscale != 0 {
		// YaRN's own attention factor, where it is that one.
		own := 0.1*math.Log(r.Factor) + 1
		if with := r; r.Scaling == "yarn" && near(r.Mscale, own, 1e-3) {
			if with.Mscale = own; s.m.errorOf(with) <= 1.05*s.m.errorOf(r)+snapSlack {
				return with
			}
		}
		r.Mscale = s.snap(r.Mscale, func(v float64) ropeRule { q := r; q.Mscale = v; return q })
	}
	return r
}

// snapSlack is what the sums of turns lose by cancellation.
const snapSlack = 3e-8

// snap tries v with one, two, three and four significant digits.
func (s *ropeSearch) snap(v float64, with func(float64) ropeRule) float64 {
	e := s.m.errorOf(with(v))
	for digits := 1; digits <= 4; digits++ {
		p := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-float64(digits-1))
		nice := math.Round(v/p) * p
		// A power of ten below one is not exact: go through its reciprocal.
		if p < 1 {
			nice = math.Round(v/p) / math.Round(1/p)
		}
		if math.Abs(nice/v-1) < 0.01 && s.m.errorOf(with(nice)) <= 1.05*e+snapSlack {
			return nice
		}
	}
	return v
}

// free offers one frequency a pair: no law, but it says what the tensors do.
func (s *ropeSearch) free(fits []pairFit) {
	r, ok := s.perPair(fits)
	if !ok {
		return
	}
	if s.best.err <= math.Max(4*s.unit, 2e-5) {
		return // a law already repeats it to rounding
	}
	s.offer(r, s.m.n)
	if off := commonOffset(fits); math.Abs(off) > 1e-3 {
		r.Offset = off
		s.offer(r, s.m.n+1)
	}
}

package compare

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/dump"
)

// state is how a pair stands against its floor.
type state struct {
	bad bool
	// by is the rule that made it bad; reason the sentence for people.
	by, reason string
	// e is the median token's error, worst the worst token's.
	e, worst float64
	// gain is the error over its inputs' and the unit rounding, by the median
	// token; tailGain the same per token, at its 98th percentile. NaN where it
	// cannot be formed.
	gain, tailGain float64
	// benign is set where everything computed from a bad pair agrees.
	benign bool
}

// A rule makes a pair bad; the first that holds names the reason. They are in
// order of how directly they prove a difference.
type rule struct {
	by    string
	holds func(*part, *Pair) (reason string, bad bool)
}

// rules is the table that judge walks.
var rules = []rule{
	{"nonfinite", nonFiniteRule},
	{"mask", maskRule},
	{"floor", floorRule},
	{"tokens", tokensRule},
	{"gain", gainRule},
	{"scale", scaleRule},
	{"offset", offsetRule},
	{"threshold", thresholdRule},
}

// minGain is the gain under which an error above its floor did not enter at the
// checkpoint: it was passed on and grew. Right runs reach 3.5 in 16-bit and
// 8-bit precision.
const minGain = 4

// alarmGain is the gain that makes a checkpoint bad although its error is below
// the floor: only in classes whose floor is wide enough to hide a fault.
const alarmGain = 10

// judge sets the state of every pair, in execution order.
func (p *part) judge() {
	for _, pr := range p.Pairs {
		pr.state = state{e: math.NaN(), worst: math.NaN(), gain: math.NaN(), tailGain: math.NaN()}
		pr.inputs = nil
		for _, name := range p.lineage.inputs(pr.Place) {
			if in := p.lookup(name); in != pr {
				pr.inputs = append(pr.inputs, in)
			}
		}
		if !pr.comparable() || pr.aside != "" {
			continue
		}
		if pr.Out.Ints != nil {
			pr.state.bad = !pr.Out.Ints.Equal && pr.Out.Ints.Different > pr.Out.Ints.Ties
			if pr.state.bad {
				pr.state.by = "integer"
				pr.state.reason = fmt.Sprintf("%d of %d integers differ", pr.Out.Ints.Different, pr.Geo.Rows*pr.Geo.Cols)
			}
			continue
		}
		pr.measure()
		pr.applyRules(p)
	}
}

// applyRules takes the first rule that makes the pair bad by an error made here.
// Where every rule that holds speaks of what was passed on, the first is kept: a
// median that accumulated must not hide a token that did not.
func (p *Pair) applyRules(pt *part) {
	kept := p.state
	for _, r := range rules {
		reason, bad := r.holds(pt, p)
		if !bad {
			continue
		}
		p.state.bad, p.state.by, p.state.reason = true, r.by, reason
		if !p.accumulated() {
			return
		}
		if !kept.bad {
			kept = p.state
		}
	}
	p.state = kept
}

// measure fills the figures that the rules need.
func (p *Pair) measure() {
	s := &p.state
	rel := p.judged()
	if len(rel) == 0 { // an empty tensor, or nothing finite on both sides
		s.e, s.worst = 0, 0
		return
	}
	s.e, s.worst = energy(median(rel)), energy(quantile(rel, 1))
	unit := floors[p.precision].unit
	own, noise := rel, []float64(nil)
	if p.inc != nil && p.onlyStream() {
		// Rounding the stream is an error of the increment too, the larger the
		// less was added.
		own, noise = p.inc, p.incStored
	}
	var in2 float64
	if noise != nil {
		in2 = sq(p.streamUnit() * median(noise))
	}
	for _, in := range p.inputs {
		if in.rel != nil {
			in2 += sq(median(in.judged()))
		}
	}
	size, sizes := p.scoreSizes()
	s.gain = median(own) / (math.Sqrt(in2+sq(unit)) * amplified(size))
	s.tailGain = p.gainTail(own, noise, unit, func(t int) float64 {
		if sizes == nil {
			return amplified(size)
		}
		return amplified(sizes[t])
	})
}

// judged returns the token errors that count: without those whose discrete
// choice flipped inside the noise, and without tokens that had nothing finite
// on both sides.
func (p *Pair) judged() []float64 {
	rel := dropNaN(p.rel)
	if len(p.ties) == 0 {
		return rel
	}
	kept := make([]float64, 0, len(p.rel))
	for t, r := range p.rel {
		if !p.ties[t] && !math.IsNaN(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// onlyStream tells whether a layer's inputs are the stream alone, so that its
// gain is that of the increment.
func (p *Pair) onlyStream() bool {
	return p.Kind == dump.KindLayer && len(p.inputs) == 1 && p.inputs[0].Residual()
}

// gainTail is the 98th percentile over tokens of the gain per token, against
// the worst input up to that token, since attention mixes earlier tokens in;
// noise is what the stream's rounding is multiplied by, nil for no stream;
// softmax is the factor that a softmax in between allows a token.
func (p *Pair) gainTail(own, noise []float64, unit float64, softmax func(t int) float64) float64 {
	n := len(own)
	in2 := make([]float64, n)
	for t, s := range noise {
		in2[t] = sq(p.streamUnit() * s)
	}
	for _, in := range p.inputs {
		if in.rel == nil {
			continue
		}
		if len(in.rel) != n {
			return math.NaN()
		}
		worst := 0.0
		for t, r := range in.rel {
			worst = math.Max(worst, r)
			in2[t] += sq(worst)
		}
	}
	g := make([]float64, n)
	for t, r := range own {
		g[t] = r / (math.Sqrt(in2[t]+sq(unit)) * softmax(t))
	}
	if n == 0 {
		return math.NaN()
	}
	// The least of the worst 2 % of the tokens, the worst of a few.
	return selectNth(g, int(math.Ceil(0.98*float64(n)-1e-9))-1)
}

// sq is x², rounded: some processors would fuse it with an addition, and reports
// would differ from one to the other.
func sq(x float64) float64 { return float64(x * x) }

// nonFiniteRule: NaN or Inf on one side only, or of another kind.
func nonFiniteRule(_ *part, p *Pair) (string, bool) {
	n := p.sums.NonFinite
	if n.Mismatched == 0 {
		return "", false
	}
	return fmt.Sprintf("NaN or Inf on one side only at %d places, first at %v", n.Mismatched, p.Geo.index(n.FirstMismatch)), true
}

// floorRule: the median token is above the floor. Where nothing is known of the
// precision the floor is the protocol's cosine, which looks at the whole tensor
// too.
func floorRule(pt *part, p *Pair) (string, bool) {
	if p.precision == dump.Unknown && p.Required() && p.state.e <= p.floor() {
		if f := p.crosses(pt.o.Thresholds.of(p.Out.Name).cos, false); f != nil && f.By != "nonfinite" {
			return f.words(), true
		}
	}
	return fmt.Sprintf("median token error %.2g is above the %s floor %.0g", p.state.e, p.precision, p.floor()), !(p.state.e <= p.floor())
}

// tokensRule: more than 2 % of the tokens are above 10 floors and the worst is
// above 100: a fault that touches few tokens, which a median hides.
func tokensRule(_ *part, p *Pair) (string, bool) {
	rel := p.judged()
	limit, over := math.Min(10*p.floor(), 0.4), 0
	for _, r := range rel {
		if !(energy(r) <= limit) {
			over++
		}
	}
	bad := float64(over) > 0.02*float64(len(rel)) && !(p.state.worst <= math.Min(100*p.floor(), 0.45))
	return fmt.Sprintf("%d of %d tokens are over 10 floors, the worst at %.2g", over, len(rel), p.state.worst), bad
}

// gainRule: below the floor, and yet made here: the error is more than ten
// times what its inputs and the rounding account for. Only where the floor is
// wide (16 and 8 bits); right runs stay under 3.5 there.
func gainRule(_ *part, p *Pair) (string, bool) {
	wide := p.precision == dump.Float16 || p.precision == dump.BFloat16 || p.precision == dump.EightBit
	if !wide || p.Kind == dump.KindEmbedding || len(p.inputs) == 0 {
		return "", false
	}
	return fmt.Sprintf("the error is %.0f times what its inputs and %s rounding account for", p.state.gain, p.precision), p.state.gain > alarmGain
}

// thresholdRule: a limit that the user set.
func thresholdRule(pt *part, p *Pair) (string, bool) {
	l := pt.o.Thresholds.of(p.Out.Name)
	w := p.sums.Whole
	if w.N == 0 {
		return "", false
	}
	switch {
	case l.relL2 != nil && !(w.RelL2() <= float64(*l.relL2)):
		return fmt.Sprintf("rel_l2 %.3g is above %.3g", w.RelL2(), float64(*l.relL2)), true
	case l.maxRel != nil && !(w.MaxRel() <= float64(*l.maxRel)):
		return fmt.Sprintf("max_rel %.3g is above %.3g", w.MaxRel(), float64(*l.maxRel)), true
	case l.cosByName && !(w.Cos() >= float64(l.cos)):
		return fmt.Sprintf("cosine %.6f is below %.6f", w.Cos(), float64(l.cos)), true
	}
	return "", false
}

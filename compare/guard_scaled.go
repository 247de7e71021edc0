package compare

import (
	"math"

	"github.com/layerparity/parity/dump"
)

// guardScaled looks for a residual stream that one side dumps times a constant,
// at every layer alike, while what is computed from it agrees: a multiplier
// that one engine folds into the next module.
func guardScaled(p *part) []Guard {
	var scales, noise []float64
	var pairs []*Pair
	for _, pr := range p.layerPairs() {
		if pr.rel == nil || pr.aside != "" {
			continue
		}
		f := pr.tokensOf().scale
		if !f.pure() {
			return one(Pass, "", "%s is no constant multiple", pr.Name)
		}
		scales, noise, pairs = append(scales, f.scale), append(noise, f.residual), append(pairs, pr)
	}
	if len(pairs) < 2 {
		return one(NotApplicable, "", "fewer than 2 layers with figures")
	}
	c := median(scales)
	for i, s := range scales {
		// A scale is known no better than the rest that its fit leaves: 1 % to 3 %
		// between 16-bit runs.
		if math.Abs(s/c-1) > max(1e-3, noise[i]) {
			return one(Pass, "", "the layers have no common multiplier")
		}
	}
	if at, ok := p.othersAgree(); !ok {
		return one(Pass, "", "all layers are %.6g times the reference, and so is not what follows (%s): no fault of the dump", c, at)
	}
	for _, pr := range pairs {
		pr.keepRaw()
		pr.Port.Times = 1 / c
		pr.repaired("the port's residual stream divided by its constant multiplier %.6g", c)
	}
	if err := p.sumPairs(pairs); err != nil {
		return one(NotChecked, "", "%s", guardError(err))
	}
	g := one(Repaired, "dump the residual stream before the multiplier, or divide by it",
		"the port's layer outputs are %.6g times the reference's at all %d layers, while final norm, logits or sub-taps agree", c, len(pairs))
	g[0].Checkpoint = pairs[0].Name
	return g
}

// othersAgree tells whether at least one of final norm, logits and sub-taps was
// compared and all of them agree; at names one that does not.
func (p *part) othersAgree() (at string, ok bool) {
	n := 0
	for _, pr := range p.Pairs {
		if pr.rel == nil || (pr.Kind != dump.KindTap && pr.Kind != dump.KindFinalNorm && pr.Kind != dump.KindLogits) {
			continue
		}
		n++
		if !(energy(median(pr.rel)) <= guardTolerance) {
			return pr.Name, false
		}
	}
	return "nothing else was dumped", n > 0
}

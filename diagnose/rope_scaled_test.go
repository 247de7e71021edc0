package diagnose

import (
	"math"
	"testing"
)

// The speeds are worked out by the published formulas, written again here; the
// trained lengths are none of the usual ones, and YaRN leaves a single pair alone.
func TestScalingsOfAnyTrainedLengthAreRecovered(t *testing.T) {
	const n, theta, factor = 8, 5e5, 4.0
	fits := func(w func(i int, plain float64) float64) []pairFit {
		var out []pairFit
		for i := range n {
			out = append(out, pairFit{w: w(i, math.Pow(theta, -float64(i)/n)), sigma: 1e-9, ok: true})
		}
		return out
	}
	llama3 := func(_ int, plain float64) float64 {
		const trained = 768
		turns := trained * plain / (2 * math.Pi) // over the trained length
		switch {
		case turns > 4:
			return plain
		case turns < 1:
			return plain / factor
		}
		keep := (turns - 1) / 3
		return keep*plain + (1-keep)*plain/factor
	}
	yarn := func(i int, plain float64) float64 {
		// trained 128: low = ⌊16·ln(128/64π)/2lnθ⌋ = 0, high = ⌈16·ln(128/2π)/2lnθ⌉ = 2
		share := math.Min(1, float64(i)/2)
		return share*plain/factor + (1-share)*plain
	}
	for _, tc := range []struct {
		reason, kind string
		fits         []pairFit
		thetas       []float64
	}{
		{"llama3 trained on 768 tokens", "llama3", fits(llama3), nil},
		{"yarn trained on 128 tokens, theta given", "yarn", fits(yarn), []float64{1e4, theta}},
	} {
		best := ropeRule{}
		least := math.Inf(1)
		for _, r := range scaledLaws(ropeRule{Layout: "half"}, tc.fits, 2*n, tc.thetas) {
			if m := missOf(r, tc.fits, 2*n); m < least {
				best, least = r, m
			}
		}
		if best.Scaling != tc.kind || !near(best.Factor, factor, 1e-6) || !near(best.Theta, theta, 1e-6) || !(least < 1) {
			t.Errorf("%s: %s factor %g theta %g trained %g, misses by %g", tc.reason, best.Scaling, best.Factor, best.Theta, best.Orig, least)
		}
	}
}

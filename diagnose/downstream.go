package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/layerparity/parity/compare"
)

// downstreamWork bounds the elements of the checkpoints at which a second fault is
// looked for, so that a long prompt is explained in seconds, too. Short prompts
// never reach it.
const downstreamWork = 16 << 20

// standsOut is how many times the gain of the same tap in the other layers makes a
// checkpoint one to look at first.
const standsOut = 1.5

// downstream looks for independent faults after the first: checkpoints in later
// blocks whose error is proven exactly by another cause, on the port's own
// inputs, so that what they inherited does not matter.
func (e *explainer) downstream(src Source, part *compare.Part, at string, first []compare.Finding) {
	known := map[string]bool{}
	for _, f := range first {
		known[f.Cause] = true
	}
	places := laterPlaces(part, at)
	chosen := worthLooking(places)
	type second struct {
		compare.Finding
		place int
	}
	var found []second
	for _, i := range chosen {
		if e.ctx.Err() != nil {
			return
		}
		for _, f := range e.test(src, part, places[i].Name) {
			if f.Proof == compare.ProofExact && !known[f.Cause] && !strings.HasPrefix(f.Cause, "benign.") && !strings.HasPrefix(f.Cause, "numerics.low") {
				found = append(found, second{f, i})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b second) int { return cmp.Compare(a.place, b.place) })
	for _, f := range found { // of each cause, the place that comes first
		if known[f.Cause] {
			continue
		}
		known[f.Cause] = true
		f.For = append([]string{fmt.Sprintf("a second, independent fault: proven at %s on the port's own inputs", f.Checkpoint)}, f.For...)
		e.findings = append(e.findings, f.Finding)
	}
	if n := len(places) - len(chosen); n > 0 {
		e.c.Reasoning = append(e.c.Reasoning, fmt.Sprintf("a second fault was looked for at %d of the %d later checkpoints that differ, those whose gain stands out and the earliest; a shorter prompt lets all of them be tested", len(chosen), len(places)))
	}
}

// laterPlaces lists the bad checkpoints after at, in order of execution. Those of
// the same block inherit the error within a few steps and need a gain of their own.
func laterPlaces(part *compare.Part, at string) []*compare.Pair {
	layer0, _ := SplitName(at)
	var out []*compare.Pair
	passed := false
	for _, p := range part.Pairs {
		if p.Name == at {
			passed = true
			continue
		}
		if !passed || !p.Bad() {
			continue
		}
		if layer, _ := SplitName(p.Name); layer == layer0 && p.Gain() < 10 {
			continue
		}
		out = append(out, p)
	}
	return out
}

// worthLooking chooses indices of places within downstreamWork: first those whose
// gain stands out among the same tap's of other layers, the most so first, then
// the others in order of execution.
func worthLooking(places []*compare.Pair) []int {
	gains := map[string][]float64{}
	for _, p := range places {
		if _, tap := SplitName(p.Name); !math.IsNaN(p.Gain()) {
			gains[tap] = append(gains[tap], p.Gain())
		}
	}
	score := make([]float64, len(places))
	for i, p := range places {
		_, tap := SplitName(p.Name)
		if g := slices.Sorted(slices.Values(gains[tap])); len(g) > 2 {
			if s := p.Gain() / g[(len(g)-1)/2]; s >= standsOut {
				score[i] = s
			}
		}
	}
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	var chosen []int
	work := 0
	for _, i := range order {
		n := places[i].Geo.Rows * places[i].Geo.Cols
		if work+n > downstreamWork {
			continue // a smaller one may still fit
		}
		work += n
		chosen = append(chosen, i)
	}
	return chosen
}

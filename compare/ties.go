package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/dump"
)

// breakTies looks at experts that differ: where the gap between the last chosen
// and the first not chosen is smaller than the error of the logits they were
// chosen from, the choice flipped inside the noise. Such tokens are counted, and
// set aside in the checkpoints after it. The same set in another order is a tie
// too.
//
// Attention of the next blocks mixes such a token into all later ones, so from
// there on every token after the first flipped one is set aside.
func (p *part) breakTies() {
	aside := make(map[int]bool)
	layer := -1 // of the last flip
	for _, pr := range p.Pairs {
		if len(aside) > 0 && pr.Layer > layer && layer >= 0 {
			aside, layer = fromFirst(aside, p.tokenCount()), -1
		}
		if len(aside) > 0 && pr.Kind != dump.KindInput && !pr.integers() {
			pr.ties = aside
		}
		if pr.Tap != "expert_ids" || pr.Out.Ints == nil || pr.Out.Ints.Equal {
			continue
		}
		flips, err := p.flips(pr, aside)
		if err != nil {
			p.warn = append(p.warn, fmt.Sprintf("%s: ties could not be told from faults: %v", pr.Out.Name, err))
			continue
		}
		next := make(map[int]bool, len(aside)+len(flips))
		for t := range aside {
			next[t] = true
		}
		for t, n := range flips {
			next[t] = true
			pr.Out.Ints.Ties += n
		}
		if len(flips) > 0 {
			pr.Out.Notes = append(pr.Out.Notes, fmt.Sprintf("%d tokens chose other experts within the error of the router's logits: ties, set aside from here on", len(flips)))
		}
		if len(flips) > 0 {
			aside, layer = next, pr.Layer
		}
	}
}

// fromFirst sets aside every token from the first flipped one on.
func fromFirst(aside map[int]bool, tokens int) map[int]bool {
	first := tokens
	for t := range aside {
		first = min(first, t)
	}
	out := make(map[int]bool, tokens-first)
	for t := first; t < tokens; t++ {
		out[t] = true
	}
	return out
}

// tokenCount is the largest number of tokens of a pair.
func (p *part) tokenCount() int {
	n := p.tokens
	for _, pr := range p.Pairs {
		if pr.rel != nil {
			n = max(n, len(pr.rel))
		}
	}
	return n
}

// flips returns, by token, how many ids differ there for no more reason than
// noise, or than an earlier flip: tokens that were set aside already choose from
// other hidden states.
func (p *part) flips(ids *Pair, aside map[int]bool) (map[int]int64, error) {
	router := p.lookup(dump.LayerName(ids.Layer, "router_logits"))
	x, y, err := bothInts(ids.Ref.Record, ids.Port.Record)
	if err != nil {
		return nil, err
	}
	shape := ids.Ref.Record.Shape()
	if len(shape) == 0 || len(x) != len(y) {
		return nil, fmt.Errorf("expert_ids of shape %v is not [token, chosen]", shape)
	}
	tokens, k := len(x), 1 // one choice a token
	if n := len(shape); n > 1 && shape[n-1] > 0 {
		tokens, k = len(x)/shape[n-1], shape[n-1]
	}
	var a, b []float64
	// Logits that are off themselves explain nothing: the flips are their fault.
	if router != nil && router.comparable() && router.Geo.Rows == tokens && energy(median(router.judged())) <= router.floor() {
		if a, err = router.Ref.Float64s(); err != nil {
			return nil, err
		}
		if b, err = router.Port.Float64s(); err != nil {
			return nil, err
		}
	}
	out := make(map[int]int64)
	for t := range tokens {
		u, v := x[t*k:(t+1)*k], y[t*k:(t+1)*k]
		var differ int64
		for i := range u {
			if u[i] != v[i] {
				differ++
			}
		}
		if differ == 0 {
			continue
		}
		if aside[t] || sameSet(u, v) || (a != nil && withinNoise(a, b, t, router.Geo.Cols, k)) {
			out[t] = differ
		}
	}
	return out, nil
}

// sameSet tells whether two choices hold the same experts in any order.
func sameSet(u, v []int64) bool {
	a, b := slices.Clone(u), slices.Clone(v)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// withinNoise tells whether the reference's gap at the k-th choice is at most
// twice the largest error of the token's logits: both sides of the gap may move.
func withinNoise(a, b []float64, t, experts, k int) bool {
	if k >= experts {
		return false
	}
	ref, port := a[t*experts:(t+1)*experts], b[t*experts:(t+1)*experts]
	worst := 0.0
	for i := range ref {
		worst = math.Max(worst, math.Abs(ref[i]-port[i]))
	}
	best := topIndices(ref, k+1)
	return ref[best[k-1]]-ref[best[k]] <= 2*worst
}

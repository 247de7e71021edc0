package diagnose

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// support is which keys each query sees, over all heads of a request.
type support struct {
	requests, t, s int
	seen           []bool // request-major, then query, then key
}

// hiddenBelow is the probability under which a key counts as hidden when the
// other side's is above seenAbove: a mask gives exactly 0, or less than any score
// of a trained model does.
const (
	hiddenBelow = 1e-30
	seenAbove   = 1e-6
)

// supportOf reads the visible keys off probabilities; NaN counts as hidden.
func supportOf(p []float64, g grid) (top []float64) {
	req := g.Blocks / g.Heads
	top = make([]float64, req*g.T*g.S)
	for b := 0; b < g.Blocks; b++ {
		for t := 0; t < g.T; t++ {
			base := (b/g.Heads*g.T + t) * g.S
			for s, v := range g.row(p, b, t) {
				if v > top[base+s] {
					top[base+s] = v
				}
			}
		}
	}
	return top
}

// supports returns both sides' visible keys. Keys whose probability is tiny on
// both sides are taken as both sides agree, so that an underflow is no mask.
func supports(ref, port []float64, g grid) (a, b support) {
	ta, tb := supportOf(ref, g), supportOf(port, g)
	req := g.Blocks / g.Heads
	a = support{req, g.T, g.S, make([]bool, len(ta))}
	b = support{req, g.T, g.S, make([]bool, len(tb))}
	for i := range ta {
		x, y := ta[i] > hiddenBelow, tb[i] > hiddenBelow
		if x != y && math.Max(ta[i], tb[i]) < seenAbove {
			x, y = true, true
		}
		a.seen[i], b.seen[i] = x, y
	}
	return a, b
}

func (s support) equal(o support) bool {
	for i, v := range s.seen {
		if v != o.seen[i] {
			return false
		}
	}
	return true
}

// subset tells whether every key seen in s is seen in o.
func (s support) subset(o support) bool {
	for i, v := range s.seen {
		if v && !o.seen[i] {
			return false
		}
	}
	return true
}

func (s support) union(o support) support {
	u := s
	u.seen = make([]bool, len(s.seen))
	for i, v := range s.seen {
		u.seen[i] = v || o.seen[i]
	}
	return u
}

// each visits the visible cells: q is the query's place among the keys.
func (s support) each(f func(request, row, q, key int)) {
	past := s.s - s.t
	for i, v := range s.seen {
		if v {
			row := i / s.s
			f(row/s.t, row%s.t, row%s.t+past, i%s.s)
		}
	}
}

// reach is how far back and ahead any query sees.
func (s support) reach() (back, ahead int) {
	back, ahead = math.MinInt, math.MinInt
	s.each(func(_, _, q, key int) { back, ahead = max(back, q-key), max(ahead, key-q) })
	return back, ahead
}

// maskRule is a rule that hides keys.
type maskRule struct {
	// kind is "none", "window", "causal", "ahead", "chunk", "topleft", "pads" or
	// "cells".
	kind string
	// n is the window's or chunk's size, or the number of keys ahead.
	n int
	// keys are the hidden keys of each request ("pads").
	keys [][]int
	// apply writes it as a what-if transform, "" where there is none.
	apply string
	// text names it for a claim.
	text string
}

// maskRules finds what narrows the union of both sides' supports to each side's
// own. ok is false where no rule that is known does.
func maskRules(a, b support) (ra, rb maskRule, ok bool) {
	u := a.union(b)
	ra, okA := narrowing(u, a)
	rb, okB := narrowing(u, b)
	if !okA || !okB {
		return ra, rb, false
	}
	// The side without a narrowing rule may have a wider window of its own.
	if rb.kind == "none" && ra.kind == "window" {
		rb = ownWindow(b)
	}
	if ra.kind == "none" && rb.kind == "window" {
		ra = ownWindow(a)
	}
	if rb.kind == "none" && (ra.kind == "causal" || ra.kind == "ahead") {
		rb = ownAhead(b)
	}
	if ra.kind == "none" && (rb.kind == "causal" || rb.kind == "ahead") {
		ra = ownAhead(a)
	}
	return ra, rb, true
}

// ownCells is for supports that no rule makes: each side hides some cells of what
// the two see together, and its mask is taken over as it is. A side that hides
// none has no mask of its own here.
func ownCells(a, b support) (ra, rb maskRule) {
	u := a.union(b)
	own := func(x support, side string) maskRule {
		if u.equal(x) {
			return maskRule{kind: "none", text: "none"}
		}
		return hiddenCells(u, x, side)
	}
	return own(a, "ref"), own(b, "port")
}

// hiddenCells describes what x hides of u: its keys and the queries that miss
// them.
func hiddenCells(u, x support, side string) maskRule {
	n, own := 0, 0
	keys, queries := make(map[int]bool), make(map[int]bool)
	past := x.s - x.t
	for i, v := range u.seen {
		if v && !x.seen[i] {
			q, key := i/x.s%x.t, i%x.s
			keys[key], queries[q] = true, true
			n++
			if key == q+past {
				own++
			}
		}
	}
	sorted := func(m map[int]bool) []int { return slices.Sorted(maps.Keys(m)) }
	r := maskRule{kind: "cells", apply: fmt.Sprintf("hide_like(%s:attn_probs)", side)}
	r.text = fmt.Sprintf("keys %s hidden from queries %s", rangesOf(sorted(keys)), rangesOf(sorted(queries)))
	if own == n {
		r.text = fmt.Sprintf("queries %s do not see their own key: a strict bound", rangesOf(sorted(queries)))
	}
	return r
}

// narrowing finds the rule that takes u to x: window, causal or look-ahead,
// chunks, top-left alignment, hidden keys.
func narrowing(u, x support) (maskRule, bool) {
	if u.equal(x) {
		return maskRule{kind: "none", text: "none"}, true
	}
	back, ahead := x.reach()
	past := x.s - x.t
	window := maskRule{kind: "window", n: back + 1, apply: fmt.Sprintf("window(%d)", back+1), text: fmt.Sprintf("a window of %d keys", back+1)}
	causal := maskRule{kind: "causal", apply: "causal()", text: "causal"}
	if ahead > 0 {
		causal = maskRule{kind: "ahead", n: ahead, apply: fmt.Sprintf("causal(past=%d)", past+ahead), text: fmt.Sprintf("%d keys ahead", ahead)}
	}
	for _, try := range []struct {
		rule    maskRule
		allowed func(row, q, key int) bool
	}{
		{causal, func(_, q, key int) bool { return key-q <= max(ahead, 0) }},
		{window, func(_, q, key int) bool { return q-key <= back }},
		{maskRule{kind: "topleft", apply: "causal(past=0)", text: "causal, aligned at the top left"}, func(row, _, key int) bool { return key <= row }},
	} {
		if try.rule.kind == "causal" && ahead < 0 {
			continue
		}
		if u.keeps(x, try.allowed) {
			return try.rule, true
		}
	}
	for n := 2; n <= x.s/2+1; n++ {
		if u.keeps(x, func(_, q, key int) bool { return key >= q/n*n }) {
			return maskRule{kind: "chunk", n: n, apply: fmt.Sprintf("chunked(%d)", n), text: fmt.Sprintf("chunks of %d keys", n)}, true
		}
	}
	return padding(u, x)
}

// keeps tells whether u restricted by a rule is x.
func (s support) keeps(x support, allowed func(row, q, key int) bool) bool {
	past := s.s - s.t
	for i, v := range s.seen {
		row := i / s.s % s.t
		if (v && allowed(row, row+past, i%s.s)) != x.seen[i] {
			return false
		}
	}
	return true
}

// padding: some keys are hidden from every query of a request.
func padding(u, x support) (maskRule, bool) {
	r := maskRule{kind: "pads", keys: make([][]int, u.requests)}
	var all []int
	for req := 0; req < u.requests; req++ {
		for key := 0; key < u.s; key++ {
			was, is := 0, 0
			for t := 0; t < u.t; t++ {
				i := (req*u.t+t)*u.s + key
				if u.seen[i] {
					was++
				}
				if x.seen[i] {
					is++
				}
			}
			switch {
			case was == is:
			case is == 0:
				r.keys[req] = append(r.keys[req], key)
			default:
				return r, false
			}
		}
		all = append(all, r.keys[req]...)
	}
	if len(all) == 0 {
		return r, false
	}
	var steps []string
	for req, keys := range r.keys {
		if len(keys) == 0 {
			continue
		}
		s := "hide(" + indexRanges(keys)
		if u.requests > 1 {
			s += fmt.Sprintf(", requests=%d", req)
		}
		steps = append(steps, s+")")
	}
	r.apply = joinPipe(steps)
	r.text = fmt.Sprintf("keys %s hidden", rangesOf(all))
	return r, true
}

// ownWindow is the window that a support has by itself: none where the longest
// look-back is that of the last query to the first key.
func ownWindow(x support) maskRule {
	back, _ := x.reach()
	if back >= x.s-1 {
		return maskRule{kind: "none", text: "no window"}
	}
	return maskRule{kind: "window", n: back + 1, apply: fmt.Sprintf("window(%d)", back+1), text: fmt.Sprintf("a window of %d keys", back+1)}
}

// ownAhead is how far ahead a support looks by itself.
func ownAhead(x support) maskRule {
	_, ahead := x.reach()
	switch {
	case ahead <= 0:
		return maskRule{kind: "causal", apply: "causal()", text: "causal"}
	case ahead >= x.t-1:
		return maskRule{kind: "none", text: "none: every query sees the keys after it"}
	}
	past := x.s - x.t
	return maskRule{kind: "ahead", n: ahead, apply: fmt.Sprintf("causal(past=%d)", past+ahead), text: fmt.Sprintf("%d keys ahead", ahead)}
}

// indexRanges writes increasing indices as a transform's argument: "0-3+7".
func indexRanges(idx []int) string {
	var b strings.Builder
	for i := 0; i < len(idx); {
		j := i
		for j+1 < len(idx) && idx[j+1] == idx[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte('+')
		}
		if j == i {
			fmt.Fprintf(&b, "%d", idx[i])
		} else {
			fmt.Fprintf(&b, "%d-%d", idx[i], idx[j])
		}
		i = j + 1
	}
	return b.String()
}

package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare"
)

// kvHypothesis: at a decode step or a later chunk, some rows of the key-value
// cache are not what was written.
var kvHypothesis = Hypothesis{
	ID:     "state_kv",
	Causes: []string{"state.kv"},
	Taps:   []string{"attn_probs", "attn_ctx", "k_cache", "v_cache"},
	Needs:  "the caches; or attn_probs (attn_ctx) at the step with q_rope, k_rope (v) at this and every earlier step",
	Silent: "the first step, and steps whose probabilities and context follow from the keys and values that were written",
	Source: "a key that reads as zero has the score 0, one that reads as another row has that row's score; pattern P21",
	Test:   testKV,
}

func testKV(c *Context) []compare.Finding {
	switch c.Tap {
	case "k_cache", "v_cache":
		return cacheRows(c)
	}
	if c.Step() <= 0 {
		return nil
	}
	if f, ok := cacheLength(c); ok {
		return []compare.Finding{f}
	}
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return nil
	}
	if c.Tap == "attn_probs" {
		return keysMisread(c, ref, port)
	}
	return valuesMisread(c, port)
}

// misread are rows of a cache that do not hold what was written.
type misread struct{ zeros, moves []int }

func (m misread) none() bool { return len(m.zeros)+len(m.moves) == 0 }

// args writes the rows as arguments of scores and attend.
func (m misread) args() string {
	s := ""
	if len(m.zeros) > 0 {
		s += ", zero=" + indexRanges(m.zeros)
	}
	if len(m.moves) > 0 {
		s += ", copy=" + formatList(floats(m.moves))
	}
	return s
}

// text describes the rows for a claim.
func (m misread) text() string {
	var s string
	if len(m.zeros) > 0 {
		s = fmt.Sprintf("rows %s read as zero", rangesOf(m.zeros))
	}
	for i := 0; i+1 < len(m.moves); i += 2 {
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("row %d holds what row %d does", m.moves[i], m.moves[i+1])
	}
	return s
}

func (m misread) rows() int { return len(m.zeros) + len(m.moves)/2 }

// kvFinding fills what findings about caches share.
func kvFinding(c *Context, expr string, m misread, what string) (compare.Finding, bool) {
	t, ok := tryTrial(c, expr, m.rows())
	if !ok {
		return compare.Finding{}, false
	}
	f, ok := c.finding("state.kv", t)
	if !ok {
		return f, false
	}
	f.Values["reference"], f.Values["port"] = "as written", m.text()
	if len(m.zeros) > 0 {
		f.Values["zero_rows"] = m.zeros
	}
	if len(m.moves) > 0 {
		f.Values["stale_rows"] = m.moves
	}
	f.Claim = fmt.Sprintf("port's cache of %s at step %d: %s; reference reads what was written", what, c.Step(), m.text())
	f.Try = c.tryLine("%s", expr)
	f.For = []string{fmt.Sprintf("with those rows so, the port's own tensors repeat its %s to rel_l2 %s (before, against the reference, %s)", c.Tap, g2(t.after.Whole), g2(t.before.Whole))}
	f.Verify = "dump the cache after the prefill and before the step, and compare these rows with the k and v that were written; look at slot mapping, block tables and the fill kernel's bounds"
	f.Fix = "write every row of the prompt and of each step to the slot that the step reads"
	return f, true
}

// cacheRows compares dumped caches row by row.
func cacheRows(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return nil
	}
	var m misread
	tol := math.Max(1e-4, 8*unitOf(ref, port))
	for t := 0; t < ref.Rows; t++ {
		d2, r2 := rowDistance(ref.Row(t), port.Row(t))
		if r2 == 0 || relative(d2, r2) <= tol {
			continue
		}
		if dot(port.Row(t), port.Row(t)) == 0 {
			m.zeros = append(m.zeros, t)
			continue
		}
		from := -1
		for _, o := range nearFirst(t, ref.Rows) {
			if d2, r2 := rowDistance(ref.Row(o), port.Row(t)); relative(d2, r2) <= tol {
				from = o
				break
			}
		}
		if from < 0 {
			return nil
		}
		m.moves = append(m.moves, t, from)
	}
	if m.none() {
		return nil
	}
	expr := "from(ref:" + c.Tap + ")"
	if len(m.zeros) > 0 {
		expr += " | zero(" + formatList(floats(m.zeros)) + ")"
	}
	if len(m.moves) > 0 {
		order := make([]float64, ref.Rows)
		for i := range order {
			order[i] = float64(i)
		}
		for i := 0; i+1 < len(m.moves); i += 2 {
			order[m.moves[i]] = float64(m.moves[i+1])
		}
		expr += " | permute(" + formatList(order) + ", axis=rows)"
	}
	f, ok := kvFinding(c, expr+" | target(port)", m, map[string]string{"k_cache": "keys", "v_cache": "values"}[c.Tap])
	if !ok {
		return nil
	}
	return []compare.Finding{f}
}

// nearFirst lists the other rows, nearest first.
func nearFirst(t, n int) []int {
	var out []int
	for d := 1; d < n; d++ {
		if t-d >= 0 {
			out = append(out, t-d)
		}
		if t+d < n {
			out = append(out, t+d)
		}
	}
	return out
}

// cacheLength reports a step whose probabilities are over another number of keys.
func cacheLength(c *Context) (compare.Finding, bool) {
	if c.Tap != "attn_probs" {
		return compare.Finding{}, false
	}
	ref, okR := c.Tensor(Ref, c.At)
	port, okP := c.Tensor(Port, c.At)
	if !okR || !okP || ref.Cols == port.Cols {
		return compare.Finding{}, false
	}
	nan := errorOf{Whole: math.NaN(), Token: math.NaN()}
	f := c.signature("state.kv", trial{before: nan, after: nan, floor: c.FloorOf(c.At)})
	f.Values["reference"], f.Values["port"] = ref.Cols, port.Cols
	f.Claim = fmt.Sprintf("port attends to %d keys at step %d, reference to %d", port.Cols, c.Step(), ref.Cols)
	f.For = []string{fmt.Sprintf("shapes of the probabilities: reference %v, port %v", ref.Shape, port.Shape)}
	f.Verify = "print the cache's length before and after the step in both codes"
	f.Fix = "append each step's keys and values to the cache before attending (a padded cache has to be masked, and its dump cut to the keys in use)"
	return f, true
}

// keysMisread finds the keys whose log-probabilities do not follow from what was
// written, and what they read as.
func keysMisread(c *Context, ref, port *Tensor) []compare.Finding {
	g, err := gridOf(port)
	if err != nil || g.Blocks != g.Heads {
		return nil
	}
	r, ok := attentionOf(c, Ref, ref, g)
	if !ok || r.misfit > 0.05 || r.sinks != nil {
		return nil
	}
	q, k, names, ok := queriesKeys(c, Port, g)
	if !ok {
		return nil
	}
	x, _, err := attnScores(q, k, r.d, 1, r.kv, 1)
	if err != nil {
		return nil
	}
	for i, v := range x {
		x[i] = r.score(v)
	}
	u := unitOf(ref, port)
	m, ok := misreadKeys(x, port.Data, g, math.Max(2e-3, 16*u*maxFinite(x)))
	if !ok || m.none() {
		return nil
	}
	p := r
	p.q, p.k = names[0], names[1]
	expr := p.expr(Port, "port:attn_probs")
	expr = insertArgs(expr, m.args()) + " | target(port)"
	f, ok := kvFinding(c, expr, m, "keys")
	if !ok {
		return nil
	}
	return []compare.Finding{f}
}

func maxFinite(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		if a := math.Abs(v); a > m && !math.IsInf(a, 0) {
			m = a
		}
	}
	return m
}

// insertArgs adds arguments to the first call of a chain.
func insertArgs(expr, args string) string {
	for i := range expr {
		if expr[i] == ')' {
			return expr[:i] + args + expr[i:]
		}
	}
	return expr
}

// misreadKeys compares ln p with the scores x of what was written. The row's
// constant is the median over its keys, so fewer than half of them may be wrong.
func misreadKeys(x, p []float64, g grid, tol float64) (m misread, ok bool) {
	type row struct{ l, x []float64 }
	var rows []row
	for b := 0; b < g.Blocks; b++ {
		for t := 0; t < g.T; t++ {
			px, pp := g.row(x, b, t), g.row(p, b, t)
			var diffs []float64
			for s, v := range pp {
				if v > hiddenBelow {
					diffs = append(diffs, math.Log(v)-px[s])
				}
			}
			if len(diffs) < 5 {
				continue
			}
			c := medianOf(diffs)
			l := make([]float64, g.S)
			for s, v := range pp {
				l[s] = math.NaN()
				if v > hiddenBelow {
					l[s] = math.Log(v) - c
				}
			}
			rows = append(rows, row{l, px})
		}
	}
	if len(rows) == 0 {
		return m, false
	}
	miss := func(key int, want func(r row) float64) float64 {
		var sum, n float64
		for _, r := range rows {
			if v := r.l[key]; !math.IsNaN(v) {
				d := v - want(r)
				sum, n = sum+d*d, n+1
			}
		}
		if n == 0 {
			return 0
		}
		return math.Sqrt(sum / n)
	}
	for key := 0; key < g.S; key++ {
		if miss(key, func(r row) float64 { return r.x[key] }) <= tol {
			continue
		}
		if miss(key, func(row) float64 { return 0 }) <= tol {
			m.zeros = append(m.zeros, key)
			continue
		}
		from := -1
		for _, o := range nearFirst(key, g.S) {
			if miss(key, func(r row) float64 { return r.x[o] }) <= tol {
				from = o
				break
			}
		}
		if from < 0 {
			return m, false
		}
		m.moves = append(m.moves, key, from)
	}
	return m, m.rows()*2 < g.S
}

// valuesMisread finds the values that the port's own probabilities were not
// multiplied with, one after the other.
func valuesMisread(c *Context, port *Tensor) []compare.Finding {
	probs, ok := c.Tensor(Port, c.TapName("attn_probs"))
	if !ok || !probs.finite() {
		return nil
	}
	g, err := gridOf(probs)
	if err != nil || g.Blocks != g.Heads || port.Cols%g.Heads != 0 {
		return nil
	}
	v, ok := c.cached(Port, "v")
	d := port.Cols / g.Heads
	if !ok || v.Rows != g.S || v.Cols%d != 0 || !v.finite() {
		return nil
	}
	kv := headMap(g.Heads, v.Cols/d)
	if ref, ok := c.Tensor(Ref, c.At); ok {
		if r, _, ok := valueHeads(c, Ref, ref); ok {
			kv = r.kv
		}
	}
	tol := math.Max(1e-5, 4*unitOf(port, v))
	m, ok := misreadValues(probs.Data, g, v, d, kv, port, tol)
	if !ok || m.none() {
		return nil
	}
	expr := fmt.Sprintf("from(attn_probs) | attend(v, map=%s, cache=true%s) | target(port)", formatList(floats(kv)), m.args())
	f, ok := kvFinding(c, expr, m, "values")
	if !ok {
		return nil
	}
	return []compare.Finding{f}
}

// misreadValues adds, greedily, the row whose reading as zero or as a neighbour
// removes most of what is left of the context's error.
func misreadValues(p []float64, g grid, v *Tensor, d int, kv []int, want *Tensor, tol float64) (m misread, ok bool) {
	left := func(m misread) float64 {
		out, err := attend(p, g, rewritten(v, m.zeros, m.moves), d, kv)
		if err != nil {
			return math.Inf(1)
		}
		return distance(want, want.like(out)).Whole
	}
	e := left(m)
	used := map[int]bool{}
	for m.rows() < 8 && e > tol {
		best, bestErr, at := m, e, -1
		for key := 0; key < g.S; key++ {
			if used[key] {
				continue
			}
			for _, try := range []misread{
				{append(append([]int(nil), m.zeros...), key), m.moves},
				{m.zeros, append(append([]int(nil), m.moves...), key, max(key-1, 0))},
			} {
				if x := left(try); x < bestErr {
					best, bestErr, at = try, x, key
				}
			}
		}
		if at < 0 || bestErr > 0.9*e {
			return m, false
		}
		m, e = best, bestErr
		used[at] = true
	}
	slices.Sort(m.zeros)
	return m, e <= tol
}

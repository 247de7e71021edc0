package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// attnFound is how one side makes probabilities of its own queries and keys.
type attnFound struct {
	scale, cap float64
	sinks      []float64
	kv         []int
	kvHeads    int
	// misfit is the relative error of the log-probabilities.
	misfit float64
	d, n   int // head dim, and number of values looked at
	cache  bool
	q, k   string
	// rope is the rotation, where q and k were dumped before it only.
	rope *ropeRule
}

// attentionOf fits one side's rule at attn_probs. ok is false where that side
// dumped no queries and keys after the rotation, or no rule repeats it.
func attentionOf(c *Context, side Side, probs *Tensor, g grid) (f attnFound, ok bool) {
	q, k, names, ok := queriesKeys(c, side, g)
	if !ok {
		return f, false
	}
	d := c.headDim(names[0], q.Cols)
	if d == 0 || q.Cols/d != g.Heads || k.Cols%d != 0 {
		return f, false
	}
	batch := g.Blocks / g.Heads
	kvs := k.Cols / d
	f = attnFound{d: d, kvHeads: kvs, q: names[0], k: names[1], cache: k.Rows > q.Rows, n: len(probs.Data)}
	if f.q != "q_rope" && !f.cache {
		if qr, kr, rule, ok := rotatedByScores(c, side, q, k, probs, g, d); ok {
			q, k, f.rope = qr, kr, &rule
		}
	}
	q, probs, g = sampledQueries(q, probs, g)
	x, _, err := attnScores(q, k, d, batch, headMap(g.Heads, kvs), 1)
	if err != nil {
		return f, false
	}
	f.kv = headMap(g.Heads, kvs)
	rows := scoreRows(x, probs.Data, g)
	if len(rows) == 0 {
		return f, false
	}
	f.fit(rows, g.Heads)
	if f.misfit < 0.02 || kvs < 2 {
		return f, f.misfit < 0.2
	}
	// Each head on its own: which key head explains it best?
	kv, err2 := bestKeyHeads(q, k, d, batch, probs.Data, g)
	if err2 != nil || slices.Equal(kv, f.kv) {
		return f, f.misfit < 0.2
	}
	if x, _, err = attnScores(q, k, d, batch, kv, 1); err != nil {
		return f, false
	}
	o := f
	o.kv = kv
	o.fit(scoreRows(x, probs.Data, g), g.Heads)
	if o.misfit < 0.5*f.misfit {
		f = o
	}
	return f, f.misfit < 0.2
}

// sampledQueries keeps evenly spread queries of a long prompt (one request): a rule with a
// few numbers needs no more, and the product of all with all is the dear part.
func sampledQueries(q, probs *Tensor, g grid) (*Tensor, *Tensor, grid) {
	if g.Blocks != g.Heads || g.T <= sampleRows {
		return q, probs, g
	}
	step := (g.T + sampleRows - 1) / sampleRows
	var some, cells []int
	for t := (g.T - 1) % step; t < g.T; t += step {
		some = append(some, t)
	}
	for h := range g.Heads {
		for _, t := range some {
			cells = append(cells, h*g.T+t)
		}
	}
	g.T = len(some)
	return q.takeRows(some), probs.takeRows(cells), g
}

// queriesKeys finds what the scores are made of: after the rotation, with the
// keys of earlier steps where the probabilities are over more keys.
func queriesKeys(c *Context, side Side, g grid) (q, k *Tensor, names [2]string, ok bool) {
	batch := g.Blocks / g.Heads
	for _, pair := range [][2]string{{"q_rope", "k_rope"}, {"q_norm", "k_norm"}, {"q", "k"}} {
		q, ok = c.Tensor(side, c.TapName(pair[0]))
		if !ok || q.Rows != g.T*batch || !q.finite() {
			continue
		}
		if k, ok = c.Tensor(side, c.TapName(pair[1])); !ok {
			continue
		}
		if k.Rows != g.S*batch {
			if k, ok = c.cached(side, pair[1]); !ok || k.Rows != g.S*batch {
				continue
			}
		}
		if k.finite() {
			return q, k, pair, true
		}
	}
	return nil, nil, names, false
}

// fit finds scale, cap and sinks on the rows.
func (f *attnFound) fit(rows []scoreRow, heads int) {
	slope, err, ok := fitSlope(rows)
	if !ok {
		f.misfit = math.Inf(1)
		return
	}
	f.scale, f.misfit = slope, err
	if err > 1e-6 {
		if a, c, _, ok := fitCap(rows, slope); ok {
			if e := misfit(rows, func(x float64) float64 { return softcap(a*x, c) }); e < 0.3*err {
				f.scale, f.cap, f.misfit = a, c, e
			}
		}
	}
	f.snap(rows)
	if sumsBelowOne(rows) > 0.02 {
		if s, _, ok := fitSinks(rows, heads, f.score); ok {
			f.sinks = s
		}
	}
}

// score is the rule without the row's constant.
func (f attnFound) score(x float64) float64 {
	if f.cap > 0 {
		return softcap(f.scale*x, f.cap)
	}
	return f.scale * x
}

// snap rounds the cap and the scale to values that people write: a cap with two
// digits, a scale that is a root of a whole number or has three.
func (f *attnFound) snap(rows []scoreRow) {
	try := func(g attnFound) {
		e := misfit(rows, g.score)
		if e <= 1.02*f.misfit+1e-9 {
			g.misfit = e
			*f = g
		}
	}
	if f.cap > 0 {
		for _, digits := range []float64{1, 2} {
			p := math.Pow(10, math.Floor(math.Log10(f.cap))-digits+1)
			g := *f
			g.cap = math.Round(f.cap/p) * p
			if near(g.cap, f.cap, 0.02) {
				try(g)
			}
		}
	}
	if n := math.Round(1 / (f.scale * f.scale)); n >= 1 {
		g := *f
		g.scale = 1 / math.Sqrt(n)
		if near(g.scale, f.scale, 1e-3) {
			try(g)
		}
	}
}

// bestKeyHeads finds for every query head the key head whose products explain its
// log-probabilities best.
func bestKeyHeads(q, k *Tensor, d, batch int, p []float64, g grid) ([]int, error) {
	out := make([]int, g.Heads)
	best := make([]float64, g.Heads)
	for i := range best {
		best[i] = math.Inf(1)
	}
	for kv := range k.Cols / d {
		same := make([]int, g.Heads)
		for i := range same {
			same[i] = kv
		}
		x, _, err := attnScores(q, k, d, batch, same, 1)
		if err != nil {
			return nil, err
		}
		byHead := make([][]scoreRow, g.Heads)
		for _, r := range scoreRows(x, p, g) {
			byHead[r.head] = append(byHead[r.head], r)
		}
		for h, rows := range byHead {
			// A negative slope is no attention: it would turn away from its keys.
			if s, e, ok := fitSlope(rows); ok && s > 0 && e < best[h] {
				best[h], out[h] = e, kv
			}
		}
	}
	return out, nil
}

// expr writes the rule as a chain from the side's own queries and keys to
// probabilities, hidden where like is.
func (f attnFound) expr(side Side, like string) string {
	from := ""
	if side == Ref {
		from = "ref:"
	}
	args := []string{from + f.q, from + f.k, "scale=" + formatNum(f.scale)}
	if !slices.Equal(f.kv, headMap(len(f.kv), f.kvHeads)) {
		args = append(args, "map="+formatList(floats(f.kv)))
	}
	if f.cache {
		args = append(args, "cache=true")
	}
	if f.rope != nil {
		args = append(args, f.rope.scoreArgs()...)
	}
	steps := []string{"scores(" + strings.Join(args, ", ") + ")"}
	if f.cap > 0 {
		steps = append(steps, "softcap("+formatNum(f.cap)+")")
	}
	steps = append(steps, "hide_like("+like+")")
	soft := "softmax()"
	if f.sinks != nil {
		soft = "softmax(sink=" + formatList(f.sinks) + ")"
	}
	return strings.Join(append(steps, soft), " | ")
}

// text describes the rule for a reader.
func (f attnFound) text() string {
	s := "scale " + g6(f.scale)
	if f.cap > 0 {
		s += ", softcap " + g6(f.cap)
	}
	if f.sinks != nil {
		s += ", a sink"
	}
	return fmt.Sprintf("%s, key heads %v", s, f.kv)
}

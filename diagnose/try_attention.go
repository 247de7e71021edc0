package diagnose

import (
	"fmt"
	"math"
)

// attentionTransforms rebuild attention from its parts: scores(q_rope, k_rope) |
// causal() | softmax() | attend(v) is a whole head.
var attentionTransforms = []TransformSpec{
	{
		Name: "scores",
		Params: append([]TransformParam{
			{Name: "q", Kind: argTap, Required: true},
			{Name: "k", Kind: argTap, Required: true},
			{Name: "scale", Kind: argNumber, Doc: "1/sqrt(head_dim) by default"},
			{Name: "map", Kind: argList, Doc: "key head of each query head; 0,0,1,1,... by default"},
			{Name: "cache", Kind: argFlag, Doc: "take the keys of the steps before too"},
			{Name: "zero", Kind: argRanges, Doc: "these keys read as zero"},
			{Name: "copy", Kind: argList, Doc: "[to, from, ...]: key to reads as key from"},
		}, ropeParams...),
		Doc:     "attention scores of dumped queries and keys; with theta, layout or freqs both are rotated first, as rope does",
		Formula: "x[h,t,s] := scale·<q[t,h], k[s,map[h]]>",
		apply:   applyScores,
	},
	{
		Name: "causal",
		Params: []TransformParam{
			{Name: "past", Kind: argInt, Doc: "keys before the first query; keys minus queries by default"},
		},
		Doc:     "hide the keys after the query: -Inf in scores, 0 in probabilities",
		Formula: "x[h,t,s] := hidden where s > t + past",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			g, err := gridOf(&v.Tensor)
			if err != nil {
				return nil, err
			}
			shift := a.int("past", g.past()) - g.past()
			return masked(v, g, func(q, key int) bool { return key <= q+shift }), nil
		},
	},
	{
		Name: "window",
		Params: []TransformParam{
			{Name: "n", Kind: argInt, Required: true, Doc: "keys seen, the query's own included"},
			{Name: "ahead", Kind: argInt, Doc: "hide keys more than so many after the query"},
		},
		Doc:     "hide the keys more than n-1 before the query",
		Formula: "x[h,t,s] := hidden where t - s >= n",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			g, err := gridOf(&v.Tensor)
			if err != nil {
				return nil, err
			}
			n := a.int("n", 0)
			if n < 1 {
				return nil, fmt.Errorf("n is %d; a window holds at least the query itself", n)
			}
			ahead := a.int("ahead", g.S)
			return masked(v, g, func(q, key int) bool { return q-key < n && key-q <= ahead }), nil
		},
	},
	{
		Name: "chunked",
		Params: []TransformParam{
			{Name: "n", Kind: argInt, Required: true},
		},
		Doc:     "hide the keys of earlier chunks of n tokens",
		Formula: "x[h,t,s] := hidden where s < n·floor(t/n)",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			g, err := gridOf(&v.Tensor)
			if err != nil {
				return nil, err
			}
			n := a.int("n", 0)
			if n < 1 {
				return nil, fmt.Errorf("n is %d; a chunk holds at least one token", n)
			}
			return masked(v, g, func(q, key int) bool { return key >= q/n*n }), nil
		},
	},
	{
		Name: "hide",
		Params: []TransformParam{
			{Name: "keys", Kind: argRanges, Required: true, Doc: "0-3+7"},
			{Name: "requests", Kind: argRanges, Doc: "of a batch; all by default"},
		},
		Doc:     "hide some keys (padding) from every query",
		Formula: "x[h,t,s] := hidden where s is in keys",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			g, err := gridOf(&v.Tensor)
			if err != nil {
				return nil, err
			}
			keys, err := chosen(a, "keys", g.S)
			if err != nil {
				return nil, err
			}
			reqs, err := chosen(a, "requests", g.Blocks/g.Heads)
			if err != nil {
				return nil, err
			}
			w := v.like(append([]float64(nil), v.Data...))
			for b := 0; b < g.Blocks; b++ {
				if !reqs[b/g.Heads] {
					continue
				}
				one := grid{Blocks: 1, Heads: 1, T: g.T, S: g.S}
				maskKeys(w.Data[b*g.T*g.S:(b+1)*g.T*g.S], one, v.hidden(), func(_, key int) bool { return !keys[key] })
			}
			return w, nil
		},
	},
	{
		Name:    "hide_like",
		Params:  []TransformParam{{Name: "tap", Kind: argTap, Required: true, Doc: "probabilities of the same shape"}},
		Doc:     "hide the keys that no head of another tensor of probabilities sees: takes over its mask, whatever that is",
		Formula: "x[h,t,s] := hidden where max_h TAP[h,t,s] = 0",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			g, err := gridOf(&v.Tensor)
			if err != nil {
				return nil, err
			}
			t, _, err := e.tensor(a.word("tap", ""))
			if err != nil {
				return nil, err
			}
			if o, err := gridOf(t); err != nil || o != g {
				return nil, fmt.Errorf("%s has shape %v, the value %v", t.Name, t.Shape, v.Shape)
			}
			top := supportOf(t.Data, g)
			w := v.like(append([]float64(nil), v.Data...))
			for b := 0; b < g.Blocks; b++ {
				for q := 0; q < g.T; q++ {
					row := g.row(w.Data, b, q)
					for s := range row {
						if top[(b/g.Heads*g.T+q)*g.S+s] <= hiddenBelow {
							row[s] = v.hidden()
						}
					}
				}
			}
			return w, nil
		},
	},
	{
		Name: "softmax",
		Params: []TransformParam{
			{Name: "sink", Kind: argList, Doc: "a learned sink's score, one a head or one for all: enlarges the denominator"},
		},
		Doc:     "probabilities of scores; a row with no key left gives zeros",
		Formula: "x := exp(x) / (Σ exp(x) + exp(sink))",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			sinks := a.list("sink")
			w := v.like(append([]float64(nil), v.Data...))
			w.logits = false
			perBlock, heads := v.Rows, 1
			if g, err := gridOf(&v.Tensor); err == nil {
				perBlock, heads = g.T, g.Heads
			}
			if len(sinks) > 1 && len(sinks) != heads {
				return nil, fmt.Errorf("%d sinks for %d heads", len(sinks), heads)
			}
			for r := 0; r < w.Rows; r++ {
				sink := math.Inf(-1)
				if len(sinks) > 0 {
					sink = sinks[r/perBlock%heads%len(sinks)]
				}
				softmaxRow(w.Row(r), sink)
			}
			return w, nil
		},
	},
	{
		Name: "temperature",
		Params: []TransformParam{
			{Name: "n", Kind: argInt, Required: true, Doc: "positions that share a factor"},
			{Name: "a", Kind: argNumber, Doc: "0.1 by default"},
			{Name: "inverse", Kind: argFlag, Doc: "divide"},
		},
		Doc:     "scale the scores of each query by its position (Llama 4's temperature)",
		Formula: "x[h,t,s] := x[h,t,s]·(1 + a·ln(1 + floor(position/n)))",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			n, k := a.int("n", 0), a.num("a", 0.1)
			if n < 1 {
				return nil, fmt.Errorf("n is %d; it has to be at least 1", n)
			}
			g, err := gridOf(&v.Tensor)
			if err != nil {
				return nil, err
			}
			return scaleQueries(v, g, func(t int) float64 {
				f := 1 + k*math.Log1p(float64((t+g.past())/n))
				if a.flag("inverse") {
					return 1 / f
				}
				return f
			}), nil
		},
	},
	{
		Name:    "scale_queries",
		Params:  []TransformParam{{Name: "by", Kind: argList, Required: true, Doc: "one factor a query token"}},
		Doc:     "scale the scores of each query",
		Formula: "x[h,t,s] := by[t]·x[h,t,s]",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			by := a.list("by")
			g, err := gridOf(&v.Tensor)
			if err == nil && len(by) != g.T {
				err = fmt.Errorf("%d factors for %d queries", len(by), g.T)
			}
			if err != nil {
				return nil, err
			}
			return scaleQueries(v, g, func(t int) float64 { return by[t] }), nil
		},
	},
	{
		Name:    "normalize",
		Doc:     "divide each row by its sum; a row that sums to 0 stays",
		Formula: "x[t,s] := x[t,s] / Σ_s x[t,s]",
		apply: func(_ *tryEnv, v *tryValue, _ tryArgs) (*tryValue, error) {
			w := v.like(append([]float64(nil), v.Data...))
			for r := 0; r < w.Rows; r++ {
				row, sum := w.Row(r), 0.0
				for _, x := range row {
					sum += x
				}
				if sum == 0 {
					continue
				}
				for i := range row {
					row[i] /= sum
				}
			}
			return w, nil
		},
	},
	{
		Name: "attend",
		Params: []TransformParam{
			{Name: "v", Kind: argTap, Required: true},
			{Name: "map", Kind: argList, Doc: "value head of each query head; 0,0,1,1,... by default"},
			{Name: "cache", Kind: argFlag, Doc: "take the values of the steps before too"},
			{Name: "zero", Kind: argRanges, Doc: "these values read as zero"},
			{Name: "copy", Kind: argList, Doc: "[to, from, ...]: value to reads as value from"},
			{Name: "head_dim", Kind: argInt, Doc: "the model's by default"},
		},
		Doc:     "probabilities times dumped values: the attention context",
		Formula: "x[t,h] := Σ_s x[h,t,s]·v[s,map[h]]",
		apply:   applyAttend,
	},
}

// hidden is what a mask writes: -Inf into scores, 0 into probabilities.
func (v *tryValue) hidden() float64 {
	if v.logits {
		return math.Inf(-1)
	}
	return 0
}

// scaleQueries multiplies the scores of query t by f(t); hidden keys stay hidden.
func scaleQueries(v *tryValue, g grid, f func(t int) float64) *tryValue {
	w := v.like(append([]float64(nil), v.Data...))
	for b := 0; b < g.Blocks; b++ {
		for t := 0; t < g.T; t++ {
			k := f(t)
			for s, x := range g.row(w.Data, b, t) {
				g.row(w.Data, b, t)[s] = k * x
			}
		}
	}
	return w
}

func masked(v *tryValue, g grid, allowed func(q, key int) bool) *tryValue {
	w := v.like(append([]float64(nil), v.Data...))
	maskKeys(w.Data, g, v.hidden(), allowed)
	return w
}

// keyed reads a tensor of keys or values, with those of earlier steps in front
// where cache asks for them.
func (e *tryEnv) keyed(word string, cache bool) (*Tensor, Side, error) {
	t, side, err := e.tensor(word)
	if err != nil || !cache {
		return t, side, err
	}
	_, _, bare := ParsePlace(trimSide(word))
	t, ok := e.c.cached(side, bare)
	if !ok {
		return nil, side, fmt.Errorf("reading %s of the steps before: not dumped at every step", word)
	}
	return t, side, nil
}

// edited returns keys or values with rows set to zero or to other rows, as zero=
// and copy= say.
func edited(t *Tensor, a tryArgs) (*Tensor, error) {
	if !a.has("zero") && !a.has("copy") {
		return t, nil
	}
	zero, err := chosen(a, "zero", t.Rows)
	if err != nil {
		return nil, err
	}
	var zeros []int
	for i, z := range zero {
		if z && a.has("zero") {
			zeros = append(zeros, i)
		}
	}
	moves := a.ints("copy")
	if len(moves)%2 != 0 {
		return nil, fmt.Errorf("copy takes pairs [to, from, ...]")
	}
	for _, i := range moves {
		if i < 0 || i >= t.Rows {
			return nil, fmt.Errorf("row %d is outside 0 to %d", i, t.Rows-1)
		}
	}
	return rewritten(t, zeros, moves), nil
}

// rewritten is a copy with rows set to zero, and pairs (to, from) of rows copied
// from the original.
func rewritten(t *Tensor, zeros, moves []int) *Tensor {
	out := t.like(append([]float64(nil), t.Data...))
	for _, i := range zeros {
		clear(out.Row(i))
	}
	for i := 0; i+1 < len(moves); i += 2 {
		copy(out.Row(moves[i]), t.Row(moves[i+1]))
	}
	return out
}

func applyScores(e *tryEnv, _ *tryValue, a tryArgs) (*tryValue, error) {
	q, side, err := e.tensor(a.word("q", ""))
	if err != nil {
		return nil, err
	}
	e.side, e.set = side, true
	k, _, err := e.keyed(a.word("k", ""), a.flag("cache"))
	if err == nil {
		k, err = edited(k, a)
	}
	if err != nil {
		return nil, err
	}
	d := a.int("head_dim", 0)
	if d == 0 {
		d = e.c.headDim(q.Name, q.Cols)
	}
	if d < 1 || q.Cols%d != 0 || k.Cols%d != 0 || k.Cols == 0 || q.Rows == 0 {
		return nil, fmt.Errorf("heads of %d do not divide %d and %d dims: give head_dim=", d, q.Cols, k.Cols)
	}
	if a.has("theta") || a.has("layout") || a.has("freqs") {
		r := ruleOf(e, a)
		if err := r.check(d, q.Rows); err != nil {
			return nil, err
		}
		q = q.like(r.rotate(q.Data, q.Rows, q.Cols, d, e.c.positions(side, q.Rows), false))
		k = k.like(r.rotate(k.Data, k.Rows, k.Cols, d, e.c.positions(side, k.Rows), false))
	}
	kv := a.ints("map")
	if kv == nil {
		kv = headMap(q.Cols/d, k.Cols/d)
	}
	s, g, err := attnScores(q, k, d, e.c.batch(q.Rows), kv, a.num("scale", 1/math.Sqrt(float64(d))))
	if err != nil {
		return nil, err
	}
	v := &tryValue{Tensor: Tensor{Name: "attn_scores", Shape: g.shape(), Rows: g.Blocks * g.T, Cols: g.S, Data: s, DType: q.DType}, logits: true}
	return v, nil
}

func applyAttend(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
	g, err := gridOf(&v.Tensor)
	if err != nil {
		return nil, err
	}
	t, _, err := e.keyed(a.word("v", ""), a.flag("cache"))
	if err == nil {
		t, err = edited(t, a)
	}
	if err != nil {
		return nil, err
	}
	d := a.int("head_dim", 0)
	if d == 0 {
		d = e.c.headDim(t.Name, t.Cols)
	}
	if d < 1 || t.Cols%d != 0 || t.Cols == 0 {
		return nil, fmt.Errorf("heads of %d do not divide %d dims: give head_dim=", d, t.Cols)
	}
	kv := a.ints("map")
	if kv == nil {
		kv = headMap(g.Heads, t.Cols/d)
	}
	out, err := attend(v.Data, g, t, d, kv)
	if err != nil {
		return nil, err
	}
	return v.sized(len(out)/(g.Heads*d), g.Heads*d, out), nil
}

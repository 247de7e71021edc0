package diagnose

import (
	"fmt"
	"math"
)

// grid is the layout of attention probabilities: Blocks = requests × heads
// blocks of T queries by S keys, row-major.
type grid struct {
	Blocks, Heads, T, S int
}

// gridOf reads the layout of a probabilities tensor [H, T, S] or [B, H, T, S].
func gridOf(t *Tensor) (g grid, err error) {
	n := len(t.Shape)
	if n < 3 {
		return g, fmt.Errorf("%s has shape %v; probabilities are [heads, tokens, keys]", t.Name, t.Shape)
	}
	g = grid{T: t.Shape[n-2], S: t.Shape[n-1], Heads: t.Shape[n-3]}
	if g.T == 0 || g.S == 0 || g.Heads == 0 || len(t.Data)%(g.T*g.S*g.Heads) != 0 {
		return g, fmt.Errorf("%s has the empty or uneven shape %v", t.Name, t.Shape)
	}
	g.Blocks = len(t.Data) / (g.T * g.S)
	return g, nil
}

// past is the number of keys before the first query: a square grid has none, a
// decode step with one query and S keys has S-1.
func (g grid) past() int { return g.S - g.T }

func (g grid) shape() []int {
	if g.Blocks == g.Heads {
		return []int{g.Heads, g.T, g.S}
	}
	return []int{g.Blocks / g.Heads, g.Heads, g.T, g.S}
}

// row returns the S values of query t in a block.
func (g grid) row(x []float64, block, t int) []float64 {
	lo := (block*g.T + t) * g.S
	return x[lo : lo+g.S]
}

// headMap is the key-value head of each query head: repeated (0,0,1,1), the rule
// of grouped-query attention.
func headMap(heads, kv int) []int {
	m := make([]int, heads)
	for h := range m {
		m[h] = h * kv / heads
	}
	return m
}

// attnScores returns scale·q·k for every head: q is (B·T) × (H·d), k (B·S) ×
// (KV·d), kv the key head of every query head.
func attnScores(q, k *Tensor, d, batch int, kv []int, scale float64) ([]float64, grid, error) {
	h := q.Cols / d
	g := grid{Heads: h, Blocks: h * batch, T: q.Rows / batch, S: k.Rows / batch}
	if h == 0 || h != len(kv) || q.Rows%batch != 0 || k.Rows%batch != 0 {
		return nil, g, fmt.Errorf("%v queries and %v keys do not split into heads of %d", q.Shape, k.Shape, d)
	}
	for _, m := range kv {
		if m < 0 || (m+1)*d > k.Cols {
			return nil, g, fmt.Errorf("there is no key head %d: %d dims in heads of %d", m, k.Cols, d)
		}
	}
	out := make([]float64, g.Blocks*g.T*g.S)
	for b := 0; b < batch; b++ {
		for i := 0; i < h; i++ {
			for t := 0; t < g.T; t++ {
				qr := q.Row(b*g.T + t)[i*d : (i+1)*d]
				to := g.row(out, b*h+i, t)
				for s := range to {
					to[s] = scale * dot(qr, k.Row(b*g.S + s)[kv[i]*d:(kv[i]+1)*d])
				}
			}
		}
	}
	return out, g, nil
}

// softmaxRow replaces a row of scores by probabilities; sink is the score of an
// extra key without a value, -Inf for none. A row of -Inf alone gives zeros.
func softmaxRow(x []float64, sink float64) {
	most := sink
	for _, v := range x {
		most = math.Max(most, v)
	}
	if math.IsInf(most, -1) {
		clear(x)
		return
	}
	sum := math.Exp(sink - most)
	for i, v := range x {
		x[i] = math.Exp(v - most)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// attend returns probabilities times values: (B·T) × (H·d).
func attend(p []float64, g grid, v *Tensor, d int, kv []int) ([]float64, error) {
	batch := g.Blocks / g.Heads
	if len(kv) != g.Heads || v.Rows != batch*g.S {
		return nil, fmt.Errorf("%v values do not fit %d heads and %d keys", v.Shape, g.Heads, g.S)
	}
	out := make([]float64, batch*g.T*g.Heads*d)
	for b := 0; b < batch; b++ {
		for h, m := range kv {
			if m < 0 || (m+1)*d > v.Cols {
				return nil, fmt.Errorf("there is no value head %d: %d dims in heads of %d", m, v.Cols, d)
			}
			for t := 0; t < g.T; t++ {
				row := g.row(p, b*g.Heads+h, t)
				to := out[(b*g.T+t)*g.Heads*d+h*d:][:d]
				for s, w := range row {
					if w == 0 {
						continue
					}
					for i, x := range v.Row(b*g.S + s)[m*d : (m+1)*d] {
						to[i] += w * x
					}
				}
			}
		}
	}
	return out, nil
}

// maskKeys overwrites the keys that allowed refuses: q is the query's position
// among the keys.
func maskKeys(x []float64, g grid, fill float64, allowed func(q, key int) bool) {
	for b := 0; b < g.Blocks; b++ {
		for t := 0; t < g.T; t++ {
			for s := range g.row(x, b, t) {
				if !allowed(t+g.past(), s) {
					g.row(x, b, t)[s] = fill
				}
			}
		}
	}
}

package corpus

import (
	"math"
	"slices"
)

// route returns the experts of each token, most wanted first, and their
// weights.
func (m MoE) route(a Arith, logits *Mat, bias []float32) (ids []int64, weights *Mat) {
	weights = newMat(logits.Rows, m.TopK)
	for t := range logits.Rows {
		score := m.score(logits.Row(t))
		choice := slices.Clone(score)
		if m.SelectBias {
			for e := range choice {
				choice[e] += float64(bias[e])
			}
		}
		order := make([]int, len(choice))
		for e := range order {
			order[e] = e
		}
		slices.SortStableFunc(order, func(x, y int) int {
			switch {
			case choice[x] > choice[y]:
				return -1
			case choice[x] < choice[y]:
				return 1
			}
			return 0
		})
		w := make([]float64, m.TopK)
		for k, e := range order[:m.TopK] {
			ids = append(ids, int64(e))
			switch {
			case m.RawLogits:
				w[k] = float64(logits.Row(t)[e])
			case m.WeightBias:
				w[k] = choice[e]
			default:
				w[k] = score[e]
			}
		}
		m.finish(a, logits.Row(t), order[:m.TopK], w, weights.Row(t))
	}
	return ids, weights
}

// score turns one token's logits into scores.
func (m MoE) score(logits []float32) []float64 {
	out := make([]float64, len(logits))
	if m.Score == "sigmoid" {
		for e, v := range logits {
			out[e] = 1 / (1 + math.Exp(-float64(v)))
		}
		return out
	}
	return softmax(logits, nil)
}

// softmax is over the listed entries, or all.
func softmax(logits []float32, only []int) []float64 {
	if only == nil {
		only = make([]int, len(logits))
		for e := range only {
			only[e] = e
		}
	}
	top := math.Inf(-1)
	for _, e := range only {
		top = max(top, float64(logits[e]))
	}
	out := make([]float64, len(only))
	var sum float64
	for i, e := range only {
		out[i] = math.Exp(float64(logits[e]) - top)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

func (m MoE) finish(a Arith, logits []float32, chosen []int, w []float64, out []float32) {
	if m.TopKFirst {
		copy(w, softmax(logits, chosen))
	}
	if m.Renorm {
		var sum float64
		for _, v := range w {
			sum += v
		}
		for k := range w {
			w[k] /= sum
		}
	}
	for k, v := range w {
		out[k] = a.round(v * orOne(m.Scale))
	}
}

// routed sums the chosen experts of every token.
func (m MoE) routed(a Arith, x *Mat, ids []int64, weights *Mat, experts []Expert, act func(float64) float64) *Mat {
	sum := make([]float64, x.Rows*x.Cols)
	for e := range experts {
		var rows []int
		in := &Mat{Cols: x.Cols}
		for t := range x.Rows {
			if slices.Contains(ids[t*m.TopK:(t+1)*m.TopK], int64(e)) {
				rows = append(rows, t)
				in.Data = append(in.Data, x.Row(t)...)
			}
		}
		in.Rows = len(rows)
		out := experts[e].apply(a, in, act)
		for i, t := range rows {
			k := slices.Index(ids[t*m.TopK:(t+1)*m.TopK], int64(e))
			w := float64(weights.Row(t)[k])
			for d, v := range out.Row(i) {
				sum[t*x.Cols+d] += w * float64(v)
			}
		}
	}
	out := newMat(x.Rows, x.Cols)
	for i, v := range sum {
		out.Data[i] = a.round(v * orOne(m.RoutedTimes))
	}
	return out
}

// apply is the gated MLP: down(act(gate x) * up x).
func (e Expert) apply(a Arith, x *Mat, act func(float64) float64) *Mat {
	return a.linear(a.mul(a.each(a.linear(x, e.Gate), act), a.linear(x, e.Up)), e.Down)
}

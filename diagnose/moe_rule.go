package diagnose

import (
	"fmt"
	"math"
	"slices"
)

// moeRule is how one run turns router logits into the weights of its experts.
type moeRule struct {
	// Score is "softmax", "sigmoid" or "raw" (the logits themselves).
	Score string
	// Renorm divides by the sum over the chosen experts. Softmax over all and
	// renormalised is the same as softmax over the chosen.
	Renorm bool
	// Scale multiplies the weights.
	Scale float64
	// Bias is left in the weights (scores plus bias, per expert); nil for none.
	Bias []float64
}

// text says the rule in words.
func (r moeRule) text() string {
	s := r.Score
	if r.Bias != nil {
		s += " + bias"
	}
	if r.Renorm {
		s += ", divided by their sum over the chosen"
	}
	if r.Scale != 1 {
		s += fmt.Sprintf(", x %s", g6(r.Scale))
	}
	return s
}

// call writes the rule as a transform of router logits.
func (r moeRule) call(ids string) string {
	args := fmt.Sprintf("ids=%s, score=%s", ids, r.Score)
	if r.Renorm {
		args += ", renorm=true"
	}
	if r.Scale != 1 {
		args += ", scale=" + formatNum(r.Scale)
	}
	if r.Bias != nil {
		args += ", bias=" + formatList(r.Bias)
	}
	return "route(" + args + ")"
}

// scores turns one token's logits into scores.
func scores(kind string, logits []float64) []float64 {
	out := make([]float64, len(logits))
	switch kind {
	case "softmax":
		top := slices.Max(logits)
		var sum float64
		for i, v := range logits {
			out[i] = math.Exp(v - top)
			sum += out[i]
		}
		for i := range out {
			out[i] /= sum
		}
	case "sigmoid":
		for i, v := range logits {
			out[i] = sigmoid(v)
		}
	default:
		copy(out, logits)
	}
	return out
}

// apply works the weights of the given experts out, [T, k].
func (r moeRule) apply(logits, ids *Tensor) (*Tensor, bool) {
	if logits.Rows != ids.Rows {
		return nil, false
	}
	out := ids.like(make([]float64, len(ids.Data)))
	out.DType = logits.DType
	for t := range ids.Rows {
		s := scores(r.Score, logits.Row(t))
		var sum float64
		for k, id := range ids.Row(t) {
			e := int(id)
			if e < 0 || e >= len(s) {
				return nil, false
			}
			w := s[e]
			if r.Bias != nil {
				w += r.Bias[e]
			}
			out.Row(t)[k] = w
			sum += w
		}
		for k := range out.Row(t) {
			if r.Renorm {
				out.Row(t)[k] /= sum
			}
			out.Row(t)[k] *= r.Scale
		}
	}
	return out, true
}

// readRouting finds the rule that a run's expert weights follow, given its own
// logits and ids, and its error.
func readRouting(logits, ids, weights *Tensor, floor float64) (best moeRule, err errorOf) {
	err = errorOf{math.Inf(1), math.Inf(1)}
	consider := func(r moeRule) {
		got, ok := r.apply(logits, ids)
		if !ok || len(got.Data) != len(weights.Data) {
			return
		}
		alpha, _ := rowScales(got, weights)
		r.Scale = medianOf(alpha)
		if near(r.Scale, 1, 1e-3) {
			r.Scale = 1
		}
		if math.IsNaN(r.Scale) || r.Scale == 0 {
			return
		}
		got, _ = r.apply(logits, ids)
		e := distance(weights, got)
		// The simpler rule stays unless the next is clearly nearer.
		if e.Token < err.Token/2 && err.Token > floor {
			best, err = r, e
		}
	}
	for _, score := range []string{"softmax", "sigmoid", "raw"} {
		for _, renorm := range []bool{true, false} {
			consider(moeRule{Score: score, Renorm: renorm, Scale: 1})
		}
	}
	if err.Token > exactFloors*floor {
		for _, score := range []string{"sigmoid", "softmax"} {
			if b := biasInWeights(score, logits, ids, weights); b != nil {
				consider(moeRule{Score: score, Renorm: true, Scale: 1, Bias: b})
				consider(moeRule{Score: score, Renorm: false, Scale: 1, Bias: b})
			}
		}
	}
	return best, err
}

// biasInWeights solves for a bias per expert that makes the weights of every
// token proportional to score plus bias: w_i·(s_j + b_j) = w_j·(s_i + b_i).
func biasInWeights(score string, logits, ids, weights *Tensor) []float64 {
	n := logits.Cols
	var parts [][]float64
	for range n {
		parts = append(parts, nil)
	}
	var y []float64
	for t := range ids.Rows {
		s := scores(score, logits.Row(t))
		for k := 1; k < ids.Cols; k++ {
			i, j := int(ids.Row(t)[0]), int(ids.Row(t)[k])
			if i < 0 || j < 0 || i >= n || j >= n || i == j {
				return nil
			}
			wi, wj := weights.Row(t)[0], weights.Row(t)[k]
			for e := range parts {
				parts[e] = append(parts[e], 0)
			}
			parts[j][len(y)] = wi
			parts[i][len(y)] = -wj
			y = append(y, wj*s[i]-wi*s[j])
		}
	}
	if len(y) < valuesPerParam*n {
		return nil
	}
	b, err := combine(y, parts, len(y), unitWeights(len(y)))
	if err != nil {
		return nil
	}
	return b
}

// topk returns the k experts of greatest score plus bias, most wanted first.
func topk(score, bias []float64, k int) []int {
	order := permOf(len(score), func(i int) int { return i })
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := score[a], score[b]
		if bias != nil {
			x, y = x+bias[a], y+bias[b]
		}
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return order[:min(k, len(order))]
}

// selectionBias looks for a bias per expert under which the chosen sets are the
// top k of score plus bias at every token, by the perceptron rule (it ends where
// such a bias exists). ok is false where none was found.
func selectionBias(score string, logits, ids *Tensor) (bias []float64, ok bool) {
	n := logits.Cols
	bias = make([]float64, n)
	all := make([][]float64, logits.Rows)
	spread := 0.0
	for t := range all {
		all[t] = scores(score, logits.Row(t))
		spread = max(spread, slices.Max(all[t])-slices.Min(all[t]))
	}
	step := spread / 50
	for range 4000 {
		wrong := 0
		for t := range all {
			chosen := map[int]bool{}
			for _, v := range ids.Row(t) {
				chosen[int(v)] = true
			}
			worstIn, bestOut := -1, -1
			for e := range n {
				v := all[t][e] + bias[e]
				if chosen[e] {
					if worstIn < 0 || v < all[t][worstIn]+bias[worstIn] {
						worstIn = e
					}
				} else if bestOut < 0 || v > all[t][bestOut]+bias[bestOut] {
					bestOut = e
				}
			}
			if worstIn < 0 || bestOut < 0 {
				return nil, false
			}
			if gap := all[t][bestOut] + bias[bestOut] - all[t][worstIn] - bias[worstIn]; gap >= 0 {
				wrong++
				bias[worstIn] += min(step, gap/2+step/100)
				bias[bestOut] -= min(step, gap/2+step/100)
			}
		}
		if wrong == 0 {
			return bias, true
		}
	}
	return nil, false
}

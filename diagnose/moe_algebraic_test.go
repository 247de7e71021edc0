package diagnose

import (
	"math"
	"slices"
	"testing"
)

// routed makes logits, chosen experts and weights by a rule written out plainly.
func routed(tokens, experts, k int, weight func(score []float64, chosen []int) []float64, sig bool) (logits, ids, weights *Tensor) {
	logits = gaussians(21, tokens, experts, func(int) float64 { return 1.5 })
	ids = &Tensor{Rows: tokens, Cols: k, Shape: []int{tokens, k}, DType: "int64"}
	weights = &Tensor{Rows: tokens, Cols: k, Shape: []int{tokens, k}, DType: "float32"}
	for t := range tokens {
		l := logits.Row(t)
		score := make([]float64, experts)
		var sum float64
		for e, v := range l {
			score[e] = math.Exp(v)
			sum += score[e]
		}
		for e, v := range l {
			score[e] /= sum
			if sig {
				score[e] = 1 / (1 + math.Exp(-v))
			}
		}
		order := permOf(experts, func(i int) int { return i })
		slices.SortFunc(order, func(a, b int) int {
			if l[a] > l[b] {
				return -1
			}
			return 1
		})
		for i, w := range weight(score, order[:k]) {
			ids.Data = append(ids.Data, float64(order[i]))
			weights.Data = append(weights.Data, w)
		}
	}
	return logits, ids, weights
}

func TestReadRoutingTellsTheRulesApart(t *testing.T) {
	plain := func(s []float64, c []int) (w []float64) {
		for _, e := range c {
			w = append(w, s[e])
		}
		return w
	}
	renormed := func(scale float64) func(s []float64, c []int) []float64 {
		return func(s []float64, c []int) []float64 {
			w := plain(s, c)
			var sum float64
			for _, v := range w {
				sum += v
			}
			for i := range w {
				w[i] *= scale / sum
			}
			return w
		}
	}
	bias := []float64{0.3, -0.2, 0.1, 0, 0.25, -0.1}
	biased := func(s []float64, c []int) []float64 {
		with := make([]float64, len(s))
		for e := range s {
			with[e] = s[e] + bias[e]
		}
		return renormed(2.5)(with, c)
	}
	for _, c := range []struct {
		reason string
		weight func([]float64, []int) []float64
		sig    bool
		want   moeRule
	}{
		{"softmax over all", plain, false, moeRule{Score: "softmax", Scale: 1}},
		{"softmax, renormalised", renormed(1), false, moeRule{Score: "softmax", Renorm: true, Scale: 1}},
		{"sigmoid, renormalised, times 2.5", renormed(2.5), true, moeRule{Score: "sigmoid", Renorm: true, Scale: 2.5}},
		{"sigmoid with its bias left in the weights", biased, true, moeRule{Score: "sigmoid", Renorm: true, Scale: 2.5, Bias: bias}},
	} {
		logits, ids, weights := routed(60, 6, 2, c.weight, c.sig)
		got, err := readRouting(logits, ids, weights, 1e-9)
		if got.Score != c.want.Score || got.Renorm != c.want.Renorm || math.Abs(got.Scale-c.want.Scale) > 1e-6 || len(got.Bias) != len(c.want.Bias) || err.Token > 1e-6 {
			t.Errorf("%s: read as %+v with error %v", c.reason, got, err.Token)
		}
		for e := range got.Bias {
			if math.Abs(got.Bias[e]-c.want.Bias[e]) > 1e-6 {
				t.Errorf("%s: bias of expert %d is %v, want %v", c.reason, e, got.Bias[e], c.want.Bias[e])
			}
		}
	}
}

func TestSelectionBiasIsFoundWhereOneExists(t *testing.T) {
	logits := gaussians(5, 80, 6, func(int) float64 { return 1 })
	bias := []float64{0.8, 0, -0.6, 0.3, 0, -0.4}
	ids := &Tensor{Rows: 80, Cols: 2, Shape: []int{80, 2}}
	for t := range logits.Rows {
		ids.Data = append(ids.Data, floats(topk(logits.Row(t), bias, 2))...)
	}
	found, ok := selectionBias("raw", logits, ids)
	if !ok {
		t.Fatal("no bias found")
	}
	if !chosenByTopK("raw", found, routing{logits: logits, ids: ids}) {
		t.Error("the bias found does not choose these experts")
	}
	// Sets drawn without regard to the logits have no such bias.
	for i := range ids.Data {
		ids.Data[i] = float64((i*7 + i/3) % 6)
		if i%2 == 1 && ids.Data[i] == ids.Data[i-1] {
			ids.Data[i] = float64((int(ids.Data[i]) + 1) % 6)
		}
	}
	if _, ok := selectionBias("raw", logits, ids); ok {
		t.Error("a bias was found for sets that follow no scores")
	}
}

func TestTopkBreaksTiesByIndex(t *testing.T) {
	if got := topk([]float64{1, 3, 3, 2}, nil, 3); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("topk = %v, want [1 2 3]", got)
	}
	if got := topk([]float64{1, 3, 3, 2}, []float64{9, 0, 0, 0}, 2); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("topk with a bias = %v, want [0 1]", got)
	}
}

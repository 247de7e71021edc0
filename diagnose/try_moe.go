package diagnose

import "fmt"

// scoreWords are the scores of a router.
var scoreWords = []string{"softmax", "sigmoid", "raw"}

// moeTransforms repeat a router.
var moeTransforms = []TransformSpec{
	{
		Name: "route",
		Params: []TransformParam{
			{Name: "ids", Kind: argTap, Required: true, Doc: "the chosen experts, [T, k]"},
			{Name: "score", Kind: argWord, Words: scoreWords},
			{Name: "renorm", Kind: argFlag, Doc: "divide by the sum over the chosen"},
			{Name: "scale", Kind: argNumber, Doc: "1 by default"},
			{Name: "bias", Kind: argList, Doc: "added to the scores, one number per expert"},
		},
		Doc:     "weights of the chosen experts from router logits",
		Formula: "x[t, k] := scale·(score(x_t)[ids[t, k]] + bias) / sum",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			ids, _, err := e.tensor(a.word("ids", ""))
			if err != nil {
				return nil, err
			}
			r := moeRule{Score: a.word("score", "softmax"), Renorm: a.flag("renorm"), Scale: a.num("scale", 1), Bias: a.list("bias")}
			if r.Bias != nil && len(r.Bias) != v.Cols {
				return nil, fmt.Errorf("bias has %d numbers for %d experts", len(r.Bias), v.Cols)
			}
			ids, ok := ids.perToken(v.Rows)
			if !ok {
				return nil, fmt.Errorf("%s does not hold the same number of experts for each of %d tokens", a.word("ids", ""), v.Rows)
			}
			w, ok := r.apply(&v.Tensor, ids)
			if !ok {
				return nil, fmt.Errorf("%s with shape %v does not choose among %d experts of %d tokens", ids.Name, ids.Shape, v.Cols, v.Rows)
			}
			return v.sized(w.Rows, w.Cols, w.Data), nil
		},
	},
	{
		Name: "topk",
		Params: []TransformParam{
			{Name: "k", Kind: argInt, Required: true},
			{Name: "score", Kind: argWord, Words: scoreWords},
			{Name: "bias", Kind: argList, Doc: "added to the scores for the choice, one number per expert"},
		},
		Doc:     "ids of the experts of greatest score, most wanted first",
		Formula: "x[t] := argsort(score(x_t) + bias)[:k]",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			k, bias := a.int("k", 1), a.list("bias")
			if k < 1 || k > v.Cols || bias != nil && len(bias) != v.Cols {
				return nil, fmt.Errorf("k is %d and bias has %d numbers for %d experts", k, len(bias), v.Cols)
			}
			data := make([]float64, 0, v.Rows*k)
			for t := range v.Rows {
				data = append(data, floats(topk(scores(a.word("score", "raw"), v.Row(t)), bias, k))...)
			}
			return v.sized(v.Rows, k, data), nil
		},
	},
	{
		Name: "route_sum",
		Params: []TransformParam{
			{Name: "logits", Kind: argTap, Required: true},
			{Name: "ids", Kind: argTap, Required: true},
			{Name: "score", Kind: argWord, Words: scoreWords},
			{Name: "inverse", Kind: argFlag, Doc: "multiply instead"},
		},
		Doc:     "divide every token by the sum of its chosen experts' scores",
		Formula: "x_t := x_t / Σ_k score(logits_t)[ids[t, k]]",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			l, _, err := e.tensor(a.word("logits", ""))
			if err != nil {
				return nil, err
			}
			ids, _, err := e.tensor(a.word("ids", ""))
			if err != nil {
				return nil, err
			}
			ids, ok := ids.perToken(l.Rows)
			if !ok {
				return nil, fmt.Errorf("%s does not hold the same number of experts for each of %d tokens", a.word("ids", ""), l.Rows)
			}
			w, ok := moeRule{Score: a.word("score", "softmax"), Scale: 1}.apply(l, ids)
			if !ok || w.Rows != v.Rows {
				return nil, fmt.Errorf("%s and %s do not route %d tokens", l.Name, ids.Name, v.Rows)
			}
			out := v.mapRows(func(t int, row []float64) {
				var s float64
				for _, x := range w.Row(t) {
					s += x
				}
				if a.flag("inverse") {
					s = 1 / s
				}
				for i := range row {
					row[i] /= s
				}
			})
			return v.like(out.Data), nil
		},
	},
}

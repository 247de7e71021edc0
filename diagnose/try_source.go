package diagnose

import "fmt"

// sourceTransforms choose what flows and what it is compared with.
var sourceTransforms = []TransformSpec{
	{
		Name:    "from",
		Params:  []TransformParam{{Name: "tap", Kind: argTap, Required: true, Doc: "a tap of this layer or a whole name; ref:TAP reads the reference's"}},
		Doc:     "go on with another dumped tensor; a rope after from(ref:TAP) uses the reference's positions",
		Formula: "x := TAP",
		apply: func(e *tryEnv, _ *tryValue, a tryArgs) (*tryValue, error) {
			t, side, err := e.tensor(a.word("tap", ""))
			if err != nil {
				return nil, err
			}
			e.side, e.set = side, true
			return &tryValue{Tensor: *t}, nil
		},
	},
	{
		Name:    "target",
		Params:  []TransformParam{{Name: "tap", Kind: argTap, Required: true, Doc: "\"port\" is the port's own tensor of the checkpoint"}},
		Doc:     "compare with this tensor instead of the reference's checkpoint; proves a rule on a port whose inputs already differ",
		Formula: "error := ‖x - TAP‖ / ‖TAP‖",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			word := a.word("tap", "")
			if word == "port" || word == "ref" {
				word += ":" + e.c.At
			}
			t, _, err := e.tensor(word)
			if err != nil {
				return nil, err
			}
			e.target, e.targetName = t, word
			return v, nil
		},
	},
	{
		Name:     "sum",
		Variadic: true,
		Doc:      "the sum of dumped tensors of one size",
		Formula:  "x := TAP1 + TAP2 + ...",
		apply: func(e *tryEnv, _ *tryValue, a tryArgs) (*tryValue, error) {
			var v *tryValue
			for _, tap := range a.taps {
				t, side, err := e.tensor(tap)
				if err != nil {
					return nil, err
				}
				e.side, e.set = side, true
				if v == nil {
					w := tryValue{Tensor: *t}
					v = w.like(append([]float64(nil), t.Data...))
					continue
				}
				if len(t.Data) != len(v.Data) {
					return nil, fmt.Errorf("%s has shape %v, the sum so far %v", tap, t.Shape, v.Shape)
				}
				for i, x := range t.Data {
					v.Data[i] += x
				}
			}
			return v, nil
		},
	},
	{
		Name:     "concat",
		Variadic: true,
		Params:   []TransformParam{{Name: "axis", Kind: argWord, Words: axisWords, Doc: "cols by default"}},
		Doc:      "dumped tensors side by side (cols: shards of the dims) or one after the other (rows: tokens of several steps)",
		Formula:  "x := [TAP1 TAP2 ...]",
		apply:    applyConcat,
	},
}

var axisWords = []string{"cols", "rows"}

func applyConcat(e *tryEnv, _ *tryValue, a tryArgs) (*tryValue, error) {
	var parts []*Tensor
	rows, cols := 0, 0
	byRows := a.word("axis", "cols") == "rows"
	for i, tap := range a.taps {
		t, side, err := e.tensor(tap)
		if err != nil {
			return nil, err
		}
		e.side, e.set = side, true
		if i > 0 && (byRows && t.Cols != cols || !byRows && t.Rows != rows) {
			return nil, fmt.Errorf("%s has %d rows and %d dims, which do not fit %d and %d", tap, t.Rows, t.Cols, rows, cols)
		}
		if byRows {
			rows, cols = rows+t.Rows, t.Cols
		} else {
			rows, cols = t.Rows, cols+t.Cols
		}
		parts = append(parts, t)
	}
	data := make([]float64, 0, rows*cols)
	if byRows {
		for _, t := range parts {
			data = append(data, t.Data...)
		}
	} else {
		for r := 0; r < rows; r++ {
			for _, t := range parts {
				data = append(data, t.Row(r)...)
			}
		}
	}
	v := &tryValue{Tensor: Tensor{Name: parts[0].Name, DType: parts[0].DType}}
	return v.sized(rows, cols, data), nil
}

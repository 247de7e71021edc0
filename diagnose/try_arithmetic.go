package diagnose

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// arithmeticTransforms change the values and keep their places.
var arithmeticTransforms = []TransformSpec{
	{
		Name:    "scale",
		Params:  []TransformParam{{Name: "by", Kind: argNumber, Required: true}},
		Doc:     "multiply by a constant",
		Formula: "x := by·x",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			by := a.num("by", 1)
			return mapValues(v, func(x float64) float64 { return by * x }), nil
		},
	},
	{
		Name:    "offset",
		Params:  []TransformParam{{Name: "by", Kind: argNumber, Required: true}},
		Doc:     "add a constant",
		Formula: "x := x + by",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			by := a.num("by", 0)
			return mapValues(v, func(x float64) float64 { return x + by }), nil
		},
	},
	{
		Name: "add",
		Params: []TransformParam{
			{Name: "tap", Kind: argTap, Required: true, Doc: "of the same size, or one row for all tokens, or one column for all dims"},
			{Name: "times", Kind: argNumber, Doc: "1 by default; -1 subtracts"},
		},
		Doc:     "add a dumped tensor",
		Formula: "x := x + times·TAP",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			times := a.num("times", 1)
			return zipTap(e, v, a, func(x, y float64) float64 { return x + times*y })
		},
	},
	{
		Name:    "mul",
		Params:  []TransformParam{{Name: "tap", Kind: argTap, Required: true, Doc: "of the same size, or one row for all tokens, or one column for all dims"}},
		Doc:     "multiply element by element with a dumped tensor (a gate, a norm's weight)",
		Formula: "x := x ⊙ TAP",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			return zipTap(e, v, a, func(x, y float64) float64 { return x * y })
		},
	},
	{
		Name:    "div",
		Params:  []TransformParam{{Name: "tap", Kind: argTap, Required: true, Doc: "as for mul"}},
		Doc:     "divide element by element by a dumped tensor",
		Formula: "x := x / TAP",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			return zipTap(e, v, a, func(x, y float64) float64 { return x / y })
		},
	},
	{
		Name: "matmul",
		Params: []TransformParam{
			{Name: "tap", Kind: argTap, Required: true, Doc: "a dumped weight [in, out]"},
			{Name: "transpose", Kind: argFlag, Doc: "the weight is stored [out, in]"},
		},
		Doc:     "multiply by a dumped matrix",
		Formula: "x := x·W, or x·Wᵀ",
		apply:   applyMatmul,
	},
	{
		Name:    "softcap",
		Params:  []TransformParam{{Name: "c", Kind: argNumber, Required: true}},
		Doc:     "the soft cap of Gemma 2's scores and logits",
		Formula: "x := c·tanh(x/c)",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			c := a.num("c", 1)
			if !(c > 0) {
				return nil, fmt.Errorf("c is %v; a cap is positive", c)
			}
			return mapValues(v, func(x float64) float64 { return softcap(x, c) }), nil
		},
	},
	{
		Name:    "unsoftcap",
		Params:  []TransformParam{{Name: "c", Kind: argNumber, Required: true}},
		Doc:     "the inverse of softcap; infinite where |x| reaches c",
		Formula: "x := c·atanh(x/c)",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			c := a.num("c", 1)
			if !(c > 0) {
				return nil, fmt.Errorf("c is %v; a cap is positive", c)
			}
			return mapValues(v, func(x float64) float64 { return c * math.Atanh(x/c) }), nil
		},
	},
	{
		Name:    "clamp",
		Params:  []TransformParam{{Name: "min", Kind: argNumber, Required: true}, {Name: "max", Kind: argNumber, Required: true}},
		Doc:     "limit the values",
		Formula: "x := min(max(x, MIN), MAX)",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			lo, hi := a.num("min", 0), a.num("max", 0)
			return mapValues(v, func(x float64) float64 { return math.Min(math.Max(x, lo), hi) }), nil
		},
	},
	{
		Name:    "round",
		Params:  []TransformParam{{Name: "dtype", Kind: argWord, Words: roundWords, Required: true}},
		Doc:     "round to a dtype, ties to even",
		Formula: "x := dtype(x)",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			dt := a.word("dtype", "")
			return mapValues(v, func(x float64) float64 { return roundFloat(dt, x) }), nil
		},
	},
	{
		Name:    "log",
		Doc:     "natural logarithm; turns probabilities into scores (0 gives -Inf, which a softmax takes back to 0)",
		Formula: "x := ln x",
		apply: func(_ *tryEnv, v *tryValue, _ tryArgs) (*tryValue, error) {
			w := mapValues(v, math.Log)
			w.logits = true
			return w, nil
		},
	},
	{
		Name: "zero",
		Params: []TransformParam{
			{Name: "list", Kind: argList, Required: true, Doc: "indices"},
			{Name: "axis", Kind: argWord, Words: axisWords, Doc: "rows by default"},
		},
		Doc:     "set rows (tokens) or dims to zero",
		Formula: "x[i] := 0",
		apply:   applyZero,
	},
}

var roundWords = []string{"bfloat16", "float16", "float32"}

// softcap is c·tanh(x/c).
func softcap(x, c float64) float64 { return c * math.Tanh(x/c) }

func mapValues(v *tryValue, f func(float64) float64) *tryValue {
	out := make([]float64, len(v.Data))
	for i, x := range v.Data {
		out[i] = f(x)
	}
	return v.like(out)
}

// zipTap combines the value with a tap of the same size, a single row or a single
// column.
func zipTap(e *tryEnv, v *tryValue, a tryArgs, f func(x, y float64) float64) (*tryValue, error) {
	t, _, err := e.tensor(a.word("tap", ""))
	if err != nil {
		return nil, err
	}
	var at func(i int) float64
	switch {
	case len(t.Data) == len(v.Data):
		at = func(i int) float64 { return t.Data[i] }
	case len(t.Data) == v.Cols:
		at = func(i int) float64 { return t.Data[i%v.Cols] }
	case len(t.Data) == v.Rows:
		at = func(i int) float64 { return t.Data[i/v.Cols] }
	default:
		return nil, fmt.Errorf("%s has shape %v, which does not fit %v", t.Name, t.Shape, v.Shape)
	}
	out := make([]float64, len(v.Data))
	for i, x := range v.Data {
		out[i] = f(x, at(i))
	}
	return v.like(out), nil
}

func applyMatmul(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
	w, _, err := e.tensor(a.word("tap", ""))
	if err != nil {
		return nil, err
	}
	in, out := w.Rows, w.Cols
	trans := blas.NoTrans
	if a.flag("transpose") {
		in, out, trans = out, in, blas.Trans
	}
	if in != v.Cols || in == 0 || v.Rows == 0 || out == 0 {
		return nil, fmt.Errorf("%s takes %d dims, the value has %d rows of %d; transpose=true or false may be what is meant", w.Name, in, v.Rows, v.Cols)
	}
	data := make([]float64, v.Rows*out)
	blas64.Gemm(blas.NoTrans, trans, 1,
		blas64.General{Rows: v.Rows, Cols: v.Cols, Stride: v.Cols, Data: v.Data},
		blas64.General{Rows: w.Rows, Cols: w.Cols, Stride: w.Cols, Data: w.Data}, 0,
		blas64.General{Rows: v.Rows, Cols: out, Stride: out, Data: data})
	return v.sized(v.Rows, out, data), nil
}

func applyZero(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
	data := append([]float64(nil), v.Data...)
	rows := a.word("axis", "rows") == "rows"
	for _, i := range a.ints("list") {
		switch {
		case rows && i >= 0 && i < v.Rows:
			clear(data[i*v.Cols : (i+1)*v.Cols])
		case !rows && i >= 0 && i < v.Cols:
			for r := 0; r < v.Rows; r++ {
				data[r*v.Cols+i] = 0
			}
		default:
			return nil, fmt.Errorf("index %d is outside %v", i, v.Shape)
		}
	}
	return v.like(data), nil
}

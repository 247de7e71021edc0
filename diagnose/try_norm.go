package diagnose

import (
	"fmt"
	"math"
)

// normTransforms are the norms and the fits that undo one.
var normTransforms = []TransformSpec{
	{
		Name: "rmsnorm",
		Params: []TransformParam{
			{Name: "eps", Kind: argNumber, Doc: "1e-6 by default"},
			{Name: "weight", Kind: argTap, Doc: "the gain; 1 without it"},
			{Name: "plus", Kind: argNumber, Doc: "added to the weight: 1 for zero-centred weights"},
			{Name: "group", Kind: argInt, Doc: "dims that are normed together (a head); all by default"},
		},
		Doc:     "root-mean-square norm",
		Formula: "x := x / sqrt(mean(x²) + eps) · (weight + plus)",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			return applyNorm(e, v, a, false)
		},
	},
	{
		Name: "layernorm",
		Params: []TransformParam{
			{Name: "eps", Kind: argNumber, Doc: "1e-5 by default"},
			{Name: "weight", Kind: argTap, Doc: "the gain; 1 without it"},
			{Name: "bias", Kind: argTap, Doc: "0 without it"},
			{Name: "group", Kind: argInt, Doc: "dims that are normed together; all by default"},
		},
		Doc:     "layer norm",
		Formula: "x := (x - mean(x)) / sqrt(var(x) + eps) · weight + bias",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			return applyNorm(e, v, a, true)
		},
	},
	{
		Name:    "fit",
		Params:  []TransformParam{{Name: "of", Kind: argWord, Words: []string{"all", "rows", "cols"}, Doc: "one number for all, for each token, or for each dim; all by default"}},
		Doc:     "scale by least squares against the target: what is left is what no such scale explains",
		Formula: "x := x·<x,r>/<x,x>",
		apply:   applyFit,
	},
}

func applyNorm(e *tryEnv, v *tryValue, a tryArgs, centre bool) (*tryValue, error) {
	group := a.int("group", v.Cols)
	if group < 1 || v.Cols%group != 0 {
		return nil, fmt.Errorf("groups of %d do not divide %d dims", group, v.Cols)
	}
	gain, err := rowTap(e, a, "weight", v.Cols, group, 1)
	if err != nil {
		return nil, err
	}
	bias, err := rowTap(e, a, "bias", v.Cols, group, 0)
	if err != nil {
		return nil, err
	}
	def := 1e-6
	if centre {
		def = 1e-5
	}
	eps, plus := a.num("eps", def), a.num("plus", 0)
	data := make([]float64, len(v.Data))
	for lo := 0; lo+group <= len(v.Data); lo += group {
		x := v.Data[lo : lo+group]
		mean, ms := 0.0, 0.0
		if centre {
			for _, y := range x {
				mean += y
			}
			mean /= float64(group)
		}
		for _, y := range x {
			ms += (y - mean) * (y - mean)
		}
		inv := 1 / math.Sqrt(ms/float64(group)+eps)
		for i, y := range x {
			d := (lo + i) % v.Cols
			data[lo+i] = (y-mean)*inv*(gain[d]+plus) + bias[d]
		}
	}
	return v.like(data), nil
}

// rowTap reads a weight of one row, repeated over the groups where it is as wide
// as one; def everywhere without the argument.
func rowTap(e *tryEnv, a tryArgs, name string, cols, group int, def float64) ([]float64, error) {
	out := make([]float64, cols)
	if !a.has(name) {
		for i := range out {
			out[i] = def
		}
		return out, nil
	}
	t, _, err := e.tensor(a.word(name, ""))
	if err != nil {
		return nil, err
	}
	if len(t.Data) != cols && len(t.Data) != group {
		return nil, fmt.Errorf("%s holds %d values, the norm needs %d", t.Name, len(t.Data), group)
	}
	for i := range out {
		out[i] = t.Data[i%len(t.Data)]
	}
	return out, nil
}

func applyFit(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
	r := e.target
	if len(r.Data) != len(v.Data) {
		return nil, fmt.Errorf("%s has shape %v, the value %v", e.targetName, r.Shape, v.Shape)
	}
	key, n := func(int) int { return 0 }, 1
	switch a.word("of", "all") {
	case "rows":
		key, n = func(i int) int { return i / v.Cols }, v.Rows
	case "cols":
		key, n = func(i int) int { return i % v.Cols }, v.Cols
	}
	xr, xx := make([]float64, n), make([]float64, n)
	for i, x := range v.Data {
		xr[key(i)] += x * r.Data[i]
		xx[key(i)] += x * x
	}
	data := make([]float64, len(v.Data))
	for i, x := range v.Data {
		if k := key(i); xx[k] > 0 {
			data[i] = x * xr[k] / xx[k]
		}
	}
	return v.like(data), nil
}

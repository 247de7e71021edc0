package diagnose

import (
	"fmt"
	"math"
	"slices"
)

// algebraicTransforms are the what-ifs of the algebraic hypotheses.
var algebraicTransforms = slices.Concat(linearTransforms, matrixTransforms, moeTransforms, quantTransforms)

// linearTransforms scale, shift and normalise.
var linearTransforms = []TransformSpec{
	{
		Name: "scale_rows",
		Params: []TransformParam{
			{Name: "by", Kind: argNumber, Required: true},
			{Name: "list", Kind: argList, Required: true, Doc: "tokens"},
		},
		Doc:     "multiply some tokens by a constant",
		Formula: "x[t] := by·x[t] for t in list",
		apply:   applyScaleRows,
	},
	{
		Name:    "gain",
		Params:  []TransformParam{{Name: "tap", Kind: argTap, Required: true, Doc: "a dumped norm's output; ref:TAP takes the reference's"}},
		Doc:     "multiply by the weight of a norm, recovered from that norm's own dumped input and output, and add its bias where it has one",
		Formula: "x := x ⊙ g + b, with g and b from TAP = norm(input of TAP) ⊙ g + b",
		apply:   applyGain,
	},
	{
		Name:    "rmsnorm_outside",
		Params:  []TransformParam{{Name: "eps", Kind: argNumber, Required: true}, {Name: "group", Kind: argInt, Doc: "dims that are normed together; all by default"}},
		Doc:     "root-mean-square norm with eps outside the root",
		Formula: "x := x / (sqrt(mean(x²)) + eps)",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			eps := a.num("eps", 0)
			return eachGroup(v, a.int("group", v.Cols), func(x []float64) {
				s := math.Sqrt(dot(x, x)/float64(len(x))) + eps
				for i := range x {
					x[i] /= s
				}
			})
		},
	},
	{
		Name: "norm_low",
		Params: []TransformParam{
			{Name: "dtype", Kind: argWord, Words: []string{"bfloat16", "float16"}, Required: true},
			{Name: "eps", Kind: argNumber},
			{Name: "group", Kind: argInt, Doc: "dims that are normed together; all by default"},
			{Name: "kind", Kind: argWord, Words: []string{"sum", "stat", "value", "input"}, Doc: "what is kept in the dtype: the running sum of squares, the mean square, the normalised value, or the input"},
		},
		Doc:     "root-mean-square norm that keeps one of its steps in a narrow dtype",
		Formula: "x := x / sqrt(mean(x²) + eps), one step rounded to dtype",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			l := lowNorm{dtype: a.word("dtype", ""), kind: a.word("kind", "sum")}
			return eachGroup(v, a.int("group", v.Cols), func(x []float64) { l.normalise(x, a.num("eps", 0)) })
		},
	},
	{
		Name:    "fit_offset",
		Doc:     "add one number per dim, the same for every token, by least squares against the target: what is left is what no bias explains",
		Formula: "x := x + mean_t(r - x)",
		apply:   applyFitOffset,
	},
	{
		Name:    "finite",
		Doc:     "take the target's value where the value is not finite: compares the rest",
		Formula: "x[i] := r[i] where x[i] is NaN or infinite",
		apply:   applyFinite,
	},
	{
		Name: "shift",
		Params: []TransformParam{
			{Name: "n", Kind: argInt, Required: true, Doc: "tokens; negative shifts back"},
		},
		Doc:     "move tokens by n without wrapping round; the places left empty take the target's rows",
		Formula: "x[t+n] := x[t]",
		apply:   applyShift,
	},
}

func applyScaleRows(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
	w := mapValues(v, func(x float64) float64 { return x })
	by := a.num("by", 1)
	for _, t := range a.ints("list") {
		if t < 0 || t >= w.Rows {
			return nil, fmt.Errorf("token %d is outside 0 to %d", t, w.Rows-1)
		}
		for i := range w.Cols {
			w.Data[t*w.Cols+i] *= by
		}
	}
	return w, nil
}

func applyGain(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
	t, side, err := e.tensor(a.word("tap", ""))
	if err != nil {
		return nil, err
	}
	n, _, ok := e.c.Move(t.Name).readNorm(side, t.Name)
	if !ok {
		return nil, fmt.Errorf("%s is not known to be a norm of a dumped tensor, so its weight cannot be recovered", t.Name)
	}
	if len(n.Gain) != v.Cols {
		return nil, fmt.Errorf("the norm at %s has %d dims, the value %d", t.Name, len(n.Gain), v.Cols)
	}
	i := -1
	return mapValues(v, func(x float64) float64 {
		i++
		x *= n.Gain[i%v.Cols]
		if n.Bias != nil {
			x += n.Bias[i%v.Cols]
		}
		return x
	}), nil
}

// eachGroup applies f to every stretch of n dims of a copy.
func eachGroup(v *tryValue, n int, f func(x []float64)) (*tryValue, error) {
	if n < 1 || v.Cols%n != 0 {
		return nil, fmt.Errorf("groups of %d do not divide %d dims", n, v.Cols)
	}
	w := mapValues(v, func(x float64) float64 { return x })
	for lo := 0; lo+n <= len(w.Data); lo += n {
		f(w.Data[lo : lo+n])
	}
	return w, nil
}

// needTarget checks that the value has the target's size.
func needTarget(e *tryEnv, v *tryValue) error {
	if len(e.target.Data) != len(v.Data) {
		return fmt.Errorf("%s has shape %v, the value %v", e.targetName, e.target.Shape, v.Shape)
	}
	return nil
}

func applyFitOffset(e *tryEnv, v *tryValue, _ tryArgs) (*tryValue, error) {
	if err := needTarget(e, v); err != nil {
		return nil, err
	}
	mean := meanDiff(&v.Tensor, e.target)
	i := -1
	return mapValues(v, func(x float64) float64 {
		i++
		return x + mean[i%v.Cols]
	}), nil
}

func applyFinite(e *tryEnv, v *tryValue, _ tryArgs) (*tryValue, error) {
	if err := needTarget(e, v); err != nil {
		return nil, err
	}
	i := -1
	return mapValues(v, func(x float64) float64 {
		i++
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return e.target.Data[i]
		}
		return x
	}), nil
}

func applyShift(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
	if err := needTarget(e, v); err != nil {
		return nil, err
	}
	n := a.int("n", 0)
	w := v.like(append([]float64(nil), e.target.Data...))
	for t := range v.Rows {
		if to := t + n; to >= 0 && to < v.Rows {
			copy(w.Data[to*v.Cols:(to+1)*v.Cols], v.Row(t))
		}
	}
	return w, nil
}

// axisTransforms work on one axis of a tensor with more than two.
var axisTransforms = []TransformSpec{
	{
		Name: "permute_axis",
		Params: []TransformParam{
			{Name: "order", Kind: argList, Required: true, Doc: "place i takes entry order[i]"},
			{Name: "axis", Kind: argInt, Required: true},
		},
		Doc:     "reorder the entries of one axis of an image or latent",
		Formula: "x[.., i, ..] := x[.., order[i], ..]",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			axis, order := a.int("axis", 0), a.ints("order")
			if axis < 0 || axis >= len(v.Shape) || len(order) != v.Shape[axis] {
				return nil, fmt.Errorf("an order of %d entries on axis %d does not fit %v", len(order), axis, v.Shape)
			}
			for _, i := range order {
				if i < 0 || i >= len(order) {
					return nil, fmt.Errorf("order holds %d, entries are 0 to %d", i, len(order)-1)
				}
			}
			return v.like(axisBack(axisFirst(&v.Tensor, axis).takeRows(order), v.Shape, axis)), nil
		},
	},
	{
		Name:    "fit_axis",
		Params:  []TransformParam{{Name: "axis", Kind: argInt, Required: true}},
		Doc:     "undo one scale and shift for each entry of an axis, by least squares against the target",
		Formula: "x := (x - m_c) / s_c with x = s_c·r + m_c",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			axis := a.int("axis", 0)
			if err := needTarget(e, v); err != nil {
				return nil, err
			}
			if axis < 0 || axis >= len(v.Shape) || !equalShape(v.Shape, e.target.Shape) {
				return nil, fmt.Errorf("axis %d does not fit %v and %v", axis, v.Shape, e.target.Shape)
			}
			r := axisFirst(e.target, axis)
			got := axisFirst(&v.Tensor, axis).mapRows(func(i int, row []float64) {
				if m, s, _ := affine(r.Row(i), row); s != 0 {
					for k := range row {
						row[k] = (row[k] - m) / s
					}
				}
			})
			return v.like(axisBack(got, v.Shape, axis)), nil
		},
	},
	{
		Name: "restride",
		Params: []TransformParam{
			{Name: "width", Kind: argInt, Required: true, Doc: "dims of a head; 1 exchanges rows and columns"},
			{Name: "inverse", Kind: argFlag},
		},
		Doc:     "read the same memory through other strides: [heads, T, width] as [T, heads, width], or the inverse",
		Formula: "x[t, h, :] := memory of x at (h·T + t)·width",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			w := a.int("width", 0)
			if w < 1 || v.Cols%w != 0 {
				return nil, fmt.Errorf("heads of %d dims do not divide %d", w, v.Cols)
			}
			return v.like(restride(&v.Tensor, w, a.flag("inverse")).Data), nil
		},
	},
}

// matrixTransforms test linear maps without their matrices.
var matrixTransforms = []TransformSpec{
	{
		Name:    "gram",
		Params:  []TransformParam{{Name: "tap", Kind: argTap, Required: true, Doc: "the linear's input; of the reference for the target"}},
		Doc:     "go on with the inner products of the linear's input and output, on both sides: what holds between them holds for any matrix",
		Formula: "x := TAP·xᵀ, r := ref:TAP·rᵀ",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			word := a.word("tap", "")
			in, _, err := e.tensor(word)
			if err != nil {
				return nil, err
			}
			want, _, err := e.tensor("ref:" + word)
			if err != nil {
				return nil, err
			}
			if in.Rows != v.Rows || in.Cols != v.Cols || want.Rows != e.target.Rows || want.Cols != e.target.Cols {
				return nil, fmt.Errorf("%s has shape %v, the value %v: only a square matrix can be told from its transpose so", in.Name, in.Shape, v.Shape)
			}
			e.target, e.targetName = gram(want, e.target), "products of "+e.targetName
			g := gram(in, &v.Tensor)
			return v.sized(g.Rows, g.Cols, g.Data), nil
		},
	},
	{
		Name: "tile",
		Params: []TransformParam{
			{Name: "n", Kind: argInt, Required: true},
			{Name: "axis", Kind: argWord, Words: axisWords, Doc: "cols by default"},
		},
		Doc:     "repeat the value n times along an axis",
		Formula: "x := [x x ...]",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			n := a.int("n", 1)
			if n < 1 || n*len(v.Data) > 1<<30 {
				return nil, fmt.Errorf("cannot repeat %v %d times", v.Shape, n)
			}
			rows := a.word("axis", "cols") == "rows"
			size := v.Cols
			if rows {
				size = v.Rows
			}
			return gather(v, permOf(n*size, func(i int) int { return i % size }), rows)
		},
	},
	{
		Name:    "unit_rows",
		Doc:     "divide every row by its sum",
		Formula: "x_t := x_t / Σ x_t",
		apply: func(_ *tryEnv, v *tryValue, _ tryArgs) (*tryValue, error) {
			return v.like(unitRows(&v.Tensor).Data), nil
		},
	},
}

// unitRows divides every row by its sum; a row of sum 0 stays.
func unitRows(t *Tensor) *Tensor {
	return t.mapRows(func(_ int, row []float64) {
		var s float64
		for _, x := range row {
			s += x
		}
		if s != 0 {
			for i := range row {
				row[i] /= s
			}
		}
	})
}

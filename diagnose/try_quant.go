package diagnose

import "fmt"

// quantTransforms undo what a wrong zero point does.
var quantTransforms = []TransformSpec{
	{
		Name: "fit_group_sums",
		Params: []TransformParam{
			{Name: "tap", Kind: argTap, Required: true, Doc: "the linear's input"},
			{Name: "group", Kind: argInt, Required: true, Doc: "inputs that share a zero point"},
		},
		Doc:     "take away what the sums of the inputs over groups explain of the difference to the target, by least squares: what a zero point adds",
		Formula: "x := x - S·C, S[t, g] = Σ TAP[t, i] over group g, C = argmin ‖x - r - S·C‖",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			if err := needTarget(e, v); err != nil {
				return nil, err
			}
			in, _, err := e.tensor(a.word("tap", ""))
			if err != nil {
				return nil, err
			}
			group := a.int("group", 0)
			if group < 1 || in.Cols%group != 0 || in.Rows != v.Rows {
				return nil, fmt.Errorf("groups of %d do not divide the %d dims of %s, or its %d rows are not the value's %d", group, in.Cols, in.Name, in.Rows, v.Rows)
			}
			fit := groupSumFit(in, e.target, &v.Tensor, group, false)
			if fit == nil {
				return nil, fmt.Errorf("the sums of %s over groups of %d are linearly dependent or more than the tokens", in.Name, group)
			}
			i := -1
			return mapValues(v, func(x float64) float64 {
				i++
				return x - fit.Data[i]
			}), nil
		},
	},
}

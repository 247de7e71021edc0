package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// fewRowsScale tests a few tokens whose values are one constant times the
// reference's, 0 included, while all others are exact: one row is enough then,
// since its many values share one number and the rest of the tensor shows that
// nothing else differs.
func fewRowsScale(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if ref.Rows < minTokens || c.inherited() {
		return compare.Finding{}, false
	}
	floor := exactFloors * c.localFloor(c.At)
	var odd []int
	for t := range ref.Rows {
		if d2, r2 := rowDistance(ref.Row(t), port.Row(t)); d2 > floor*floor*r2 {
			odd = append(odd, t)
		}
	}
	if len(odd) == 0 || 4*len(odd) > ref.Rows {
		return compare.Finding{}, false
	}
	var xy, xx float64
	for _, t := range odd {
		x := ref.Row(t)
		xy, xx = xy+dot(x, port.Row(t)), xx+dot(x, x)
	}
	by := xy / xx
	if math.IsNaN(by) || math.IsInf(by, 0) || math.Abs(by-1) < 1e-4 {
		return compare.Finding{}, false
	}
	got := ref.mapRows(func(int, []float64) {})
	for _, t := range odd {
		row := got.Row(t)
		for i := range row {
			row[i] *= by
		}
	}
	t := trial{before: distance(ref, port), after: distance(got, port), floor: c.localFloor(c.At), params: 1, values: len(odd) * ref.Cols}
	f, ok := c.finding("scale.row_class", t)
	if !ok || f.Proof != compare.ProofExact {
		return f, false
	}
	tokens := rangesOf(odd)
	sides(&f, compare.Num(1), map[string]any{tokens: compare.Num(by)})
	f.Claim = fmt.Sprintf("port = %s x reference at %s (%s) and the reference at all others", g6(by), plural(len(odd), "token"), tokens)
	if by == 0 {
		f.Claim = fmt.Sprintf("the port holds zeros at %s (%s) and the reference's values at all others", plural(len(odd), "token"), tokens)
	}
	f.For = append(f.For, fmt.Sprintf("the other %d tokens are within %s of the reference's; with these multiplied rel_l2 is %s (before %s)", ref.Rows-len(odd), g2(floor), g2(t.after.Whole), g2(t.before.Whole)))
	f.Try = c.tryLine("from(ref:%s) | scale_rows(%s, %s) | target(port)", c.At, formatNum(by), listArg(odd))
	f.Verify = "see what is special about these tokens (the last, a padding or image row, another request) and where their values are written"
	f.Fix = "compute these rows as the others"
	return f, true
}

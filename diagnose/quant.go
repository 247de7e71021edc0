package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
	"gonum.org/v1/gonum/mat"
)

// quantHypothesis: the codes of a quantised weight are read by another rule.
var quantHypothesis = Hypothesis{
	ID:     "quant",
	Causes: []string{"quant.zero_point", "quant.nibble_order", "quant.scale_layout"},
	Taps:   []string{"q", "k", "v", "attn_out", "mlp_gate", "mlp_up", "mlp_out"},
	Needs:  "the linear's input and output; for a zero point four tokens per group of inputs",
	Silent: "the difference has nothing to do with sums of inputs over groups, exchanged inputs or whole columns",
	Source: "port - ref = Σ_groups sum(x over group)·c_group,out for a zero point; port·refᵀ against x·P·xᵀ for exchanged inputs P; factors of two per output; pattern P20",
	Test:   testQuant,
}

// linearInput is the tap whose columns a linear's weight multiplies.
func (c *Context) linearInput() (x *Tensor, name string, ok bool) {
	in := c.inputs(c.At)
	if len(in) != 1 {
		return nil, "", false
	}
	x, ok = c.Tensor(Port, in[0])
	return x, in[0], ok
}

func testQuant(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || distance(ref, port).Token <= exactFloors*c.localFloor(c.At) || c.inherited() {
		return nil
	}
	for _, test := range []func(*Context, *Tensor, *Tensor) (compare.Finding, bool){columnScales, zeroPoint, exchangedInputs, groupScales} {
		if f, ok := test(c, ref, port); ok {
			return []compare.Finding{f}
		}
	}
	return nil
}

// columnScales: every output has a factor of its own, often a power of two.
func columnScales(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	if ref.Rows < minTokens {
		return compare.Finding{}, false
	}
	gain, _ := colScales(ref, port)
	if m := medianOf(gain); spreadOf(gain, m) == 0 && least(gain) == greatest(gain) || math.IsNaN(m) {
		return compare.Finding{}, false
	}
	other, powers := 0, 0
	got := port.mapRows(func(_ int, row []float64) {
		for d := range row {
			if g := gain[d]; g != 0 && !math.IsNaN(g) {
				row[d] /= g
			}
		}
	})
	for _, g := range gain {
		if math.Abs(g-1) < 1e-3 {
			continue
		}
		other++
		if e := math.Log2(math.Abs(g)); math.Abs(e-math.Round(e)) < 1e-3 {
			powers++
		}
	}
	t := c.tryOn(ref, port, got, ref.Cols)
	f, ok := c.finding("quant.scale_layout", t)
	if !ok || other == 0 || float64(other) > 0.98*float64(len(gain)) && spreadOf(gain, medianOf(gain)) < 1e-3 {
		return f, false
	}
	sides(&f, "each output's own scale", fmt.Sprintf("%d of %d outputs scaled by another", other, len(gain)))
	f.Values["outputs"], f.Values["powers_of_two"] = other, powers
	f.Claim = fmt.Sprintf("%d of %d outputs of the port's %s are the reference's times a number of their own (from %s to %s): the scales of the weight's rows are not read where they belong", other, len(gain), c.At, g3(least(gain)), g3(greatest(gain)))
	if powers == other {
		f.Claim += "; every factor is a power of two, as exponents read from another row would be"
	}
	f.For = append(f.For, fmt.Sprintf("with one number per output rel_l2 is %s (before %s), over %s", g2(t.after.Whole), g2(t.before.Whole), plural(ref.Rows, "token")))
	f.Try = c.tryLine("fit(cols)")
	f.Verify = "compare the layout (permutation, interleave) in which the scales are stored with the one the kernel reads"
	f.Fix = "store, or read, the scales in the kernel's layout"
	return f, true
}

// zeroPoint: the difference is a combination of the inputs' sums over groups,
// which is what a constant added to every weight of a group does.
func zeroPoint(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	x, in, ok := c.linearInput()
	if !ok {
		return compare.Finding{}, false
	}
	tried := false
	for _, group := range []int{x.Cols, 256, 128, 64, 32, 16} {
		if group > x.Cols || x.Cols%group != 0 || group != x.Cols && group*2 > x.Cols {
			continue
		}
		g := x.Cols / group
		if x.Rows < max(minTokens, valuesPerParam*g) {
			if !tried {
				c.Note("quant.zero_point at %s with groups of %d needs at least %d tokens, the dump has %d", c.At, group, valuesPerParam*g, x.Rows)
			}
			tried = true
			continue
		}
		got, ok := withoutGroupSums(x, ref, port, group, false)
		if !ok {
			continue
		}
		t := c.tryOn(ref, port, got, g*ref.Cols)
		f, ok := c.finding("quant.zero_point", t)
		if !ok {
			continue
		}
		// Inputs of few directions, or with a few massive ones, are explained by
		// any combinations of them: alternating ones must do much worse.
		if other, ok := withoutGroupSums(x, ref, port, group, true); !ok || t.after.Whole > 0.3*distance(ref, other).Whole {
			c.Note("quant.zero_point at %s: sums over groups of %d explain the difference no better than other combinations of the inputs do", c.At, group)
			continue
		}
		sides(&f, "its zero point", "shifted by a constant per group")
		f.Values["group"] = group
		f.Claim = fmt.Sprintf("the port's %s differs by a multiple of the sum of its inputs over each group of %d: every weight of a group is shifted by one constant, a zero point", c.At, group)
		f.For = append(f.For, fmt.Sprintf("regressed on the group sums of %s (%d parameters per output on %s) rel_l2 is %s (before %s); noise of that size would leave most of it", in, g, plural(x.Rows, "token"), g2(t.after.Whole), g2(t.before.Whole)))
		f.Try = c.tryLine("fit_group_sums(%s, group=%d)", in, group)
		f.Verify = "compare the zero point of one group as stored and as used: an offset of one (AutoGPTQ's zeros hold z-1), a zero point subtracted twice"
		f.Fix = "use the stored zero point once"
		return f, true
	}
	return compare.Finding{}, false
}

// withoutGroupSums is port without what the sums of x over groups explain of
// port - ref; ok is false where they cannot be fitted.
func withoutGroupSums(x, ref, port *Tensor, group int, alternating bool) (got *Tensor, ok bool) {
	fitted := groupSumFit(x, ref, port, group, alternating)
	if fitted == nil {
		return nil, false
	}
	got = port.like(make([]float64, len(port.Data)))
	for i, v := range port.Data {
		got.Data[i] = v - fitted.Data[i]
	}
	return got, true
}

// groupSumFit regresses port - ref on the sums of x over groups, per output;
// alternating takes every second input with the other sign, and a constant beside
// them: a bias is explained by inputs that have a mean.
func groupSumFit(x, ref, port *Tensor, group int, alternating bool) *Tensor {
	g := x.Cols / group
	if alternating {
		g++
	}
	a := mat.NewDense(x.Rows, g, nil)
	for t := range x.Rows {
		if alternating {
			a.Set(t, g-1, 1)
		}
		for i, v := range x.Row(t) {
			if alternating && i%2 == 1 {
				v = -v
			}
			a.Set(t, i/group, a.At(t, i/group)+v)
		}
	}
	d := mat.NewDense(ref.Rows, ref.Cols, nil)
	for i, v := range ref.Data {
		d.RawMatrix().Data[i] = port.Data[i] - v
	}
	coef, err := leastSquares(a, d)
	if err != nil {
		return nil
	}
	var fit mat.Dense
	fit.Mul(a, coef)
	return port.like(fit.RawMatrix().Data)
}

// inputOrders are the exchanges of inputs that packed weights suffer.
func inputOrders(n int) []namedPerm {
	out := []namedPerm{
		{"neighbours exchanged", "the two nibbles of every byte change places", permOf(n, func(i int) int { return i ^ 1 })},
	}
	if n%8 == 0 {
		awq := []int{0, 2, 4, 6, 1, 3, 5, 7}
		out = append(out,
			namedPerm{"each eight in the order 0 2 4 6 1 3 5 7", "the packing order of AWQ was not undone", permOf(n, func(i int) int { return i/8*8 + awq[i%8] })},
			namedPerm{"each eight in the order 0 4 1 5 2 6 3 7", "the packing order of AWQ was undone where it was not applied", permOf(n, func(i int) int { return i/8*8 + inverse(awq)[i%8] })},
			namedPerm{"each eight reversed", "the nibbles of every word are read from the other end", permOf(n, func(i int) int { return i/8*8 + 7 - i%8 })})
	}
	for _, half := range []int{32, 64, 128, n} {
		if n%half == 0 && half%2 == 0 {
			h := half
			out = append(out,
				namedPerm{fmt.Sprintf("halves of each %d interleaved", h), "low and high nibbles of a block were taken for neighbours", permOf(n, func(i int) int { return i/h*h + (i%h)%2*(h/2) + (i%h)/2 })},
				namedPerm{fmt.Sprintf("even and odd of each %d split", h), "neighbours were taken for low and high nibbles of a block", permOf(n, func(i int) int { return i/h*h + (i%h)%(h/2)*2 + (i%h)/(h/2) })})
		}
	}
	return out
}

// exchangedInputs: the weights of a row are read in another order. With a matrix
// whose columns are unlike, port·refᵀ resembles x·P·xᵀ for the right order P
// and no other; with fewer tokens than inputs that is all that can be known.
func exchangedInputs(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	x, in, ok := c.linearInput()
	if !ok || x.Rows < 2*minTokens || x.Cols < 16 || distance(ref, port).Token < 0.2 {
		return compare.Finding{}, false
	}
	x, _ = sampled(x, x)
	r, p := sampled(ref, port)
	cross := gram(p, r)
	plain := likeness(cross, gram(x, x))
	best, second, found := 0.0, 0.0, namedPerm{}
	for _, k := range inputOrders(x.Cols) {
		v := likeness(cross, gram(x.takeCols(k.perm), x))
		if v > best {
			best, second, found = v, best, k
		} else if v > second {
			second = v
		}
	}
	if best < 0.4 || best < 1.5*second || best < plain+0.2 {
		return compare.Finding{}, false
	}
	e := distance(ref, port)
	f := c.signature("quant.nibble_order", trial{before: e, after: e, floor: c.localFloor(c.At), values: len(cross.Data)})
	sides(&f, "inputs in order", found.name)
	f.Values["likeness"] = compare.Num(best)
	f.Claim = fmt.Sprintf("the port's %s multiplies its inputs by the reference's weights in another order, %s: %s", c.At, found.name, found.meaning)
	f.For = append(f.For, fmt.Sprintf("port·refᵀ correlates with x·P·xᵀ of %s by %s over %d products of tokens (next order %s, unpermuted %s; unrelated weights give about %s)", in, g3(best), len(cross.Data), g3(second), g3(plain), g2(1/math.Sqrt(float64(len(cross.Data))))))
	f.Against = append(f.Against, fmt.Sprintf("a proof needs more tokens than inputs (%d), or the weights", x.Cols))
	f.Verify = "unpack one row on both sides and compare the order of the values"
	f.Fix = "unpack the nibbles in the order in which they were packed"
	return f, true
}

// likeness is the correlation of two matrices' entries.
func likeness(a, b *Tensor) float64 {
	return dot(a.Data, b.Data) / math.Sqrt(dot(a.Data, a.Data)*dot(b.Data, b.Data))
}

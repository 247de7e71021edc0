package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// normOrder: the port's output is the reference's norm of another tensor.
func normOrder(p normPair) (compare.Finding, bool) {
	r := p.rule[Ref]
	if p.c.Tap == "post_attn_norm" && len(residualByNorm(p.c)) > 0 {
		return compare.Finding{}, false // the stream that it is given is wrong, not the place of the norm
	}
	for _, x := range p.c.normCandidates(Port) {
		if x.Name == p.in[Port].Name || x.Rows != p.port.Rows || x.Cols != p.port.Cols {
			continue
		}
		got := r.apply(x.Tensor)
		tr := trial{
			before: distance(p.port, r.apply(p.in[Port].Tensor)), after: distance(p.port, got),
			floor: p.c.ruleFloor(p.port), values: len(p.port.Data),
		}
		f, ok := p.c.finding("norm.order", tr)
		if !ok || f.Proof != compare.ProofExact {
			continue
		}
		sides(&f, p.in[Ref].Name, x.Name)
		f.Claim = fmt.Sprintf("the norm at %s reads %s in the port, %s in the reference", p.c.At, x.Name, p.in[Ref].Name)
		f.For = append(f.For, fmt.Sprintf("the reference's norm (its eps and gain) of the port's %s gives the port's output to %s; of %s only to %s", x.Name, g2(tr.after.Whole), p.in[Port].Name, g2(tr.before.Whole)))
		f.Try = p.c.tryLine("%s | %s | gain(%s) | target(port)", x.Expr, r.call(p.ref.Cols), p.here(Ref))
		f.Verify = "follow what is handed to the norm in both codes: before or after the residual addition, the rotation, or the attention"
		f.Fix = fmt.Sprintf("hand it %s", p.in[Ref].Name)
		return f, true
	}
	return compare.Finding{}, false
}

// normCandidates lists what else a norm of this layer may have been given, of
// one run's own tensors.
func (c *Context) normCandidates(s Side) []operand {
	var out []operand
	add := func(x operand, ok bool) {
		if ok {
			out = append(out, x)
		}
	}
	if c.Layer < 0 {
		for _, n := range c.Names(s) {
			if _, tap := SplitName(n); tap == "layer" {
				add(c.one(s, n))
			}
		}
		return out
	}
	h, okH := c.blockOperand(s, c.Layer)
	add(h, okH)
	var o operand
	okO := false
	for _, tap := range []string{"attn_out", "ffn_inp", "mlp_out", "input_norm", "q", "k", "q_rope", "k_rope"} {
		x, ok := c.one(s, c.TapName(tap))
		if tap == "attn_out" {
			o, okO = x, ok
		}
		if c.TapName(tap) != c.At {
			add(x, ok)
		}
	}
	if okH && okO {
		add(plus(h, o, s))
	}
	if n1, ok := c.one(s, c.TapName("input_norm")); ok && okO {
		add(plus(n1, o, s))
	}
	// Norms after the addition, as in the first transformers.
	if n1, ok := c.one(s, c.TapName("input_norm")); ok && c.Tap != "input_norm" {
		if m, ok := c.one(s, c.TapName("mlp_out")); ok {
			add(plus(n1, m, s))
		}
	}
	if c.Layer > 0 {
		add(c.blockOperand(s, c.Layer-1))
	}
	return out
}

// normOverflow: the mean square left float16's range on the way, which the input
// predicts.
func normOverflow(p normPair) (compare.Finding, bool) {
	if distance(p.ref, p.port).below(p.c.FloorOf(p.c.At)) {
		return compare.Finding{}, false
	}
	x := p.in[Port]
	bad, predicted := 0, 0
	var where []int
	want := p.rule[Ref].apply(x.Tensor)
	for t := range p.port.Rows {
		d2, r2 := rowDistance(want.Row(t), p.port.Row(t))
		wrong := !(d2 <= 0.01*r2)
		ss, most := dot(x.Row(t), x.Row(t)), 0.0
		for _, v := range x.Row(t) {
			most = max(most, v*v)
		}
		over := ss > maxHalf || most > maxHalf
		if wrong {
			bad++
			where = append(where, t)
			if over {
				predicted++
			}
		} else if over {
			return compare.Finding{}, false
		}
	}
	if bad == 0 || bad != predicted {
		return compare.Finding{}, false
	}
	f := p.c.signature("numerics.overflow", trial{before: distance(p.ref, p.port), after: distance(p.ref, want), floor: p.c.localFloor(p.c.At), values: len(p.port.Data)})
	sides(&f, "finite", "overflow of the sum of squares")
	f.Claim = fmt.Sprintf("the sum of squares inside the norm at %s leaves float16's range (65504) in the port", p.c.At)
	f.For = append(f.For, fmt.Sprintf("%s wrong (%s), and exactly those have a square or sum of squares over 65504 in the norm's input", plural(bad, "token"), rangesOf(where)))
	f.Verify = "see in which dtype the norm squares and sums"
	f.Fix = "square and sum in float32"
	return f, true
}

// maxHalf is float16's largest finite value.
const maxHalf = 65504

// normPrecision: the port follows the reference's law only roughly, token by
// token: the statistic, or the product, is kept in a narrower dtype than the
// output's.
func normPrecision(p normPair) (compare.Finding, bool) {
	r, x := p.rule[Ref], p.in[Port]
	law := r.apply(x.Tensor)
	err := distance(p.port, law)
	floor := p.c.ruleFloor(p.port)
	if !(err.Token < 0.1) || err.Token < 2*normBound(p.port) {
		return compare.Finding{}, false
	}
	best, tr := lowNorm{}, trial{}
	for _, l := range lowNorms {
		got := l.apply(r, x.Tensor)
		after := distance(p.port, got)
		if best.name == "" || after.Token < tr.after.Token {
			best, tr = l, trial{before: err, after: after, floor: floor, values: len(p.port.Data)}
		}
	}
	if proof, ok := tr.proof(); ok {
		f := p.c.signature("norm.precision", tr)
		f.Proof = proof
		sides(&f, "float32", best.dtype)
		f.Claim = fmt.Sprintf("the port's norm at %s keeps %s", p.c.At, best.name)
		f.For = append(f.For, fmt.Sprintf("repeated that way on the port's own input it gives the port's output to %s, in full precision to %s", g2(tr.after.Whole), g2(err.Whole)))
		f.Try = p.c.tryLine("%s | norm_low(%s, eps=%s, group=%d, kind=%s) | gain(%s) | target(port)", x.Expr, best.dtype, formatNum(r.Eps), r.Width, best.kind, p.here(Ref))
		f.Verify = "see in which dtype the norm squares, sums and multiplies"
		f.Fix = "square, sum and multiply in float32, round once at the end"
		return f, true
	}
	// One free number per token: the law of the gain holds, the statistic does not.
	alpha, _ := rowScales(law, p.port)
	got := law.mapRows(func(t int, row []float64) {
		for i := range row {
			row[i] *= alpha[t]
		}
	})
	tr = trial{before: err, after: distance(p.port, got), floor: floor, params: p.port.Rows, values: len(p.port.Data)}
	if _, ok := tr.proof(); !ok {
		return compare.Finding{}, false
	}
	f := p.c.signature("norm.precision", tr)
	f.Proof = compare.ProofFit
	dev := make([]float64, len(alpha))
	for t, a := range alpha {
		dev[t] = math.Abs(a - 1)
	}
	sides(&f, "within its rounding", fmt.Sprintf("mean square off by a median of %s", g2(2*medianOf(dev))))
	f.Claim = fmt.Sprintf("the port's norm at %s misses its own law by one number per token, %s in the median: the mean square is summed in low precision", p.c.At, g2(medianOf(dev)))
	f.For = append(f.For,
		fmt.Sprintf("worked out in float64 from the port's own input the output is off by %s, %s times its floor; the reference's norm by %s", g2(err.Token), g2(err.Token/floor), g2(p.rule[Ref].Resid)),
		fmt.Sprintf("with one number per token the rest is %s", g2(tr.after.Token)))
	f.Verify = "see in which dtype the norm squares and sums"
	f.Fix = "sum the squares in float32"
	return f, true
}

// lowNorm is one way to run an RMS norm in a narrow dtype.
type lowNorm struct {
	name, dtype, kind string
}

// lowNorms are tried in order. kind: "sum" squares and sums in the dtype, one
// after the other; "stat" rounds only the mean square; "value" rounds the
// normalised value before the gain.
var lowNorms = []lowNorm{
	{"the sum of squares in bfloat16, one after the other", "bfloat16", "sum"},
	{"the sum of squares in float16, one after the other", "float16", "sum"},
	{"the mean square rounded to bfloat16", "bfloat16", "stat"},
	{"the mean square rounded to float16", "float16", "stat"},
	{"the normalised value rounded to bfloat16 before the weight", "bfloat16", "value"},
	{"the normalised value rounded to float16 before the weight", "float16", "value"},
	{"its input rounded to bfloat16", "bfloat16", "input"},
	{"its input rounded to float16", "float16", "input"},
}

// normalise runs the norm without its gain on one block of x, in place.
func (l lowNorm) normalise(x []float64, eps float64) {
	round := func(v float64) float64 { return roundFloat(l.dtype, v) }
	var ms float64
	switch l.kind {
	case "sum":
		for _, v := range x {
			ms = round(ms + round(v*v))
		}
		ms /= float64(len(x))
	case "input":
		for i, v := range x {
			x[i] = round(v)
		}
		fallthrough
	default:
		ms = dot(x, x) / float64(len(x))
		if l.kind == "stat" {
			ms = round(ms)
		}
	}
	inv := 1 / math.Sqrt(ms+eps)
	for i, v := range x {
		x[i] = v * inv
		if l.kind == "value" {
			x[i] = round(x[i])
		}
	}
}

// apply is the norm with n's eps, width and gain.
func (l lowNorm) apply(n normFit, x *Tensor) *Tensor {
	return x.mapRows(func(_ int, row []float64) {
		for b := 0; b < len(row); b += n.Width {
			l.normalise(row[b:b+n.Width], n.Eps)
		}
		for d := range row {
			row[d] *= n.Gain[d]
			if n.Bias != nil {
				row[d] += n.Bias[d]
			}
		}
	})
}

package diagnose

import (
	"fmt"
	"strings"
)

// operand is a tensor of one run together with the transform that makes it, so
// that a finding can print what it used.
type operand struct {
	*Tensor
	Expr string
	// Name says in words what it is.
	Name string
}

// one wraps a dumped checkpoint.
func (c *Context) one(s Side, name string) (operand, bool) {
	t, ok := c.Tensor(s, name)
	if !ok {
		return operand{}, false
	}
	return operand{t, fmt.Sprintf("from(%s)", tapOf(s, name)), name}, true
}

// tapOf writes a checkpoint as a transform's argument.
func tapOf(s Side, name string) string {
	if s == Ref {
		return "ref:" + name
	}
	return name
}

// plus adds two operands of one run.
func plus(a, b operand, s Side) (operand, bool) {
	if a.Rows != b.Rows || a.Cols != b.Cols {
		return operand{}, false
	}
	sum := linear([]*Tensor{a.Tensor, b.Tensor}, []float64{1, 1})
	return operand{sum, fmt.Sprintf("sum(%s, %s)", tapOf(s, a.Name), tapOf(s, b.Name)), a.Name + " + " + b.Name}, true
}

// normInput returns what the norm at a checkpoint reads in that run.
func (c *Context) normInput(s Side, name string) (operand, bool) {
	layer, tap := SplitName(name)
	tapName := func(t string) string { return LayerName(layer, t) }
	switch tap {
	case "input_norm":
		return c.blockOperand(s, layer)
	case "q_norm":
		return c.one(s, tapName("q"))
	case "k_norm":
		return c.one(s, tapName("k"))
	case "post_attn_norm":
		if x, ok := c.one(s, tapName("ffn_inp")); ok {
			return x, true
		}
		h, ok := c.blockOperand(s, layer)
		o, ok2 := c.one(s, tapName("attn_out"))
		if !ok || !ok2 {
			return operand{}, false
		}
		if m := firstOf(c.Facts(s).ResidualMultiplier, c.Facts(Ref).ResidualMultiplier); m != 0 && m != 1 {
			scaled := operand{o.scaled(m), "", fmt.Sprintf("%g x %s", m, o.Name)}
			x, ok := plus(h, scaled, s)
			x.Expr = fmt.Sprintf("%s | add(%s, times=%s)", h.Expr, tapOf(s, o.Name), formatNum(m))
			return x, ok
		}
		return plus(h, o, s)
	case "post_final_norm":
		if l, ok := c.lastLayer(); ok {
			return c.one(s, l)
		}
	}
	return operand{}, false
}

// blockOperand returns a layer's input.
func (c *Context) blockOperand(s Side, layer int) (operand, bool) {
	if layer == 0 {
		return c.one(s, "post_embed")
	}
	return c.one(s, LayerName(layer-1, "layer"))
}

// normWidths lists the widths over which a norm may take its mean square: all
// dims, a head, and equal shards.
func (c *Context) normWidths(name string, cols int) []int {
	_, tap := SplitName(name)
	var out []int
	add := func(w int) {
		for _, v := range out {
			if v == w {
				return
			}
		}
		if w >= 2 && w <= cols && cols%w == 0 {
			out = append(out, w)
		}
	}
	if strings.HasPrefix(tap, "q") || strings.HasPrefix(tap, "k") {
		add(c.headWidth(cols))
	}
	add(cols)
	add(c.headWidth(cols))
	for _, n := range []int{2, 4, 8, 16, 3, 6, 12, 24, 32} {
		add(cols / n)
	}
	return out
}

// headWidth is the width of a head, 0 where neither a manifest nor a shape tells.
func (c *Context) headWidth(cols int) int {
	for _, s := range []Side{Ref, Port} {
		f := c.Facts(s)
		switch {
		case f.HeadDim > 0 && cols%f.HeadDim == 0:
			return f.HeadDim
		case f.HeadDim == 0 && f.NumHeads > 0 && f.HiddenSize%f.NumHeads == 0 && cols%(f.HiddenSize/f.NumHeads) == 0:
			return f.HiddenSize / f.NumHeads
		}
	}
	return c.headDim(c.At, cols)
}

// normTaps are the taps whose output is a norm's.
var normTaps = []string{"input_norm", "post_attn_norm", "q_norm", "k_norm", "post_final_norm"}

// readNorm fits the norm at a checkpoint of one run, on the input that it has in
// the usual block. ok tells whether a rule was found that holds to the run's own
// rounding.
func (c *Context) readNorm(s Side, name string) (n normFit, x operand, ok bool) {
	x, found := c.normInput(s, name)
	if !found {
		return n, x, false
	}
	n, ok = c.readNormOf(s, name, x)
	return n, x, ok
}

// readNormOf fits the norm at a checkpoint of one run on a given input: the plain
// RMS norm where it does, else the other spans, a norm that subtracts the mean,
// one with a bias, and no norm at all.
func (c *Context) readNormOf(s Side, name string, x operand) (best normFit, ok bool) {
	y, found := c.Tensor(s, name)
	if !found || x.Rows != y.Rows || x.Cols != y.Cols {
		return best, false
	}
	bound := normBound(y)
	known := firstOf(c.Facts(s).RMSEps, c.Facts(Ref).RMSEps)
	in, y := sampled(x.Tensor, y)
	best = normFit{Resid: 2}
	// A norm with an eps far beyond the mean square is no norm, and fits as well.
	if f, fitted := fitGainOnly(in, y); fitted {
		best = f
	}
	keep := func(f normFit) (good bool) {
		enough := best.Resid
		if best.Resid < 2 {
			enough /= 2 // the simpler form stays unless the next leaves clearly less
		}
		if !(f.Resid < enough) || f.Eps > 100*greatestMS(in, f.Width) {
			return false
		}
		best = f
		return best.Resid <= bound/2 // no other form can leave clearly less
	}
	for _, centred := range []bool{false, true} {
		for _, w := range c.normWidths(name, y.Cols) {
			f, fitted := fitNorm(in, y, w, centred)
			if !fitted {
				return best, false
			}
			if keep(f) {
				return best.at(known, in, y), true
			}
		}
	}
	if f, fitted := fitLayerNorm(in, y); fitted {
		keep(f)
	}
	return best.at(known, in, y), best.Resid <= bound
}

// normBound is how far a norm's output may lie from its rule worked out on the
// dumped input: two roundings, of the value and of its product with the weight,
// or what sums in float32 lose.
func normBound(y *Tensor) float64 { return max(2*unitOf(y, y), 8e-6) }

// maxFitRows bounds the tokens that a norm is read from: a gain needs a handful,
// an eps some hundred.
const maxFitRows = 512

// sampled takes evenly spaced tokens of a pair where it has very many.
func sampled(x, y *Tensor) (*Tensor, *Tensor) {
	if x.Rows <= maxFitRows {
		return x, y
	}
	rows := permOf(maxFitRows, func(i int) int { return i * x.Rows / maxFitRows })
	return x.takeRows(rows), y.takeRows(rows)
}

// fitGainOnly reads y = gain ⊙ x: no norm at all.
func fitGainOnly(x, y *Tensor) (normFit, bool) {
	g, _ := colScales(x, y)
	for d, v := range g {
		if v != v {
			g[d] = 0
		}
	}
	n := normFit{Form: "none", Width: x.Cols, Gain: g}
	n.Resid = distance(y, n.apply(x)).Token
	return n, true
}

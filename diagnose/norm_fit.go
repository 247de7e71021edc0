package diagnose

import (
	"fmt"
	"math"
)

// normFit is what a norm does, read off its input and output:
// y = (x - centre·mean(x)) / s ⊙ gain + bias, over blocks of Width dims.
type normFit struct {
	// Form is "inside" for s = √(ms+eps), "outside" for s = √ms + eps, and
	// "none" for s = 1: no norm at all.
	Form string
	// Centred norms subtract the mean first, and ms is the variance.
	Centred bool
	// Width is the number of dims whose mean square is taken together.
	Width int
	// Eps is the fitted epsilon and EpsErr its standard error; an Eps that is
	// not several EpsErr from another cannot be told from it.
	Eps, EpsErr float64
	// Gain is the weight of each dim, Bias what is added to it; nil for none.
	Gain, Bias []float64
	// Resid is the token-normalised error of the fit.
	Resid float64
}

// normRounds bounds the alternations between gain and token scales, which end
// when no scale moves by more than normSettled: the product is of rank one and
// the first guess is near.
const (
	normRounds  = 40
	normSettled = 1e-10
)

// fitNorm reads one form of norm off x and y. ok is false where the tensors have
// too few tokens for a gain per dim (minTokens) or do not fit each other.
func fitNorm(x, y *Tensor, width int, centred bool) (n normFit, ok bool) {
	return fitNormBias(x, y, width, centred, nil)
}

// fitLayerNorm is fitNorm for a norm that subtracts the mean and adds a bias.
func fitLayerNorm(x, y *Tensor) (n normFit, ok bool) {
	if y.Rows < valuesPerParam*2 {
		return n, false // two numbers per dim
	}
	return fitNormBias(x, y, y.Cols, true, make([]float64, y.Cols))
}

// fitNormBias reads a norm with a bias where one is given to be filled.
func fitNormBias(x, y *Tensor, width int, centred bool, bias []float64) (n normFit, ok bool) {
	if x.Rows != y.Rows || x.Cols != y.Cols || x.Rows < minTokens || width < 2 || x.Cols%width != 0 || !x.finite() || !y.finite() {
		return n, false
	}
	u, ms := normalised(x, width, centred)
	blocks := x.Cols / width
	scale := make([]float64, x.Rows*blocks)
	for i := range scale {
		scale[i] = 1
		if ms[i] == 0 {
			scale[i] = 0 // a zero row says nothing of the gain
		}
	}
	gain := make([]float64, x.Cols)
	for range normRounds {
		gainStep(u, y, scale, gain, bias, width)
		if scaleStep(u, y, scale, gain, bias, width) < normSettled {
			break
		}
	}
	n = normFit{Width: width, Centred: centred, Form: "inside", Bias: bias}
	n.fitEps(scale, ms, blocks)
	n.Gain = gain
	// The scales' level belongs to the gain: refit it under the law.
	law := make([]float64, len(scale))
	for i := range law {
		if ms[i] > 0 {
			law[i] = math.Sqrt(ms[i]) / n.denominator(ms[i])
		}
	}
	gainStep(u, y, law, gain, bias, width)
	n.Resid = distance(y, n.apply(x)).Token
	return n, true
}

// normalised returns x / √ms per block, and ms per token and block.
func normalised(x *Tensor, width int, centred bool) (u *Tensor, ms []float64) {
	blocks := x.Cols / width
	ms = make([]float64, x.Rows*blocks)
	u = x.mapRows(func(t int, row []float64) {
		for b := range blocks {
			part := row[b*width : (b+1)*width]
			if centred {
				var mean float64
				for _, v := range part {
					mean += v / float64(width)
				}
				for i := range part {
					part[i] -= mean
				}
			}
			m := dot(part, part) / float64(width)
			ms[t*blocks+b] = m
			if m > 0 {
				inv := 1 / math.Sqrt(m)
				for i := range part {
					part[i] *= inv
				}
			}
		}
	})
	return u, ms
}

// gainStep solves for the gain, and for the bias where there is one, given the
// token scales: a line per dim.
func gainStep(u, y *Tensor, scale, gain, bias []float64, width int) {
	blocks := u.Cols / width
	n := u.Cols
	see, sey := make([]float64, n), make([]float64, n)
	se, sy, sw := make([]float64, n), make([]float64, n), 0.0
	w := rowWeights(y)
	for t := range u.Rows {
		a, b, w2 := u.Row(t), y.Row(t), w[t]*w[t]
		sw += w2
		for d, v := range a {
			e := v * scale[t*blocks+d/width]
			sey[d] += w2 * e * b[d]
			see[d] += w2 * e * e
			se[d] += w2 * e
			sy[d] += w2 * b[d]
		}
	}
	for d := range gain {
		gain[d] = 0
		if bias != nil {
			if det := sw*see[d] - se[d]*se[d]; det > 1e-12*sw*see[d] {
				gain[d] = (sw*sey[d] - se[d]*sy[d]) / det
				bias[d] = (sy[d] - gain[d]*se[d]) / sw
			}
		} else if see[d] > 0 {
			gain[d] = sey[d] / see[d]
		}
	}
}

// scaleStep solves for the token scales given the gain, and returns the largest
// relative change.
func scaleStep(u, y *Tensor, scale, gain, bias []float64, width int) (moved float64) {
	blocks := u.Cols / width
	for t := range u.Rows {
		a, b := u.Row(t), y.Row(t)
		for k := range blocks {
			var num, den float64
			for d := k * width; d < (k+1)*width; d++ {
				e, to := a[d]*gain[d], b[d]
				if bias != nil {
					to -= bias[d]
				}
				num += e * to
				den += e * e
			}
			if old := scale[t*blocks+k]; den > 0 && old != 0 {
				scale[t*blocks+k] = num / den
				moved = max(moved, math.Abs(num/den/old-1))
			}
		}
	}
	return moved
}

// fitEps reads eps off the token scales c = k·√ms / s. Inside the root 1/c² is
// affine in 1/ms, outside 1/c is affine in 1/√ms; eps is slope over intercept.
// Every block has a level k of its own; the blocks' eps are averaged by their
// errors. Where eps is small both forms fit alike, and inside is taken.
func (n *normFit) fitEps(scale, ms []float64, blocks int) {
	in, inErr, inRes := pooled(scale, ms, blocks, func(c, m float64) (x, y float64) { return 1 / m, 1 / (c * c) })
	out, outErr, outRes := pooled(scale, ms, blocks, func(c, m float64) (x, y float64) { return 1 / math.Sqrt(m), 1 / c })
	n.Eps, n.EpsErr = in, inErr
	if outRes < inRes/3 && math.Abs(out) > 5*outErr {
		n.Form, n.Eps, n.EpsErr = "outside", out, outErr
	}
}

// pooled fits one eps over all blocks, each token scale turned into a point of a
// line by f.
func pooled(scale, ms []float64, blocks int, f func(c, m float64) (x, y float64)) (eps, se, resid float64) {
	var sum, weight float64
	used := 0
	for b := range blocks {
		var xs, ys []float64
		for i := b; i < len(scale); i += blocks {
			if ms[i] > 0 && scale[i] > 0 {
				x, y := f(scale[i], ms[i])
				xs, ys = append(xs, x), append(ys, y)
			}
		}
		if len(xs) < minTokens {
			continue
		}
		e, s, r := ratioFit(xs, ys)
		resid = math.Hypot(resid, r)
		used++
		if s > 0 && !math.IsInf(s, 0) && !math.IsNaN(s) {
			sum, weight = sum+e/(s*s), weight+1/(s*s)
		}
	}
	if weight == 0 {
		return 0, math.Inf(1), resid
	}
	return sum / weight, 1 / math.Sqrt(weight), resid / math.Sqrt(float64(max(1, used)))
}

// ratioFit fits y = a·(1 + e·x), each point weighted by 1/y so that tokens of
// any size count alike, and returns e, its standard error and the relative
// residual.
func ratioFit(x, y []float64) (e, se, resid float64) {
	var sw, sx, sxx, sy, sxy float64
	for i := range x {
		w := 1 / (y[i] * y[i])
		sw += w
		sx += w * x[i]
		sxx += w * x[i] * x[i]
		sy += w * y[i]
		sxy += w * x[i] * y[i]
	}
	det := sw*sxx - sx*sx
	if det <= 1e-14*sw*sxx {
		return 0, math.Inf(1), 0 // every token has the same size
	}
	b := (sw*sxy - sx*sy) / det
	a := (sy - b*sx) / sw
	var rss float64
	for i := range x {
		d := (y[i] - a - b*x[i]) / y[i]
		rss += d * d
	}
	n := float64(len(x))
	resid = math.Sqrt(rss / n)
	se = math.Sqrt(rss / max(1, n-2) * sw / det)
	return b / a, math.Abs(se / a), resid
}

// denominator is s for one mean square.
func (n normFit) denominator(ms float64) float64 {
	switch n.Form {
	case "outside":
		return math.Sqrt(ms) + n.Eps
	case "none":
		return 1
	}
	return math.Sqrt(max(0, ms+n.Eps))
}

// at takes a known eps, as a manifest states it, where the fit cannot tell it
// from its own; the gain is read off again under it.
func (n normFit) at(eps float64, x, y *Tensor) normFit {
	if eps <= 0 || n.Form != "inside" || !(math.Abs(eps-n.Eps) <= 4*n.EpsErr) {
		return n
	}
	m := n
	m.Eps = eps
	u, ms := normalised(x, n.Width, n.Centred)
	law := make([]float64, len(ms))
	for i, v := range ms {
		if v > 0 {
			law[i] = math.Sqrt(v) / m.denominator(v)
		}
	}
	m.Gain = make([]float64, len(n.Gain))
	if n.Bias != nil {
		m.Bias = make([]float64, len(n.Bias))
	}
	gainStep(u, y, law, m.Gain, m.Bias, n.Width)
	if m.Resid = distance(y, m.apply(x)).Token; !(m.Resid <= 1.5*n.Resid+0x1p-24) {
		return n
	}
	return m
}

// apply repeats the norm on another input of the same width.
func (n normFit) apply(x *Tensor) *Tensor {
	blocks := x.Cols / n.Width
	u, ms := normalised(x, n.Width, n.Centred)
	return u.mapRows(func(t int, row []float64) {
		for d := range row {
			m := ms[t*blocks+d/n.Width]
			if s := n.denominator(m); s > 0 {
				row[d] *= math.Sqrt(m) / s * n.Gain[d]
			}
			if n.Bias != nil {
				row[d] += n.Bias[d]
			}
		}
	})
}

// withEps, withGain return the norm with one part replaced.
func (n normFit) withEps(m normFit) normFit {
	n.Form, n.Eps, n.EpsErr = m.Form, m.Eps, m.EpsErr
	return n
}

func (n normFit) withGain(m normFit) normFit {
	n.Gain, n.Bias = m.Gain, m.Bias
	return n
}

// call writes the norm without its gain as a transform.
func (n normFit) call(cols int) string {
	args := "eps=" + formatNum(n.Eps)
	if n.Width != cols {
		args += fmt.Sprintf(", group=%d", n.Width)
	}
	switch {
	case n.Form == "outside":
		return "rmsnorm_outside(" + args + ")"
	case n.Centred:
		return "layernorm(" + args + ")"
	}
	return "rmsnorm(" + args + ")"
}

// epsText names an eps, or says that the tokens cannot tell it.
func (n normFit) epsText() string {
	if !(n.EpsErr < 0.2*math.Abs(n.Eps)) {
		return "too small to be read off these tokens"
	}
	return g6(n.Eps) + " (± " + g2(n.EpsErr) + ", " + n.Form + " the root)"
}

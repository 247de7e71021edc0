package diagnose

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ropeRule says how one side rotates q and k: enough to repeat it.
//
// Pair i of a head turns by the angle position · w_i, with
// w_i = theta^(-2i/Den) before scaling. Layout "half" pairs dims (i, i+Dims/2),
// "interleaved" pairs (2i, 2i+1).
type ropeRule struct {
	// None: no rotation at all (a NoPE layer).
	None   bool
	Layout string
	// Dims is the width that is paired up in each head, 0 for the whole head;
	// Pairs of the Dims/2 pairs turn, 0 for all; Den is the exponent's
	// denominator, 0 for Dims.
	// Start is the first paired dim of each head (0: the leading dims turn).
	Dims, Pairs, Den, Start int
	Theta                   float64
	// Freqs replaces the law by one frequency a pair.
	Freqs []float64
	// Scaling is "", "linear", "llama3" or "yarn"; Factor and the rest are its
	// parameters, named as in transformers' rope_scaling.
	Scaling                                     string
	Factor, Low, High, Orig, BetaFast, BetaSlow float64
	// Negative turns the other way.
	Negative bool
	// Mscale multiplies cos and sin (YaRN's attention factor), 0 for 1.
	Mscale float64
	// Offset is added to every position; Positions replaces them.
	Offset    float64
	Positions []float64
	// RoundPos, RoundFreq, RoundAngle and RoundTable name the dtype that
	// positions, w, position·w, and cos and sin are rounded to; "" for none.
	RoundPos, RoundFreq, RoundAngle, RoundTable string
	// Sections splits the pairs among the axes of a multi-axis position
	// (M-RoPE), SectionOrder is "chunked" or "interleaved".
	Sections     []int
	SectionOrder string
}

// ropeDefaults are the constants of the published scalings: llama3 from Meta's
// reference code, yarn from the YaRN paper (arXiv 2309.00071).
const (
	llama3Low, llama3High, llama3Orig = 1, 4, 8192
	yarnFast, yarnSlow                = 32, 1
)

// width is the number of dims paired up in a head.
func (r ropeRule) width(headDim int) int {
	if r.Dims > 0 && r.Dims <= headDim {
		return r.Dims
	}
	return headDim
}

// pair returns the two dims of pair i inside a head.
func (r ropeRule) pair(i, headDim int) (int, int) {
	if r.Layout == "interleaved" {
		return r.Start + 2*i, r.Start + 2*i + 1
	}
	return r.Start + i, r.Start + i + r.width(headDim)/2
}

// frequencies returns w_i for the pairs of a head, zero for pairs that stand.
func (r ropeRule) frequencies(headDim int) []float64 {
	n := r.width(headDim) / 2
	out := make([]float64, n)
	if r.None {
		return out
	}
	if len(r.Freqs) > 0 {
		copy(out, r.Freqs)
		return out
	}
	turning := n
	if r.Pairs > 0 && r.Pairs < n {
		turning = r.Pairs
	}
	den := r.Den
	if den == 0 {
		den = 2 * n
	}
	for i := 0; i < turning; i++ {
		w := math.Pow(r.Theta, -2*float64(i)/float64(den))
		out[i] = roundFloat(r.RoundFreq, r.scaled(w, i, den))
	}
	return out
}

// scaled applies the context-extension rule to one frequency.
func (r ropeRule) scaled(w float64, i, den int) float64 {
	switch r.Scaling {
	case "linear":
		return w / r.Factor
	case "llama3":
		// Long waves are divided by the factor, short ones kept, and between
		// the two the inverse wavelength blends them.
		wavelen := 2 * math.Pi / w
		low, high, orig := orDefault(r.Low, llama3Low), orDefault(r.High, llama3High), orDefault(r.Orig, llama3Orig)
		switch {
		case wavelen < orig/high:
			return w
		case wavelen > orig/low:
			return w / r.Factor
		}
		s := (orig/wavelen - low) / (high - low)
		return (1-s)*w/r.Factor + s*w
	case "yarn":
		lo := r.yarnPair(orDefault(r.BetaFast, yarnFast), den, math.Floor)
		hi := r.yarnPair(orDefault(r.BetaSlow, yarnSlow), den, math.Ceil)
		if hi == lo {
			hi += 0.001
		}
		ramp := math.Min(1, math.Max(0, (float64(i)-lo)/(hi-lo)))
		return w/r.Factor*ramp + w*(1-ramp)
	}
	return w
}

// yarnPair is the pair index whose wave turns beta times over the original
// context, rounded outwards and kept inside the head.
func (r ropeRule) yarnPair(beta float64, den int, round func(float64) float64) float64 {
	orig := orDefault(r.Orig, llama3Orig)
	i := round(float64(den) * math.Log(orig/(beta*2*math.Pi)) / (2 * math.Log(r.Theta)))
	return math.Min(math.Max(i, 0), float64(den-1))
}

func orDefault(v, def float64) float64 {
	if v == 0 {
		return def
	}
	return v
}

// axisOf tells which position axis turns pair i.
func (r ropeRule) axisOf(i int) int {
	if len(r.Sections) == 0 {
		return 0
	}
	if r.SectionOrder == "interleaved" {
		// Pair i belongs to axis i mod n while that axis has pairs left, else
		// to axis 0 (Qwen3-VL's order THWTHW...TT).
		n := len(r.Sections)
		if a := i % n; a > 0 && i < n*r.Sections[a] {
			return a
		}
		return 0
	}
	for a, n := range r.Sections {
		if i < n {
			return a
		}
		i -= n
	}
	return len(r.Sections) - 1
}

// angles returns the angle of every row and pair, row-major. pos[a] holds axis
// a's positions of the rows.
func (r ropeRule) angles(pos [][]float64, rows, headDim int) []float64 {
	w := r.frequencies(headDim)
	out := make([]float64, rows*len(w))
	for t := 0; t < rows; t++ {
		for i, f := range w {
			var p float64
			switch a := r.axisOf(i); {
			case r.Positions != nil:
				p = r.Positions[t%len(r.Positions)]
			case a < len(pos):
				p = pos[a][t]
			case len(pos) > 0:
				p = pos[0][t]
			}
			p = roundFloat(r.RoundPos, p+r.Offset)
			if r.Negative {
				p = -p
			}
			out[t*len(w)+i] = roundFloat(r.RoundAngle, p*f)
		}
	}
	return out
}

// rotate returns x turned by the rule; inverse turns it back (and divides by
// Mscale). x is rows × cols with cols a multiple of headDim.
func (r ropeRule) rotate(x []float64, rows, cols, headDim int, pos [][]float64, inverse bool) []float64 {
	out := append([]float64(nil), x...)
	if r.None {
		return out
	}
	ang := r.angles(pos, rows, headDim)
	n := r.width(headDim) / 2
	gain := orDefault(r.Mscale, 1)
	for t := 0; t < rows; t++ {
		row := out[t*cols : (t+1)*cols]
		for i := 0; i < n; i++ {
			sin, cos := math.Sincos(ang[t*n+i])
			cos, sin = roundFloat(r.RoundTable, cos*gain), roundFloat(r.RoundTable, sin*gain)
			if inverse {
				// The inverse of a rounded table is still exact: divide by its
				// own squared length.
				l2 := cos*cos + sin*sin
				cos, sin = cos/l2, -sin/l2
			}
			a, b := r.pair(i, headDim)
			for h := 0; h+headDim <= cols; h += headDim {
				xa, xb := row[h+a], row[h+b]
				row[h+a] = xa*cos - xb*sin
				row[h+b] = xb*cos + xa*sin
			}
		}
	}
	return out
}

// args writes the rule as arguments of the rope transform.
func (r ropeRule) args() string {
	var a []string
	num := func(name string, v float64) {
		if v != 0 {
			a = append(a, name+"="+formatNum(v))
		}
	}
	word := func(name, v string) {
		if v != "" {
			a = append(a, name+"="+v)
		}
	}
	if r.Freqs != nil {
		a = append(a, "freqs="+formatList(r.Freqs))
	} else {
		num("theta", r.Theta)
	}
	word("layout", r.Layout)
	num("dims", float64(r.Dims))
	num("start", float64(r.Start))
	num("pairs", float64(r.Pairs))
	num("denominator", float64(r.Den))
	word("scaling", r.Scaling)
	num("factor", r.Factor)
	num("low", r.Low)
	num("high", r.High)
	num("original", r.Orig)
	num("beta_fast", r.BetaFast)
	num("beta_slow", r.BetaSlow)
	num("mscale", r.Mscale)
	if r.Negative {
		a = append(a, "negative=true")
	}
	num("offset", r.Offset)
	if r.Positions != nil {
		a = append(a, "positions="+formatList(r.Positions))
	}
	word("round_positions", r.RoundPos)
	word("round_freqs", r.RoundFreq)
	word("round_angles", r.RoundAngle)
	word("round_table", r.RoundTable)
	if r.Sections != nil {
		a = append(a, "sections="+formatList(floats(r.Sections)))
		word("section_order", r.SectionOrder)
	}
	return strings.Join(a, ", ")
}

// call writes the rule as a rope transform, or an identity where it does not turn.
func (r ropeRule) call(name string) string {
	if r.None {
		return "scale(1)"
	}
	return name + "(" + r.args() + ")"
}

// scalingText describes the context extension for a claim.
func (r ropeRule) scalingText() string {
	var s string
	switch r.Scaling {
	case "":
		s = "none"
	case "linear":
		s = fmt.Sprintf("linear, factor %s", shortNum(r.Factor))
	default:
		s = fmt.Sprintf("%s, factor %s", r.Scaling, shortNum(r.Factor))
	}
	if r.Mscale != 0 && r.Mscale != 1 {
		s += fmt.Sprintf(", cos and sin times %s", shortNum(r.Mscale))
	}
	return s
}

// formatNum writes the shortest decimal that reads back to the same bits.
func formatNum(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// shortNum writes a figure for people: six significant digits.
func shortNum(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e12 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func formatList(l []float64) string {
	s := make([]string, len(l))
	for i, v := range l {
		s[i] = formatNum(v)
	}
	return "[" + strings.Join(s, ", ") + "]"
}

func floats(l []int) []float64 {
	out := make([]float64, len(l))
	for i, v := range l {
		out[i] = float64(v)
	}
	return out
}

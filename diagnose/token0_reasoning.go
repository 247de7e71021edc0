package diagnose

import (
	"fmt"
	"math"
)

// Reasoning reads a checkpoint the way a person would before any fit: the token-0
// invariant, the profile over tokens, magnitude against direction, spikes, and at
// the end of the model the argmax. Each line holds its numbers. It says what
// classes of causes the numbers speak for and against, never that one is proven;
// nil where the checkpoint is not on both sides.
func Reasoning(c *Context) []string {
	ref, port, ok := c.Pair(c.At)
	if !ok || isInteger(ref) || len(ref.Data) == 0 {
		return nil
	}
	var out []string
	for _, read := range []func(c *Context, ref, port *Tensor) string{
		readProfile, readMagnitude, readSpike, readLastToken, readLogits, readEmbedding,
	} {
		if s := read(c, ref, port); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func readProfile(c *Context, _, _ *Tensor) string {
	p, ok := profileOf(c, c.At)
	if !ok || c.Tap == "attn_probs" || c.Layer < 0 {
		return ""
	}
	k, text, _ := p.classify()
	if k.id == "none" || k.id == "" {
		return ""
	}
	s := fmt.Sprintf("tokens: %s; speaks for %s", text, k.says)
	if k.not != "" {
		s += "; rules out " + k.not
	}
	if k.id == "token0_exact" || k.id == "all" {
		s += " (token-0 invariant)"
	}
	if c.inherited() {
		s += "; the input differs already, so a part of this is inherited"
	}
	return s
}

// readMagnitude parts a wrong size from a wrong direction.
func readMagnitude(_ *Context, ref, port *Tensor) string {
	m := measureTry(port, ref)
	cos, ratio := float64(m.Cos), float64(m.NormRatio)
	switch {
	case math.IsNaN(cos) || math.IsNaN(ratio):
		return ""
	case cos > 0.999 && math.Abs(ratio-1) > 0.01:
		return fmt.Sprintf("same direction, other magnitude: cosine %s, norm ratio %s; speaks for a missing or doubled scale, or x·w against x·(1+w)", g6(cos), g6(ratio))
	case cos < 0.9 && math.Abs(ratio-1) < 0.02:
		return fmt.Sprintf("same magnitude, other direction: norm ratio %s, cosine %s; speaks for an order of dims or heads, a RoPE convention, a sign", g6(ratio), g6(cos))
	}
	return ""
}

// readSpike compares the largest values where one side has a massive one.
func readSpike(_ *Context, ref, port *Tensor) string {
	const massive, flat = 50, 0.3
	i, j := argMaxAbs(ref.Data), argMaxAbs(port.Data)
	medR, medP := medianAbs(ref.Data), medianAbs(port.Data)
	switch {
	case math.Abs(ref.Data[i]) > massive*medR && math.Abs(port.Data[i]) < flat*math.Abs(ref.Data[i]):
		return fmt.Sprintf("the reference spikes and the port is flat: token %d, dim %d holds %s against %s; a sink or anchor did not form in the port (it does not explode): look at the attention before it",
			i/ref.Cols, i%ref.Cols, g6(ref.Data[i]), g6(port.Data[i]))
	case math.Abs(port.Data[j]) > massive*medP && math.Abs(ref.Data[j]) < flat*math.Abs(port.Data[j]):
		return fmt.Sprintf("the port spikes and the reference is near zero: token %d, dim %d holds %s against %s; norm order, residual, or a tensor that is no layer output",
			j/ref.Cols, j%ref.Cols, g6(port.Data[j]), g6(ref.Data[j]))
	}
	return ""
}

func argMaxAbs(x []float64) int {
	at := 0
	for i, v := range x {
		if math.Abs(v) > math.Abs(x[at]) {
			at = i
		}
	}
	return at
}

func medianAbs(x []float64) float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = math.Abs(v)
	}
	return medianOf(y)
}

// readLastToken finds a last token that the whole tensor hides.
func readLastToken(c *Context, ref, port *Tensor) string {
	p, ok := profileOf(c, c.At)
	if !ok || c.Layer < 0 || c.Tap == "attn_probs" {
		return ""
	}
	whole := float64(measureTry(port, ref).Cos)
	last := p.cos[len(p.cos)-1]
	if whole > 0.999 && last < 0.99 {
		return fmt.Sprintf("the whole tensor's cosine %s hides the last token's %s: something that depends on the position", g6(whole), g6(last))
	}
	return ""
}

// readLogits looks at the argmax of the last position.
func readLogits(c *Context, ref, port *Tensor) string {
	if c.Tap != "logits" && c.Tap != "last_logits" {
		return ""
	}
	a, b := ref.Row(ref.Rows-1), port.Row(port.Rows-1)
	i, j := argMax(a), argMax(b)
	d2, r2 := rowDistance(a, b)
	if i == j || r2 == 0 {
		return ""
	}
	rms := math.Sqrt(d2 / float64(len(a)))
	s := fmt.Sprintf("argmax of the last position: reference %d, port %d; the reference's margin between the two is %s, the r.m.s. error of the logits %s", i, j, g2(a[i]-a[j]), g2(rms))
	if a[i]-a[j] < 3*rms {
		return s + ": a tie within the error, no fault by itself"
	}
	return s + ": more than the error, so a drift along few directions"
}

func argMax(x []float64) int {
	at := 0
	for i, v := range x {
		if v > x[at] {
			at = i
		}
	}
	return at
}

// readEmbedding speaks where the very first tensor is off.
func readEmbedding(c *Context, ref, port *Tensor) string {
	if c.At != "post_embed" {
		return ""
	}
	m := measureTry(port, ref)
	if !(float64(m.Cos) < 0.99) {
		return ""
	}
	return fmt.Sprintf("post_embed has cosine %s, and nothing before it can be blamed on a layer: token ids, embedding weights and their sharding, dtype, or a missing attention mask on a decode prefix", g6(float64(m.Cos)))
}

package corpus

import "math"

// timeEmbedding returns the sinusoids of each frame's timestep, [Frames, Dim]:
// the first half cos, the second sin, of t * 10000^(-i/half).
func (e *engine) timeEmbedding() *Mat {
	half := e.Spec.Dim / 2
	out := newMat(len(e.in.time), e.Spec.Dim)
	for f, at := range e.in.time {
		for i := range half {
			angle := at * math.Pow(10000, -float64(i)/float64(half))
			out.Row(f)[i] = e.Arith.round(math.Cos(angle))
			out.Row(f)[half+i] = e.Arith.round(math.Sin(angle))
		}
	}
	return out
}

// modulate applies adaLN: each token's normed value times (1 + scale) plus
// shift, both from the time embedding of its frame, or the text's.
func (e *engine) modulate(w *LayerWeights, rule Rules, x *Mat) *Mat {
	s := e.Spec
	if s.Frames == 0 {
		return x
	}
	a := e.Arith
	hidden := a.linear(a.each(a.linear(e.temb, e.Weights.Time), activations["silu"]), w.Mod)
	out := newMat(x.Rows, x.Cols)
	one := 1.0
	if rule.UnscaledModulation {
		one = 0
	}
	for t := range x.Rows {
		frame := s.Frames
		if t >= s.Text {
			frame = (t - s.Text) * s.Frames / (x.Rows - s.Text)
		}
		m := hidden.Row(frame)
		for d, v := range x.Row(t) {
			out.Row(t)[d] = a.round(float64(v)*(one+float64(m[d])) + float64(m[s.Dim+d]))
		}
	}
	return out
}

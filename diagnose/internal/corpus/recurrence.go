package corpus

// recurrence is the mixer of a convolution or state-space block:
// u = x W; conv_out[t] = Σ_i conv[i] u[t-i]; ssm_out[t] = decay*ssm_out[t-1] + conv_out[t].
func (e *engine) recurrence(l, rank int, x *Mat) *Mat {
	rule, w, a := e.Spec.Block[l], e.layer(l), e.Arith
	c := &e.cache[l][rank]
	u := a.linear(x, w.ConvIn)
	out := newMat(u.Rows, u.Cols)
	if c.conv == nil {
		c.conv = make([]float32, (ConvWidth-1)*u.Cols)
		c.state = make([]float32, u.Cols)
	}
	lost := func(t int) bool {
		return rule.StateChunk > 0 && e.in.abs[t] > 0 && e.in.abs[t]%rule.StateChunk == 0
	}
	history := c.conv // the last ConvWidth-1 inputs, oldest first
	for t := range u.Rows {
		if lost(t) {
			history = make([]float32, len(history))
		}
		window := append(append([]float32(nil), history...), u.Row(t)...)
		row := out.Row(t)
		for d := range row {
			var sum float64
			for i := range ConvWidth {
				sum += float64(w.Conv[d*ConvWidth+i]) * float64(window[i*u.Cols+d])
			}
			row[d] = a.round(sum)
		}
		history = window[u.Cols:]
	}
	c.conv = history
	if rule.StateAfter {
		// The state that should hold the inputs holds the outputs.
		n := min(ConvWidth-1, out.Rows)
		copy(c.conv[(ConvWidth-1-n)*u.Cols:], out.Data[(out.Rows-n)*u.Cols:])
	}
	out = e.tap(rank, l, "conv_out", out)
	if rule.Mixer != "ssm" {
		return out
	}
	ssm := newMat(out.Rows, out.Cols)
	state := c.state
	for t := range out.Rows {
		if lost(t) {
			clear(state)
		}
		row := ssm.Row(t)
		for d := range row {
			row[d] = a.round(float64(w.Decay[d])*float64(state[d]) + float64(out.Row(t)[d]))
		}
		copy(state, row)
	}
	return e.tap(rank, l, "ssm_out", ssm)
}

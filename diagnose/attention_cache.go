package diagnose

// cached returns a layer's tap of this step with those of the earlier steps in
// front: the keys or values that a right cache holds. At the first step it is the
// tap itself. ok is false where a step lacks it, and for batches, whose rows
// would have to be interleaved.
func (c *Context) cached(side Side, tap string) (*Tensor, bool) {
	name := tap
	if c.Layer >= 0 {
		name = c.TapName(tap)
	}
	now, ok := c.Tensor(side, name)
	if !ok {
		return nil, false
	}
	if c.Step() <= 0 || c.firstPosition(side, now.Rows) == 0 {
		return now, true
	}
	if c.batch(now.Rows) > 1 {
		return nil, false
	}
	out := *now
	out.Data, out.Rows = nil, 0
	for _, s := range c.Steps() {
		if s > c.Step() {
			break
		}
		t := now
		if s < c.Step() {
			part, ok := c.Part(s, c.Rank())
			if !ok {
				return nil, false
			}
			if t, ok = part.Tensor(side, name); !ok || t.Cols != now.Cols {
				return nil, false
			}
		}
		out.Data = append(out.Data, t.Data...)
		out.Rows += t.Rows
	}
	out.Shape = []int{out.Rows, out.Cols}
	return &out, true
}

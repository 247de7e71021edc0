package diagnose

import "strings"

// headDim returns the width of a head of a tensor with that many columns, from
// the manifests, else from the shapes of the layer's tensors; 0 where nothing
// tells.
func (c *Context) headDim(name string, cols int) int {
	fits := func(d int) bool { return d >= 2 && d%2 == 0 && cols%d == 0 }
	for _, side := range []Side{Ref, Port} {
		f := c.Facts(side)
		if fits(f.HeadDim) {
			return f.HeadDim
		}
		if f.NumHeads > 0 && f.HiddenSize > 0 && fits(f.HiddenSize/f.NumHeads) {
			return f.HiddenSize / f.NumHeads
		}
	}
	for _, side := range []Side{Ref, Port} {
		for _, tap := range []string{"q_rope", "q", "k_rope", "k", "v"} {
			t, ok := c.Tensor(side, c.TapName(tap))
			if !ok {
				continue
			}
			// [T, heads, d], or with a batch before; [1, T, D] has no axis of heads.
			if n := len(t.Shape); n >= 3 && fits(t.Shape[n-1]) && t.Shape[n-2]*t.Shape[n-1] == t.Cols {
				return t.Shape[n-1]
			}
			if !strings.HasPrefix(tap, "q") {
				continue
			}
			if h := c.numHeads(); h > 0 && t.Cols%h == 0 && fits(t.Cols/h) {
				return t.Cols / h
			}
		}
	}
	return 0
}

// numHeads returns the number of query heads, from the manifests or the shape of
// the attention probabilities; 0 where nothing tells.
func (c *Context) numHeads() int {
	for _, side := range []Side{Ref, Port} {
		if h := c.Facts(side).NumHeads; h > 0 {
			return h
		}
	}
	for _, side := range []Side{Ref, Port} {
		if t, ok := c.Tensor(side, c.TapName("attn_probs")); ok && len(t.Shape) >= 3 {
			return t.Shape[len(t.Shape)-3] // [heads, T, S], or with a batch before
		}
	}
	return 0
}

// batch returns the number of requests that rows hold one below the other, from
// the shape of the tokens or of a checkpoint [B, T, D]; 1 where nothing tells.
func (c *Context) batch(rows int) int {
	for _, side := range []Side{Ref, Port} {
		for _, name := range []string{"prompt_tokens", "position_ids", "post_embed"} {
			t, ok := c.Tensor(side, name)
			if !ok {
				continue
			}
			n := 0
			switch {
			case name == "post_embed" && len(t.Shape) == 3:
				n = t.Shape[0]
			case name != "post_embed" && len(t.Shape) == 2 && t.Shape[0]*t.Shape[1] == rows:
				n = t.Shape[0]
			}
			if n > 1 && rows%n == 0 {
				return n
			}
		}
	}
	return 1
}

// positions returns one slice of positions per axis for the rows of a tensor:
// that run's position_ids where dumped ([T], [B, T] or [axes, T]), else counted
// from the start of each request, at a decode step from the number of rows of
// the steps before.
func (c *Context) positions(side Side, rows int) [][]float64 {
	if t, ok := c.Tensor(side, "position_ids"); ok && rows > 0 && len(t.Data)%rows == 0 && len(t.Data) > 0 {
		var out [][]float64
		for a := 0; a < len(t.Data); a += rows {
			out = append(out, t.Data[a:a+rows])
		}
		return out
	}
	pos := make([]float64, rows)
	per := rows / c.batch(rows)
	start := c.firstPosition(side, per)
	for i := range pos {
		pos[i] = float64(start + i%max(per, 1))
	}
	return [][]float64{pos}
}

// firstPosition counts the rows of the steps before this one. A step with more
// rows than the first one recomputes from the start (teacher forcing).
func (c *Context) firstPosition(side Side, rows int) int {
	if c.Step() <= 0 {
		return 0
	}
	start, first := 0, -1
	for _, s := range c.Steps() {
		if s >= c.Step() {
			break
		}
		part, ok := c.Part(s, c.Rank())
		if !ok {
			continue
		}
		d := *c
		d.Source = part
		n := d.rowsOfStep(side)
		if first < 0 {
			first = n
		}
		start += n
	}
	if first >= 0 && rows > first {
		return 0
	}
	return start
}

// rowsOfStep is the number of tokens of each request at this step.
func (c *Context) rowsOfStep(side Side) int {
	for _, name := range []string{"post_embed", "prompt_tokens", c.At} {
		t, ok := c.Tensor(side, name)
		if !ok || t.Rows == 0 {
			continue
		}
		if name == "prompt_tokens" {
			return len(t.Data) / c.batch(len(t.Data))
		}
		return t.Rows / c.batch(t.Rows)
	}
	return 0
}

package corpus

// input is what one step is given: a row for each token.
type input struct {
	tokens []int64
	pos    []int     // position in its request, pads not counted
	abs    []int     // position in its request, pads counted
	seg    []int     // request
	pad    []bool    // a pad of a batch
	grid   [][3]int  // position on each axis of M-RoPE
	time   []float64 // timestep of each frame, then of the text
}

// inputs lists the steps: a prefill in one or more chunks and the decode steps,
// or the denoising steps.
func (s Spec) inputs() []input {
	if s.Denoise != nil {
		return s.denoising()
	}
	pads := s.Pads
	if pads == nil {
		pads = []int{0}
	}
	ids := make([][]int64, len(pads))
	for b := range pads {
		ids[b] = s.tokenIDs(b)
	}
	chunks := max(1, s.Chunks)
	var steps []input
	for c := range chunks {
		steps = append(steps, s.slice(ids, pads, c*s.Tokens/chunks, (c+1)*s.Tokens/chunks))
	}
	for d := range s.Decode {
		steps = append(steps, s.slice(ids, pads, s.Tokens+d, s.Tokens+d+1))
	}
	return steps
}

// tokenIDs draws a request's tokens without repetition as far as the vocabulary
// goes, so that every row of the embedding is a different one.
func (s Spec) tokenIDs(request int) []int64 {
	r := stream(s.Seed+uint64(request), "tokens")
	var ids []int64
	for len(ids) < s.Tokens+s.Decode {
		for _, v := range r.Perm(s.Vocab) {
			ids = append(ids, int64(v))
		}
	}
	return ids[:s.Tokens+s.Decode]
}

func (s Spec) slice(ids [][]int64, pads []int, from, to int) input {
	var in input
	for b := range pads {
		for t := from; t < to; t++ {
			pad := t < pads[b]
			id := ids[b][t]
			if pad {
				id = 0
			}
			in.tokens = append(in.tokens, id)
			in.abs = append(in.abs, t)
			in.pos = append(in.pos, max(0, t-pads[b]))
			in.grid = append(in.grid, s.grid(t))
			in.seg = append(in.seg, b)
			in.pad = append(in.pad, pad)
		}
	}
	return in
}

// denoising gives each timestep one full pass; frames share the timestep, text
// tokens have timestep 0.
func (s Spec) denoising() []input {
	var steps []input
	for _, at := range s.Denoise {
		var in input
		for t := range s.Tokens {
			in.abs, in.pos = append(in.abs, t), append(in.pos, t)
			in.grid = append(in.grid, [3]int{t, t, t})
			in.seg, in.pad = append(in.seg, 0), append(in.pad, false)
		}
		for f := range s.Frames {
			// Every frame has a noise level of its own.
			in.time = append(in.time, at*(1-0.1*float64(f)))
		}
		if s.Text > 0 {
			text := 0.0
			if s.TextTime {
				text = at
			}
			in.time = append(in.time, text)
		}
		steps = append(steps, in)
	}
	return steps
}

// grid returns a token's position on the three axes: text has the same on all,
// a picture's patches share the time, and text after it goes on behind the
// largest.
func (s Spec) grid(t int) [3]int {
	from, to := s.Image[0], s.Image[1]
	const wide = 6
	switch {
	case t < from || to == 0:
		return [3]int{t, t, t}
	case t < to:
		return [3]int{from, from + (t-from)/wide, from + (t-from)%wide}
	}
	after := from + max((to-from+wide-1)/wide, wide) + t - to
	return [3]int{after, after, after}
}

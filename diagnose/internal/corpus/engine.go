package corpus

import (
	"fmt"

	"github.com/layerparity/parity/diagnose"
)

// engine runs a plan step by step and keeps what decode needs of the past.
type engine struct {
	*Plan
	out   *Run
	at    int // step
	in    input
	cache [][]layerCache // by layer and rank
	seen  keys           // the keys that the caches hold
	temb  *Mat           // time embedding of this step
}

// keys are what the mask needs to know of each key.
type keys struct {
	abs, seg []int
	pad      []bool
}

func newEngine(p *Plan, r *Run) *engine {
	e := &engine{Plan: p, out: r, cache: make([][]layerCache, p.Spec.Layers)}
	for l := range e.cache {
		e.cache[l] = make([]layerCache, p.Spec.World)
	}
	return e
}

// tap passes a value through the hook and dumps it.
func (e *engine) tap(rank, layer int, name string, x *Mat, shape ...int) *Mat {
	full := name
	if layer >= 0 {
		full = diagnose.LayerName(layer, name)
	}
	if e.Hook != nil {
		e.Hook(Place{e.at, rank, layer, name}, x)
	}
	if shape == nil {
		shape = []int{x.Rows, x.Cols}
	}
	e.out.part(e.at, rank).add(full, &Array{Shape: shape, Data: x.Data, DType: e.Arith.DType})
	return x
}

func (e *engine) tapInts(rank, layer int, name string, v []int64, shape ...int) {
	full := name
	if layer >= 0 {
		full = diagnose.LayerName(layer, name)
	}
	e.out.part(e.at, rank).add(full, &Array{Shape: shape, Ints: v, DType: "int64"})
}

// step runs one forward pass on all ranks in lock step.
func (e *engine) step(at int, in input) {
	e.at, e.in = at, in
	e.seen.abs = append(e.seen.abs, in.abs...)
	e.seen.seg = append(e.seen.seg, in.seg...)
	e.seen.pad = append(e.seen.pad, in.pad...)
	if e.Spec.Denoise != nil {
		e.seen = keys{in.abs, in.seg, in.pad}
		e.cache = newEngine(e.Plan, e.out).cache
	}
	h := make([]*Mat, e.Spec.World)
	for r := range h {
		e.dumpInputs(r)
		h[r] = e.tap(r, -1, "post_embed", e.embed(r))
	}
	for l := range e.Spec.Layers {
		h = e.block(l, h)
	}
	for r := range h {
		n := e.tap(r, -1, "post_final_norm", e.Spec.FinalNorm.apply(e.Arith, h[r], e.Weights.FinalNorm, e.Spec.Dim))
		if e.Spec.Denoise == nil {
			e.tap(r, -1, "logits", e.logits(n))
		}
	}
}

func (e *engine) dumpInputs(rank int) {
	if e.in.tokens != nil {
		e.tapInts(rank, -1, "prompt_tokens", e.in.tokens, len(e.in.tokens))
	}
	e.dumpPositions(rank)
	if e.Spec.Pads != nil {
		mask := make([]int64, len(e.in.pad))
		for t, pad := range e.in.pad {
			if !pad {
				mask[t] = 1
			}
		}
		e.tapInts(rank, -1, "attention_mask", mask, len(mask))
	}
	if n := e.Spec.Frames; n > 0 {
		// The text's own row is not part of what a dumper sees.
		e.temb = e.timeEmbedding()
		e.tap(rank, -1, "time_embed", &Mat{n, e.temb.Cols, e.temb.Data[:n*e.temb.Cols]})
	}
}

// dumpPositions dumps [T], or [3, T] where the axes differ.
func (e *engine) dumpPositions(rank int) {
	n := len(e.in.pos)
	if e.Spec.Image[1] == 0 {
		pos := make([]int64, n)
		for t, p := range e.in.pos {
			pos[t] = int64(p)
		}
		e.tapInts(rank, -1, "position_ids", pos, n)
		return
	}
	pos := make([]int64, 3*n)
	for t, at := range e.in.grid {
		for axis, p := range at {
			pos[axis*n+t] = int64(p)
		}
	}
	e.tapInts(rank, -1, "position_ids", pos, 3, n)
}

// embed looks the tokens up, or draws the latents of a diffusion model.
func (e *engine) embed(int) *Mat {
	s := e.Spec
	x := newMat(len(e.in.abs), s.Dim)
	if e.in.tokens == nil {
		x.Data = gaussian(s.Seed, fmt.Sprintf("latents%d", e.at), x.Rows*x.Cols, 0, 1)
	}
	for t, id := range e.in.tokens {
		copy(x.Row(t), e.Weights.Embed.row(int(id)))
	}
	return e.Arith.each(x, func(v float64) float64 { return v * orOne(s.EmbedScale) })
}

func (e *engine) logits(n *Mat) *Mat {
	out := e.Arith.linear(n, e.Weights.Head)
	c, scale := e.Spec.FinalSoftcap, orOne(e.Spec.LogitScale)
	return e.Arith.each(out, func(v float64) float64 { return softcap(v*scale, c) })
}

// block runs one layer on every rank.
func (e *engine) block(l int, h []*Mat) []*Mat {
	rule, s := e.Spec.Block[l], e.Spec
	ranks := len(h)
	n1, part := make([]*Mat, ranks), make([]*Mat, ranks)
	for r := range h {
		w := e.layer(l)
		n1[r] = h[r]
		if !rule.PostLN {
			n1[r] = e.modulate(w, rule, rule.InputNorm.apply(e.Arith, h[r], w.InputNorm, s.Dim))
			n1[r] = e.tap(r, l, "input_norm", n1[r])
		}
		part[r] = e.mixer(l, r, n1[r])
	}
	mid := e.join(l, "attn_out", part, rule.NoReduceAttn, e.layer(l).O.B)
	from := h
	if rule.AttnFromNorm {
		from = n1
	}
	mid = e.residual(from, mid, rule, rule.NoAttnResidual)
	n2 := make([]*Mat, ranks)
	for r := range h {
		w := e.layer(l)
		if rule.PostLN {
			mid[r] = e.tap(r, l, "input_norm", rule.InputNorm.apply(e.Arith, mid[r], w.InputNorm, s.Dim))
			n2[r] = mid[r]
		} else {
			if s.TapFFNInput {
				e.tap(r, l, "ffn_inp", mid[r])
			}
			x := mid[r]
			if rule.ParallelBlock {
				x = h[r]
			}
			n2[r] = e.tap(r, l, "post_attn_norm", rule.PostNorm.apply(e.Arith, x, w.PostNorm, s.Dim))
		}
		part[r] = e.mlp(l, r, n2[r])
	}
	m := e.join(l, "mlp_out", part, rule.NoReduceMLP, nil)
	from = mid
	if rule.MLPFromNorm {
		from = n2
	}
	out := e.residual(from, m, rule, false)
	for r := range out {
		if rule.PostLN {
			out[r] = e.tap(r, l, "post_attn_norm", rule.PostNorm.apply(e.Arith, out[r], e.layer(l).PostNorm, s.Dim))
		}
		out[r] = e.tap(r, l, "", out[r])
	}
	return out
}

func (e *engine) residual(from, add []*Mat, rule Rules, drop bool) []*Mat {
	out := make([]*Mat, len(from))
	for r := range out {
		if drop {
			out[r] = add[r].clone()
			continue
		}
		out[r] = e.Arith.add(from[r], add[r], orOne(rule.ResidualMult))
	}
	return out
}

// join adds the ranks' partial sums and the bias; without the reduce each rank
// keeps its own part.
func (e *engine) join(l int, tap string, part []*Mat, alone bool, bias []float32) []*Mat {
	a := e.Arith
	rule := e.Spec.Block[l]
	out := make([]*Mat, len(part))
	for r := range part {
		sum := make([]float64, len(part[r].Data))
		for q := range part {
			if alone && q != r {
				continue
			}
			for i, v := range part[q].Data {
				sum[i] += float64(v)
			}
		}
		times := 1.0
		if rule.BiasPerRank {
			times = float64(len(part))
		}
		x := newMat(part[r].Rows, part[r].Cols)
		for i := range sum {
			if bias != nil {
				sum[i] += times * float64(bias[i%x.Cols])
			}
			x.Data[i] = a.round(sum[i])
		}
		if tap == "mlp_out" {
			e.spike(l, x)
		}
		out[r] = e.tap(r, l, tap, x)
	}
	return out
}

func (e *engine) spike(l int, x *Mat) {
	for _, s := range e.Spec.Spikes {
		if s.Layer == l && s.Token < x.Rows {
			i := s.Token*x.Cols + s.Dim
			x.Data[i] = e.Arith.round(float64(x.Data[i]) + s.Value)
		}
	}
}

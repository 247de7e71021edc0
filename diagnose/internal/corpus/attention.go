package corpus

import "math"

// layerCache is what one rank's layer keeps from step to step.
type layerCache struct {
	k, v *Mat
	// conv holds the last inputs of the convolution, state the recurrent sum.
	conv, state []float32
}

// mixer is the token-mixing half of a block, up to the rank's partial sum of
// the output projection.
func (e *engine) mixer(l, rank int, x *Mat) *Mat {
	var ctx *Mat
	if e.Spec.Block[l].Mixer == "" {
		ctx = e.attention(l, rank, x)
	} else {
		ctx = e.recurrence(l, rank, x)
	}
	o := e.layer(l).O
	n := o.In / e.Spec.World
	if e.Spec.World > 1 {
		o = o.cols(rank*n, (rank+1)*n)
	}
	o.B = nil
	return e.Arith.linear(ctx, o)
}

// project returns q, k and v of one rank, each [T, heads*head_dim].
func (e *engine) project(l, rank int, x *Mat) (q, k, v *Mat) {
	w, a, world := e.layer(l), e.Arith, e.Spec.World
	share := func(m Linear) Linear { n := m.Out / world; return m.rows(rank*n, (rank+1)*n) }
	q, k, v = a.linear(x, share(w.Q)), a.linear(x, share(w.K)), a.linear(x, share(w.V))
	if e.Spec.Block[l].SwapKV {
		k, v = v, k
	}
	if ranks := e.Spec.Block[l].FusedRanks; e.Spec.TapQKV || ranks > 0 {
		fused := concat(q, k, v)
		if ranks > 0 {
			fused = permuteMat(fused, fusedOrder(q.Cols, k.Cols, ranks))
		}
		if e.Spec.TapQKV {
			fused = e.tap(rank, l, "qkv", fused)
		}
		for t := range x.Rows {
			row := fused.Row(t)
			copy(q.Row(t), row)
			copy(k.Row(t), row[q.Cols:])
			copy(v.Row(t), row[q.Cols+k.Cols:])
		}
	}
	return e.tap(rank, l, "q", q), e.tap(rank, l, "k", k), e.tap(rank, l, "v", v)
}

// fusedOrder is the order of columns in [q0 k0 v0 q1 k1 v1 ...] where [q k v] is
// expected.
func fusedOrder(q, kv, ranks int) []int {
	var order []int
	for r := range ranks {
		for _, part := range [3][2]int{{0, q}, {q, kv}, {q + kv, kv}} {
			n := part[1] / ranks
			for i := range n {
				order = append(order, part[0]+r*n+i)
			}
		}
	}
	return order
}

// positions returns the position that each row is rotated at, on each axis.
func (e *engine) positions(rule Rules, shared bool, offset float64, zero bool) [][3]float64 {
	out := make([][3]float64, len(e.in.pos))
	for t, p := range e.in.pos {
		switch {
		case zero && e.at > 0 && e.Spec.Chunks == 0:
			p = 0
		case shared:
			p = e.in.abs[t]
		}
		if n := rule.Rope.WindowStart; n > 0 {
			p -= p % n
		}
		out[t] = [3]float64{float64(p) + offset, float64(p) + offset, float64(p) + offset}
		if rule.Rope.Sections != [3]int{} {
			for axis, at := range e.in.grid[t] {
				out[t][axis] = float64(at) + offset
			}
		}
	}
	return out
}

func (e *engine) attention(l, rank int, x *Mat) *Mat {
	rule, w, hd, a := e.Spec.Block[l], e.layer(l), e.Spec.HeadDim, e.Arith
	q, k, v := e.project(l, rank, x)
	norm := func() {
		if rule.QKNorm {
			q = e.tap(rank, l, "q_norm", rule.QNorm.apply(a, q, w.QNorm, hd))
			k = e.tap(rank, l, "k_norm", rule.KNorm.apply(a, k, w.KNorm, hd))
		}
	}
	if !rule.QKNormAfterRope {
		norm()
	}
	r := rule.Rope
	q = e.tap(rank, l, "q_rope", r.rotate(a, q, hd, e.positions(rule, rule.SharedQ, r.OffsetQ, r.DecodeZeroQ)))
	k = e.tap(rank, l, "k_rope", r.rotate(a, k, hd, e.positions(rule, rule.SharedK, r.OffsetK, r.DecodeZeroK)))
	if rule.QKNormAfterRope {
		norm()
	}
	k, v = e.extend(l, rank, k, v)
	heads := q.Cols / hd
	probs := newMat(heads*q.Rows, k.Rows)
	for h := range heads {
		e.probabilities(l, rank, h, q, k, probs)
	}
	probs = e.tap(rank, l, "attn_probs", probs, heads, q.Rows, k.Rows)
	return e.tap(rank, l, "attn_ctx", e.context(rule, probs, v, heads))
}

// extend appends this step's keys and values to the cache and returns all.
func (e *engine) extend(l, rank int, k, v *Mat) (*Mat, *Mat) {
	c := &e.cache[l][rank]
	rule := e.Spec.Block[l]
	if c.k == nil {
		c.k, c.v = k.clone(), v.clone()
	} else {
		past := c.k.Rows
		c.k, c.v = stack(c.k, k), stack(c.v, v)
		for _, row := range rule.KVZero {
			clear(c.k.Row(row))
			clear(c.v.Row(row))
		}
		if rule.KVStale {
			for i := range k.Rows {
				copy(c.k.Row(past+i), c.k.Row(past-1))
				copy(c.v.Row(past+i), c.v.Row(past-1))
			}
		}
	}
	if e.Spec.TapCache {
		e.tap(rank, l, "k_cache", c.k.clone())
		e.tap(rank, l, "v_cache", c.v.clone())
	}
	return c.k, c.v
}

func stack(a, b *Mat) *Mat {
	return &Mat{a.Rows + b.Rows, a.Cols, append(append([]float32(nil), a.Data...), b.Data...)}
}

// visible tells whether query row i of this step may see key j.
func (e *engine) visible(rule Rules, i, j int) bool {
	at, key := e.in.abs[i], e.seen.abs[j]
	switch {
	case e.in.seg[i] != e.seen.seg[j]:
		return false
	case e.seen.pad[j] && !rule.PadsSeen:
		return false
	case rule.Window > 0 && at-key >= rule.Window && !(rule.WindowPrefillOnly && e.at > 0):
		return false
	}
	switch rule.Mask {
	case "full":
		return true
	case "topleft":
		return j <= i
	}
	return key <= at+rule.LookAhead
}

// kvHead maps a head to its key-value head.
func (r Rules) kvHead(h, heads, kv int) int {
	if r.HeadMap != nil {
		return r.HeadMap[h]
	}
	return h / (heads / kv)
}

// probabilities fills one head's rows of the softmax.
func (e *engine) probabilities(l, rank, h int, q, k, probs *Mat) {
	rule, a, hd := e.Spec.Block[l], e.Arith, e.Spec.HeadDim
	scale := rule.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(hd))
	}
	kv := rule.kvHead(h, q.Cols/hd, k.Cols/hd) * hd
	score := make([]float64, k.Rows)
	for i := range q.Rows {
		qi := q.Row(i)[h*hd : (h+1)*hd]
		top := math.Inf(-1)
		for j := range score {
			if !e.visible(rule, i, j) {
				score[j] = math.Inf(-1)
				continue
			}
			score[j] = softcap(a.dot(qi, k.Row(j)[kv:kv+hd])*scale*rule.temper(e.in.pos[i]), rule.Softcap)
			top = max(top, score[j])
		}
		row := probs.Row(h*q.Rows + i)
		if math.IsInf(top, -1) {
			e.emptyRow(rule, row)
			continue
		}
		var sum float64
		for j, s := range score {
			score[j] = math.Exp(s - top)
			sum += score[j]
		}
		if rule.Sink {
			sum += math.Exp(float64(e.layer(l).Sink[rank*(q.Cols/hd)+h]) - top)
		}
		for j, s := range score {
			row[j] = a.round(s / sum)
		}
	}
}

// temper is the factor of a query's scores at a position.
func (r Rules) temper(pos int) float64 {
	if r.Temperature == 0 {
		return 1
	}
	return 1 + 0.1*math.Log1p(math.Floor(float64(pos)/r.Temperature))
}

// emptyRow is a query that sees no key: zeros, or 0/0.
func (e *engine) emptyRow(rule Rules, row []float32) {
	if rule.EmptyNaN {
		for j := range row {
			row[j] = float32(math.NaN())
		}
	}
}

// context returns probs v for each head, [T, heads*head_dim].
func (e *engine) context(rule Rules, probs, v *Mat, heads int) *Mat {
	a, hd := e.Arith, e.Spec.HeadDim
	rows := probs.Rows / heads
	out := newMat(rows, heads*hd)
	poisoned := !finite(v)
	for h := range heads {
		kv := rule.kvHead(h, heads, v.Cols/hd) * hd
		for i := range rows {
			to := out.Row(i)[h*hd : (h+1)*hd]
			a.mix(probs.Row(h*rows+i), v, kv, to, func(j int) bool { return poisoned && e.in.seg[i] == e.seen.seg[j] })
		}
	}
	return out
}

// mix writes the weighted sum of rows of v, columns [from, from+len(to)). A key
// of weight zero counts only where it is poison: 0*NaN is NaN in every engine.
func (a Arith) mix(p []float32, v *Mat, from int, to []float32, poison func(key int) bool) {
	if a.wide {
		sum := make([]float64, len(to))
		for j, w := range p {
			if w == 0 {
				continue
			}
			for d, x := range v.Row(j)[from : from+len(to)] {
				sum[d] += float64(w) * float64(x)
			}
		}
		for d, x := range sum {
			to[d] = a.round(x)
		}
		return
	}
	sum := make([]float32, len(to))
	for j := len(p) - 1; j >= 0; j-- {
		if p[j] == 0 && !poison(j) {
			continue
		}
		for d, x := range v.Row(j)[from : from+len(to)] {
			sum[d] += float32(p[j] * x)
		}
	}
	for d, x := range sum {
		to[d] = a.round(float64(x))
	}
}

func finite(m *Mat) bool {
	for _, x := range m.Data {
		if x-x != 0 {
			return false
		}
	}
	return true
}

func softcap(x, c float64) float64 {
	if c == 0 {
		return x
	}
	return c * math.Tanh(x/c)
}

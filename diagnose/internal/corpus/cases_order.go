package corpus

// permuted makes the port read and hand on a checkpoint with its columns in
// another order: column i of the port is column order[i].
func permuted(tap string, order []int) func(p *Plan) {
	return func(p *Plan) {
		p.hook(func(at Place, x *Mat) {
			if at.Tap == tap {
				copy(x.Data, permuteMat(x, order).Data)
			}
		})
	}
}

// permutedRows is permuted for rows.
func permutedRows(tap string, order []int) func(p *Plan) {
	return func(p *Plan) {
		p.hook(func(at Place, x *Mat) {
			if at.Tap != tap {
				return
			}
			from := x.clone()
			for t, o := range order {
				copy(x.Row(t), from.Row(o))
			}
		})
	}
}

// swappedHalves lists n/2..n-1, 0..n/2-1.
func swappedHalves(n int) []int { return blocks(n, 1, 0) }

// blocks lists 0..n-1 as len(order) equal blocks in that order.
func blocks(n int, order ...int) []int {
	var out []int
	size := n / len(order)
	for _, b := range order {
		for i := range size {
			out = append(out, b*size+i)
		}
	}
	return out
}

func orderCases() []Case {
	timed := func(s *Spec) {
		s.Denoise, s.Frames = []float64{500}, 4
		s.each(bidirectional)
	}
	return []Case{
		{
			ID: "D12", Row: "50", Title: "[q0 k0 v0 q1 k1 v1] of two ranks read as [q k v]", base: toy(),
			Want: divergence("parallel.shard_order", "order.dims").enters("layer_00.q", "layer_00.k", "layer_00.v").exact(),
			port: layers(func(r *Rules) { r.FusedRanks = 2 }),
		},
		{
			ID: "D12-fused", Row: "50", Title: "the same with the fused projection dumped",
			base: toy().with(func(s *Spec) { s.TapQKV = true }),
			Want: divergence("parallel.shard_order", "order.dims").enters("layer_00.qkv", "layer_00.q", "layer_00.k", "layer_00.v").exact(),
			port: layers(func(r *Rules) { r.FusedRanks = 2 }),
		},
		{
			ID: "D24", Row: "120", Title: "time embedding [sin, cos] for [cos, sin]", base: toy().with(timed),
			Want: divergence("order.dims", "order.channels").enters("time_embed").exact(),
			port: permuted("time_embed", swappedHalves(128)),
		},
	}
}

func moreOrderCases() []Case {
	order := func(at string, causes ...string) Want { return divergence(causes...).enters(at).exact() }
	return []Case{
		{
			ID: "X-order-v-dims", Title: "dims of v interleaved inside each head", base: seeded(4),
			Want: order("layer_00.v", "order.dims"),
			port: permuted("v", perHead(pairedOrder(16), 2)),
		},
		{
			ID: "X-order-heads", Title: "heads of the context in reverse order", base: seeded(4),
			Want: order(ctx0, "order.dims", "order.channels", "attention.head_map"),
			port: permuted("attn_ctx", blocks(128, 7, 6, 5, 4, 3, 2, 1, 0)),
		},
		{
			ID: "X-order-q-heads", Title: "heads of q interleaved over two ranks", base: seeded(4),
			Want: order("layer_00.q", "order.dims", "parallel.shard_order"),
			port: permuted("q", blocks(128, 0, 2, 4, 6, 1, 3, 5, 7)),
		},
		{
			ID: "X-order-gate-up-shards", Row: "52", Title: "blocks of gate exchanged between ranks", base: seeded(4),
			Want: order("layer_00.mlp_gate", "order.dims", "parallel.shard_order"),
			port: permuted("mlp_gate", blocks(256, 0, 2, 1, 3)),
		},
		{
			ID: "X-order-channels", Row: "124", Title: "channels (c ph pw) read as (ph pw c)", base: seeded(4),
			Want: order("post_embed", "order.channels", "order.dims", "input.embedding"),
			port: permuted("post_embed", strided(128, 4)),
		},
		{
			ID: "X-order-reversed", Title: "dims of the embedding reversed", base: seeded(4),
			Want: order("post_embed", "order.dims", "order.channels", "input.embedding"),
			port: permuted("post_embed", reversed(128)),
		},
		{
			ID: "X-order-zigzag", Row: "101", Title: "tokens in zigzag order of two context-parallel ranks", base: seeded(4),
			Want: order("post_embed", "order.tokens", "parallel.shard_order", "input.embedding"),
			port: permutedRows("post_embed", blocks(48, 0, 3, 1, 2)),
		},
		{
			ID: "X-order-tokens-reversed", Title: "tokens in reverse order", base: seeded(4),
			Want: order("post_embed", "order.tokens", "input.embedding"),
			port: permutedRows("post_embed", reversed(48)),
		},
		{
			ID: "X-order-windows", Row: "63", Title: "tokens in window order, not put back", base: seeded(4),
			Want: order("post_embed", "order.tokens", "input.embedding"),
			port: permutedRows("post_embed", strided(48, 6)),
		},
		{
			ID: "X-order-image-rows", Row: "66", Title: "picture rows 12 to 35 transposed, text right", base: seeded(4),
			Want: order("post_embed", "order.tokens", "input.embedding"),
			port: permutedRows("post_embed", inside(48, 12, strided(24, 6))),
		},
		{
			ID: "X-order-requests", Row: "126", Title: "the two requests of a batch exchanged", base: seeded(4, func(s *Spec) { s.Pads = []int{0, 0} }),
			Want: order("post_embed", "order.tokens", "input.embedding"),
			port: permutedRows("post_embed", swappedHalves(96)),
		},
		{
			ID: "X-order-kv-heads", Row: "99", Title: "key-value heads loaded in the other order", base: seeded(4),
			Want: divergence("order.dims", "parallel.shard_order", "attention.head_map").enters("layer_00.k", "layer_00.v").exact(),
			port: func(p *Plan) {
				p.eachLayer(func(w *LayerWeights) {
					w.K, w.V = w.K.permuteRows(swappedHalves(32)), w.V.permuteRows(swappedHalves(32))
				})
			},
		},
		{
			ID: "X-order-strides", Row: "138", Title: "context of heads and tokens read through the wrong strides", base: seeded(4),
			Want: order(ctx0, "order.channels", "order.dims", "order.tokens", "attention.head_map", "unknown"),
			port: func(p *Plan) {
				p.hook(func(at Place, x *Mat) {
					if at.Tap == "attn_ctx" {
						byHead(x, 8)
					}
				})
			},
		},
	}
}

// byHead lays [T, heads, hd] out as [heads, T, hd] in the same memory.
func byHead(x *Mat, heads int) {
	from, hd := x.clone(), x.Cols/heads
	to := x.Data
	for h := range heads {
		for t := range x.Rows {
			to = to[copy(to, from.Row(t)[h*hd:(h+1)*hd]):]
		}
	}
}

// strided lists 0, n/k, 2n/k, ..., 1, n/k+1, ...
func strided(n, k int) []int {
	var out []int
	for i := range n / k {
		for j := range k {
			out = append(out, j*(n/k)+i)
		}
	}
	return out
}

func reversed(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = n - 1 - i
	}
	return out
}

// inside applies an order to the rows from a first one on and leaves the rest.
func inside(n, from int, order []int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	for i, o := range order {
		out[from+i] = from + o
	}
	return out
}

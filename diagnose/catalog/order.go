package catalog

var order = []Pattern{
	{
		ID: "order.tokens", Title: "Tokens are in another order",
		Match:  `Rows of one side match rows of the other exactly under a one-to-one map (shift, reversal, blocks of T/(2cp), window order); before attention mixes them, values are exact.`,
		Cause:  `Rows were gathered, windowed or scattered in another order, or a permutation was applied twice instead of undone.`,
		Verify: `Read the map and its run lengths. 2*cp runs of T/(2cp): zigzag context parallel read as contiguous. Only image rows: patch or window order.`,
		Commands: []string{
			"parity try ref/ port/ --at post_embed --apply 'roll(1)'",
			"parity explain ref/ port/",
		},
		Fix:      `Apply the inverse permutation (argsort of the order) before rows are used; gather in the layout in which they were scattered.`,
		Sources:  []string{"THUDM/slime#1871", "lablup/mlxcel#1600", "lablup/mlxcel#1610", "alibaba/Pai-Megatron-Patch#649", "Nerogar/OneTrainer#775"},
		Related:  []string{"capture.row_shift", "parallel.shard_order", "video.patch_order"},
		Keywords: []string{"zigzag", "permutation", "window", "image rows", "argsort"},
	},
	{
		ID: "order.dims", Title: "Dims are in another order",
		Match:  `Columns of one side match columns of the other one to one (column correlation 1), norms per row are equal and cosine is low. Run lengths name it: head_dim (heads), head_dim/2 (rotary halves), D/tp (shards), 1 with stride 2 (interleaved).`,
		Cause:  `A fused projection was split, or shards, heads or halves joined, in another order than the weights were stored in.`,
		Verify: `The map must be a bijection with few runs. If everything downstream agrees, it is benign.layout.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.q --apply 'permute([0,2,1,3], block=64)'",
			"parity explain ref/ port/",
		},
		Fix:      `Permute the weights once at conversion, or split by [heads, 3, head_dim] against [3, heads, head_dim] as the file has it.`,
		Sources:  []string{"ndif-team/nnsight#719", "tenstorrent/tt-metal#6243", "vllm-project/vllm#3775", "flashinfer-ai/flashinfer#3819", "huggingface/diffusers#1369", "huggingface/nanotron#427"},
		Related:  []string{"benign.layout", "rope.layout", "attention.head_map", "parallel.shard_order", "mlp.gate_up_order"},
		Keywords: []string{"qkv split", "fused qkv", "head order", "sin cos swapped", "permute"},
	},
	{
		ID: "order.channels", Title: "Channels are in another order",
		Match:    `Pixel, latent or patch channels match after a permutation: RGB against BGR, (c, ph, pw) against (ph, pw, c); a checkerboard of two pixels in decoded video.`,
		Cause:    `Image preprocessing, patchify or unpatchify flattens axes in another order.`,
		Verify:   `Match channels by correlation on pixel_values or the first latent, then test that the same permutation undoes it everywhere.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Write the rearrangement as in the reference, and test it on a tensor filled with its own indices.`,
		Sources:  []string{"NVIDIA/flashdreams#284", "PaddlePaddle/PaddleOCR#7247", "triton-inference-server/server#1914", "hustvl/SparseInst#100", "lablup/mlxcel#1610"},
		Related:  []string{"order.dims", "video.patch_order", "scale.row_class"},
		Keywords: []string{"bgr", "rgb", "patchify", "channels last", "pixel shuffle", "checkerboard"},
	},
}

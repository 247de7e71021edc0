package catalog

var scale = []Pattern{
	{
		ID: "scale.constant", Title: "One factor on the whole tensor",
		Match: `Best-fit scale is constant over tokens and dims, the residual after it is at the floor, cosine is exactly 1. Named
			constants: sqrt(D), 1/sqrt(D), sqrt(head_dim), tp, powers of two, a config multiplier, bf16(sqrt(D))/sqrt(D).`,
		Cause: `A multiplier is missing, applied twice or rounded on one side (embedding scale, residual or logits multiplier, a weight's global scale).`,
		Verify: `Divide by the constant and compare: rel_l2 falls to the floor. An embedding scale hides behind the first norm:
			attn_out and mlp_out then agree while the residual stream does not.`,
		Commands: []string{
			"parity try ref/ port/ --at post_embed --apply 'fit(all)'",
			"parity explain ref/ port/",
		},
		Fix:      `Apply the multiplier once, at the place where the reference does, in the reference's dtype.`,
		Sources:  []string{"TransformerLensOrg/TransformerLens#1315", "Blaizzy/mlx-vlm#893", "PaddlePaddle/PaddleFormers#4364", "google/gemma_pytorch#67", "huggingface/transformers#29402"},
		Related:  []string{"capture.scaled_residual", "norm.gain", "attention.scale", "moe.scale", "quant.scale_layout"},
		Keywords: []string{"sqrt hidden size", "embedding multiplier", "gemma", "factor", "norm ratio"},
	},
	{
		ID: "scale.row_class", Title: "A factor on one kind of token",
		Match:    `Per-token scales take two or three exact values, and the classes are token kinds: image against text, special against ordinary, one request of a batch.`,
		Cause:    `A multiplier was applied to all embeddings, or to one kind only, where the reference applies it to the other.`,
		Verify:   `List the scale of each token and mark the modality; within a class it is constant at the floor.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Scale before image features are merged in, or after, as the reference does.`,
		Sources:  []string{"TensorAuto/OpenTau#179", "Blaizzy/mlx-vlm#906"},
		Related:  []string{"scale.constant", "scale.per_token", "rope.sections"},
		Keywords: []string{"image tokens", "multimodal", "vision", "text only"},
	},
	{
		ID: "scale.per_token", Title: "Every token has its own factor",
		Match:  `Each token's cosine is 1 and its scale differs from token to token, with a residual at the floor. After an MoE block the scale is the sum of the top-k probabilities; after a norm it is rms(x).`,
		Cause:  `A per-token normalisation is missing or added: a norm that was skipped, weights that were not renormalised, a dynamic quantisation scale that was lost.`,
		Verify: `Regress the scale on candidates: rms of the input (norm missing), 1/c^2 against 1/mean(x^2) (eps), top-k sum (renormalisation), absmax of the row (activation scale).`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.mlp_out --apply 'fit(rows)'",
			"parity explain ref/ port/",
		},
		Fix:      `Put the normalisation back at the place where the fit names it.`,
		Sources:  []string{"Lightning-AI/litgpt#2013", "NVIDIA/Megatron-LM#894"},
		Related:  []string{"norm.eps", "norm.missing", "moe.renormalise", "scale.row_class"},
		Keywords: []string{"per token scale", "row scale", "rms"},
	},
}

var offset = []Pattern{
	{
		ID: "offset.bias", Title: "A constant vector is missing or added",
		Match:  `port minus reference is the same vector at every token (standard deviation over tokens at the floor, mean not zero). It equals -bias (missing) or c times the bias.`,
		Cause:  `A linear layer's bias was not loaded, not applied, or applied more than once.`,
		Verify: `Take the mean over tokens of the difference and compare with the bias in the checkpoint file. A factor tp-1 points to parallel.bias. Constant over tokens parts it from norm.gain.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.q --apply 'fit_offset'",
			"parity explain ref/ port/",
		},
		Fix:      `Load the bias (q, k and v of Qwen2, o of some) and apply it once.`,
		Sources:  []string{"OminiX-ai/OminiX-MLX#7", "sbryngelson/ANEForge#253", "EricLBuehler/candle-vllm#167"},
		Related:  []string{"parallel.bias", "norm.gain", "weights.unloaded", "quant.zero_point"},
		Keywords: []string{"qkv bias", "constant difference", "qwen2"},
	},
}

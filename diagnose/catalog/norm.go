package catalog

var norm = []Pattern{
	{
		ID: "norm.eps", Title: "Another epsilon in the norm",
		Match:  `norm output has a per-token scale c with 1/c^2 linear in 1/mean(x^2), intercept 1; strongest where the input is small (layer 0). Cosine is 1.0000.`,
		Cause:  `eps is hard-coded, a default was taken, or it stands outside the square root.`,
		Verify: `Fit eps from the norm's own input and output on both sides; the fit prints both values. If 1/c rather than 1/c^2 is linear (in 1/rms), eps is outside the root.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.input_norm --apply 'from(post_embed) | rmsnorm(eps=1e-6) | fit(cols)'",
			"parity explain ref/ port/",
		},
		Fix:      `Read rms_norm_eps (or layer_norm_eps) from the config, and add it to the mean square inside the root.`,
		Sources:  []string{"paiml/aprender#1606", "nntrainer/nntrainer#4318", "apache/tvm#15856", "NVIDIA/cutlass#1112", "tile-ai/tilelang#1243"},
		Related:  []string{"scale.per_token", "norm.precision", "numerics.overflow"},
		Keywords: []string{"rms_norm_eps", "epsilon", "layernorm", "1e-5", "1e-6"},
	},
	{
		ID: "norm.gain", Title: "The norm's weight is applied differently: w against 1 + w",
		Match:  `norm output is the reference's times a per-dim gain that is constant over tokens: (1+w)/w, w/(1+w), 1/w (weight missing), or bf16(1+w)/(1+w) on few large dims.`,
		Cause:  `The zero-centred convention (1 + w) is ignored, applied twice, or already folded into the converted file.`,
		Verify: `Fit the gain per dim; gain*w - w = 1 everywhere means that 1 was added twice. The rank-1 residual is at the floor while a single scale leaves 10 % or more.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.input_norm --apply 'fit(cols)'",
			"parity explain ref/ port/",
		},
		Fix:      `Decide in one place (converter or model) who adds the 1, and do the sum in float32.`,
		Sources:  []string{"Blaizzy/mlx-vlm#1548", "ml-explore/mlx-lm#1442", "unslothai/unsloth-zoo#1095", "pytorch/executorch#22444", "vllm-project/vllm#29810"},
		Related:  []string{"scale.constant", "norm.missing", "offset.bias"},
		Keywords: []string{"zero centered gamma", "1+w", "gemma", "qwen3.5", "weight"},
	},
	{
		ID: "norm.missing", Title: "A norm is skipped, or one is applied too often",
		Match:  `The consumer's input equals the norm's input instead of its output, or is normalised twice; per-token scale equals rms(x). q and k norms: q0 exact, q_norm differs.`,
		Cause:  `The port lacks (or adds) a norm: QK norm, post-attention or post-MLP norm, embedding norm, final norm.`,
		Verify: `rms of each row (per head for QK norm) after the norm must be about rms(w). Normalise the port's tensor by hand and compare.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.q_norm --apply 'from(q) | rmsnorm(eps=1e-6, group=64) | fit(cols)'",
			"parity explain ref/ port/",
		},
		Fix:      `Add the norm where the reference has it, with its own weight and eps.`,
		Sources:  []string{"ggml-org/llama.cpp#15852"},
		Related:  []string{"norm.order", "norm.gain", "scale.per_token"},
		Keywords: []string{"qk norm", "post norm", "sandwich norm", "embedding norm"},
	},
	{
		ID: "norm.order", Title: "The norm stands before instead of after",
		Match:  `Inside one run: h_mid - attn_out equals the normalised input and not h_in (or the reverse); the stream's norm is bounded where the reference's grows. attn_out agrees.`,
		Cause:  `Pre-norm and post-norm, or norm before and after RoPE or before and after head split, are exchanged.`,
		Verify: `Check h_out = h_in + attn_out + mlp_out in each run alone, with candidates for h_in; the one that gives zero names the order.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.ffn_inp --apply 'sum(input_norm, attn_out)'",
			"parity explain ref/ port/",
		},
		Fix:      `Follow the reference's order; take the residual before the norm in pre-norm models.`,
		Sources:  []string{"Howuhh/faster-trajectory-transformer#3", "tracel-ai/burn#1056", "NVIDIA-NeMo/Speech#4350"},
		Related:  []string{"residual.algebra", "norm.missing"},
		Keywords: []string{"pre-norm", "post-norm", "residual", "qk norm before rope"},
	},
	{
		ID: "norm.precision", Title: "The norm is computed with too few bits",
		Match:  `norm output differs from a float32 recomputation on the run's own input by more than its storage rounding; error sits in few dims and grows faster in deep layers.`,
		Cause:  `Mean square, reciprocal root or weight product is done in 16 bits, or in another order of casts than in training.`,
		Verify: `Recompute from the dumped input in float32 and see which side is off, and by how many units of rounding. A story about bf16 alone does not prove it: the local figure does.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_11.input_norm --apply 'from(layer_10) | rmsnorm(eps=1e-6) | fit(cols)'",
			"parity explain ref/ port/",
		},
		Fix:      `Accumulate the mean square in float32; cast at the place where the reference casts (before or after the weight).`,
		Sources:  []string{"sgl-project/sglang#27540", "vllm-project/vllm#29810", "huggingface/transformers#29402"},
		Related:  []string{"numerics.low_precision", "norm.eps", "benign.precision"},
		Keywords: []string{"bf16 norm", "float32 accumulate", "cast order"},
	},
}

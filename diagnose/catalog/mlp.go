package catalog

var mlp = []Pattern{
	{
		ID: "mlp.activation", Title: "Another activation function",
		Match:  `mlp_gate (or the pre-activation) is exact and mlp_act is not. erf against tanh GELU: at most 4.7e-4 per element near x = -2.7, cosine 0.99998 at the output; QuickGELU up to 0.02.`,
		Cause:  `The name in the config (gelu, gelu_new, gelu_pytorch_tanh, quick_gelu, silu, relu2) was mapped to another function.`,
		Verify: `Recompute mlp_act from the dumped gate (and up) with each candidate: the right one is better by orders of magnitude.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.mlp_act --apply 'from(mlp_gate) | gelu_tanh | mul(mlp_up)'",
			"parity explain ref/ port/",
		},
		Fix:      `Use the exact function of the config's hidden_act.`,
		Sources:  []string{"Blaizzy/mlx-embeddings#81", "kyutai-labs/pocket-tts#278", "mindspore-lab/mindone#225"},
		Related:  []string{"mlp.gate_up_order", "numerics.low_precision", "signature.slow_decay"},
		Keywords: []string{"gelu", "tanh", "erf", "quick_gelu", "silu", "swiglu", "hidden_act"},
	},
	{
		ID: "mlp.gate_up_order", Title: "Gate and up exchanged",
		Match:  `Gate and up are exact and act equals silu(up)*gate; or the port's gate is the reference's up and the reverse.`,
		Cause:  `The fused projection is split in the other order, weights were loaded by position, or the formula applies the activation to the wrong half.`,
		Verify: `Recompute with both orders. If names alone are exchanged in the dump, mlp_act and mlp_out still agree.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.mlp_act --apply 'from(mlp_up) | silu | mul(mlp_gate)'",
			"parity explain ref/ port/",
		},
		Fix:      `Split [gate, up] as the checkpoint stores it. With tensor parallelism, shard each half by itself.`,
		Sources:  []string{"ml-explore/mlx-lm#767", "nntrainer/nntrainer#4194", "vllm-project/vllm#3775"},
		Related:  []string{"mlp.activation", "order.dims", "parallel.shard_order", "weights.swapped"},
		Keywords: []string{"gate_up_proj", "swiglu", "w1 w3", "chunk"},
	},
}

var moe = []Pattern{
	{
		ID: "moe.renormalise", Title: "Top-k weights are not renormalised (or are)",
		Match:  `The same experts, each token's cosine 1, and a per-token scale that equals the sum of the top-k softmax probabilities (0.7 to 1), or its inverse.`,
		Cause:  `norm_topk_prob differs: softmax before or after the top-k, weights divided by their sum or not.`,
		Verify: `Sum the top-k probabilities from router_logits and compare with the scale of moe_routed, token by token.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.moe_routed --apply 'fit(rows)'",
			"parity explain ref/ port/",
		},
		Fix:      `Follow norm_topk_prob, and the order of softmax and top-k, of the reference.`,
		Sources:  []string{"Lightning-AI/litgpt#2013", "NVIDIA/Megatron-LM#894", "sgl-project/sglang#35160"},
		Related:  []string{"moe.scale", "moe.selection", "scale.per_token"},
		Keywords: []string{"norm_topk_prob", "softmax", "topk", "mixtral", "router weights"},
	},
	{
		ID: "moe.scale", Title: "Routed scaling factor missing or applied twice",
		Match:  `moe_routed has one constant ratio (2.5, 0.4, 2.25), the shared expert is exact, and their sum is not a multiple of the reference.`,
		Cause:  `routed_scaling_factor is applied in the router and again in the kernel, or in neither.`,
		Verify: `Least squares of mlp_out on the routed and the shared part: coefficients (f, 1) name it. A scalar fit on the sum leaves a third.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_03.moe_routed --apply 'scale(0.4)'",
		},
		Fix:      `Apply the factor once; check fused kernels, which may do it by themselves.`,
		Sources:  []string{"sgl-project/sglang#35152", "vllm-project/vllm#24119", "kvcache-ai/sglang#86"},
		Related:  []string{"moe.shared", "moe.renormalise", "scale.constant"},
		Keywords: []string{"routed_scaling_factor", "deepseek", "2.5"},
	},
	{
		ID: "moe.selection", Title: "Experts are chosen by another rule",
		Match:    `expert_ids differ on tokens whose gap is far larger than the error of the router logits; two kinds of tokens: same set (small error) and another set (large).`,
		Cause:    `Sigmoid against softmax, correction bias left out of (or kept in) selection, groups ignored, or the bias rounded to 16 bits.`,
		Verify:   `Recompute ids and weights from router_logits with each combination of score, order, bias and groups; one reproduces all tokens. Ties only: benign.routing_tie.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Use the bias for the choice and not for the weights, in float32, as the reference does.`,
		Sources:  []string{"ml-explore/mlx-lm#1883", "huggingface/transformers#41663", "sgl-project/sglang#33764"},
		Related:  []string{"benign.routing_tie", "moe.renormalise", "train.router_replay"},
		Keywords: []string{"e_score_correction_bias", "sigmoid", "noaux_tc", "n_group", "topk_group"},
	},
	{
		ID: "moe.shared", Title: "Shared expert weighted or summed wrongly",
		Match:    `Least squares of mlp_out on moe_routed and moe_shared gives (1, c) with c = tp, 1/tp, 1/routed_scaling_factor or 0.`,
		Cause:    `The shared expert is reduced twice or never across ranks, divided by the routed factor when fused, or left out.`,
		Verify:   `Fit both coefficients; run at two tp sizes: c follows tp or stays.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Add the shared part after the routed factor, and reduce the sum once.`,
		Sources:  []string{"sgl-project/sglang#28237", "vllm-project/vllm#49366", "vllm-project/tpu-inference#3435"},
		Related:  []string{"moe.scale", "parallel.partial_sum"},
		Keywords: []string{"shared_expert", "all reduce twice", "aria", "coefficients"},
	},
}

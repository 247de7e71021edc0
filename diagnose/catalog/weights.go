package catalog

var weights = []Pattern{
	{
		ID: "weights.unloaded", Title: "A weight was never loaded",
		Match:    `A module's input agrees, its output has cosine near 0 with a norm ratio that fits a fresh initialisation; no transform explains it. Each run of the port may differ.`,
		Cause:    `The checkpoint's key has another name or prefix, and the loader kept the initial values without an error.`,
		Verify:   `Read the loader's list of missing keys. Compare a few numbers of that weight in the running model with the file.`,
		Commands: []string{"parity triage --log load.log", "parity explain ref/ port/"},
		Fix:      `Map the key; make missing and unexpected keys an error.`,
		Sources:  []string{"huggingface/transformers#43429", "vllm-project/vllm#53020"},
		Related:  []string{"load.missing_keys", "load.newly_initialized", "weights.tied", "weights.swapped"},
		Keywords: []string{"random init", "missing keys", "state_dict", "not initialized"},
	},
	{
		ID: "weights.transposed", Title: "A square weight is used transposed",
		Match:  `The first linear layer with this weight has cosine near 0 at equal norm, and x @ W (instead of x @ W^T) reproduces the other side exactly.`,
		Cause:  `Conv1D (GPT-2) and Linear store transposed matrices; when the weight is square nothing complains.`,
		Verify: `Recompute y from the dumped x with W and with its transpose.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.q --apply 'from(input_norm) | matmul(q_weight, transpose=true)'",
			"parity explain ref/ port/",
		},
		Fix:      `Transpose at conversion, by module type and not by shape.`,
		Sources:  []string{"AutoGPTQ/AutoGPTQ#139", "nntile/nntile#402"},
		Related:  []string{"weights.swapped", "quant.scale_layout"},
		Keywords: []string{"conv1d", "gpt-2", "transpose", "square"},
	},
	{
		ID: "weights.swapped", Title: "A weight sits in another module or layer",
		Match:  `The port's tensor matches another tensor of the reference at the floor: k is v, gate is up, layer 11 acts as layer 12, the encoder's table is lm_head.`,
		Cause:  `Keys were mapped by position, sorted as text, or two outputs of a fused operation were taken in the wrong order.`,
		Verify: `Cross-match every port tensor of the layer with every reference tensor of equal shape; one pair has cosine 1.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00.k --apply 'from(v)'",
			"parity explain ref/ port/",
		},
		Fix:      `Map by name; check the map by shapes and by a checksum per key.`,
		Sources:  []string{"tenstorrent/tt-mlir#8958", "nntrainer/nntrainer#4194", "huggingface/transformers#48154"},
		Related:  []string{"mlp.gate_up_order", "layers.order", "weights.unloaded", "input.embedding"},
		Keywords: []string{"exchanged", "k v swapped", "wrong layer", "mapping"},
	},
	{
		ID: "weights.tied", Title: "Tied output head lost its tie",
		Match:    `All hidden states agree, logits have cosine near 0 (head left at random) or are right only for ids below a limit; logits should equal h @ E^T.`,
		Cause:    `tie_word_embeddings was dropped by the config or the converter, or tying happened before the embedding was loaded or resized.`,
		Verify:   `Compute last hidden state times the embedding table and compare with the logits; compare lm_head.weight with embed_tokens.weight in the running model.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Tie after loading, or write the head explicitly.`,
		Sources:  []string{"huggingface/transformers#43429", "vllm-project/vllm#53020", "tinygrad/tinygrad#13796", "sgl-project/sglang#1508"},
		Related:  []string{"load.newly_initialized", "load.missing_keys", "weights.unloaded", "signature.logits_argmax"},
		Keywords: []string{"lm_head", "tie_word_embeddings", "output head", "random logits"},
	},
}

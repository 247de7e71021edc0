package catalog

var residual = []Pattern{
	{
		ID: "residual.algebra", Title: "The residual stream is not the sum of its parts",
		Match:  `In one run alone, h_out - h_in - attn_out - mlp_out is not zero, while attn_out and mlp_out agree with the reference; the right coefficients fit exactly (0.22 instead of 1, n1 instead of h_in).`,
		Cause:  `The residual is taken after the norm, added twice or not, or a branch multiplier is missing.`,
		Verify: `The identity needs no reference: solve for the coefficients of h_in, n1, attn_out, n2 and mlp_out in each run, and compare them.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00 --apply 'sum(post_embed, attn_out, mlp_out)'",
			"parity explain ref/ port/",
		},
		Fix:      `Keep the stream before the norm; multiply branches as the config says (residual_multiplier).`,
		Sources:  []string{"OpenNMT/CTranslate2#1882", "ggml-org/llama.cpp#5276", "Howuhh/faster-trajectory-transformer#3", "tracel-ai/burn#1056"},
		Related:  []string{"norm.order", "capture.split_residual", "scale.constant", "capture.scaled_residual"},
		Keywords: []string{"residual_multiplier", "mup", "granite", "skip connection", "branch"},
	},
}

var layers = []Pattern{
	{
		ID: "layers.set", Title: "A property sits on the wrong layers",
		Match:    `Layers with the property (window, RoPE, norm, expert block) form another set in the port: the complement, shifted by one, all, or none.`,
		Cause:    `The pattern was computed instead of read, counting from 1 in one code and from 0 in the other.`,
		Verify:   `List both sets and their period; look only at layers whose own input agrees, since errors are passed on.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Read layer_types (or the like) from the config and index it by the absolute layer, also under pipeline parallelism.`,
		Sources:  []string{"huggingface/transformers#31775", "vllm-project/vllm#21863", "airockchip/rknn-llm#501", "AMD-AGI/Primus#930"},
		Related:  []string{"attention.window", "rope.applied", "signature.periodic", "layers.order"},
		Keywords: []string{"layer_types", "alternating", "even odd", "sliding layers"},
	},
	{
		ID: "layers.order", Title: "Layers run in another order, twice, or not at all",
		Match:    `From layer N on, port layers match reference layers with another index when each is given the same input, or weights of two layers are exchanged.`,
		Cause:    `Layer names were sorted as text (layer 10 before layer 2), a pipeline stage starts at the wrong index, or a layer is skipped or shared.`,
		Verify:   `Compare one weight of each layer across the files, or recompute a layer from the port's own input with the neighbours' weights.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Sort by number; give each pipeline stage its absolute offset.`,
		Related:  []string{"capture.index_shift", "weights.swapped", "layers.set"},
		Keywords: []string{"natural sort", "pipeline stage", "skip layer", "layer_10"},
	},
}

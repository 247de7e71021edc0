package catalog

var numerics = []Pattern{
	{
		ID: "numerics.overflow", Title: "float16 overflows",
		Match:  `The first non-finite tensor has Inf at one or few (token, dim), the reference there is beyond 65504 (or its square or sum of squares is); the next norm is NaN for that token, later for all.`,
		Cause:  `A value or an intermediate (x^2 in a norm, the MLP's output in T5) exceeds the range of float16.`,
		Verify: `Take the first non-finite checkpoint, its position and the reference's value there. Inf comes before NaN. If the next checkpoints are finite, the dump overflowed and not the model.`,
		Commands: []string{
			"parity inspect port/",
			"parity try ref/ port/ --at layer_17.mlp_out --apply 'finite'",
		},
		Fix:      `bfloat16 or float32 for that module; scale before squaring; clamp only where the reference clamps.`,
		Sources:  []string{"huggingface/transformers#10956", "openvinotoolkit/openvino#37041", "huggingface/candle#2480", "NVIDIA/TensorRT#2564", "microsoft/onnxruntime#13639"},
		Related:  []string{"capture.overflow_on_save", "numerics.nan", "norm.eps", "train.nan_loss"},
		Keywords: []string{"inf", "fp16", "65504", "t5", "layernorm pow"},
	},
	{
		ID: "numerics.nan", Title: "NaN without an overflow before it",
		Match:    `NaN appears with no Inf before it: exactly at pad query rows (masked out fully), or in unwritten parts of a buffer.`,
		Cause:    `0/0 of a softmax row in which every key is masked, or memory that was never written.`,
		Verify:   `Compare the map of NaN rows with the padding mask. If they spread to real tokens in the next layer, keys are not masked. Two runs tell garbage from arithmetic.`,
		Commands: []string{"parity inspect port/", "parity explain ref/ port/"},
		Fix:      `Give fully masked rows one key (or zero their output); use a large negative number instead of -inf; initialise buffers.`,
		Sources:  []string{"ml-explore/mlx#2608", "pytorch/pytorch#103749", "ModelCloud/GPTQModel#2350"},
		Related:  []string{"numerics.overflow", "attention.mask", "capture.partial_copy", "train.nan_loss"},
		Keywords: []string{"nan", "softmax", "fully masked", "padding rows", "-inf"},
	},
	{
		ID: "numerics.low_precision", Title: "One module computes with too few bits",
		Match:  `Errors are small and smooth but one module's output is many times its floor given its own input, at every layer; or growth accelerates in deep layers with large dims.`,
		Cause:  `An accumulation, norm, router or softmax runs in 16 or 8 bits where the reference uses float32.`,
		Verify: `Recompute the module in float32 from the port's own input: error of the module against its floor. Step ratio over layers stays under 1.3 for plain rounding.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_11.mlp_act --apply 'from(mlp_gate) | silu | mul(mlp_up)'",
			"parity explain ref/ port/",
		},
		Fix:      `Accumulate in float32 in that module.`,
		Sources:  []string{"sgl-project/sglang#27540", "sgl-project/sglang#33764"},
		Related:  []string{"benign.precision", "norm.precision", "rope.precision", "signature.slow_decay"},
		Keywords: []string{"bf16", "accumulation", "tf32", "drift"},
	},
}

var unknown = []Pattern{
	{
		ID: "unknown", Title: "Nothing that was tried fits",
		Match:    `An error enters at a checkpoint whose inputs agree, and no hypothesis reproduces it.`,
		Cause:    `The cause is not in the table, or the tensors that would decide it were not dumped.`,
		Verify:   `Read what was tried and what was missing. Dump the listed sub-taps of this one layer, in float32, with a prompt that is long enough, and explain again.`,
		Commands: []string{"parity explain ref/ port/ --brief"},
		Fix:      `Divide the module in halves with hand-placed taps until the first operation that differs is found.`,
		Related:  []string{"weights.unloaded", "numerics.low_precision", "capture.missing"},
		Keywords: []string{"unexplained", "no fit", "unsure"},
	},
}

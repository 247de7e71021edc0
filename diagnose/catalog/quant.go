package catalog

var quant = []Pattern{
	{
		ID: "quant.zero_point", Title: "Zero point off by one step",
		Match:    `port minus reference of a linear layer lies in the span of the group sums of its input (residual at the floor for rank G); coefficients are a constant times the group's scale (1, -8, 16 after an underflow).`,
		Cause:    `Zero points are stored minus one in some formats, or the symmetric shift is applied twice or not; 0 - 1 wraps to 15.`,
		Verify:   `Regress the difference on group sums of x. Random quantisation noise cannot be fitted (residual near 1), a shift can exactly.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Follow the format's rule (GPTQ stores zero - 1, AWQ does not), and subtract in a wider type.`,
		Sources:  []string{"ModelCloud/GPTQModel#2350", "mit-han-lab/llm-awq#321"},
		Related:  []string{"quant.scale_layout", "quant.nibble_order", "offset.bias"},
		Keywords: []string{"gptq", "awq", "zeros", "int4", "group"},
	},
	{
		ID: "quant.scale_layout", Title: "Scales transposed, swizzled or of another tensor",
		Match:    `Dequantised weights (or outputs per block) are off by a ratio per block: S^T/S, powers of two in sparse places, or one constant per expert (gate's global scale used for up).`,
		Cause:    `The block scales' order (row, column, interleaved, swizzled) is not what the kernel expects, or a global scale is a divisor used as a multiplier.`,
		Verify:   `Form the matrix of block ratios and compare with S^T/S; a histogram of log2(port/reference) with spikes at whole numbers is exponent scales out of order.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Permute and interleave scales as the kernel documents; keep one global scale per matrix.`,
		Sources:  []string{"vllm-project/vllm#50204", "flashinfer-ai/flashinfer#4087", "vllm-project/vllm#54974", "NVIDIA/TensorRT-LLM#14199", "modular/modular#6600"},
		Related:  []string{"scale.constant", "quant.zero_point", "weights.transposed"},
		Keywords: []string{"fp8", "nvfp4", "mxfp8", "block scale", "global scale"},
	},
	{
		ID: "quant.nibble_order", Title: "Packed 4-bit values in another order",
		Match:    `Outputs have cosine near 0 to 0.5; recomputing with neighbouring input columns exchanged in pairs (or halves of a block) gives the reference.`,
		Cause:    `Two values share a byte, and low and high nibble, or first and second half of a block, are taken the other way round.`,
		Verify:   `Unpack one row by hand in both orders and compare with the reference's weights; regress y on pair-swapped x.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Unpack in the file's order, or repack once at load.`,
		Related:  []string{"quant.zero_point", "order.dims"},
		Keywords: []string{"int4", "packing", "low nibble", "q4_0", "awq order"},
	},
}

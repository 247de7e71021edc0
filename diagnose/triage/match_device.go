package triage

var deviceMatchers = []Matcher{
	{
		ID: "out-of-memory", Says: "the accelerator's memory is full",
		Patterns: []string{"train.oom"},
		Weight:   weightCause,
		hints:    holding("out of memory|outofmemory"),
		expr: expr(`(?:CUDA|HIP|XPU|NPU|MPS)(?: backend)? out of memory|CUDA error: out of memory|OutOfMemoryError\b|` +
			`RESOURCE_EXHAUSTED: Out of memory`),
	},
	{
		ID: "device-assert", Says: "an index is out of range on the device",
		Patterns: []string{"train.device_assert"},
		Weight:   weightCause,
		hints:    holding("assert"),
		expr:     expr("device-side assert triggered|Assertion [`'\"]?(?:-?\\w+ <= \\w+ && )?(?:srcIndex < srcSelectDimSize|t >= 0 && t < n_classes|index out of bounds|ind >= 0 && ind < ind_dim_size|idx_dim >= 0|-sizes\\[i\\] <= index|cur_target >= 0)"),
		read: func(r *reading) bool {
			if contains(r.text, "srcSelectDimSize") {
				r.note = "an index into an embedding or index_select: a token id or position beyond the table"
			}
			if contains(r.text, "n_classes") || contains(r.text, "cur_target") {
				r.note = "a label beyond the number of classes in a loss"
			}
			return true
		},
	},
	{
		ID: "illegal-access", Says: "a kernel touched memory that is not its own",
		Patterns: []string{"train.illegal_access"},
		Weight:   weightCause,
		hints:    holding("illegal memory access|misaligned address|unspecified launch failure|illegal instruction was"),
		expr:     expr(`(?:an )?illegal memory access was encountered|misaligned address|unspecified launch failure|illegal instruction was encountered`),
	},
	{
		ID: "dtype-or-device", Says: "operands differ in dtype or device",
		Patterns: []string{"train.dtype_mismatch"},
		Weight:   weightCause,
		hints:    holding("expected"),
		expr: expr(`expected (?:mat1 and mat2|m1 and m2) to have the same dtype|expected scalar type \w+ but found \w+|` +
			`Expected all tensors to be on the same device|expected (?:query, key, and value|tensors?) to have the same dtype`),
	},
	{
		ID: "inplace", Says: "a tensor that autograd kept was overwritten",
		Patterns: []string{"train.inplace"},
		Weight:   weightCause,
		hints:    holding("inplace operation"),
		expr:     expr(`needed for gradient computation has been modified by an inplace operation`),
	},
	{
		ID: "recompute", Says: "activation checkpointing recomputed something else",
		Patterns: []string{"train.recompute"},
		Weight:   weightCause,
		hints:    holding("recomput"),
		expr:     expr(`Recomputed values for the following tensors have different metadata|different number of tensors was saved during the original forward and recomputation`),
	},
}

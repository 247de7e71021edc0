package catalog

var capture = []Pattern{
	{
		ID: "capture.index_shift", Title: "Layer indices are off by one",
		Match: `port layer l equals reference layer l-1 (or l+1) at the floor, for every l; as named, all layers look wrong, with
			errors of the size of a layer's increment. layer_00 may equal post_embed.`,
		Cause: `hidden_states[i] is the input of layer i, and one of the dumpers saved it as the output of layer i.`,
		Verify: `Read the guard: it gives the figures of the best shift for all layers. In one run alone, layer_00 byte-identical
			to post_embed proves which side is shifted.`,
		Commands: []string{
			"parity compare ref/ port/",
			"parity inspect ref/",
			"parity try ref/ port/ --at layer_01 --apply 'from(layer_00)'",
		},
		Fix:      `Save hidden_states[i+1] for layer i, or hook the layer's output, which needs no index arithmetic.`,
		Sources:  []string{"vllm-project/vllm#48124"},
		Related:  []string{"capture.post_final_norm", "spike.last_layer", "layers.order"},
		Keywords: []string{"hidden_states", "off by one", "output_hidden_states", "shift"},
	},
	{
		ID: "capture.post_final_norm", Title: "The last layer was saved after the final norm",
		Match: `All layers agree, then a cliff at the last one, where the port's (or the reference's) rows are the other side's rows
			times a per-token scale times a per-dim gain. It equals post_final_norm of its own run.`,
		Cause: `The last entry of hidden_states is taken after the final norm in most transformers models, unlike all others.`,
		Verify: `Apply the final norm to the other side's last layer and compare: equal at the floor means that only the capture
			differs. Byte-identical to the run's own post_final_norm is proof as well.`,
		Commands: []string{
			"parity compare ref/ port/",
			"parity try ref/ port/ --at layer_29 --apply 'rmsnorm(eps=1e-6) | fit(cols)'",
		},
		Fix:      `Hook the last decoder layer's output instead of reading the last entry of the tuple.`,
		Sources:  []string{"TransformerLensOrg/TransformerLens#1639"},
		Related:  []string{"spike.last_layer", "capture.index_shift", "norm.missing"},
		Keywords: []string{"final norm", "ln_f", "hidden_states[-1]", "fake cliff", "last layer"},
	},
	{
		ID: "capture.split_residual", Title: "Half of a split residual stream was saved",
		Match: `Each layer output of one side has cosine from about 0.1 to 0.9 with the other, with no growth that fits a fault,
			while the sum of the dumped tensor and its .residual partner matches at the floor.`,
		Cause: `Fused add-norm layers (vLLM, SGLang) return the pair (hidden, residual), and only their sum is the residual stream.`,
		Verify: `Add both halves and compare. Without the second half dumped: the saved tensor equals the MLP output of its layer
			and not the stream.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00 --apply 'sum(layer_00, layer_00.residual)'",
		},
		Fix:      `Save hidden + residual as the layer's output, and clone both before the next fused kernel changes them in place.`,
		Sources:  []string{"ndif-team/nnsight#630", "ndif-team/nnsight#642", "IBM/vLLM-Hook#11"},
		Related:  []string{"capture.reused_buffer", "capture.wrong_tensor", "residual.algebra"},
		Keywords: []string{"vllm", "sglang", "residual", "tuple output", "fused_add_rms_norm"},
	},
	{
		ID: "capture.scaled_residual", Title: "One side's taps hold a scaled residual stream",
		Match: `All layer outputs of one side are the other's times the same constant (cosine 1, the same norm ratio at every layer),
			while post_final_norm, logits or sub-taps agree.`,
		Cause: `The tap sits before or after a constant multiplier (an embedding, residual or muP factor), which the final norm then removes.`,
		Verify: `The ratio must be the same at every layer and token and be a number from the model's config. If logits differ
			too, it is not a capture artefact but scale.constant.`,
		Commands: []string{
			"parity try ref/ port/ --at layer_00 --apply 'fit(all)'",
		},
		Fix:      `Divide by the multiplier in the dumper, or state residual_multiplier in the manifest.`,
		Sources:  []string{"TransformerLensOrg/TransformerLens#1639", "TransformerLensOrg/TransformerLens#1315"},
		Related:  []string{"scale.constant", "residual.algebra"},
		Keywords: []string{"residual_multiplier", "mup", "granite", "minicpm", "norm ratio"},
	},
	{
		ID: "capture.duplicate", Title: "Several layers of one run hold the same bytes",
		Match: `Two or more layer outputs of one run are byte-identical though not constant; statistics (norm, maximum) repeat
			exactly from layer to layer.`,
		Cause: `The hook saved the same buffer or the same call again, as happens under graph capture, where Python hooks do not run at replay.`,
		Verify: `Inspect the one dump alone; identical layers are listed. A transformer layer that changes nothing at all does
			not occur in a trained model.`,
		Commands: []string{"parity inspect port/"},
		Fix:      `Dump in eager mode (no CUDA graphs, no compile), clone at hook time, and name files by layer and call.`,
		Sources:  []string{"kekzl/imp#1274", "kekzl/imp#1275"},
		Related:  []string{"capture.reused_buffer", "spike.hook_overwrite", "capture.stale"},
		Keywords: []string{"cuda graph", "identical", "same rms", "enforce_eager", "compile"},
	},
	{
		ID: "capture.reused_buffer", Title: "A view of a buffer was saved after it was overwritten",
		Match: `A checkpoint of one side equals a later checkpoint of its own run, or of the other side, to the bit; typically
			layer l holds the values of l+1, or a branch output holds the stream after the add.`,
		Cause: `The hook kept a reference to memory that an in-place operation or the next layer reused before the tensor was written.`,
		Verify: `The guard names the checkpoint whose values were found. Dump again with a copy in the hook: the artefact
			vanishes while a real fault stays.`,
		Commands: []string{"parity inspect port/"},
		Fix:      `tensor.detach().clone() (or an explicit device copy that is awaited) inside the hook, before it returns.`,
		Sources:  []string{"pytorch/captum#156", "pytorch/captum#165", "ndif-team/nnsight#642"},
		Related:  []string{"capture.duplicate", "capture.partial_copy", "capture.split_residual"},
		Keywords: []string{"view", "in-place", "clone", "alias", "overwritten"},
	},
	{
		ID: "capture.extra_rows", Title: "One side has padding or foreign rows",
		Match: `Row counts differ by the same amount at every checkpoint of a kind; the other side's rows are found exactly as a
			prefix, suffix or block, and the rest are padding, another request, or an empty rank's token.`,
		Cause: `Batch, bucket or rank padding was dumped as if it were tokens.`,
		Verify: `The guard prints which rows it aligned and which it ignored; the count must be the same everywhere and equal
			the bucket size minus the prompt length.`,
		Commands: []string{"parity compare ref/ port/"},
		Fix:      `Cut rows by the true sequence length in the dumper, or run a batch of one with padding off.`,
		Sources:  []string{"sgl-project/sglang#26996", "QwenLM/Qwen3-VL#1430"},
		Related:  []string{"capture.row_shift", "parallel.padding", "video.sequence_padding"},
		Keywords: []string{"padding", "bucket", "batch", "rows", "left padding"},
	},
	{
		ID: "capture.row_shift", Title: "Rows are moved by one or more positions",
		Match: `Row t of one side equals row t+s of the other at the floor, with the same s at every checkpoint, in spite of equal ids.`,
		Cause: `The dumper cut the rows at another position: left against right padding, a BOS counted on one side only, the last prompt token held back for decode.`,
		Verify: `Read s from the guard and compare with the number of pad or special tokens. The shift is present at post_embed
			already; a shift that begins later is order.tokens.`,
		Commands: []string{"parity compare ref/ port/"},
		Fix:      `Cut both dumps by the same rule; dump prompt_tokens beside them so that a shift is visible.`,
		Sources:  []string{"unslothai/unsloth#3699", "vllm-project/vllm#16976"},
		Related:  []string{"capture.extra_rows", "input.extra_token", "order.tokens"},
		Keywords: []string{"left padding", "shift", "bos", "roll", "offset rows"},
	},
	{
		ID: "capture.chunked", Title: "The hook fired once per chunk",
		Match: `A checkpoint has fewer rows than tokens (the last chunk only, or one row per chunk), or comes as several files
			whose concatenation matches the other side.`,
		Cause:    `Prefill ran in chunks or micro-batches, and each call of the hook wrote its own piece or overwrote the last.`,
		Verify:   `calls in the manifest is above 1, or row counts sum to T. Concatenated in call order the pieces equal the reference.`,
		Commands: []string{"parity inspect port/"},
		Fix:      `Switch chunked prefill off for the dump (or raise the chunk and micro-batch size above T), or append by call and join.`,
		Sources:  []string{"IBM/vLLM-Hook#22"},
		Related:  []string{"spike.hook_overwrite", "state.chunk", "capture.extra_rows"},
		Keywords: []string{"chunked prefill", "n_ubatch", "microbatch", "several calls"},
	},
	{
		ID: "capture.dtype_view", Title: "16-bit floats saved under another type",
		Match: `One side is int16 or uint16 where floats belong, or its values differ wildly while the same bits read as bfloat16
			(or float16) match. The wrong of the two 16-bit types gives a cosine of about 0.86.`,
		Cause:    `numpy has no bfloat16, so the bits were saved as integers or labelled as float16.`,
		Verify:   `Reinterpret the bits as each 16-bit type: one of them matches at rounding, the others do not. The guard prints all.`,
		Commands: []string{"parity compare ref/ port/"},
		Fix:      `Cast to float32 in the dumper, or name dtype: bfloat16 in the manifest.`,
		Sources:  []string{"jax-ml/ml_dtypes#41", "paiml/aprender#1601", "zarr-developers/zarr-python#711"},
		Related:  []string{"benign.precision", "capture.overflow_on_save"},
		Keywords: []string{"bfloat16", "uint16", "V2", "reinterpret", "view", "numpy"},
	},
	{
		ID: "capture.overflow_on_save", Title: "Values above 65504 were saved as Inf",
		Match: `Inf at places where the other side's magnitude is above 65504, in one checkpoint or a run of them, while the next
			checkpoints of the same run are finite.`,
		Cause: `The dumper cast a float32 or bfloat16 tensor to float16, which cannot hold massive activations.`,
		Verify: `Look at the position of the first Inf and the other side's value there. If the model itself had overflowed, the
			next norm would be NaN.`,
		Commands: []string{"parity inspect port/"},
		Fix:      `Save as float32 or bfloat16.`,
		Sources:  []string{"EleutherAI/elk#208"},
		Related:  []string{"numerics.overflow", "numerics.nan"},
		Keywords: []string{"inf", "fp16", "65504", "massive activation"},
	},
	{
		ID: "capture.wrong_tensor", Title: "The hook sits on another module or argument",
		Match: `Shapes, dtype or counts do not fit the name (integers where floats belong, a vision tower's width, twice the
			layers), or a checkpoint matches a different checkpoint of the other side at the floor.`,
		Cause: `The hook was set on a wrapper, an encoder, or took the first positional argument, which is positions in some engines.`,
		Verify: `Compare shapes and dtypes in both manifests, and look at the source module path of each checkpoint. int64 values
			0..T-1 are positions.`,
		Commands: []string{"parity inspect port/", "parity inspect ref/"},
		Fix:      `Find decoder layers by structure (the longest ModuleList of equal blocks), and take the documented output element.`,
		Sources:  []string{"IBM/vLLM-Hook#11", "ndif-team/nnsight#630"},
		Related:  []string{"spike.wrong_module", "capture.split_residual"},
		Keywords: []string{"module", "encoder", "multimodal wrapper", "positions", "hook"},
	},
	{
		ID: "capture.missing", Title: "A required checkpoint was not written",
		Match: `Tokens, post_embed, a layer output, the final norm or logits exist on one side only.`,
		Cause: `The hook did not fire (compiled graph, skipped branch, other module name) or its file was not written.`,
		Verify: `List both sides: a regular gap (every n-th layer) is sampling or a layer type without a hook, a tail gap is an
			interrupted run, a whole missing family is a wrong module path.`,
		Commands: []string{"parity inspect ref/", "parity inspect port/"},
		Fix:      `Hook that module too, or tell the comparison that it is expected with --allow-unpaired NAME.`,
		Sources:  []string{"kekzl/imp#1274"},
		Related:  []string{"capture.incomplete", "capture.wrong_tensor"},
		Keywords: []string{"unpaired", "coverage", "not dumped", "missing file"},
	},
	{
		ID: "capture.stale", Title: "The dump belongs to another model, prompt or version",
		Match: `Manifests disagree on model, prompt, mode or step, or the number of layers, width or vocabulary differ; figures
			make no sense at any layer, or are suspiciously equal to an older comparison.`,
		Cause:    `One of the folders is left over from an earlier run, or the run that should have replaced it failed before it wrote.`,
		Verify:   `Compare created, model.id, prompt and mode of both manifests, and the files' times. Dump into an empty folder and see whether the files appear.`,
		Commands: []string{"parity inspect ref/", "parity inspect port/"},
		Fix:      `Dump both sides again into new folders; make the dump script fail when the run fails.`,
		Sources:  []string{"kekzl/imp#1274"},
		Related:  []string{"capture.incomplete", "weights.unloaded", "spike.stale"},
		Keywords: []string{"old dump", "foreign", "manifest", "cache"},
	},
	{
		ID: "capture.incomplete", Title: "The run did not finish its dump",
		Match:    `complete is false in the manifest, there is none beside temporary files, or files are truncated.`,
		Cause:    `The process raised, was killed or ran out of disk while dumping.`,
		Verify:   `Read the end of the run's own log and the free disk space. Sizes of files against shape times item size tell which one was cut.`,
		Commands: []string{"parity inspect port/"},
		Fix:      `Mend the run, then dump again; sample layers or tokens if space is short.`,
		Sources:  []string{"numpy/numpy#28330"},
		Related:  []string{"capture.missing", "capture.partial_copy", "train.oom"},
		Keywords: []string{"truncated", "killed", "disk full", "complete false"},
	},
	{
		ID: "capture.partial_copy", Title: "The copy to the host was not awaited",
		Match:    `Tail rows of a tensor are zero or garbage while the rest agrees; which tensors are hit changes from run to run.`,
		Cause:    `An asynchronous device-to-host copy was written to disk before it had finished.`,
		Verify:   `Dump the same run twice: the bad rows move. With a synchronise before the write they vanish.`,
		Commands: []string{"parity compare port/ port-again/"},
		Fix:      `Synchronise the stream (or copy with non_blocking=False) before the tensor is written.`,
		Sources:  []string{"pytorch/pytorch#86264", "pytorch/pytorch#137878", "flashinfer-ai/flashinfer#564", "sgl-project/sglang#16493"},
		Related:  []string{"capture.reused_buffer", "benign.rerun_noise", "parallel.shard_missing"},
		Keywords: []string{"async", "non_blocking", "pinned memory", "zeros at the end", "synchronize"},
	},
}

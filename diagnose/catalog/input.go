package catalog

var input = []Pattern{
	{
		ID: "input.tokens", Title: "The two runs read different token ids",
		Match: `prompt_tokens have the same length but differ at one or more positions. Under a causal mask
			every row before the first difference agrees at the floor and every row from it on is wrong, at post_embed already.`,
		Cause: `The tokenizer, its version, the chat template or the handling of special tokens is not the same on both sides.`,
		Verify: `Read the guard's edit: it names the first index and both ids. Decode both id lists to text and look at the
			characters around it (a blank, a newline, a special token read as letters). Nothing later in the comparison counts until this is equal.`,
		Commands: []string{"parity compare ref/ port/"},
		Fix: `Tokenise once, save the ids, and feed the same ids to both runs. If the port must tokenise by itself, fix that first
			and test it on text with blanks, newlines, emoji and special tokens.`,
		Sources:  []string{"vllm-project/vllm#16976", "vllm-project/vllm#27517"},
		Related:  []string{"input.extra_token", "path.serving", "path.reference_insane"},
		Keywords: []string{"tokenizer", "chat template", "ids", "prompt", "special tokens"},
	},
	{
		ID: "input.extra_token", Title: "One side has a token more: BOS twice or missing",
		Match: `prompt_tokens differ in length by a constant, most often one; after moving one side by one row, ids and
			embeddings match exactly. Unshifted, every row looks wrong from post_embed on.`,
		Cause: `A special token was added twice, by the chat template and by the tokenizer, or by neither.`,
		Verify: `Print the first three and last three ids of both sides. The pattern is BOS BOS against BOS, or a trailing
			end-of-turn token on one side only. The guard prints the edit ("port has one more token at 0").`,
		Commands: []string{"parity compare ref/ port/"},
		Fix: `Render the template to text, then tokenise with add_special_tokens=False; or drop BOS from the template.
			Keep the ids in the dump, so that the next difference is seen at once.`,
		Sources:  []string{"sgl-project/sglang#888", "marin-community/marin#7179", "vllm-project/vllm#27517"},
		Related:  []string{"input.tokens", "capture.row_shift", "order.tokens"},
		Keywords: []string{"bos", "double bos", "add_special_tokens", "off by one token", "shift"},
	},
	{
		ID: "input.embedding", Title: "Embedding rows are not the reference's",
		Match: `prompt_tokens are identical, post_embed is not equal within one rounding of the storage dtype: below cosine
			0.99 at all tokens, or wrong for a range of ids only.`,
		Cause: `The embedding table was loaded, split over ranks, cast or padded wrongly, so the same id gives another row.`,
		Verify: `Compare single rows: take an id that occurs early and look up its row in the checkpoint file. Wrong only for ids
			above a limit: vocabulary sharding. All rows scaled by one number: see scale.constant. Rows that match another dumped
			table: the wrong key was loaded.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix: `Load the table under the right key, without transposing; split the vocabulary at the padded size that the
			engine uses for its masks too; apply the embedding multiplier exactly once.`,
		Sources:  []string{"huggingface/transformers#48154", "PaddlePaddle/Paddle#35326"},
		Related:  []string{"scale.constant", "weights.swapped", "weights.tied", "parallel.shard_missing"},
		Keywords: []string{"embed_tokens", "vocab", "vocabulary sharding", "post_embed"},
	},
	{
		ID: "input.attention_mask", Title: "A decode-prefix run without its extended attention mask",
		Match: `Token ids are equal, yet post_embed (where positions are derived from the mask) or layer_00 is right up to one
			position and wrong from it on; or every row collapses at once. The position is the length of the original prompt.`,
		Cause: `Generated tokens were appended to input_ids but attention_mask was not made longer, so the new tokens are masked or get wrong positions.`,
		Verify: `Compare the length of attention_mask with the number of tokens, in the manifest or the dump. Compare
			position_ids on both sides: they repeat or stop where the mask ends.`,
		Commands: []string{"parity inspect port/", "parity compare ref/ port/"},
		Fix:      `Build attention_mask as ones of the full length in the dumper, and dump attention_mask and position_ids with the run so that the guard can see them.`,
		Sources:  []string{"huggingface/transformers#48161", "ndif-team/nnsight#673"},
		Related:  []string{"attention.mask", "state.position", "rope.position", "spike.decode_prefix"},
		Keywords: []string{"attention_mask", "decode prefix", "teacher forced", "position_ids", "padding"},
	},
}

package catalog

// ranks holds faults of tensor parallelism that no test of explain names by
// themselves.
var ranks = []Pattern{
	{
		ID: "ranks.norm_statistics", Title: "Norm statistics over the local shard only",
		Match:    `Per-token scale is constant inside a rank's block of dims and differs between blocks (2.24 against 0.75 in a toy); edges lie at D/tp.`,
		Cause:    `A norm over a width that is split across ranks (QK norm over all heads, post-norm in OLMo 2 style) computes its mean square from local dims.`,
		Verify:   `For each token fit one scale per block of D/tp dims; the residual is at the floor. It vanishes at tp = 1.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `All-reduce the sum of squares over the group before the root, and divide by the full width.`,
		Sources:  []string{"sgl-project/sglang#20967", "EleutherAI/gpt-neox#1424"},
		Related:  []string{"norm.eps", "scale.per_token", "parallel.partial_sum"},
		Keywords: []string{"tensor parallel norm", "qk norm", "local shard", "rms"},
	},
	{
		ID: "ranks.kv_heads", Title: "More ranks than key and value heads",
		Match:    `Right up to tp = kv_heads, wrong above: k and v blocks are cut inside a head, permuted or repeated in the wrong order.`,
		Cause:    `Heads must be replicated when tp is larger than their number, and the loader splits rows evenly instead.`,
		Verify:   `Compare k per rank with the reference's heads: run lengths shorter than head_dim are the proof.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `Give rank r head r * kv_heads / tp, whole; split by heads, never by hidden width.`,
		Sources:  []string{"alibaba/ChatLearn#277", "ai-dynamo/modelexpress#650", "PaddlePaddle/PaddleFleetX#492", "sgl-project/sglang#20967"},
		Related:  []string{"attention.head_map", "parallel.shard_order", "parallel.shard_copy"},
		Keywords: []string{"gqa", "replicate kv", "tp greater than heads"},
	},
	{
		ID: "ranks.vocab_shard", Title: "Vocabulary padding and sharding disagree",
		Match:    `Embedding rows or logits are right for ids below a limit and wrong (zero, shifted by a constant number of ids) above it; the limit is a multiple of the padded vocabulary over tp.`,
		Cause:    `The table is split at the true vocabulary size while the lookup's mask uses the padded one, or pad logits are not cut before the argmax.`,
		Verify:   `Plot equality of logits over the id: one edge, at a shard's border. Look up one id on each side of it.`,
		Commands: []string{"parity explain ref/ port/"},
		Fix:      `One padded size for the split, the mask and the gather; drop pad columns after the gather.`,
		Related:  []string{"input.embedding", "weights.tied", "parallel.shard_missing", "signature.logits_argmax"},
		Keywords: []string{"vocab_size", "padded vocabulary", "parallel embedding", "lm_head shards"},
	},
}

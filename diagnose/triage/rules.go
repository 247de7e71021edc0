package triage

import "strings"

// rule says which patterns a set of answers speaks for. An empty field matches
// anything, an answer that is not known included.
type rule struct {
	kind, oneRank, nodes, stage string
	// why is the reason as it is printed.
	why string
	// patterns are ids of the catalogue, the most likely first.
	patterns []string
}

// rules is the decision table of the triage questions. Every row that matches
// counts; a row that asks for more counts more.
var rules = []rule{
	{kind: "hang", why: "a hang",
		patterns: []string{"hang.asymmetric_collective", "hang.divergent_condition", "hang.dead_rank"}},
	{kind: "hang", stage: "start", why: "a hang before the first step",
		patterns: []string{"hang.rendezvous", "hang.new_group", "hang.barrier_device", "hang.straggler"}},
	{kind: "hang", stage: "first-step", why: "a hang at the first step",
		patterns: []string{"hang.straggler", "hang.fsdp_group", "hang.collective_mismatch", "hang.barrier_device"}},
	{kind: "hang", stage: "later", why: "a hang after some steps, at no fixed one",
		patterns: []string{"hang.divergent_condition", "hang.uneven_batches", "hang.dead_rank"}},
	{kind: "hang", stage: "save", why: "a hang at a checkpoint save",
		patterns: []string{"hang.checkpoint_save", "hang.checkpoint_gather", "hang.straggler"}},
	{kind: "hang", stage: "eval", why: "a hang at an evaluation or the end of an epoch",
		patterns: []string{"hang.uneven_batches", "hang.asymmetric_collective", "hang.early_exit"}},
	{kind: "hang", stage: "resume", why: "a hang after a resume or a change of parallelism",
		patterns: []string{"hang.straggler", "hang.fsdp_group", "hang.collective_mismatch"}},
	{kind: "hang", stage: "decode", why: "a hang in decoding",
		patterns: []string{"hang.divergent_condition", "hang.early_exit", "hang.pipeline_p2p"}},
	{kind: "hang", nodes: "several", why: "only on several nodes",
		patterns: []string{"hang.network", "hang.rendezvous"}},
	{kind: "hang", oneRank: "no", why: "it hangs on one rank too: no collective can be the reason",
		patterns: []string{"hang.straggler"}},

	{kind: "loss", why: "the loss is wrong",
		patterns: []string{"train.nan_loss", "train.loss_spike", "train.loss_average"}},
	{kind: "loss", oneRank: "yes", why: "the loss is right on one rank",
		patterns: []string{"train.loss_average", "train.rng_fork", "parallel.replica", "parallel.partial_sum"}},
	{kind: "loss", oneRank: "no", why: "the loss is wrong on one rank as well",
		patterns: []string{"train.nan_loss", "weights.unloaded", "numerics.overflow"}},
	{kind: "loss", stage: "resume", why: "since a resume or a change",
		patterns: []string{"train.loss_spike", "load.missing_keys", "train.loss_average"}},
	{kind: "loss", stage: "first-step", why: "from the first step on",
		patterns: []string{"load.missing_keys", "train.loss_average", "input.tokens"}},
	{kind: "loss", stage: "later", why: "from some step on",
		patterns: []string{"train.nan_loss", "numerics.overflow", "train.rng_fork"}},
	{kind: "loss", oneRank: "yes", stage: "later", why: "several ranks, from some step on",
		patterns: []string{"train.rng_fork", "parallel.replica"}},

	{kind: "shape", why: "an exception",
		patterns: []string{"train.shape", "load.size_mismatch"}},
	{kind: "shape", oneRank: "yes", why: "a shape error that one rank does not have: a share against the whole",
		patterns: []string{"video.kv_buffer", "train.all_to_all", "video.block_mask", "parallel.padding"}},
	{kind: "shape", oneRank: "no", why: "a shape error on one rank as well",
		patterns: []string{"train.shape", "load.size_mismatch", "video.block_mask"}},
	{kind: "shape", stage: "start", why: "while weights are loaded",
		patterns: []string{"load.size_mismatch", "load.missing_keys", "ranks.vocab_shard"}},
	{kind: "shape", stage: "save", why: "at a save",
		patterns: []string{"train.oom", "hang.checkpoint_gather"}},

	{kind: "quality", why: "it runs and the output is wrong: dump both runs and compare",
		patterns: []string{"path.dumper_untrusted", "input.tokens", "path.reference_insane"}},
	{kind: "quality", oneRank: "yes", why: "wrong on several ranks only",
		patterns: []string{"video.half_noise", "parallel.rng", "parallel.partial_sum", "parallel.padding", "parallel.shard_order"}},
	{kind: "quality", oneRank: "no", why: "wrong on one rank: compare layer by layer",
		patterns: []string{"signature.token0_good", "signature.token0_bad", "weights.unloaded"}},
	{kind: "quality", stage: "decode", why: "the first tokens are right",
		patterns: []string{"path.decode_state", "state.kv", "state.position", "path.all_agree"}},
	{kind: "quality", stage: "save", why: "since a save: what was saved?",
		patterns: []string{"video.ema_shard", "parallel.shard_missing"}},
	{kind: "quality", stage: "resume", why: "since an upgrade or a change",
		patterns: []string{"load.missing_keys", "load.rope_config", "path.serving", "weights.tied"}},
	{kind: "quality", oneRank: "yes", stage: "first-step", why: "several ranks, from the first step on",
		patterns: []string{"video.half_noise", "parallel.shard_order", "video.text_padding"}},
	{kind: "quality", oneRank: "yes", stage: "later", why: "several ranks, from some step on",
		patterns: []string{"train.rng_fork", "video.adaln_text_timestep"}},
}

// rowWeights are the weights of a row's first pattern, by how many answers the
// row asks for: the kind of trouble alone says little.
var rowWeights = []int{0, weightHint, weightCause, weightCause + weightSymptom}

// answersEvidence turns answers into reasons.
func answersEvidence(answers map[string]string) []evidence {
	if answers["kind"] == "" {
		return nil
	}
	var out []evidence
	for _, r := range rules {
		asked := 0
		match := true
		for _, f := range [][2]string{{r.kind, "kind"}, {r.oneRank, "one-rank"}, {r.nodes, "nodes"}, {r.stage, "stage"}} {
			if f[0] == "" {
				continue
			}
			asked++
			match = match && answers[f[1]] == f[0]
		}
		if !match {
			continue
		}
		for i, id := range r.patterns {
			// Within a row the first weighs most.
			out = append(out, evidence{id, max(rowWeights[asked]-2*i, 1), "you said: " + r.why, r.why})
		}
	}
	return out
}

// words joins for the help text.
func words(ids []string) string { return strings.Join(ids, "|") }

package triage

import (
	"fmt"
	"strings"
)

var loadMatchers = []Matcher{
	{
		ID: "missing-keys", Says: "weights of the model are not in the checkpoint",
		Patterns: []string{"load.missing_keys", "weights.unloaded"},
		Weight:   weightCause,
		hints:    holding("missing", "key"),
		expr:     expr(`Missing key\(s\) in state_dict:\s*(.+)|missing_keys\s*[=:]\s*(\[\s*['"].+)|\bmissing keys?\b[^:\[]{0,60}[:=]\s*(\[\s*['"].+)`),
		read:     func(r *reading) bool { r.keys(); return true },
	},
	{
		ID: "unexpected-keys", Says: "weights of the checkpoint went nowhere",
		Patterns: []string{"load.unexpected_keys"},
		Weight:   weightCause,
		hints:    holding("unexpected", "key"),
		expr:     expr(`Unexpected key\(s\) in state_dict:\s*(.+)|unexpected_keys\s*[=:]\s*(\[\s*['"].+)|\bunexpected keys?\b[^:\[]{0,60}[:=]\s*(\[\s*['"].+)`),
		read:     func(r *reading) bool { r.keys(); return true },
	},
	{
		ID: "unused-weights", Says: "weights of the checkpoint were not used",
		Patterns: []string{"load.unexpected_keys"},
		Weight:   weightSymptom,
		hints:    holding("weights of the model checkpoint"),
		expr:     expr(`Some weights of the model checkpoint at .* were not used when initializing`),
	},
	{
		ID: "newly-initialized", Says: "weights are random",
		Patterns: []string{"load.newly_initialized", "weights.unloaded"},
		Weight:   weightCause,
		hints:    holding("newly initialized|not initialized from the model checkpoint"),
		expr:     expr(`Some weights of .* were not initialized from (?:the model checkpoint|the .* model).*`),
		read: func(r *reading) bool {
			if contains(r.text, "lm_head") {
				r.patterns = []string{"load.newly_initialized", "weights.tied", "weights.unloaded"}
				r.note = "lm_head is among them: is the head meant to be tied to the embedding?"
			}
			if contains(r.text, "classifier") || contains(r.text, "score.weight") {
				r.note = "a new classification head is expected before fine-tuning"
			}
			return true
		},
	},
	{
		ID: "size-mismatch", Says: "a weight has another shape in the checkpoint",
		Patterns: []string{"load.size_mismatch"},
		Weight:   weightCause,
		hints:    holding("size mismatch for"),
		expr:     expr(`size mismatch for ([\w.]+): copying a param with shape (?:torch\.Size\()?\[([\d,\s]*)\]\)? from checkpoint, the shape in current model is (?:torch\.Size\()?\[([\d,\s]*)\]`),
		read:     readSizeMismatch,
	},
	{
		ID: "rope-config", Says: "RoPE settings were not understood",
		Patterns: []string{"load.rope_config", "rope.scaling", "rope.theta"},
		Weight:   weightCause,
		hints:    holding("rope"),
		expr: expr("Unrecognized keys in [`'\"]?rope_(?:scaling|parameters)|Missing required keys in [`'\"]?rope_(?:scaling|parameters)|" +
			"[`'\"]?rope_(?:scaling|parameters)[`'\"]?(?:'s \\S+ field)? must be|Unknown RoPE scaling type|rope_theta .*(?:not found|missing|default)"),
	},
	{
		ID: "too-long", Says: "the prompt is longer than the model's maximum",
		Patterns: []string{"load.sequence_too_long", "rope.scaling"},
		Weight:   weightHint,
		hints:    holding("longer than"),
		expr:     expr(`Token indices sequence length is longer than the specified maximum sequence length for this model \((\d+) > (\d+)\)`),
		read: func(r *reading) bool {
			r.note = fmt.Sprintf("%s tokens, the model knows %s", r.group(1), r.group(2))
			return true
		},
	},
	{
		ID: "padding", Says: "padding side or mask is in doubt",
		Patterns: []string{"load.padding_side", "input.attention_mask"},
		Weight:   weightHint,
		hints:    holding("padding|attention mask"),
		expr:     expr(`right-padding was detected|The attention mask (?:and the pad token id were not set|is not set and cannot be inferred)`),
	},
	{
		ID: "new-tokens", Says: "tokens without trained embeddings",
		Patterns: []string{"load.new_tokens"},
		Weight:   weightHint,
		hints:    holding("special tokens have been added"),
		expr:     expr(`Special tokens have been added in the vocabulary, make sure`),
	},
	{
		ID: "attention-fallback", Says: "another attention implementation runs",
		Patterns: []string{"load.attention_fallback"},
		Weight:   weightHint,
		hints:    holding("attention"),
		expr: expr("(?:scaled_dot_product_attention|sdpa|flash[ _]?attention(?:[- ]?[23])?)\\W.{0,80}(?:does not support|doesn't support|is not supported|not compatible).{0,120}|" +
			"fall(?:ing)?[ -]?back to (?:the )?(?:eager|manual|math) attention"),
	},
}

// keys notes how many keys the line lists, and what stands out among them.
func (r *reading) keys() {
	list := r.group(1) + r.group(2) + r.group(3)
	n := strings.Count(list, "\"")/2 + strings.Count(list, "'")/2
	if n == 0 {
		return
	}
	r.note = fmt.Sprintf("%d keys", n)
	if n == 1 {
		r.note = "1 key"
	}
	for _, prefix := range []string{"module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."} {
		if strings.Contains(list, prefix) {
			r.note += fmt.Sprintf("; the prefix %q of a wrapper is among the names", prefix)
			return
		}
	}
	if strings.Contains(list, "lm_head.weight") {
		r.patterns = append(r.patterns[:len(r.patterns):len(r.patterns)], "weights.tied")
		r.note += "; lm_head.weight among them: is the head tied?"
	}
}

func readSizeMismatch(r *reading) bool {
	file, model := numbers(r.group(2)), numbers(r.group(3))
	switch {
	case len(file) == 1 && len(model) > 1, len(model) == 1 && len(file) > 1:
		r.note = "one side is flat: a sharded or packed parameter that was not gathered"
	case len(file) != len(model):
		r.note = "the numbers of dims differ"
	case len(file) == 2 && file[0] == model[1] && file[1] == model[0]:
		r.note = "the shape is transposed"
		r.patterns = []string{"load.size_mismatch", "weights.transposed"}
	default:
		for i := range file {
			if file[i] == model[i] {
				continue
			}
			if ratio, ok := sharedBy(file[i], model[i]); ok {
				r.note = fmt.Sprintf("dim %d differs by the factor %d exactly: a rank's shard against the whole, or another config", i, ratio)
				r.patterns = []string{"load.size_mismatch", "parallel.shard_missing"}
				return true
			}
			r.note = fmt.Sprintf("dim %d is %d in the file and %d in the model", i, file[i], model[i])
			if strings.Contains(r.group(1), "embed") || strings.Contains(r.group(1), "lm_head") {
				r.note += ": another vocabulary, or a padded one"
				r.patterns = []string{"load.size_mismatch", "ranks.vocab_shard", "load.new_tokens"}
			}
			return true
		}
	}
	return true
}

// contains ignores case.
func contains(s, sub string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(sub))
}

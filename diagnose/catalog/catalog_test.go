package catalog

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// causeIDs is the table of docs/causes.md, copied by hand: an id once released
// never goes away.
var causeIDs = strings.Fields(`
input.tokens input.extra_token input.embedding input.attention_mask
capture.index_shift capture.post_final_norm capture.split_residual capture.scaled_residual capture.duplicate
capture.reused_buffer capture.extra_rows capture.row_shift capture.chunked capture.dtype_view
capture.overflow_on_save capture.wrong_tensor capture.missing capture.stale capture.incomplete capture.partial_copy
benign.layout benign.precision benign.rerun_noise benign.routing_tie benign.offset
scale.constant scale.row_class scale.per_token
offset.bias
norm.eps norm.gain norm.missing norm.order norm.precision
order.tokens order.dims order.channels
rope.layout rope.theta rope.scaling rope.width rope.position rope.precision rope.applied rope.sections
attention.scale attention.softcap attention.mask attention.window attention.sink attention.head_map
mlp.activation mlp.gate_up_order
moe.renormalise moe.scale moe.selection moe.shared
residual.algebra
layers.set layers.order
parallel.partial_sum parallel.bias parallel.shard_copy parallel.shard_order parallel.shard_missing parallel.rng
parallel.padding parallel.replica
state.chunk state.kv state.conv state.position
weights.unloaded weights.transposed weights.swapped weights.tied
quant.zero_point quant.scale_layout quant.nibble_order
numerics.overflow numerics.nan numerics.low_precision
unknown`)

func TestEveryCauseHasItsPattern(t *testing.T) {
	for _, id := range causeIDs {
		p, ok := Get(id)
		if !ok {
			t.Errorf("cause %s has no pattern", id)
			continue
		}
		if !p.Finding {
			t.Errorf("%s is a cause of findings, but its family says it is not", id)
		}
	}
}

func TestOnlyCausesSayTheyAreFindings(t *testing.T) {
	for _, p := range All() {
		if p.Finding != slices.Contains(causeIDs, p.ID) {
			t.Errorf("%s: finding = %v", p.ID, p.Finding)
		}
	}
}

// The failures that the protocol tells in words and the pattern that each has.
func TestEveryFailureOfTheProtocolHasItsPattern(t *testing.T) {
	for story, id := range map[string]string{
		"collective under if rank == 0":                "hang.asymmetric_collective",
		"condition that each rank evaluates":           "hang.divergent_condition",
		"wrong process group given to FSDP":            "hang.fsdp_group",
		"NCCL timeout at checkpoint save":              "hang.checkpoint_save",
		"NumelIn=1 is a scalar all-reduce":             "hang.scalar_allreduce",
		"RNG fork at SP >= 2":                          "train.rng_fork",
		"KV buffer after all-to-all":                   "video.kv_buffer",
		"block_mask against padding":                   "video.block_mask",
		"half-noise video":                             "video.half_noise",
		"EMA from a single shard":                      "video.ema_shard",
		"adaLN text timestep":                          "video.adaln_text_timestep",
		"sequence padding enters attention":            "video.sequence_padding",
		"text and video padded by different rules":     "video.text_padding",
		"missing all-reduce":                           "parallel.partial_sum",
		"bias on every rank":                           "parallel.bias",
		"ranks concatenated in another order":          "parallel.shard_order",
		"stale shard":                                  "parallel.shard_missing",
		"false spike 1: prompt_tokens differ":          "input.tokens",
		"false spike 2: post_embed":                    "spike.first_rows",
		"false spike 3: hidden_states[i+1]":            "capture.index_shift",
		"false spike 3: last entry after final norm":   "spike.last_layer",
		"false spike 4: decode prefix without mask":    "spike.decode_prefix",
		"false spike 5: hook fires several times":      "spike.hook_overwrite",
		"false spike 6: (hidden, residual)":            "capture.split_residual",
		"false spike 7: view of a buffer":              "capture.reused_buffer",
		"false spike 8: padding rows":                  "capture.extra_rows",
		"false spike 8: BOS shift":                     "capture.row_shift",
		"false spike 9: wrong module":                  "spike.wrong_module",
		"false spike 10: stale dump":                   "spike.stale",
		"signature: post_embed below 0.99":             "signature.embed",
		"signature: bad at t=0":                        "signature.token0_bad",
		"signature: t=0 perfect":                       "signature.token0_good",
		"signature: slow monotonic decay":              "signature.slow_decay",
		"signature: cliff, reference spikes":           "signature.cliff_reference_spikes",
		"signature: cliff, port spikes":                "signature.cliff_port_spikes",
		"signature: logits agree, argmax does not":     "signature.logits_argmax",
		"signature: last token bad":                    "signature.last_token",
		"signature: same direction, other magnitude":   "signature.magnitude",
		"signature: same magnitude, low cosine":        "signature.direction",
		"step 0: the reference is not sane":            "path.reference_insane",
		"step 1: dumpers not validated":                "path.dumper_untrusted",
		"step 6: teacher-forced right, decode wrong":   "path.decode_state",
		"step 6: only serving fails":                   "path.serving",
		"stacked failures":                             "path.stacked",
		"max_diff is a disagreement and no magnitude":  "spike.max_diff",
		"token 0 attends to itself: invariant, case 1": "signature.token0_bad",
	} {
		if _, ok := Get(id); !ok {
			t.Errorf("%s: no pattern %s", story, id)
		}
	}
}

func TestAPatternIsTold(t *testing.T) {
	source := regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+#[1-9][0-9]*$`)
	shape := regexp.MustCompile(`^([a-z]+\.[a-z0-9_]+|unknown)$`)
	seen := map[string]bool{}
	for _, p := range All() {
		if seen[p.ID] {
			t.Errorf("%s occurs twice", p.ID)
		}
		seen[p.ID] = true
		if !shape.MatchString(p.ID) {
			t.Errorf("id %q is not family.kind", p.ID)
		}
		if family, _, _ := strings.Cut(p.ID, "."); family != p.Family {
			t.Errorf("%s is in family %s", p.ID, p.Family)
		}
		for _, part := range parts(p) {
			if len(part.text) < 25 {
				t.Errorf("%s: part %s says nothing: %q", p.ID, part.name, part.text)
			}
			if !strings.HasSuffix(part.text, ".") && !strings.HasSuffix(part.text, "?") {
				t.Errorf("%s: part %s does not end its sentence: %q", p.ID, part.name, part.text)
			}
		}
		if p.Title == "" || strings.HasSuffix(p.Title, ".") || len(p.Title) > 90 {
			t.Errorf("%s: title %q", p.ID, p.Title)
		}
		if len(p.Keywords) == 0 {
			t.Errorf("%s has no keywords", p.ID)
		}
		for _, s := range p.Sources {
			if !source.MatchString(s) {
				t.Errorf("%s: source %q is not owner/repo#number", p.ID, s)
			}
		}
	}
}

// The root cause is one sentence: a full stop followed by a capital letter
// begins a second one.
func TestTheRootCauseIsOneSentence(t *testing.T) {
	second := regexp.MustCompile(`[.?!] [A-Z]`)
	for _, p := range All() {
		if second.MatchString(p.Cause) {
			t.Errorf("%s: %q", p.ID, p.Cause)
		}
	}
}

func TestRelatedIdsExist(t *testing.T) {
	for _, p := range All() {
		for _, id := range p.Related {
			if _, ok := Get(id); !ok {
				t.Errorf("%s: related %s does not exist", p.ID, id)
			}
			if id == p.ID {
				t.Errorf("%s is related to itself", p.ID)
			}
		}
	}
}

func TestCommandsAreOurs(t *testing.T) {
	ours := regexp.MustCompile(`^(parity (compare|inspect|validate|explain|try|triage|patterns)|parity-dump) `)
	for _, p := range All() {
		for _, c := range p.Commands {
			if !ours.MatchString(c) {
				t.Errorf("%s: %q is not a command of parity", p.ID, c)
			}
		}
	}
}

func TestGetForgivesCaseAndBlanks(t *testing.T) {
	if p, ok := Get(" Rope.Theta\n"); !ok || p.ID != "rope.theta" {
		t.Errorf("Get = %q, %v", p.ID, ok)
	}
	if _, ok := Get("rope"); ok {
		t.Error("a family is no pattern")
	}
}

func TestWhatIsReturnedIsACopy(t *testing.T) {
	All()[0].ID = "broken"
	Families()[0].Patterns()[0].ID = "broken"
	if All()[0].ID != "input.tokens" || Families()[0].Patterns()[0].ID != "input.tokens" {
		t.Error("a caller can change the table")
	}
}

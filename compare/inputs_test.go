package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/internal/dumptest"
)

// inputsOf asks for the inputs of a checkpoint among dumped ones.
func inputsOf(name string, dumped string, stated map[string][]string) string {
	names := strings.Fields(dumped)
	l := lineage{has: func(n string) bool { return slices.Contains(names, n) }, stated: stated}
	for _, n := range names {
		if p := dump.Canonical(n); p.Kind == dump.KindLayer {
			l.layers = append(l.layers, p.Layer)
		}
	}
	slices.Sort(l.layers)
	in := l.inputs(dump.Canonical(name))
	slices.Sort(in)
	return strings.Join(in, " ")
}

// everything is a block with all taps, its neighbours and the inputs.
const everything = "prompt_tokens position_ids attention_mask post_embed layer_00 " +
	"layer_01.input_norm layer_01.q layer_01.k layer_01.v layer_01.q_norm layer_01.k_norm layer_01.q_rope layer_01.k_rope layer_01.attn_probs layer_01.attn_ctx " +
	"layer_01.attn_out layer_01.ffn_inp layer_01.post_attn_norm layer_01.mlp_gate layer_01.mlp_up layer_01.mlp_act layer_01.mlp_out " +
	"layer_01.router_logits layer_01.expert_ids layer_01.expert_weights layer_01.moe_routed layer_01.moe_shared layer_01.conv_out layer_01.ssm_out layer_01 " +
	"post_final_norm logits last_logits"

// The table of the inputs of each tap, where all of them were dumped.
func TestInputsOfEachTap(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"post_embed", "position_ids prompt_tokens"},
		{"layer_01.input_norm", "layer_00"},
		{"layer_00.input_norm", "post_embed"},
		{"layer_01.q", "layer_01.input_norm"},
		{"layer_01.k", "layer_01.input_norm"},
		{"layer_01.v", "layer_01.input_norm"},
		{"layer_01.q_norm", "layer_01.q"},
		{"layer_01.k_norm", "layer_01.k"},
		{"layer_01.q_rope", "layer_01.q_norm position_ids"},
		{"layer_01.k_rope", "layer_01.k_norm position_ids"},
		{"layer_01.attn_probs", "attention_mask layer_01.k_rope layer_01.q_rope"},
		{"layer_01.attn_ctx", "layer_01.attn_probs layer_01.v"},
		{"layer_01.attn_out", "layer_01.attn_ctx"},
		{"layer_01.ffn_inp", "layer_00 layer_01.attn_out"},
		{"layer_01.post_attn_norm", "layer_01.ffn_inp"},
		{"layer_01.mlp_gate", "layer_01.post_attn_norm"},
		{"layer_01.mlp_up", "layer_01.post_attn_norm"},
		{"layer_01.router_logits", "layer_01.post_attn_norm"},
		{"layer_01.mlp_act", "layer_01.mlp_gate layer_01.mlp_up"},
		{"layer_01.expert_ids", "layer_01.router_logits"},
		{"layer_01.expert_weights", "layer_01.router_logits"},
		{"layer_01.moe_routed", "layer_01.expert_ids layer_01.expert_weights layer_01.post_attn_norm"},
		{"layer_01.moe_shared", "layer_01.post_attn_norm"},
		{"layer_01.mlp_out", "layer_01.mlp_act"},
		{"layer_01.conv_out", "layer_01.input_norm"},
		{"layer_01.ssm_out", "layer_01.conv_out"},
		{"layer_01", "layer_00 layer_01.attn_out layer_01.mlp_out"},
		{"post_final_norm", "layer_01"},
		{"logits", "post_final_norm"},
		{"last_logits", "post_final_norm"},
		{"prompt_tokens", ""},
		{"position_ids", ""},
		{"something", ""},
	} {
		if got := inputsOf(c.name, everything, nil); got != c.want {
			t.Errorf("inputs of %s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What was not dumped is replaced by its nearest dumped ancestors.
func TestInputsGoBackToWhatWasDumped(t *testing.T) {
	for _, c := range []struct{ reason, name, dumped, want string }{
		{"no final norm", "logits", "layer_00 layer_01", "layer_01"},
		{"no norm before the projection", "layer_01.q", "layer_00", "layer_00"},
		{"no projection", "layer_01.q_rope", "layer_01.input_norm layer_00", "layer_01.input_norm"},
		{"no norm of q, but positions", "layer_01.q_rope", "layer_01.q position_ids", "layer_01.q position_ids"},
		{"no probabilities: q, k and v", "layer_01.attn_ctx", "layer_01.q_rope layer_01.k_rope layer_01.v", "layer_01.k_rope layer_01.q_rope layer_01.v"},
		{"no probabilities, no rotation", "layer_01.attn_ctx", "layer_01.q layer_01.k layer_01.v", "layer_01.k layer_01.q layer_01.v"},
		{"nothing of the attention", "layer_01.attn_out", "layer_00", "layer_00"},
		{"no ffn_inp", "layer_01.post_attn_norm", "layer_00 layer_01.attn_out", "layer_00 layer_01.attn_out"},
		{"experts without a routed sum", "layer_01.mlp_out", "layer_01.router_logits layer_01.post_attn_norm", "layer_01.post_attn_norm"},
		{"a mixture's two parts", "layer_01.mlp_out", "layer_01.moe_routed layer_01.moe_shared", "layer_01.moe_routed layer_01.moe_shared"},
		{"layers alone", "layer_03", "layer_00 layer_01", "layer_01"},
		{"the first layer", "layer_00", "post_embed layer_00", "post_embed"},
		{"the first layer alone", "layer_00", "layer_00", ""},
		{"a stream and the MLP", "layer_01", "layer_00 layer_01.mlp_out", "layer_00 layer_01.mlp_out"},
		{"a stream and the MLP, attention reaches it through its own taps", "layer_01", "layer_00 layer_01.ffn_inp layer_01.mlp_out", "layer_00 layer_01.ffn_inp layer_01.mlp_out"},
		{"a tap that no table knows reads the stream", "layer_01.gadget", "layer_00 layer_01.q", "layer_00"},
		{"no embedding: the ids", "layer_00.input_norm", "prompt_tokens layer_00", "prompt_tokens"},
	} {
		if got := inputsOf(c.name, c.dumped, nil); got != c.want {
			t.Errorf("%s: inputs of %s: %q, want %q", c.reason, c.name, got, c.want)
		}
	}
}

func TestAManifestStatesInputs(t *testing.T) {
	stated := map[string][]string{
		"layer_01.mlp_up":   {"layer_01.input_norm"}, // parallel attention and MLP
		"gadget":            {"layer_00", "missing"},
		"missing":           {"post_embed"},
		"layer_01.loop":     {"layer_01.loop"},
		"layer_01.attn_out": {},
	}
	for _, c := range []struct{ name, want string }{
		{"layer_01.mlp_up", "layer_01.input_norm"},
		{"gadget", "layer_00 post_embed"}, // missing was not dumped: its input counts
		{"layer_01.loop", ""},
		{"layer_01.attn_out", ""},
	} {
		if got := inputsOf(c.name, everything, stated); got != c.want {
			t.Errorf("inputs of %s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What the model computed into the embedding is part of the model: where it
// differs, the error enters there, and the embedding only follows.
func TestATimeEmbeddingComesBeforeTheEmbedding(t *testing.T) {
	ref, port := net().Run(), right()
	for i, d := range []dumptest.Dump{ref, port} {
		d["time_embed"] = dumptest.Floats([]float64{1, 2, 3, 4}, 1, 4)
		if i == 1 {
			d["time_embed"] = dumptest.Floats([]float64{3, 4, 1, 2}, 1, 4)
			for name, a := range d {
				if name != "time_embed" && name != "prompt_tokens" { // and all that is made of it
					d[name] = a.Map(func(v float64) float64 { return v*v - 1 })
				}
			}
		}
	}
	got := runCase(t, guardCase{ref: ref, port: port})
	if got.Verdict != Divergence || got.Enters == nil || got.Enters.Checkpoint != "time_embed" {
		t.Errorf("halves of the time embedding exchanged: %s (%s)", outcome(got), got.Reason)
	}
}

// Layers may read the time embedding themselves: an embedding that agrees does
// not make its difference one of layout.
func TestATimeEmbeddingThatOnlyTheLayersRead(t *testing.T) {
	ref, port := net().Run(), right()
	ref["time_embed"] = dumptest.Floats([]float64{1, 2, 3, 4}, 1, 4)
	port["time_embed"] = dumptest.Floats([]float64{3, 4, 1, 2}, 1, 4)
	for name, a := range port {
		if name != "time_embed" && name != "prompt_tokens" && name != "post_embed" {
			port[name] = a.Map(func(v float64) float64 { return v*v - 1 })
		}
	}
	got := runCase(t, guardCase{ref: ref, port: port})
	if got.Verdict != Divergence || got.Enters == nil || got.Enters.Checkpoint != "time_embed" {
		t.Errorf("halves of the time embedding exchanged: %s (%s)", outcome(got), got.Reason)
	}
}

package dump

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The grammar of layer names, said once more as expressions.
func TestLayerNamesAreReadAsTheirExpressionsSay(t *testing.T) {
	dotted := regexp.MustCompile(`^(?:model\.|transformer\.|module\.|language_model\.|gpt_neox\.|backbone\.|bert\.)*(?:layers\.layers|encoder\.layer|layers?|blocks?|h)[._]?(\d{1,6})(?:[._](.+))?$`)
	dashed := regexp.MustCompile(`^([A-Za-z_]+)-(\d{1,6})$`)
	words := []string{"model", "transformer", "bert", "encoder", "layers", "layer", "blocks", "h", "self_attn", "q", "x", "7", "0", "012", "123456", "1234567", ".", ".", ".", "_", "-", "-output", "-output_0"}
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 9).Draw(t, "name"), "")
		layer, tap, ok := dottedLayer(withoutTower(name))
		m := dotted.FindStringSubmatch(name)
		if ok != (m != nil) || ok && (strconv.Itoa(layer) != strings.TrimLeft(m[1][:len(m[1])-1], "0")+m[1][len(m[1])-1:] || tap != m[2]) {
			t.Fatalf("%q: layer %d, tap %q, %t; the expression finds %q", name, layer, tap, ok, m)
		}
		layer, tap, ok = dashedLayer(name)
		m = dashed.FindStringSubmatch(name)
		if ok != (m != nil) || ok && (strconv.Itoa(layer) != strings.TrimLeft(m[2][:len(m[2])-1], "0")+m[2][len(m[2])-1:] || tap != m[1]) {
			t.Fatalf("%q: dashed layer %d, tap %q, %t; the expression finds %q", name, layer, tap, ok, m)
		}
	})
}

// Every name that the page of the dump format and the engines write, and the
// place it means.
func TestNamesOfOtherToolsMeanTheSamePlaces(t *testing.T) {
	for want, names := range map[string][]string{
		"prompt_tokens":   {"prompt_tokens", "input_ids", "tokens", "inp_tokens"},
		"position_ids":    {"position_ids", "inp_pos"},
		"attention_mask":  {"attention_mask"},
		"post_embed":      {"post_embed", "emb", "embd", "inp_embd", "embed_tokens", "model.embed_tokens", "model.embed_tokens-output", "transformer.wte", "hook_embed"},
		"post_final_norm": {"post_final_norm", "result_norm", "post_norm", "norm", "model.norm", "model.norm-output", "transformer.ln_f"},
		"logits":          {"logits", "result_output", "lm_head", "model-output_0"},
		"last_logits":     {"last_logits"},
		"layer_00": {"layer_00", "layer_0", "layer_000", "layers.0", "model.layers.0", "h0", "blocks.0.hook_resid_post", "l_out-0", "transformer.h.0",
			"model.layers.layers.0-output", "model.layers.0-output"},
		"layer_07":                {"layer_07", "layer_7", "layers.7", "l_out-7", "h7", "transformer.h.7"},
		"layer_10":                {"layer_10", "layers.10", "l_out-10"},
		"layer_123":               {"layer_123", "model.layers.123"},
		"layer_07.attn_out":       {"layer_07.attn_out", "layer_7.attn_out", "model.layers.7.self_attn", "attn_out-7", "blocks.7.hook_attn_out", "model.layers.layers.7.self_attn-output"},
		"layer_07.mlp_out":        {"layer_07.mlp_out", "model.layers.7.mlp", "ffn_out-7", "model.layers.7.mlp-output"},
		"layer_07.input_norm":     {"attn_norm-7", "model.layers.7.input_layernorm"},
		"layer_07.post_attn_norm": {"ffn_norm-7", "model.layers.7.post_attention_layernorm"},
		"layer_07.q":              {"Qcur-7", "model.layers.7.self_attn.q_proj"},
		"layer_07.k":              {"Kcur-7", "model.layers.7.self_attn.k_proj"},
		"layer_07.v":              {"Vcur-7", "model.layers.7.self_attn.v_proj"},
		"layer_07.attn_ctx":       {"kqv_out-7"},
		"layer_07.attn_probs":     {"kq_soft_max-7", "blocks.7.attn.hook_pattern"},
		"layer_07.mlp_gate":       {"ffn_gate-7", "model.layers.7.mlp.gate_proj"},
		"layer_07.mlp_up":         {"ffn_up-7", "model.layers.7.mlp.up_proj"},
		"layer_07.mlp_act":        {"ffn_swiglu-7"},
	} {
		for _, n := range names {
			if got := Canonical(n); got.Name != want {
				t.Errorf("%q means %s, want %s", n, got.Name, want)
			}
		}
	}
}

// Names of other towers, of no layer, and of unknown things stay what they are.
func TestUnknownNamesKeepTheirSpelling(t *testing.T) {
	for _, n := range []string{"visual.blocks.3", "decoder.layers.3", "7", "model.7", "gadget", "gadget-7", "layer_", "layer_x", "Layer_3", "step_0003", "", "layer_99999999999"} {
		if got := Canonical(n); got.Name != n || got.Kind != KindOther || got.Layer != -1 {
			t.Errorf("%q became %+v", n, got)
		}
	}
	// A tap that no table knows keeps its name inside its layer.
	if got := Canonical("model.layers.3.gadget"); got.Name != "layer_03.gadget" || got.Kind != KindTap || got.Layer != 3 {
		t.Errorf("an unknown tap became %+v", got)
	}
}

func TestCanonicalNamesAreTheirOwn(t *testing.T) {
	for _, n := range []string{"prompt_tokens", "post_embed", "layer_00", "layer_07.q", "layer_12.mlp_out", "layer_03.residual", "post_final_norm", "logits", "last_logits", "pixel_values", "time_embed", "tower_out"} {
		if got := Canonical(n).Name; got != n {
			t.Errorf("%s became %s", n, got)
		}
	}
	if LayerName(7, "") != "layer_07" || LayerName(107, "q") != "layer_107.q" {
		t.Error("a layer's name is not its canonical one")
	}
}

func TestRequiredCheckpoints(t *testing.T) {
	for n, want := range map[string]bool{
		"prompt_tokens": true, "post_embed": true, "layer_00": true, "post_final_norm": true, "logits": true, "last_logits": true,
		"position_ids": false, "attention_mask": false, "layer_00.q": false, "layer_00.residual": false, "gadget": false,
	} {
		if got := Canonical(n).Required(); got != want {
			t.Errorf("%s: required %t", n, got)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	names := []string{"x10", "x9", "x1", "a", "x", "x09b", "x9b", "x10.2", "x10.10", "x2y3"}
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case naturalLess(a, b):
			return -1
		case naturalLess(b, a):
			return 1
		}
		return 0
	})
	want := []string{"a", "x", "x1", "x2y3", "x9", "x09b", "x9b", "x10", "x10.2", "x10.10"}
	if !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

package dump

import (
	"strconv"
	"strings"
)

// topAliases are the names that other tools give to places outside the layers.
var topAliases = map[string]string{
	"input_ids": "prompt_tokens", "tokens": "prompt_tokens", "token_ids": "prompt_tokens", "inp_tokens": "prompt_tokens",
	"embed": "post_embed", "emb": "post_embed", "embd": "post_embed", "inp_embd": "post_embed", "embedding": "post_embed",
	"embeddings": "post_embed", "embed_tokens": "post_embed", "wte": "post_embed", "hook_embed": "post_embed",
	"norm": "post_final_norm", "post_norm": "post_final_norm", "final_norm": "post_final_norm", "ln_f": "post_final_norm",
	"result_norm": "post_final_norm", "final_layernorm": "post_final_norm", "ln_final.hook_normalized": "post_final_norm",
	"result_output": "logits", "lm_head": "logits", "output_logits": "logits",
	"inp_pos": "position_ids", "positions": "position_ids", "mask": "attention_mask",
}

// tapAliases are the names that other tools give to the taps of a block.
var tapAliases = map[string]string{
	"hook_resid_post": "", "output": "", "out": "", "l_out": "", "hidden_states": "",
	"input_layernorm": "input_norm", "attn_norm": "input_norm", "ln_1": "input_norm", "ln1.hook_normalized": "input_norm",
	"self_attn.q_proj": "q", "self_attn.k_proj": "k", "self_attn.v_proj": "v",
	"attn.q_proj": "q", "attn.k_proj": "k", "attn.v_proj": "v",
	"attention.self.query": "q", "attention.self.key": "k", "attention.self.value": "v",
	"attn.hook_q": "q", "attn.hook_k": "k", "attn.hook_v": "v",
	"attn.hook_rot_q": "q_rope", "attn.hook_rot_k": "k_rope", "attn.hook_pattern": "attn_probs", "attn.hook_z": "attn_ctx",
	"self_attn.q_norm": "q_norm", "self_attn.k_norm": "k_norm",
	"self_attn.o_proj": "attn_out", "self_attn": "attn_out", "attn": "attn_out", "hook_attn_out": "attn_out",
	"kq_soft_max": "attn_probs", "kqv_out": "attn_ctx", "kqv_merged": "attn_ctx",
	"hook_resid_mid": "ffn_inp", "post_attention_layernorm": "post_attn_norm", "ffn_norm": "post_attn_norm", "ln_2": "post_attn_norm",
	"mlp.gate_proj": "mlp_gate", "mlp.up_proj": "mlp_up", "mlp.act_fn": "mlp_act", "mlp.down_proj": "mlp_out", "mlp": "mlp_out",
	"ffn_gate": "mlp_gate", "ffn_up": "mlp_up", "ffn_swiglu": "mlp_act", "ffn_out": "mlp_out", "hook_mlp_out": "mlp_out",
	"ffn_moe_logits": "router_logits", "ffn_moe_topk": "expert_ids", "ffn_moe_weights": "expert_weights",
	"mlp.gate": "router_logits", "ffn_moe_out": "moe_routed", "ffn_shexp": "moe_shared",
	"Qcur": "q", "Kcur": "k", "Vcur": "v", "Qcur_normed": "q_norm", "Kcur_normed": "k_norm", "Qcur_rope": "q_rope", "Kcur_rope": "k_rope",
}

// towers are the prefixes that wrap one decoder. Names with other prefixes
// (visual., encoder.layers. beside decoder.layers.) stay names of their own: they
// belong to other towers.
var towers = []string{"model.", "transformer.", "module.", "language_model.", "gpt_neox.", "backbone.", "bert."}

// lists are the names of a list of layers, as the engines write them; longer
// ones come before their beginnings. MAX's V3 modules write layers.layers, BERT
// encoder.layer.
var lists = []string{"layers.layers", "encoder.layer", "layers", "layer", "blocks", "block", "h"}

// outputSuffixes are what MAX's print hook appends.
var outputSuffixes = []string{"-output_0", "-output"}

// Canonical parses the name of a checkpoint as any supported tool writes it.
// Names it does not know are legal: they keep their spelling and KindOther.
func Canonical(name string) Place {
	n := name
	for _, suffix := range outputSuffixes {
		if s, ok := strings.CutSuffix(n, suffix); ok {
			n = s
			break
		}
	}
	if layer, tap, ok := dashedLayer(n); ok {
		if tap, ok := canonicalTap(tap); ok {
			return layerPlace(layer, tap)
		}
	}
	bare := withoutTower(n)
	if layer, tap, ok := dottedLayer(bare); ok {
		tap, _ = canonicalTap(tap)
		return layerPlace(layer, tap)
	}
	for _, cand := range []string{n, bare} {
		if alias, ok := topAliases[cand]; ok {
			cand = alias
		}
		if i, ok := topIndex[cand]; ok {
			return tops[i]
		}
	}
	if name == "model-output_0" { // MAX names the graph's own output so
		return tops[topIndex["logits"]]
	}
	return Place{Name: name, Kind: KindOther, Layer: -1}
}

// withoutTower cuts the prefixes of towers off, however many there are.
func withoutTower(n string) string {
	for i := 0; i < len(towers); i++ {
		if s, ok := strings.CutPrefix(n, towers[i]); ok {
			n, i = s, -1
		}
	}
	return n
}

// dashedLayer reads llama.cpp's style: tap, dash, layer ("Qcur-7").
func dashedLayer(n string) (layer int, tap string, ok bool) {
	tap, number, ok := strings.Cut(n, "-")
	if !ok || tap == "" || strings.Trim(tap, letters) != "" {
		return 0, "", false
	}
	layer, rest, ok := layerNumber(number)
	return layer, tap, ok && rest == ""
}

// letters are those of a tap in llama.cpp's style.
const letters = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// dottedLayer reads a layer number behind a list's name, and the tap behind it
// ("layers.7.mlp", "layer_07", "h7"). A number without a list is no layer.
func dottedLayer(n string) (layer int, tap string, ok bool) {
	for _, list := range lists {
		rest, found := strings.CutPrefix(n, list)
		if !found {
			continue
		}
		if rest != "" && isSeparator(rest[0]) {
			rest = rest[1:]
		}
		layer, rest, ok = layerNumber(rest)
		switch {
		case !ok:
		case rest == "":
			return layer, "", true
		case isSeparator(rest[0]) && len(rest) > 1:
			return layer, rest[1:], true
		}
	}
	return 0, "", false
}

// layerNumber reads the leading number of s, which has at most six digits.
func layerNumber(s string) (n int, rest string, ok bool) {
	d := digits(s)
	if d == 0 || d > 6 {
		return 0, s, false
	}
	n, err := strconv.Atoi(s[:d])
	return n, s[d:], err == nil
}

// isSeparator tells whether c stands between the parts of a name.
func isSeparator(c byte) bool { return c == '.' || c == '_' }

// canonicalTap maps a tap's name; ok is false for one that no table knows, which
// then keeps its name.
func canonicalTap(tap string) (string, bool) {
	if tap == "" {
		return "", true
	}
	if alias, ok := tapAliases[tap]; ok {
		return alias, true
	}
	if _, ok := tapIndex[tap]; ok {
		return tap, true
	}
	return tap, false
}

// naturalLess compares names with runs of digits as numbers: "x9" < "x10".
func naturalLess(a, b string) bool {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			na, nb := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if len(na) != len(nb) {
				return len(na) < len(nb)
			}
			if na != nb {
				return na < nb
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	return len(a) < len(b)
}

// digits counts the leading decimal digits of s.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

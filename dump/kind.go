package dump

import (
	"fmt"
	"slices"
)

// Kind is the role of a checkpoint in the model.
type Kind int

// The roles, in execution order of a decoder.
const (
	KindInput     Kind = iota // ids, positions, masks, pixels: what went in
	KindEmbedding             // post_embed
	KindTap                   // layer_NN.<tap>
	KindLayer                 // layer_NN: the residual stream after block NN
	KindFinalNorm             // post_final_norm
	KindLogits                // logits, last_logits
	KindOther                 // any other name
)

// Place is a checkpoint's canonical name, taken apart.
type Place struct {
	Name  string // "layer_07.attn_out", "post_embed", or the name as written
	Kind  Kind
	Layer int    // -1 outside the layers
	Tap   string // "attn_out"; "" unless Kind is KindTap
}

// layerPlace builds the place of a layer's output (tap "") or sub-checkpoint.
func layerPlace(layer int, tap string) Place {
	if tap == "" {
		return Place{Name: fmt.Sprintf("layer_%02d", layer), Kind: KindLayer, Layer: layer}
	}
	return Place{Name: fmt.Sprintf("layer_%02d.%s", layer, tap), Kind: KindTap, Layer: layer, Tap: tap}
}

// Residual tells whether the checkpoint is part of the residual stream.
func (p Place) Residual() bool { return p.Kind == KindEmbedding || p.Kind == KindLayer }

// Required tells whether a checkpoint must have a partner where either side has
// it: tokens, post_embed, every layer output, post_final_norm and logits.
func (p Place) Required() bool {
	switch p.Kind {
	case KindEmbedding, KindLayer, KindFinalNorm, KindLogits:
		return true
	case KindInput:
		return p.Name == "prompt_tokens"
	}
	return false
}

// taps are the standard sub-checkpoints in execution order inside a block.
var taps = []string{
	"input_norm", "q", "k", "v", "q_norm", "k_norm", "q_rope", "k_rope", "attn_probs", "attn_ctx",
	"conv_out", "ssm_out", "attn_out", "ffn_inp", "post_attn_norm",
	"router_logits", "expert_ids", "expert_weights",
	"mlp_gate", "mlp_up", "mlp_act", "moe_routed", "moe_shared", "mlp_out", "residual",
}

// tops are the standard checkpoints outside the layers, with their kinds.
var tops = []Place{
	{"prompt_tokens", KindInput, -1, ""},
	{"position_ids", KindInput, -1, ""},
	{"attention_mask", KindInput, -1, ""},
	{"pixel_values", KindInput, -1, ""},
	{"time_embed", KindInput, -1, ""},
	{"tower_out", KindInput, -1, ""},
	{"post_embed", KindEmbedding, -1, ""},
	{"post_final_norm", KindFinalNorm, -1, ""},
	{"logits", KindLogits, -1, ""},
	{"last_logits", KindLogits, -1, ""},
}

var tapIndex, topIndex = indexNames()

// indexNames inverts the two tables.
func indexNames() (tap, top map[string]int) {
	tap, top = make(map[string]int), make(map[string]int)
	for i, t := range taps {
		tap[t] = i
	}
	for i, p := range tops {
		top[p.Name] = i
	}
	return tap, top
}

// sortKey orders places by execution: inputs, embedding, layers by number with
// their taps before the output, final norm, logits; unknown names last, in
// natural order of their names.
func (p Place) sortKey() [3]int {
	const lastTap = 1 << 20
	switch p.Kind {
	case KindTap:
		if i, ok := tapIndex[p.Tap]; ok {
			if p.Tap == "residual" { // belongs to the output, comes with it
				return [3]int{100, p.Layer, lastTap + 1}
			}
			return [3]int{100, p.Layer, i}
		}
		return [3]int{100, p.Layer, len(taps)} // an unknown tap: before the output
	case KindLayer:
		return [3]int{100, p.Layer, lastTap}
	case KindFinalNorm, KindLogits:
		return [3]int{200, topIndex[p.Name], 0}
	case KindOther:
		return [3]int{300, 0, 0}
	}
	return [3]int{topIndex[p.Name], 0, 0}
}

// LayerName is the canonical name of a layer's output (tap "") or tap.
func LayerName(layer int, tap string) string { return layerPlace(layer, tap).Name }

// ComparePlaces orders two places by execution: inputs, embedding, layers with
// their taps, final norm, logits, other names.
func ComparePlaces(a, b Place) int {
	ka, kb := a.sortKey(), b.sortKey()
	return slices.Compare(ka[:], kb[:])
}

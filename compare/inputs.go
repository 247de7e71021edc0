package compare

import (
	"github.com/layerparity/parity/dump"
)

// previous stands for the residual stream that a block reads: the last layer's
// output before it, or post_embed.
const previous = "<previous>"

// inputRule lists what a tap is computed from, inside its block. The
// alternatives are tried in order: the first whose members are all dumped
// counts; where none is, the last is expanded into its members' own inputs.
type inputRule [][]string

// inputTable is the table of docs/metrics.md: the inputs of each standard tap.
var inputTable = map[string]inputRule{
	"input_norm":     {{previous}},
	"q":              {{"input_norm"}},
	"k":              {{"input_norm"}},
	"v":              {{"input_norm"}},
	"q_norm":         {{"q"}},
	"k_norm":         {{"k"}},
	"q_rope":         {{"q_norm", "position_ids"}, {"q_norm"}, {"q", "position_ids"}, {"q"}},
	"k_rope":         {{"k_norm", "position_ids"}, {"k_norm"}, {"k", "position_ids"}, {"k"}},
	"attn_probs":     {{"q_rope", "k_rope", "attention_mask"}, {"q_rope", "k_rope"}},
	"attn_ctx":       {{"attn_probs", "v"}, {"q_rope", "k_rope", "v"}},
	"attn_out":       {{"attn_ctx"}},
	"conv_out":       {{"input_norm"}},
	"ssm_out":        {{"conv_out"}, {"input_norm"}},
	"ffn_inp":        {{previous, "attn_out"}},
	"post_attn_norm": {{"ffn_inp"}, {previous, "attn_out"}},
	"router_logits":  {{"post_attn_norm"}},
	"expert_ids":     {{"router_logits"}},
	"expert_weights": {{"router_logits"}},
	"mlp_gate":       {{"post_attn_norm"}},
	"mlp_up":         {{"post_attn_norm"}},
	"mlp_act":        {{"mlp_gate", "mlp_up"}},
	"moe_routed":     {{"post_attn_norm", "expert_ids", "expert_weights"}, {"post_attn_norm", "router_logits"}, {"post_attn_norm"}},
	"moe_shared":     {{"post_attn_norm"}},
	"mlp_out":        {{"mlp_act"}, {"moe_routed", "moe_shared"}, {"moe_routed"}, {"mlp_gate", "mlp_up"}, {"post_attn_norm"}},
	"residual":       {{previous}},
	"":               {{previous, "attn_out", "mlp_out"}, {previous, "ffn_inp", "mlp_out"}, {previous, "ssm_out", "mlp_out"}, {previous, "mlp_out"}, {previous, "attn_out"}, {previous, "ffn_inp"}, {previous}},
}

// lineage finds the dumped inputs of checkpoints.
type lineage struct {
	has    func(name string) bool
	layers []int // dumped layer outputs, ascending
	stated map[string][]string
}

// inputs returns the dumped checkpoints that p was computed from: its inputs,
// and for one that was not dumped its nearest dumped ancestors. Names that no
// table knows have the inputs their manifest states, else none.
func (l *lineage) inputs(p dump.Place) []string {
	seen := make(map[string]bool)
	var out []string
	l.collect(p, seen, &out, 0)
	return out
}

// maxLineage bounds the recursion through tensors that were not dumped.
const maxLineage = 64

// collect appends the dumped inputs of p.
func (l *lineage) collect(p dump.Place, seen map[string]bool, out *[]string, depth int) {
	if depth > maxLineage {
		return
	}
	for _, name := range l.direct(p) {
		if seen[name] {
			continue
		}
		seen[name] = true
		if l.has(name) {
			*out = append(*out, name)
			continue
		}
		l.collect(dump.Canonical(name), seen, out, depth+1)
	}
}

// direct lists the inputs of p by the manifest or the table, dumped or not.
func (l *lineage) direct(p dump.Place) []string {
	if in, ok := l.stated[p.Name]; ok {
		return in
	}
	switch p.Kind {
	case dump.KindEmbedding:
		return []string{"prompt_tokens", "position_ids", "pixel_values", "time_embed", "tower_out"}
	case dump.KindFinalNorm:
		return []string{l.before(1 << 30)}
	case dump.KindLogits:
		return []string{"post_final_norm"}
	case dump.KindTap, dump.KindLayer:
		return l.inBlock(p)
	}
	return nil
}

// inBlock applies the input table inside p's block.
func (l *lineage) inBlock(p dump.Place) []string {
	rule := inputTable[p.Tap]
	if rule == nil {
		// A tap no table knows reads at least the residual stream.
		rule = inputRule{{previous}}
	}
	chosen := rule[len(rule)-1]
	for _, alt := range rule {
		if l.all(alt, p.Layer) {
			chosen = alt
			break
		}
	}
	names := make([]string, 0, len(chosen))
	for _, in := range chosen {
		names = append(names, l.name(in, p.Layer))
	}
	return names
}

// all tells whether every member of an alternative was dumped.
func (l *lineage) all(alt []string, layer int) bool {
	for _, in := range alt {
		if !l.has(l.name(in, layer)) {
			return false
		}
	}
	return true
}

// name resolves a member of an input rule.
func (l *lineage) name(in string, layer int) string {
	switch in {
	case previous:
		return l.before(layer)
	case "position_ids", "attention_mask":
		return in
	}
	return dump.LayerName(layer, in)
}

// before names the residual stream that enters a layer: the nearest dumped
// output below it, else post_embed.
func (l *lineage) before(layer int) string {
	name := "post_embed"
	for _, n := range l.layers {
		if n < layer {
			name = dump.LayerName(n, "")
		}
	}
	return name
}

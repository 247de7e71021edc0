package diagnose

import (
	"fmt"
	"slices"
)

// lineage lists, per tap, the groups of taps that it is computed from, of the
// same layer; "in" is the block's input. A group holds alternatives, nearest
// first. It is the table of compare/inputs.go, see docs/metrics.md.
var lineage = map[string][][]string{
	"input_norm":     {{"in"}},
	"q":              {{"input_norm", "in"}},
	"k":              {{"input_norm", "in"}},
	"v":              {{"input_norm", "in"}},
	"q_norm":         {{"q"}},
	"k_norm":         {{"k"}},
	"q_rope":         {{"q_norm", "q", "input_norm", "in"}},
	"k_rope":         {{"k_norm", "k", "input_norm", "in"}},
	"attn_probs":     {{"q_rope", "q_norm", "q"}, {"k_rope", "k_norm", "k"}},
	"attn_ctx":       {{"attn_probs", "q_rope", "q"}, {"attn_probs", "k_rope", "k"}, {"v"}},
	"attn_out":       {{"attn_ctx", "v", "input_norm", "in"}},
	"ffn_inp":        {{"in"}, {"attn_out"}},
	"post_attn_norm": {{"ffn_inp", "attn_out"}},
	"mlp_gate":       {{"post_attn_norm"}},
	"mlp_up":         {{"post_attn_norm"}},
	"router_logits":  {{"post_attn_norm"}},
	"mlp_act":        {{"mlp_gate"}, {"mlp_up"}},
	"expert_ids":     {{"router_logits"}},
	"expert_weights": {{"router_logits"}},
	"moe_routed":     {{"post_attn_norm"}, {"expert_weights"}},
	"moe_shared":     {{"post_attn_norm"}},
	"mlp_out":        {{"mlp_act", "moe_routed", "post_attn_norm"}},
	"conv_out":       {{"input_norm", "in"}},
	"ssm_out":        {{"conv_out", "input_norm", "in"}},
	"layer":          {{"in"}, {"attn_out", "ffn_inp"}, {"mlp_out"}},
}

// blockInput returns the checkpoint that a layer reads: the output of the layer
// before, or post_embed. ok is false unless both sides dumped it.
func (c *Context) blockInput(layer int) (name string, ok bool) {
	name = "post_embed"
	if layer > 0 {
		name = LayerName(layer-1, "layer")
	}
	return name, c.both(name)
}

// both tells whether both sides dumped a checkpoint.
func (c *Context) both(name string) bool { return c.Has(Ref, name) && c.Has(Port, name) }

// lastLayer returns the output of the last layer that both sides dumped.
func (c *Context) lastLayer() (name string, ok bool) {
	best := -1
	for _, n := range c.Names(Ref) {
		if l, tap := SplitName(n); tap == "layer" && l > best && c.Has(Port, n) {
			best = l
		}
	}
	return LayerName(best, "layer"), best >= 0
}

// inputs returns the checkpoints that name is computed from, as far as both
// sides dumped them. Unknown names have none.
func (c *Context) inputs(name string) []string {
	layer, tap := SplitName(name)
	if layer < 0 {
		switch name {
		case "post_final_norm":
			if l, ok := c.lastLayer(); ok {
				return []string{l}
			}
		case "logits", "last_logits":
			if c.both("post_final_norm") {
				return []string{"post_final_norm"}
			}
		}
		return nil
	}
	var out []string
	for _, group := range lineage[tap] {
		for _, alt := range group {
			n, ok := LayerName(layer, alt), true
			if alt == "in" {
				n, ok = c.blockInput(layer)
			}
			if ok && c.both(n) {
				if !slices.Contains(out, n) {
					out = append(out, n)
				}
				break
			}
		}
	}
	return out
}

// descendants lists up to limit checkpoints after name, of those that both
// sides dumped, on which everything before them in the model acts: the next
// taps that read it, outputs of layers, and the end of the model.
func (c *Context) descendants(name string, limit int) []string {
	layer, tap := SplitName(name)
	var out []string
	reached := map[string]bool{name: true}
	for _, n := range c.Names(Ref) {
		if len(out) == limit {
			break
		}
		if n == name || !c.Has(Port, n) {
			continue
		}
		l, t := SplitName(n)
		reads := slices.ContainsFunc(c.inputs(n), func(in string) bool { return reached[in] })
		later := (t == "layer" && (l > layer || l == layer && tap != "layer")) || n == "post_final_norm" || n == "logits" || n == "last_logits"
		if !reads && !later {
			continue
		}
		reached[n] = true
		out = append(out, n)
	}
	return out
}

// downstreamAgrees tells whether everything dumped after a checkpoint agrees
// within its floor, and how many checkpoints that are. Queries and keys, which
// have the same layout in every layer, neither speak for nor against.
func (c *Context) downstreamAgrees(name string) (agree bool, checked int) {
	for _, n := range c.descendants(name, 32) {
		switch _, t := SplitName(n); t {
		case "q", "k", "q_norm", "k_norm", "q_rope", "k_rope":
			continue
		}
		ref, _, ok := c.Pair(n)
		if !ok || ref.DType == "int64" || ref.DType == "int32" {
			continue
		}
		if e, ok := c.apart(n); ok && e.Token > c.FloorOf(n) {
			return false, checked
		}
		checked++
		if checked == 6 {
			break
		}
	}
	return checked > 0, checked
}

// inherited tells whether an input of this context's checkpoint is itself above
// its floor, so that the outputs of both runs cannot be compared directly.
func (c *Context) inherited() bool {
	for _, in := range c.inputs(c.At) {
		if e, ok := c.apart(in); ok && e.Token > c.FloorOf(in) {
			return true
		}
	}
	return false
}

// apart is the distance of the two sides at a checkpoint, worked out once; ok is
// false where they cannot be paired.
func (c *Context) apart(name string) (e errorOf, ok bool) {
	type answer struct {
		e  errorOf
		ok bool
	}
	a := once(c, fmt.Sprintf("apart %d %d %s", c.Step(), c.Rank(), name), func(c *Context) answer {
		ref, port, ok := c.Pair(name)
		if !ok {
			return answer{}
		}
		return answer{distance(ref, port), true}
	})
	return a.e, a.ok
}

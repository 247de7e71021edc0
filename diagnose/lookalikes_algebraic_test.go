package diagnose_test

import (
	"testing"

	"github.com/layerparity/parity/diagnose"
	"github.com/layerparity/parity/diagnose/internal/corpus"
)

// TestLookAlikesAreParted holds pairs that fooled people (docs/faults.md B3):
// each case has to be told as itself and never as its look-alike.
func TestLookAlikesAreParted(t *testing.T) {
	for _, c := range []struct{ reason, id, at, is, isNot string }{
		{"an embedding scale is no norm's gain", "D17", "post_embed", "scale.constant", "norm.gain"},
		{"a norm's gain is no scale", "D15", "layer_00.input_norm", "norm.gain", "scale.constant"},
		{"a missing reduce is no factor 1/tp", "D21", "layer_00.attn_out", "parallel.partial_sum", "scale.constant"},
		{"a factor 1/2 is no missing reduce", "X-attn-out-scale", "layer_02.attn_out", "scale.constant", "parallel.partial_sum"},
		{"a factor on one part is none on the sum", "X-moe-shared-tp", "layer_00.mlp_out", "moe.shared", "scale.constant"},
		{"a factor on the routed part is no other router", "D20", "layer_00.moe_routed", "moe.scale", "moe.renormalise"},
		{"a bias is no gain", "X-bias-qkv", "layer_00.q", "offset.bias", "norm.gain"},
		{"a bias on every rank is no missing bias", "D22", "layer_00.attn_out", "parallel.bias", "offset.bias"},
		{"experts that flip at a tie are no router fault", "clean-routing", "layer_03.expert_ids", "benign.routing_tie", "moe.selection"},
		{"a selection bias left out is no tie", "X-moe-bias", "layer_00.expert_ids", "moe.selection", "benign.routing_tie"},
		{"gate and up exchanged in the weights", "X-gate-up-weights", "layer_00.mlp_gate", "mlp.gate_up_order", "benign.layout"},
		{"gate and up exchanged in the dump's names", "X-gate-up-names", "layer_00.mlp_gate", "benign.layout", "mlp.gate_up_order"},
		{"q and k permuted together are a layout", "clean-permuted", "layer_00.q", "benign.layout", "order.dims"},
		{"shared noise over ranks is no order of tokens", "X-rng-same", "post_embed", "parallel.rng", "order.tokens"},
		{"a norm over shards is no gain", "X-norm-shards", "layer_00.input_norm", "parallel.partial_sum", "norm.gain"},
		{"eps of 0.1 is no scale", "X-eps-large", "layer_00.input_norm", "norm.eps", "scale.constant"},
	} {
		k, ok := corpus.Lookup(c.id)
		if !ok {
			t.Errorf("%s: no such case", c.id)
			continue
		}
		found := algebraicFindings(diagnose.NewContext(k.Source(), c.at, k.Floor, unheard))
		if len(found) == 0 || found[0].Cause != c.is {
			t.Errorf("%s (%s at %s): found %v, want %s first", c.reason, c.id, c.at, causes(found), c.is)
		}
		for _, f := range found {
			if f.Cause == c.isNot {
				t.Errorf("%s (%s at %s): told as %s too: %s", c.reason, c.id, c.at, c.isNot, f.Claim)
			}
		}
	}
}

package compare

import (
	"math/rand/v2"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

func TestGuardEmbedding(t *testing.T) {
	ref := net().Run()
	other := func(change func(*dumptest.Net)) dumptest.Dump {
		n := net()
		change(n)
		return n.Run()
	}
	one := right()
	one["post_embed"].Row(3)[4] += 1e-3
	checkGuard(t, "input.embedding", []guardCase{
		{reason: "equal", ref: ref, port: net().Run(), want: Pass, verdict: Parity},
		{reason: "one rounding to bfloat16", ref: ref, port: right().With("post_embed", ref["post_embed"].As(npy.BFloat16)), want: Pass, verdict: Parity},
		{reason: "one rounding to float16", ref: ref, port: right().With("post_embed", ref["post_embed"].As(npy.Float16)), want: Pass, verdict: Parity},
		{reason: "scaled by the root of the width", ref: ref, port: other(func(n *dumptest.Net) { n.Embed = n.Embed.Map(times(5.65)) }), want: Fail, at: "post_embed", verdict: Untrusted},
		{reason: "another table", ref: ref, port: other(func(n *dumptest.Net) { n.Embed = dumptest.Rand(rand.New(rand.NewPCG(4, 4)), 16, 32) }), want: Fail, at: "post_embed", verdict: Untrusted},
		{reason: "one row of the table", ref: ref, port: other(func(n *dumptest.Net) { copy(n.Embed.Row(5), n.Embed.Row(6)) }), refSays: says(nil), portSays: says(nil), want: Fail, at: "post_embed", verdict: Untrusted},
		{reason: "float32 tables that differ by one part in 10,000", ref: ref, port: other(func(n *dumptest.Net) { n.Embed = n.Embed.Noise(rand.New(rand.NewPCG(4, 4)), 1e-4) }),
			refSays: says(nil), portSays: says(nil), want: Fail, at: "post_embed", evidence: "above the float32 floor", verdict: Untrusted},
		{reason: "another width", ref: ref, port: right().With("post_embed", dumptest.Rand(rand.New(rand.NewPCG(4, 4)), 16, 31)), want: Fail, at: "post_embed",
			evidence: "shapes differ: reference [16 32], port [16 31]", verdict: Untrusted},
		{reason: "taken at another place: everything computed from it agrees", ref: ref, port: right().With("post_embed", ref["post_embed"].Map(times(3))), want: Pass,
			evidence: "taken at another place", verdict: Parity},
		{reason: "no embedding", ref: ref.With("post_embed", nil), port: right().With("post_embed", nil), want: NotChecked, evidence: "missing in both dumps", verdict: Parity},
		{reason: "no embedding in the port", ref: ref, port: right().With("post_embed", nil), want: NotChecked, evidence: "missing in the port", verdict: Untrusted},
	})
}

func TestGuardSpike(t *testing.T) {
	ref := net().Run()
	other := dumptest.Rand(rand.New(rand.NewPCG(8, 8)), 16, 32)
	checkGuard(t, "capture.wrong_tensor", []guardCase{
		{reason: "no spike", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "layer 3 is another tensor, and layer 4 agrees", ref: ref, port: right().With("layer_03", other), want: Fail, at: "layer_03",
			evidence: "everything computed from it agrees", verdict: Untrusted},
		{reason: "the last layer is, and the norm agrees", ref: ref, port: right().With("layer_05", other), want: Fail, at: "layer_05", verdict: Untrusted},
		{reason: "the final norm is, and the logits agree", ref: ref, port: right().With("post_final_norm", other), want: Fail, at: "post_final_norm", verdict: Untrusted},
		{reason: "the model is wrong from layer 3 on", ref: ref, port: withFault(3, times(-1)), want: Pass, verdict: Divergence, enters: "layer_03"},
		{reason: "the logits alone are wrong", ref: ref, port: right().With("logits", ref["logits"].Map(times(-1))), want: Pass, verdict: Divergence, enters: "logits"},
	})
}

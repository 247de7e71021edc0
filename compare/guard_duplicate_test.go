package compare

import (
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

func TestGuardDuplicate(t *testing.T) {
	ref := net().Run()
	hold := func(d dumptest.Dump, tensor string, names ...string) dumptest.Dump {
		for _, n := range names {
			d = d.With(n, d[tensor].Clone())
		}
		return d
	}
	flat := func(d dumptest.Dump) dumptest.Dump {
		for _, n := range d.LayerNames() {
			d[n] = d[n].Map(func(float64) float64 { return 1 })
		}
		return d
	}
	bare := func(d dumptest.Dump) dumptest.Dump { return d.With("post_final_norm", nil).With("logits", nil) }
	noNorm := func(d dumptest.Dump) dumptest.Dump { return d.With("post_final_norm", nil).With("logits", nil) }
	checkGuard(t, "capture.duplicate", []guardCase{
		{reason: "all outputs differ", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "layer 3 was overwritten by layer 4", ref: ref, port: hold(right(), "layer_04", "layer_03"), want: Fail, at: "layer_03",
			evidence: "2 layer outputs of the port hold the same bytes: layer_03, layer_04", verdict: Untrusted},
		{reason: "one buffer for the last four", ref: ref, port: hold(right(), "layer_05", "layer_02", "layer_03", "layer_04"), want: Fail, at: "layer_02",
			evidence: "4 layer outputs of the port hold the same bytes", verdict: Untrusted},
		{reason: "layer 3's file holds layer 2, and layer 4 is right", ref: ref, port: hold(right(), "layer_02", "layer_03"), want: Fail, at: "layer_02", verdict: Untrusted},
		{reason: "the hook wrote layer 0 for all, and the logits are right", ref: ref, port: hold(right(), "layer_00", "layer_01", "layer_02", "layer_03", "layer_04", "layer_05"), want: Fail, at: "layer_00", verdict: Untrusted},
		{reason: "the reference's buffer", ref: hold(ref, "layer_04", "layer_03"), port: right(), want: Fail, at: "layer_03", evidence: "of the reference", verdict: Untrusted},
		{reason: "constant tensors are no buffers", ref: bare(flat(ref.Clone())), port: bare(flat(right())), want: Pass, verdict: Parity},
		{reason: "an index shift explains that layer 0 equals the embedding", ref: ref, port: shifted(right()), want: Pass, verdict: Parity},
		{reason: "a layer that adds nothing", ref: ref, port: withFault(3, times(0)), want: Pass, verdict: Divergence, enters: "layer_03"},
		{reason: "the last layer equals the one before, and nothing follows that could tell", ref: noNorm(ref), port: noNorm(hold(right(), "layer_04", "layer_05")), want: Fail, at: "layer_04", verdict: Untrusted},
	})
}

func TestGuardReusedBuffer(t *testing.T) {
	ref := net().Run()
	checkGuard(t, "capture.reused_buffer", []guardCase{
		{reason: "each layer is its own", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "layer 2 holds what layer 4 wrote", ref: ref, port: right().With("layer_02", ref["layer_04"]), want: Fail, at: "layer_02",
			evidence: "layer_02 of the port equals layer_04 of the other side", verdict: Untrusted},
		{reason: "the same in the reference", ref: ref.With("layer_02", ref["layer_04"]), port: right(), want: Fail, at: "layer_02",
			evidence: "layer_02 of the reference equals layer_04 of the other side", verdict: Untrusted},
		{reason: "an index shift looks alike and is repaired", ref: ref, port: shifted(right()), want: NotApplicable, verdict: Parity},
		{reason: "the reference is shifted", ref: shifted(ref), port: right(), want: NotApplicable, verdict: Parity},
		{reason: "a fault of the model", ref: ref, port: withFault(2, times(-1)), want: Pass, verdict: Divergence, enters: "layer_02"},
		{reason: "a layer that adds nothing equals an earlier one, not a later", ref: ref, port: withFault(3, times(0)), want: Pass, verdict: Divergence, enters: "layer_03"},
	})
}

package compare

import (
	"math"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

// with returns the dump with one element changed.
func with(d dumptest.Dump, name string, row, col int, v float64) dumptest.Dump {
	out := d.Clone()
	out[name].Row(row)[col] = v
	return out
}

func TestGuardOverflow(t *testing.T) {
	ref := with(net().Run(), "layer_03", 2, 5, 70000)
	inf := func(v float64) dumptest.Dump { return with(right(), "layer_03", 2, 5, v) }
	noNorm := func(d dumptest.Dump) dumptest.Dump { return d.With("post_final_norm", nil).With("logits", nil) }
	ends := with(net().Run(), "layer_05", 2, 5, 70000)
	forever := inf(math.Inf(1))
	for _, n := range []string{"layer_04", "layer_05", "post_final_norm", "logits"} {
		forever = with(forever, n, 2, 5, math.NaN())
	}
	checkGuard(t, "capture.overflow_on_save", []guardCase{
		{reason: "no infinity", ref: ref, port: inf(70000), want: Pass, verdict: Parity},
		{reason: "70000 became Inf in the file, and layer 4 is finite", ref: ref, port: inf(math.Inf(1)), want: Fail, at: "layer_03",
			evidence: "the port is infinite at [2 5] where the other side is 70000", verdict: Untrusted},
		{reason: "the same in the reference", ref: with(net().Run(), "layer_03", 2, 5, math.Inf(1)), port: inf(70000), want: Fail, at: "layer_03",
			evidence: "the reference is infinite", verdict: Untrusted},
		{reason: "-70000", ref: with(net().Run(), "layer_03", 2, 5, -70000), port: inf(math.Inf(-1)), want: Fail, at: "layer_03", verdict: Untrusted},
		{reason: "65504 is the largest float16: Inf there is the model's", ref: with(net().Run(), "layer_03", 2, 5, 65504), port: inf(math.Inf(1)), want: Pass, verdict: Divergence, enters: "layer_03"},
		{reason: "65505 is beyond it", ref: with(net().Run(), "layer_03", 2, 5, 65505), port: inf(math.Inf(1)), want: Fail, at: "layer_03", verdict: Untrusted},
		{reason: "layer 4 is infinite too, layer 5 is not: the model would have kept it", ref: with(ref, "layer_04", 2, 5, 70001), port: with(inf(math.Inf(1)), "layer_04", 2, 5, math.Inf(1)),
			want: Fail, at: "layer_03", verdict: Untrusted},
		{reason: "infinite to the end: the model overflowed", ref: ref, port: forever, want: Pass, verdict: Divergence, enters: "layer_03"},
		{reason: "nothing follows that could tell", ref: noNorm(ends), port: noNorm(with(right(), "layer_05", 2, 5, math.Inf(1))), want: Pass, verdict: Divergence, enters: "layer_05"},
		{reason: "+Inf against -Inf", ref: with(net().Run(), "layer_03", 2, 5, math.Inf(1)), port: inf(math.Inf(-1)), want: Pass, verdict: Divergence, enters: "layer_03"},
		{reason: "NaN", ref: ref, port: inf(math.NaN()), want: Pass, verdict: Divergence, enters: "layer_03"},
	})
}

func TestGuardPartialCopy(t *testing.T) {
	ref := net().Run()
	zeroFrom := func(name string, from int) dumptest.Dump {
		d := right()
		a := d[name]
		clear(a.Data[from*a.Shape[1]:])
		return d
	}
	garbage := right()
	for i := 10 * 32; i < 16*32; i++ {
		garbage["layer_02"].Data[i] = float64(i % 7)
	}
	propagated := func() dumptest.Dump {
		n := net()
		n.Stream = func(l int, h *dumptest.Array) {
			if l == 2 {
				clear(h.Data[10*32:])
			}
		}
		return n.Run()
	}()
	checkGuard(t, "capture.partial_copy", []guardCase{
		{reason: "whole tensors", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "rows 10 to 15 of layer 2 were never written", ref: ref, port: zeroFrom("layer_02", 10), want: Fail, at: "layer_02", evidence: "rows 10 to 15 of the port are zero", verdict: Untrusted},
		{reason: "the last row", ref: ref, port: zeroFrom("layer_02", 15), want: Fail, at: "layer_02", evidence: "rows 15 to 15", verdict: Untrusted},
		{reason: "the last layer's tail, the norm tells", ref: ref, port: zeroFrom("layer_05", 12), want: Fail, at: "layer_05", verdict: Untrusted},
		{reason: "the reference's tail", ref: zeroFrom("layer_02", 10), port: right(), want: Fail, at: "layer_02", evidence: "of the reference are zero", verdict: Untrusted},
		{reason: "a tail of garbage", ref: ref, port: garbage, want: Fail, at: "layer_02", verdict: Untrusted},
		{reason: "zero on both sides is a mask", ref: zeroFrom("layer_02", 10), port: zeroFrom("layer_02", 10), want: Pass, verdict: Parity},
		{reason: "wrong in the model from layer 2 on", ref: ref, port: propagated, want: Pass, verdict: Divergence, enters: "layer_02"},
		{reason: "the logits' tail: nothing follows that could tell", ref: ref, port: zeroFrom("logits", 10), want: Pass, verdict: Divergence, enters: "logits"},
	})
}

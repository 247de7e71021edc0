package compare

import (
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

// halves splits every layer's output into what the layer added and the stream
// before it, as vLLM-style layers return them.
func halves(d dumptest.Dump) dumptest.Dump {
	out := d.Clone()
	before := d["post_embed"]
	for _, n := range d.LayerNames() {
		hidden := d[n].Clone()
		for i := range hidden.Data {
			hidden.Data[i] -= before.Data[i]
		}
		out[n], out[n+".residual"] = hidden, before.Clone()
		before = d[n]
	}
	return out
}

func TestGuardSplitResidual(t *testing.T) {
	ref := net().Run()
	halfOnly := halves(right())
	withMLP := ref.Clone()
	for n, a := range halves(ref) {
		if len(n) > len("layer_00.") {
			delete(halfOnly, n)
		} else if n[:5] == "layer" {
			withMLP[n+".mlp_out"] = a
		}
	}
	n := net() // the model itself drops the stream in layer 2 and keeps what was added
	n.Stream = func(l int, h *dumptest.Array) {
		for i, v := range ref["layer_01"].Data {
			if l == 2 {
				h.Data[i] -= v
			}
		}
	}
	lost := n.Run()
	lostMLP := ref.Clone()
	lostMLP["layer_02.mlp_out"] = halves(ref)["layer_02"]
	whole := right()
	for _, n := range whole.LayerNames() { // a residual tap beside a stream that is whole
		whole[n+".residual"] = whole[n].Map(times(0.5))
	}
	checkGuard(t, "capture.split_residual", []guardCase{
		{reason: "whole streams", ref: ref, port: right(), want: NotApplicable, verdict: Parity},
		{reason: "the port saved both halves", ref: ref, port: halves(right()), want: Repaired, at: "layer_00", evidence: "hidden + residual agrees where hidden alone does not, at 6 layers", verdict: Parity},
		{reason: "the reference did", ref: halves(ref), port: right(), want: Repaired, at: "layer_00", verdict: Parity},
		{reason: "both halves with a fault in layer 3", ref: ref, port: halves(withFault(3, times(-1))), want: Repaired, at: "layer_00", verdict: Divergence, enters: "layer_03"},
		{reason: "one half alone, which the reference's mlp_out tells", ref: withMLP, port: halfOnly, want: Fail, at: "layer_00",
			evidence: "equals the other side's layer_00.mlp_out", verdict: Untrusted},
		{reason: "a residual beside a stream that is whole", ref: ref, port: whole, want: Pass, verdict: Parity},
		{reason: "a model that loses its residual equals mlp_out there, and what follows is wrong", ref: lostMLP, port: lost, want: NotApplicable,
			verdict: Divergence, enters: "layer_02"},
		{reason: "a fault is no split", ref: ref, port: withFault(2, times(-1)), want: NotApplicable, verdict: Divergence, enters: "layer_02"},
	})
}

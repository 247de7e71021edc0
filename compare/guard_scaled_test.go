package compare

import (
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

// scaledLayers multiplies the dump of every layer's output from a number on.
func scaledLayers(d dumptest.Dump, from int, c float64) dumptest.Dump {
	out := d.Clone()
	for _, n := range d.LayerNames()[from:] {
		out[n] = d[n].Map(times(c))
	}
	return out
}

func TestGuardScaledResidual(t *testing.T) {
	ref := net().Run()
	alone := func(d dumptest.Dump) dumptest.Dump { return d.With("post_final_norm", nil).With("logits", nil) }
	everything := right().Map(func(n string, a *dumptest.Array) *dumptest.Array {
		if n == "post_embed" {
			return a
		}
		return a.Map(times(2))
	})
	// A residual multiplier and a fault in layer 3.
	faulty := scaledLayers(withFault(3, times(-1)), 0, 4)
	checkGuard(t, "capture.scaled_residual", []guardCase{
		{reason: "no multiplier", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "every layer's output is 12 times the reference's, norm and logits agree", ref: ref, port: scaledLayers(right(), 0, 12), want: Repaired, at: "layer_00",
			evidence: "12 times the reference's at all 6 layers", verdict: Parity},
		{reason: "between runs whose noise blurs each layer's scale", ref: ref, port: scaledLayers(net().Run().Noise(9, 2e-2), 0, 12), want: Repaired, at: "layer_00", verdict: Parity},
		{reason: "half of it", ref: ref, port: scaledLayers(right(), 0, 0.5), want: Repaired, at: "layer_00", evidence: "0.5 times", verdict: Parity},
		{reason: "the reference is the scaled one", ref: scaledLayers(ref, 0, 4), port: right(), want: Repaired, at: "layer_00", evidence: "0.25 times", verdict: Parity},
		{reason: "nothing else was dumped: it may be the model", ref: alone(ref), port: alone(scaledLayers(right(), 0, 2)), want: Pass, verdict: Divergence, enters: "layer_00"},
		{reason: "norm and logits are doubled too: the model's fault", ref: ref, port: everything, want: Pass, evidence: "and so is not what follows", verdict: Divergence, enters: "layer_00"},
		{reason: "only from layer 3 on, and nothing else dumped", ref: alone(ref), port: alone(scaledLayers(right(), 3, 2)), want: Pass, verdict: Divergence, enters: "layer_03"},
		{reason: "a multiplier and a fault: not all layers are a multiple", ref: ref, port: faulty, want: Pass, verdict: Divergence, enters: "layer_00"},
	})
}

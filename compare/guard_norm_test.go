package compare

import (
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

func TestGuardFinalNorm(t *testing.T) {
	ref := net().Run()
	normedLast := func(d dumptest.Dump) dumptest.Dump { return d.With("layer_05", d["post_final_norm"]) }
	noNorm := func(d dumptest.Dump) dumptest.Dump { return d.With("post_final_norm", nil) }
	gain := net() // another gain on every dim: a linear map of the stream, and no norm
	gainOnly := right()
	gainOnly["layer_05"] = gainOnly["layer_05"].Clone()
	for row := range 16 {
		for i := range 32 {
			gainOnly["layer_05"].Row(row)[i] *= gain.Gain[i]
		}
	}
	few := func(d dumptest.Dump) dumptest.Dump {
		for _, n := range d.LayerNames()[1:] {
			d = d.With(n, nil)
		}
		return d
	}
	checkGuard(t, "capture.post_final_norm", []guardCase{
		{reason: "the last layer is a layer on both sides", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "the port's last entry is after the final norm", ref: ref, port: normedLast(right()), want: Repaired, at: "layer_05", evidence: "layer_05 of the port equals", verdict: Parity},
		{reason: "the reference's is", ref: normedLast(ref), port: right(), want: Repaired, at: "layer_05", evidence: "layer_05 of the reference equals", verdict: Parity},
		{reason: "both are: they agree as they stand", ref: normedLast(ref), port: normedLast(right()), want: Pass, verdict: Parity},
		{reason: "the port has no final norm beside it: the repair accounts for the reference's", ref: ref, port: noNorm(normedLast(right())), want: Repaired, at: "layer_05", verdict: Parity},
		{reason: "no final norm was dumped: tested on the numbers", ref: noNorm(ref), port: noNorm(normedLast(right())), want: Repaired, at: "layer_05",
			evidence: "one scale per token and one gain per dim", verdict: Parity},
		{reason: "the same in the reference", ref: noNorm(normedLast(ref)), port: noNorm(right()), want: Repaired, at: "layer_05", verdict: Parity},
		{reason: "a gain per dim alone is no norm", ref: noNorm(ref), port: noNorm(gainOnly).With("logits", ref["logits"].Map(times(-1))), want: Pass, verdict: Divergence, enters: "layer_05"},
		{reason: "a real fault in the last layer", ref: ref, port: withFault(5, times(2)), want: Pass, verdict: Divergence, enters: "layer_05"},
		{reason: "a real fault in the last layer, no norm dumped", ref: noNorm(ref), port: noNorm(withFault(5, times(2))), want: Pass, verdict: Divergence, enters: "layer_05"},
		{reason: "wrong before the last layer too", ref: ref, port: normedLast(withFault(3, times(-1))), want: Pass, verdict: Divergence, enters: "layer_03"},
		{reason: "one layer", ref: few(ref), port: few(right()), want: NotApplicable, verdict: Parity},
	})
}

// The rank-one fit recovers what was multiplied: s per token, g per dim.
func TestFitRankOne(t *testing.T) {
	const rows, cols = 9, 12
	x := net().Embed.Data[:rows*cols]
	y := make([]float64, len(x))
	for r := range rows {
		for c := range cols {
			y[r*cols+c] = float64(r+1) * (2 - float64(c)/10) * x[r*cols+c]
		}
	}
	s, g, resid := fitRankOne(x, y, rows, cols)
	if !(resid < 1e-8) {
		t.Errorf("residual %g of an exact product", resid)
	}
	for r := range rows {
		for c := range cols {
			if got, want := s[r]*g[c], float64(r+1)*(2-float64(c)/10); !(got/want > 1-1e-9 && got/want < 1+1e-9) {
				t.Fatalf("s·g at %d, %d is %g, want %g", r, c, got, want)
			}
		}
	}
}

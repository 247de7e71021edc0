package compare

import (
	"fmt"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

// shifted dumps the input of layer i as layer i.
func shifted(d dumptest.Dump) dumptest.Dump {
	out := d.Clone()
	names := d.LayerNames()
	for i, n := range names {
		if i == 0 {
			out[n] = d["post_embed"].Clone()
		} else {
			out[n] = d[names[i-1]].Clone()
		}
	}
	return out
}

// numberedFrom renames the layers to begin with another number.
func numberedFrom(d dumptest.Dump, first int) dumptest.Dump {
	return d.Named(func(n string) string {
		var l int
		if _, err := fmt.Sscanf(n, "layer_%02d", &l); err != nil {
			return n
		}
		return fmt.Sprintf("layer_%02d", l+first)
	})
}

func TestGuardIndexShift(t *testing.T) {
	ref := net().Run()
	no := func(d dumptest.Dump, names ...string) dumptest.Dump {
		for _, n := range names {
			d = d.With(n, nil)
		}
		return d
	}
	only := func(d dumptest.Dump) dumptest.Dump {
		return no(d, "post_embed", "post_final_norm", "logits", "prompt_tokens")
	}
	few := func(d dumptest.Dump) dumptest.Dump { return no(d, "layer_02", "layer_03", "layer_04", "layer_05") }
	checkGuard(t, "capture.index_shift", []guardCase{
		{reason: "no shift", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "the port dumped hidden_states[i]", ref: ref, port: shifted(right()), want: Repaired, at: "layer_00", evidence: "under a shift by -1, 6 layers agree", verdict: Parity},
		{reason: "the reference did", ref: shifted(ref), port: right(), want: Repaired, at: "layer_00", evidence: "under a shift by 1", verdict: Parity},
		{reason: "without the embedding, and nothing after the layers", ref: only(ref), port: only(shifted(right())), want: Repaired, at: "layer_00", verdict: Parity},
		{reason: "the port counts layers from 1", ref: ref, port: numberedFrom(right(), 1), want: Repaired, at: "layer_00", verdict: Parity},
		{reason: "the reference counts layers from 1", ref: numberedFrom(ref, 1), port: right(), want: Repaired, at: "layer_00", verdict: Parity},
		{reason: "both count from 1", ref: numberedFrom(ref, 1), port: numberedFrom(right(), 1), want: Pass, verdict: Parity},
		{reason: "a shift and a fault in layer 3: it is named where it is in the model", ref: ref, port: shifted(withFault(3, times(-1))), want: Repaired, at: "layer_00", verdict: Divergence, enters: "layer_03"},
		{reason: "the same with the shift in the reference", ref: shifted(ref), port: withFault(3, times(-1)), want: Repaired, at: "layer_00", verdict: Divergence, enters: "layer_03"},
		{reason: "counted from 1, with a fault in layer 2", ref: ref, port: numberedFrom(withFault(2, times(-1)), 1), want: Repaired, at: "layer_00", verdict: Divergence, enters: "layer_02"},
		{reason: "a fault from layer 0 on is no shift", ref: ref, port: withFault(0, times(-1)), want: Pass, verdict: Divergence, enters: "layer_00"},
		{reason: "two layers are too few to tell", ref: few(ref), port: few(right()), want: NotApplicable, verdict: Parity},
	})
}

func TestAShiftLeavesRawFiguresBesideTheRepairedOnes(t *testing.T) {
	c := runCase(t, guardCase{ref: net().Run(), port: shifted(net().Run())})
	if c.FirstRaw == nil || c.FirstRaw.Checkpoint != "layer_00" || c.First != nil {
		t.Errorf("first %v, raw %v; want none, layer_00", c.First, c.FirstRaw)
	}
	repaired := 0
	for _, ck := range c.Checkpoints {
		if ck.Raw != nil && ck.Figures != nil {
			repaired++
			if !(ck.Raw.RelL2 > 0.1) || ck.RelL2 != 0 || len(ck.Repairs) == 0 {
				t.Errorf("%s: rel_l2 %v, raw %v, repairs %v", ck.Name, ck.RelL2, ck.Raw.RelL2, ck.Repairs)
			}
		}
	}
	if repaired < 5 {
		t.Errorf("%d checkpoints were repaired, want at least 5", repaired)
	}
	for _, u := range c.Unpaired {
		if u.Explained == "" {
			t.Errorf("%s has no partner, and the shift does not explain it", u.Checkpoint)
		}
	}
}

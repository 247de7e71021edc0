package compare

import (
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

// routed is a block with 4 experts of which 2 are chosen, over 4 tokens: the
// layer's output follows the choice.
func routed(logits []float64, ids ...int) dumptest.Dump {
	d := dumptest.Dump{
		"layer_00.router_logits": dumptest.Floats(logits, 4, 4),
		"layer_00.expert_ids":    {Shape: []int{4, 2}, DType: npy.Int64},
		"layer_00":               dumptest.Floats(make([]float64, 4*8), 4, 8),
	}
	for i, id := range ids {
		d["layer_00.expert_ids"].Data = append(d["layer_00.expert_ids"].Data, float64(id))
		for c := range 8 {
			d["layer_00"].Data[i/2*8+c] += float64(id+1) * float64(c+i/2+1)
		}
	}
	d["layer_01"] = d["layer_00"].Map(func(v float64) float64 { return v + 1 })
	return d
}

func TestExpertTies(t *testing.T) {
	// Token 2 is close: experts 1 and 3 at 0.5 and 0.499 for the second place.
	logits := func(third, second float64) []float64 {
		return []float64{3, 2, 1, 0, 3, 2, 1, 0, 3, second, 0, third, 3, 2, 1, 0}
	}
	ref := routed(logits(0.499, 0.5), 0, 1, 0, 1, 0, 1, 0, 1)
	for _, c := range []struct {
		reason string
		port   dumptest.Dump
		want   Verdict
		enters string
		ties   int64
	}{
		{"the same choice", routed(logits(0.499, 0.5), 0, 1, 0, 1, 0, 1, 0, 1), Parity, "", 0},
		{"token 2 flips inside the error of its logits", routed(logits(0.5003, 0.4995), 0, 1, 0, 1, 0, 3, 0, 1), Parity, "", 1},
		{"token 2 flips although its logits are exact", routed(logits(0.499, 0.5), 0, 1, 0, 1, 0, 3, 0, 1), Divergence, "layer_00.expert_ids", 0},
		{"token 0 takes another expert, far from any tie", routed(logits(0.5003, 0.4995), 0, 2, 0, 1, 0, 1, 0, 1), Divergence, "layer_00.expert_ids", 0},
		{"the same experts in another order", routed(logits(0.499, 0.5), 1, 0, 1, 0, 1, 0, 1, 0), Parity, "", 8},
	} {
		// What one expert computes does not depend on its place in the list.
		got := runCase(t, guardCase{ref: ref, port: c.port})
		if e := got.Enters; got.Verdict != c.want || (e == nil) != (c.enters == "") || e != nil && e.Checkpoint != c.enters {
			t.Errorf("%s: %s (%s), want %s, enters %q", c.reason, outcome(got), got.Reason, c.want, c.enters)
		}
		for _, ck := range got.Checkpoints {
			if ck.Tap == "expert_ids" && ck.Ints.Ties != c.ties {
				t.Errorf("%s: %d ties of %d differences, want %d", c.reason, ck.Ints.Ties, ck.Ints.Different, c.ties)
			}
		}
	}
}

// A decode step has one token: expert_ids [1, k].
func TestExpertTiesOfOneToken(t *testing.T) {
	one := func(a, b float64, ids ...int) dumptest.Dump {
		d := dumptest.Dump{
			"layer_00.router_logits": dumptest.Floats([]float64{3, a, b, 0}, 1, 4),
			"layer_00.expert_ids":    {Shape: []int{1, 2}, DType: npy.Int64},
			"layer_00":               dumptest.Floats([]float64{1, 2, 3, float64(ids[1])}, 1, 4),
		}
		for _, id := range ids {
			d["layer_00.expert_ids"].Data = append(d["layer_00.expert_ids"].Data, float64(id))
		}
		return d
	}
	got := runCase(t, guardCase{ref: one(0.5, 0.499, 0, 1), port: one(0.4996, 0.4999, 0, 2)})
	if got.Verdict != Parity || contains(got.Warnings, "ties could not") {
		t.Errorf("a tie of the only token: %s (%s), warnings %v", got.Verdict, got.Reason, got.Warnings)
	}
}

// A token that flipped at a tie reads another state in the next block: whatever it
// chooses there is the same flip.
func TestFlipsAfterAFlipAreTies(t *testing.T) {
	two := func(third, second float64, id, next int) dumptest.Dump {
		logits := []float64{3, 2, 1, 0, 3, 2, 1, 0, 3, second, 0, third, 3, 2, 1, 0}
		d := routed(logits, 0, 1, 0, 1, 0, id, 0, 1)
		d["layer_01.router_logits"] = dumptest.Floats([]float64{3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, float64(id), 3, 2, 1, 0}, 4, 4)
		d["layer_01.expert_ids"] = dumptest.Floats([]float64{0, 1, 0, 1, 0, float64(next), 0, 1}, 4, 2)
		d["layer_01.expert_ids"].DType = npy.Int64
		return d
	}
	got := runCase(t, guardCase{ref: two(0.499, 0.5, 1, 1), port: two(0.5003, 0.4995, 3, 3)})
	if got.Verdict != Parity || got.Enters != nil {
		t.Errorf("a flip that goes on in layer 1: %s (%s)", outcome(got), got.Reason)
	}
}

package corpus

import (
	"slices"
	"testing"
)

func TestARightPairStaysBelowTheFloorOfItsDType(t *testing.T) {
	for _, c := range cleanCases() {
		if len(c.Want.Causes) > 0 {
			continue // differs, and is right: tested by kind below
		}
		ref, port := c.Build()
		for key, r := range ref.Parts {
			for _, name := range r.Names {
				a, b := r.Tensors[name], port.Parts[key].Tensors[name]
				if a.Ints != nil {
					if !slices.Equal(a.Ints, b.Ints) {
						t.Errorf("%s %v %s: integers differ", c.ID, key, name)
					}
					continue
				}
				if rel := relative(a.Data, b.Data); !(rel <= c.Floor(name)) {
					t.Errorf("%s %v %s: rel_l2 %.3g above the floor %.3g", c.ID, key, name, rel, c.Floor(name))
				}
			}
		}
	}
}

func TestAFloat32PortHasTheNoiseOfOtherSumsAndNotNone(t *testing.T) {
	p := build(t, "clean-float32")
	for _, tap := range []string{"q", "attn_out", "mlp_out"} {
		r, q := p.get("layer_00." + tap)
		if rel := relative(r.Data, q.Data); !(rel > 2e-8 && rel < 1e-6) {
			t.Errorf("layer_00.%s: rel_l2 %.3g, want about 1e-7", tap, rel)
		}
	}
}

func TestABfloat16TwinDriftsWithoutAStep(t *testing.T) {
	p := build(t, "clean-bf16")
	var before float64
	for l := range 32 {
		name := layerOutput(l)
		r, q := p.get(name)
		rel := relative(r.Data, q.Data)
		switch {
		case l == 0 && !(rel > 1e-3 && rel < 6e-3):
			t.Errorf("%s: rel_l2 %.3g, want 2e-3 or so", name, rel)
		case l == 31 && !(rel > 1e-2 && rel < 3e-2):
			t.Errorf("%s: rel_l2 %.3g, want 1.4e-2 or so", name, rel)
		case l > 1 && !(rel/before <= 1.25):
			t.Errorf("%s: %.3g times the layer before, want at most 1.25", name, rel/before)
		}
		before = rel
	}
}

func TestRoundingFlipsOnlyExpertsWhoseLogitsAreNearlyEqual(t *testing.T) {
	for _, id := range []string{"clean-routing", "clean-routing-many"} {
		checkFlips(t, build(t, id))
	}
}

func checkFlips(t *testing.T, p pair) {
	t.Helper()
	key := [2]int{0, 0}
	flips := 0
	for l := range 4 {
		name := layerOutput(l)
		logits, portLogits := p.get(name + ".router_logits")
		a, b := p.Ref.Parts[key].Tensors[name+".expert_ids"].Ints, p.Port.Parts[key].Tensors[name+".expert_ids"].Ints
		for row := range logits.Rows {
			one, two := slices.Sorted(slices.Values(a[2*row:2*row+2])), slices.Sorted(slices.Values(b[2*row:2*row+2]))
			if slices.Equal(one, two) {
				continue
			}
			flips++
			ranked := slices.Clone(logits.Row(row))
			slices.Sort(ranked)
			slices.Reverse(ranked)
			var off float64
			for e, v := range logits.Row(row) {
				off = max(off, abs(float64(portLogits.Row(row)[e])-float64(v)))
			}
			if gap := float64(ranked[1] - ranked[2]); gap > 2*off {
				t.Errorf("%s token %d: another expert though the gap is %.3g and the logits' error %.3g", name, row, gap, off)
			}
		}
	}
	if flips == 0 {
		t.Errorf("%s: no expert flipped: the case does not show what it is for", p.Case.ID)
	}
}

func TestAJointPermutationOfQAndKLeavesTheScores(t *testing.T) {
	p := build(t, "clean-permuted")
	r, q := p.get(qRope0)
	p.differs("q_rope", r.Data, q.Data)
	r, q = p.get(probs0)
	p.same("attn_probs", r.Data, q.Data)
	r, q = p.get("layer_05")
	p.same("layer_05", r.Data, q.Data)
}

func TestACommonOffsetLeavesTheScores(t *testing.T) {
	p := build(t, "clean-offset")
	r, q := p.get(kRope0)
	p.differs("k_rope", r.Data, q.Data)
	r, q = p.get(probs0)
	p.same("attn_probs", r.Data, q.Data)
}

package corpus

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestEveryFaultOfPartDIsThereTwice(t *testing.T) {
	ids := map[string]bool{}
	for _, c := range Cases() {
		if ids[c.ID] {
			t.Errorf("two cases are called %s", c.ID)
		}
		ids[c.ID] = true
	}
	for n := 1; n <= 25; n++ {
		id := "D" + string(rune('0'+n/10)) + string(rune('0'+n%10))
		if n < 10 {
			id = "D" + string(rune('0'+n))
		}
		if !ids[id] {
			t.Errorf("%s is missing", id)
		}
		// D25 is float16 by nature.
		if n != 25 && !ids[id+"/bf16"] {
			t.Errorf("%s/bf16 is missing", id)
		}
	}
}

func TestEveryWantIsAnAnswer(t *testing.T) {
	for _, c := range Cases() {
		w := c.Want
		if !w.Clean && len(w.Causes) == 0 {
			t.Errorf("%s wants no cause and is not clean", c.ID)
		}
		for _, id := range w.Causes {
			if w.Clean && !strings.HasPrefix(id, "benign.") {
				t.Errorf("%s is clean but accepts %s", c.ID, id)
			}
			if slices.Contains(w.MustNot, id) {
				t.Errorf("%s accepts and forbids %s", c.ID, id)
			}
		}
	}
}

// TestNothingIsBadBeforeAFaultEnters holds each float32 fault to what Want
// says of its place: the first bad checkpoint in execution order is accepted,
// and bad.
func TestNothingIsBadBeforeAFaultEnters(t *testing.T) {
	for _, c := range slices.Concat(faults(), beyond(), poorer(faults()), stackedCases()) {
		if len(c.Want.Enters) == 0 || c.base.Tokens > 48 {
			continue
		}
		ref, port := c.Build()
		key := [2]int{c.step, c.rank}
		if first := firstBad(c, ref.Parts[key], port.Parts[key]); !slices.Contains(c.Want.Enters, first) {
			t.Errorf("%s: first bad checkpoint is %q, want one of %v", c.ID, first, c.Want.Enters)
		}
	}
}

func firstBad(c Case, ref, port *Part) string {
	for _, name := range ref.Names {
		a, b := ref.Tensors[name], port.Tensors[name]
		switch {
		case b == nil:
		case a.Ints != nil:
			if !slices.Equal(a.Ints, b.Ints) {
				return name
			}
		case len(a.Data) != len(b.Data):
			return name
		default:
			if rel := relative(a.Data, b.Data); !(rel <= c.Floor(name)) {
				return name
			}
		}
	}
	return ""
}

func TestBuildingTwiceAtOnceGivesTheSameNumbers(t *testing.T) {
	var runs [4]*Run
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			c, _ := Lookup("clean-batch")
			_, runs[i] = c.Build()
		})
	}
	wg.Wait()
	for _, r := range runs[1:] {
		a, b := runs[0].Parts[[2]int{0, 0}].Tensors["logits"], r.Parts[[2]int{0, 0}].Tensors["logits"]
		if !slices.Equal(a.Data, b.Data) {
			t.Fatal("two builds of a case differ")
		}
	}
}

func TestBuildDoesNotShareItsTablesWithTheNextCase(t *testing.T) {
	c, _ := Lookup("clean-float32")
	one, _ := c.Build()
	delete(one.Parts[[2]int{0, 0}].Tensors, "logits")
	two, _ := c.Build()
	if two.Parts[[2]int{0, 0}].Tensors["logits"] == nil {
		t.Error("an edit of one build shows in the next")
	}
}

func TestSecondFaultsAreWrongByThemselves(t *testing.T) {
	// S-scale-norm adds one to a gain in layer 5: recomputing the norm from the
	// port's own layer input must still disagree.
	p := build(t, "S-scale-norm")
	_, in := p.get("layer_04")
	_, o := p.get("layer_05.attn_out")
	_, n := p.get("layer_05.post_attn_norm")
	w := weightsOf(p.Case.base).Layers[5].PostNorm
	mid := arithRef.add(in, o, 1)
	rms := math.Sqrt(meanSquare(mid.Row(20)) + 1e-6)
	for d := range 128 {
		p.near("gain", float64(n.Row(20)[d])*rms/float64(mid.Row(20)[d]), float64(w[d])+1, 1e-3)
	}
}

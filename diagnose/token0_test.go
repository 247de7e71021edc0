package diagnose

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// profile makes a tokenProfile of errors over 24 tokens.
func profile(e func(t int) float64) tokenProfile {
	p := tokenProfile{floor: 1e-6}
	for t := range 24 {
		p.e, p.cos = append(p.e, e(t)), append(p.cos, 1-e(t)*e(t)/2)
	}
	return p
}

func TestTokenProfilesAreRead(t *testing.T) {
	for _, tc := range []struct {
		want   string
		e      func(t int) float64
		reason string
	}{
		{"none", func(int) float64 { return 1e-8 }, "all at the floor"},
		{"token0_exact", func(t int) float64 { return 0.3 * math.Min(1, float64(t)/10) }, "grows with the position"},
		{"last_exact", func(t int) float64 { return 0.5 * (1 - float64(t)/23) }, "the last token sees the same"},
		{"from_edge", func(t int) float64 { return map[bool]float64{true: 0.2}[t >= 16] }, "begins at token 16"},
		{"flat", func(t int) float64 { return 0.2 + 0.01*math.Sin(float64(t)) }, "the same everywhere"},
		{"decays", func(t int) float64 { return 1 / math.Sqrt(float64(t+1)) }, "averaging hides it"},
		{"bimodal", func(t int) float64 { return map[bool]float64{true: 0.4}[t == 3 || t == 11 || t == 17] }, "a few tokens"},
		{"some", func(t int) float64 { return map[bool]float64{true: 1e-5}[t%2 == 1] }, "half of the tokens, near the floor"},
		{"all", func(t int) float64 { return 0.05 * float64(1+t%5) }, "all, uneven"},
	} {
		k, text, _ := profile(tc.e).classify()
		if k.id != tc.want {
			t.Errorf("%s: read as %s (%s), want %s", tc.reason, k.id, text, tc.want)
		}
	}
	unrelated := profile(func(t int) float64 { return map[bool]float64{true: 1.4}[t >= 12] })
	for t := 12; t < 24; t++ {
		unrelated.cos[t] = 0.05
	}
	if k, text, v := unrelated.classify(); k.id != "blocks" && k.id != "from_edge" || text == "" || v == nil {
		t.Errorf("half of the tokens unrelated: %s", k.id)
	}
}

func TestReasoningOfMagnitudesSpikesAndLogits(t *testing.T) {
	wide := make([]float64, 200)
	for i := range wide {
		wide[i] = math.Sin(float64(i))
	}
	spike := append([]float64(nil), wide...)
	spike[107] = 900
	double := append([]float64(nil), wide...)
	for i := range double {
		double[i] *= 2
	}
	for _, tc := range []struct {
		at        string
		ref, port []float64
		want      string
	}{
		{"layer_03", wide, double, "same direction, other magnitude"},
		{"layer_03", spike, wide, "the reference spikes and the port is flat: token 10, dim 7"},
		{"layer_03", wide, spike, "the port spikes and the reference is near zero: token 10, dim 7"},
		{"last_logits", []float64{1, 1.001, 0, 0.5}, []float64{1.05, 1, 0.02, 0.5}, "a tie within the error"},
		{"last_logits", []float64{1, 9, 0, 0.5}, []float64{9.5, 9, 0, 0.5}, "argmax of the last position: reference 1, port 0"},
	} {
		cols := 10
		if tc.at == "last_logits" {
			cols = 4
		}
		c := benchContext(tc.at, []*Tensor{rows(tc.at, cols, tc.ref...)}, []*Tensor{rows(tc.at, cols, tc.port...)})
		if all := strings.Join(Reasoning(c), "\n"); !strings.Contains(all, tc.want) {
			t.Errorf("%s: %q lacks %q", tc.at, all, tc.want)
		}
	}
	if Reasoning(benchContext("layer_00", nil, nil)) != nil {
		t.Error("reasoning about nothing")
	}
}

func TestLayerSetsNameTheirRelation(t *testing.T) {
	for _, tc := range []struct {
		ref, port []int
		n         int
		want      string
	}{
		{[]int{0, 2, 4}, []int{1, 3, 5}, 6, "exactly the other layers"},
		{[]int{3, 7}, []int{4, 8}, 12, "shifted by one"},
		{[]int{0, 1}, []int{0, 1, 2}, 3, "all layers"},
		{[]int{0, 1, 4}, []int{1}, 6, "some of the reference's"},
		{[]int{1}, []int{0, 1}, 6, "all of the reference's and more"},
	} {
		if got := relation(twoSets{tc.ref, tc.port}, tc.n); !strings.Contains(got, tc.want) {
			t.Errorf("%v and %v of %d: %q, want %q", tc.ref, tc.port, tc.n, got, tc.want)
		}
	}
	alike := []layerProperty{{0, "a", "b"}, {1, "a", "b"}}
	if _, _, ok := layerSets(alike, alike[0]); ok {
		t.Error("a reference that treats all layers alike has no set")
	}
}

func TestIndexRangesReadBack(t *testing.T) {
	for _, idx := range [][]int{{0}, {0, 1, 2, 7}, {3, 5, 6}} {
		back, err := parseRanges(indexRanges(idx))
		if err != nil || fmt.Sprint(back) != fmt.Sprint(floats(idx)) {
			t.Errorf("%v is written %q and read %v (%v)", idx, indexRanges(idx), back, err)
		}
	}
}

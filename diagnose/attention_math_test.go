package diagnose

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/layerparity/parity/compare"
)

func TestSoftmaxOfARowByHand(t *testing.T) {
	for _, tc := range []struct {
		x      []float64
		sink   float64
		want   []float64
		reason string
	}{
		{[]float64{0, math.Ln2}, math.Inf(-1), []float64{1. / 3, 2. / 3}, "odds of 1 to 2"},
		{[]float64{1000, 1000}, math.Inf(-1), []float64{0.5, 0.5}, "no overflow"},
		{[]float64{0, 0}, 0, []float64{1. / 3, 1. / 3}, "the sink takes its share"},
		{[]float64{math.Inf(-1), 0}, math.Inf(-1), []float64{0, 1}, "a hidden key gets nothing"},
		{[]float64{math.Inf(-1), math.Inf(-1)}, math.Inf(-1), []float64{0, 0}, "no key at all"},
	} {
		x := slices.Clone(tc.x)
		softmaxRow(x, tc.sink)
		for i := range x {
			wantClose(t, tc.reason, x[i], tc.want[i], 1e-15)
		}
	}
}

func TestAttentionOfTwoTokensByHand(t *testing.T) {
	q := rows("layer_00.q_rope", 2, 1, 0, 0, 1)
	k := rows("layer_00.k_rope", 2, 1, 0, math.Ln2, 1)
	v := rows("layer_00.v", 2, 1, 10, 4, 40)
	c := benchContext("layer_00.attn_ctx", []*Tensor{rows("layer_00.attn_ctx", 2, 1, 10, 3.1931757358, 31.931757358)}, []*Tensor{q, k, v})
	// Token 1: scores (0, 1), probabilities 1/(1+e) and e/(1+e) = 0.7310585786;
	// 1 + 3·0.7310585786 = 3.1931757358.
	res, err := Try(c, []string{"scores(q_rope, k_rope, scale=1, head_dim=2) | causal() | softmax() | attend(v, head_dim=2)"})
	if err != nil {
		t.Fatal(err)
	}
	if !(res.After.RelL2 < 1e-10) {
		t.Errorf("left %v", res.After.RelL2)
	}
}

func TestMasksHideKeysInScoresAndProbabilities(t *testing.T) {
	uniform := []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}
	for _, tc := range []struct {
		expr string
		want []float64
	}{
		{"causal()", []float64{1, 0, 0, 1, 1, 0, 1, 1, 1}},
		{"causal(past=1)", []float64{1, 1, 0, 1, 1, 1, 1, 1, 1}},
		{"window(2)", []float64{1, 1, 1, 1, 1, 1, 0, 1, 1}},
		{"window(2, ahead=0)", []float64{1, 0, 0, 1, 1, 0, 0, 1, 1}},
		{"chunked(2)", []float64{1, 1, 1, 1, 1, 1, 0, 0, 1}},
		{"hide(keys=0+2)", []float64{0, 1, 0, 0, 1, 0, 0, 1, 0}},
		{"causal() | normalize()", []float64{1, 0, 0, 0.5, 0.5, 0, 1. / 3, 1. / 3, 1. / 3}},
		{"log() | causal() | softmax()", []float64{1, 0, 0, 0.5, 0.5, 0, 1. / 3, 1. / 3, 1. / 3}},
		{"hide_like(mask)", []float64{1, 0, 1, 1, 1, 0, 1, 1, 1}},
		{"log() | softmax(sink=[0])", []float64{.25, .25, .25, .25, .25, .25, .25, .25, .25}},
		{"scale_queries([1, 2, 3])", []float64{1, 1, 1, 2, 2, 2, 3, 3, 3}},
		{"temperature(n=2, a=1)", []float64{1, 1, 1, 1, 1, 1, 1 + math.Ln2, 1 + math.Ln2, 1 + math.Ln2}},
	} {
		p := grids("layer_00.attn_probs", 1, 3, uniform...)
		c := benchContext("layer_00.attn_probs", []*Tensor{p}, []*Tensor{p, grids("layer_00.mask", 1, 3, 1, 0, 1, 1, 1, 0, 1, 1, 1)})
		chain, err := ParseTransforms(tc.expr)
		if err != nil {
			t.Fatal(err)
		}
		_, got, _, err := evaluateTry(c, chain)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range tc.want {
			wantClose(t, tc.expr, got.Data[i], w, 1e-15)
		}
	}
}

func TestSupportsAreExplainedByTheirRules(t *testing.T) {
	n := 6
	make_ := func(seen func(q, k int) bool) support {
		s := support{1, n, n, make([]bool, n*n)}
		for q := range n {
			for k := range n {
				s.seen[q*n+k] = seen(q, k)
			}
		}
		return s
	}
	causal := func(q, k int) bool { return k <= q }
	window := func(w int) func(q, k int) bool { return func(q, k int) bool { return k <= q && q-k < w } }
	for _, tc := range []struct {
		a, b         func(q, k int) bool
		kindA, kindB string
		nA, nB       int
		reason       string
	}{
		{window(3), window(4), "window", "window", 3, 4, "one key more"},
		{causal, window(2), "none", "window", 0, 2, "a window on one side"},
		{causal, func(q, k int) bool { return true }, "causal", "none", 0, 0, "both ways"},
		{func(q, k int) bool { return k <= q+2 }, func(q, k int) bool { return k <= q+1 }, "ahead", "ahead", 2, 1, "look-ahead"},
		{causal, func(q, k int) bool { return k <= q && k >= q/3*3 }, "none", "chunk", 0, 3, "chunks"},
		{func(q, k int) bool { return k <= q && k != 0 && k != 1 }, causal, "pads", "none", 0, 0, "padding"},
	} {
		ra, rb, ok := maskRules(make_(tc.a), make_(tc.b))
		if !ok || ra.kind != tc.kindA || rb.kind != tc.kindB || ra.n != tc.nA || rb.n != tc.nB {
			t.Errorf("%s: %+v and %+v (%v)", tc.reason, ra, rb, ok)
		}
	}
	if _, _, ok := maskRules(make_(causal), make_(func(q, k int) bool { return k <= q && (q*7+k*5)%3 != 0 })); ok {
		t.Error("a random mask was explained")
	}
	for _, tc := range []struct {
		b    func(q, k int) bool
		text string
	}{
		{func(q, k int) bool { return k < q || q == 0 && k == 0 }, "queries 1-5 do not see their own key: a strict bound"},
		{func(q, k int) bool { return k <= q && (k >= 2 || q < 2) }, "keys 0-1 hidden from queries 2-5"},
	} {
		ra, rb := ownCells(make_(causal), make_(tc.b))
		if ra.kind != "none" || rb.kind != "cells" || rb.text != tc.text || rb.apply != "hide_like(port:attn_probs)" {
			t.Errorf("%s: %+v and %+v", tc.text, ra, rb)
		}
	}
	if ra, rb := ownCells(make_(window(3)), make_(func(q, k int) bool { return k <= q && q-k != 1 || k == 5 })); ra.kind != "cells" || rb.kind != "cells" {
		t.Errorf("supports that each see keys the other hides: %+v and %+v", ra, rb)
	}
	if got := maskCause(nil, maskRule{kind: "causal"}, maskRule{kind: "ahead", n: 1}); got != "attention.mask" {
		t.Errorf("a causal mask that lets one key ahead through is filed under %s", got)
	}
}

func TestAFewScaledTokensAreTold(t *testing.T) {
	var ref []float64
	for i := range 24 * 16 {
		ref = append(ref, math.Sin(float64(i*i)))
	}
	for _, tc := range []struct {
		by     float64
		tokens []int
		claim  string
		reason string
	}{
		{0, []int{23}, "the port holds zeros at 1 token (23)", "the last token was never written"},
		{-1, []int{12}, "port = -1 x reference at 1 token (12)", "one token's sign"},
		{0.5, []int{3, 9}, "port = 0.5 x reference at 2 tokens (3, 9)", "two tokens"},
		{0.5, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "", "ten of 24 are not a few"},
	} {
		port := slices.Clone(ref)
		for _, r := range tc.tokens {
			for i := range 16 {
				port[r*16+i] *= tc.by
			}
		}
		c := benchContext("layer_03", []*Tensor{rows("layer_03", 16, ref...)}, []*Tensor{rows("layer_03", 16, port...)})
		r, _ := c.Tensor(Ref, "layer_03")
		p, _ := c.Tensor(Port, "layer_03")
		f, ok := fewRowsScale(c, r, p)
		if ok != (tc.claim != "") || !strings.HasPrefix(f.Claim, tc.claim) || ok && (f.Cause != "scale.row_class" || f.Proof != compare.ProofExact) {
			t.Errorf("%s: %v %q (%s)", tc.reason, ok, f.Claim, f.Proof)
		}
	}
}

func TestScaleCapAndSinksAreRecovered(t *testing.T) {
	var linear, capped []scoreRow
	for r := range 20 {
		row := scoreRow{head: r % 2, row: r}
		for k := range 12 {
			row.x = append(row.x, 9*math.Sin(float64(r*12+k)))
			row.w = append(row.w, 1)
		}
		a, b := row, row
		for _, x := range row.x {
			a.l = append(a.l, 0.7*x+float64(r))
			b.l = append(b.l, 4*math.Tanh(0.7*x/4)-float64(r))
		}
		linear, capped = append(linear, a), append(capped, b)
	}
	slope, err, ok := fitSlope(linear)
	if !ok || err > 1e-12 {
		t.Errorf("slope: %v, %v, %v", slope, err, ok)
	}
	wantClose(t, "slope", slope, 0.7, 1e-12)
	s, _, _ := fitSlope(capped)
	scale, c, err, ok := fitCap(capped, s)
	if !ok || err > 1e-6 {
		t.Errorf("cap: %v, %v", err, ok)
	}
	wantClose(t, "scale under a cap", scale, 0.7, 1e-5)
	wantClose(t, "cap", c, 4, 1e-5)

	// One head with keys of score 0 and ln 3 and a sink of ln 4: sum = 4/8.
	rows := []scoreRow{{x: []float64{0, math.Log(3)}, sum: 0.5}}
	sinks, spread, ok := fitSinks(rows, 1, func(x float64) float64 { return x })
	if !ok || spread != 0 {
		t.Errorf("sinks: %v, %v", spread, ok)
	}
	wantClose(t, "sink", sinks[0], math.Log(4), 1e-12)
	if _, _, ok := fitSinks([]scoreRow{{x: []float64{0, 1}, sum: 1}}, 1, nil); ok {
		t.Error("rows that sum to one have no sink")
	}
}

func TestMinimisers(t *testing.T) {
	wantClose(t, "golden section", goldenSection(func(x float64) float64 { return (x - 0.3) * (x - 0.3) }, -2, 2), 0.3, 1e-7)
	x, y, f := nelderMead2(func(x, y float64) float64 { return (x-1)*(x-1) + 10*(y+2)*(y+2) }, 0, 0, 0.5)
	wantClose(t, "x", x, 1, 1e-6)
	wantClose(t, "y", y, -2, 1e-6)
	wantClose(t, "least", f, 0, 1e-10)
}

func TestTemperatureLawIsFound(t *testing.T) {
	slopes := make([]float64, 40)
	for p := range slopes {
		slopes[p] = 1 + 0.1*math.Log(1+math.Floor(float64(p)/8))
	}
	a, n, ok := temperatureLaw(slopes, 0)
	if !ok || n != 8 {
		t.Fatalf("n %d, %v", n, ok)
	}
	wantClose(t, "a", a, 0.1, 1e-9)
}

func TestMisreadKeysAreFoundInOneStep(t *testing.T) {
	x := []float64{1, -2, 0.5, 3, -1, 2, 0.1, 1.5}
	l := slices.Clone(x)
	l[2] = 0    // reads as zero
	l[6] = x[5] // holds what the row before does
	p := make([]float64, len(x))
	for i, v := range l {
		p[i] = math.Exp(v)
	}
	m, ok := misreadKeys(x, p, grid{Blocks: 1, Heads: 1, T: 1, S: len(x)}, 1e-9)
	if !ok || !slices.Equal(m.zeros, []int{2}) || !slices.Equal(m.moves, []int{6, 5}) {
		t.Errorf("%+v, %v", m, ok)
	}
	if m.text() != "rows 2 read as zero, row 6 holds what row 5 does" {
		t.Errorf("%q", m.text())
	}
}

func TestLogitCapIsFittedAndRounded(t *testing.T) {
	var x, y []float64
	for i := range 50 {
		v := 80 * math.Sin(float64(i))
		x, y = append(x, v), append(y, 30*math.Tanh(v/30))
	}
	c, ok := fitLogitCap(x, y)
	if !ok || c != 30 {
		t.Errorf("cap %v, %v", c, ok)
	}
	if _, ok := fitLogitCap(y, x); ok {
		t.Error("a cap cannot make logits larger")
	}
}

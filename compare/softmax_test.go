package compare

import (
	"math"
	"strings"
	"testing"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/internal/dumptest"
)

// tapOf makes a tap with rows of a norm and an error.
func tapOf(name string, cols int, norms, rel []float64) *Pair {
	pr := layerOf(dump.BFloat16, rel...)
	pr.Place, pr.Geo.Cols = dump.Canonical(name), cols
	pr.sums = &kernel.Sums{}
	for _, n := range norms {
		pr.sums.Row = append(pr.sums.Row, kernel.Moments{N: int64(cols), A2: n * n, B2: n * n, Dot: n * n})
	}
	return pr
}

// By hand: 2 query heads of 16 dims over 1 key head. A token's q has norm 40√2,
// so 40 a head; k has norm 6, then 12; the scores are of size 40·6/4 = 60 and
// 40·12/4 = 120.
func TestScoresEnlargeWhatQueriesAndKeysExplain(t *testing.T) {
	q := tapOf("layer_03.q_rope", 32, []float64{40 * math.Sqrt2, 40 * math.Sqrt2, 40 * math.Sqrt2}, []float64{1e-3, 1e-3, 1e-3})
	k := tapOf("layer_03.k_rope", 16, []float64{6, 12, 6}, []float64{2e-3, 2e-3, 2e-3})
	pr := layerOf(dump.BFloat16, 0.1, 0.1, 0.1)
	pr.Place, pr.inputs = dump.Canonical("layer_03.attn_probs"), []*Pair{q, k}
	pr.Geo = Geometry{Shape: []int{2, 3, 3}, Rows: 6, Cols: 3, Tokens: 3, Grouped: true, Batch: 1}
	typical, each := pr.scoreSizes()
	for i, c := range []struct{ got, want float64 }{{typical, 60}, {each[0], 60}, {each[1], 120}, {each[2], 120}} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("size %d of the scores is %v, want %v", i, c.got, c.want)
		}
	}
	pr.measure()
	plain := 0.1 / math.Sqrt(1e-6+4e-6+1/65536.0)
	if want := plain / (60 / 12.); math.Abs(pr.state.gain-want) > 1e-9*want {
		t.Errorf("gain %v, want %v", pr.state.gain, want)
	}
	if want := plain / (60 / 12.); math.Abs(pr.state.tailGain-want) > 1e-9*want {
		t.Errorf("gain of the worst token %v, want %v, that of token 0", pr.state.tailGain, want)
	}
	pr.inputs = []*Pair{tapOf("layer_02", 16, []float64{1, 1, 1}, []float64{1e-3, 1e-3, 1e-3})}
	if size, each := pr.scoreSizes(); size != usualScores || each != nil {
		t.Errorf("without queries and keys the scores are taken to be %v, %v", size, each)
	}
	pr.Place = dump.Canonical("layer_03.mlp_act")
	if size, _ := pr.scoreSizes(); amplified(size) != 1 {
		t.Error("an activation has no softmax before it")
	}
}

// probsOf is a causal softmax over six keys, scores from a formula, of one head;
// hide masks more, sink takes a share of every row.
func probsOf(hide func(q, k int) bool, sink float64) *dumptest.Array {
	const n = 6
	p := make([]float64, n*n)
	for q := range n {
		sum := sink
		for k := range q + 1 {
			if hide == nil || !hide(q, k) {
				p[q*n+k] = math.Exp(math.Sin(float64(3*q + 5*k)))
				sum += p[q*n+k]
			}
		}
		for k := range q + 1 {
			p[q*n+k] /= sum
		}
	}
	return dumptest.Floats(p, 1, n, n)
}

// A mask and a sink are told in every precision: no rounding makes a share of the
// attention 0, or a row's total another.
func TestMasksAndSinksAreFactsInEveryPrecision(t *testing.T) {
	for _, c := range []struct {
		reason string
		hide   func(q, k int) bool
		sink   float64
		enters string
		words  string
	}{
		{"the same", nil, 0, "", ""},
		{"a window of 4", func(q, k int) bool { return q-k >= 4 }, 0, "layer_00.attn_probs", "2 of 6 queries have a key that one side hides"},
		{"the own key hidden but from token 0", func(q, k int) bool { return q == k && q > 0 }, 0, "layer_00.attn_probs", "5 of 6 queries have a key that one side hides"},
		{"a sink", nil, 1, "layer_00.attn_probs", "the rows of 6 of 6 queries sum to another total"},
	} {
		for _, dtype := range []string{"bfloat16", "int8", ""} {
			ref, port := net().Run(), right()
			ref["layer_00.attn_probs"], port["layer_00.attn_probs"] = probsOf(nil, 0), probsOf(c.hide, c.sink)
			says := says(map[string]any{"model": map[string]any{"id": "tiny", "dtype": dtype}})
			if dtype == "" {
				says = nil
			}
			res := runCase(t, guardCase{ref: ref.With("prompt_tokens", nil), port: port.With("prompt_tokens", nil), refSays: says, portSays: says})
			got, words := "", ""
			for _, cp := range res.Checkpoints {
				if cp.Name == "layer_00.attn_probs" && cp.Status != "agrees" && cp.Status != "equal" {
					got, words = cp.Name, cp.Reason
				}
			}
			if got != c.enters || !strings.Contains(words, c.words) {
				t.Errorf("%s in %q: %q (%s), want %q (%s)", c.reason, dtype, got, words, c.enters, c.words)
			}
		}
	}
}

// A median that was passed on must not hide a token that was not.
func TestAnAccumulatedMedianHidesNoToken(t *testing.T) {
	rel := []float64{0.04, 0.04, 0.04, 0.9, 0.04}
	pr := layerOf(dump.BFloat16, rel...)
	pr.inputs = []*Pair{layerOf(dump.BFloat16, 0.02, 0.02, 0.02, 0.02, 0.02)}
	pr.measure()
	pr.applyRules(&part{})
	if !pr.state.bad || pr.state.by != "tokens" || !pr.enters() {
		t.Errorf("bad %t by %q, enters %t: want the token that is off by 0.9", pr.state.bad, pr.state.by, pr.enters())
	}
	pr = layerOf(dump.BFloat16, 0.04, 0.04, 0.04, 0.05, 0.04)
	pr.inputs = []*Pair{layerOf(dump.BFloat16, 0.02, 0.02, 0.02, 0.02, 0.02)}
	pr.measure()
	pr.applyRules(&part{})
	if !pr.state.bad || pr.state.by != "floor" || pr.enters() {
		t.Errorf("bad %t by %q, enters %t: want an error that was passed on", pr.state.bad, pr.state.by, pr.enters())
	}
}

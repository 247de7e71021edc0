package diagnose_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/diagnose"
	"github.com/layerparity/parity/diagnose/internal/corpus"
)

// positionalAt runs the positional hypotheses at a checkpoint, strongest proof
// first.
func positionalAt(c *diagnose.Context) []compare.Finding {
	var out []compare.Finding
	for _, h := range diagnose.Positional {
		if h.Applies(c.Tap) {
			out = append(out, h.Test(c)...)
		}
	}
	rank := map[compare.Proof]int{compare.ProofExact: 0, compare.ProofFit: 1, compare.ProofSignature: 2}
	slices.SortStableFunc(out, func(a, b compare.Finding) int { return rank[a.Proof] - rank[b.Proof] })
	return out
}

func quiet(string, ...any) {}

// applyOf cuts the expression out of a try line.
func applyOf(t *testing.T, try string) string {
	t.Helper()
	_, expr, ok := strings.Cut(try, "--apply '")
	if !ok {
		t.Fatalf("no --apply in %q", try)
	}
	return strings.TrimSuffix(expr, "'")
}

// mustReproduce runs a finding's try line and compares what it leaves.
func mustReproduce(t *testing.T, c *diagnose.Context, f compare.Finding) {
	t.Helper()
	res, err := diagnose.Try(c, []string{applyOf(t, f.Try)})
	if err != nil {
		t.Fatalf("%s: %v\nin %s", f.Cause, err, f.Try)
	}
	if res.After.RelL2 != f.After || res.Before.RelL2 != f.Before {
		t.Errorf("%s: its try line leaves %v of %v, the finding says %v of %v: %s", f.Cause, res.After.RelL2, res.Before.RelL2, f.After, f.Before, f.Try)
	}
	if f.Proof == compare.ProofExact && float64(f.After) > 4*float64(f.Floor) {
		t.Errorf("%s is called exact but leaves %v, over four floors of %v", f.Cause, f.After, f.Floor)
	}
}

// without hides taps of a source, as a poorer dump would.
type without struct {
	diagnose.Source
	taps []string
}

func (w without) lacks(name string) bool {
	_, tap := diagnose.SplitName(name)
	return slices.Contains(w.taps, tap)
}

func (w without) Tensor(s diagnose.Side, name string) (*diagnose.Tensor, bool) {
	if w.lacks(name) {
		return nil, false
	}
	return w.Source.Tensor(s, name)
}

func (w without) Has(s diagnose.Side, name string) bool {
	return !w.lacks(name) && w.Source.Has(s, name)
}

func (w without) Names(s diagnose.Side) []string {
	return slices.DeleteFunc(w.Source.Names(s), w.lacks)
}

func (w without) Part(step, rank int) (diagnose.Source, bool) {
	s, ok := w.Source.Part(step, rank)
	return without{s, w.taps}, ok
}

// positionalCases are the faults of the corpus that this table of hypotheses has
// to prove: every one at each place where it may enter.
var positionalCases = []string{
	"D1", "D2", "D3", "D3-long", "D4", "D5", "D6", "D6-1.146", "D7", "D8", "D9", "D10-k", "D11",
	"D1/bf16", "D2/bf16", "D6/bf16", "D7/bf16", "D8/bf16", "D9/bf16", "D11/bf16",
	"D1/bare", "D2/bare", "D8/bare", "D11/bare", "D1/short", "D2/short", "D6/short", "D1/heads", "D11/heads",
	"X-rope-theta-up", "X-rope-theta-near", "X-rope-theta-one-layer", "X-rope-theta-interleaved", "X-rope-layout-half", "X-rope-layout-weights",
	"X-rope-linear", "X-rope-linear-extra", "X-rope-yarn", "X-rope-mscale", "X-rope-width", "X-rope-width-quarter",
	"X-rope-partners", "X-rope-denominator", "X-rope-offset-k", "X-rope-offset-q", "X-rope-window-start",
	"X-rope-freq-bf16-short", "X-rope-tables-bf16", "X-rope-sign", "X-rope-nope-layer", "X-rope-nope-period", "X-rope-missing",
	"X-rope-missing-k", "X-rope-twice", "X-rope-sections", "X-rope-sections-lost",
	"X-scale-twice", "X-scale-missing", "X-scale-mla", "X-scale-mscale", "X-scale-layers", "X-scale-temperature",
	"X-softcap-value", "X-softcap-extra", "X-softcap-final",
	"X-window-short", "X-window-lost", "X-window-extra", "X-window-parity", "X-window-all", "X-look-ahead", "X-window-decode",
	"X-mask-causal", "X-mask-one-layer", "X-mask-padding", "X-mask-topleft", "X-sink-missing", "X-sink-extra",
	"X-heads-reversed", "X-heads-four", "X-heads-first",
	"X-decode-zero", "X-decode-zero-q", "X-decode-pads", "X-kv-zero", "X-kv-zero-dumped", "X-kv-stale", "X-sp-padding-cut",
}

func TestPositionalFaultsAreProvenWithTheirValues(t *testing.T) {
	for _, id := range positionalCases {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			k, ok := corpus.Lookup(id)
			if !ok {
				t.Fatalf("the corpus has no case %s", id)
			}
			src := k.Source()
			proven := 0
			for _, at := range k.Want.Enters {
				c := diagnose.NewContext(src, at, k.Floor, quiet)
				fs := positionalAt(c)
				if len(fs) == 0 {
					continue
				}
				proven++
				top := fs[0]
				if !slices.Contains(k.Want.Causes, top.Cause) {
					t.Errorf("at %s the first cause is %s, wanted one of %v: %s", at, top.Cause, k.Want.Causes, top.Claim)
				}
				if top.Proof != compare.ProofExact {
					t.Errorf("at %s %s is proven by %s only", at, top.Cause, top.Proof)
				}
				wantValues(t, at, top, k.Want.Values)
				for _, f := range fs {
					if slices.Contains(k.Want.MustNot, f.Cause) {
						t.Errorf("at %s %s is accused: %s", at, f.Cause, f.Claim)
					}
					if f.Proof != compare.ProofSignature {
						mustReproduce(t, c, f)
					}
					if f.Claim == "" || f.Verify == "" || f.Fix == "" && f.Proof != compare.ProofSignature || len(f.For) == 0 {
						t.Errorf("at %s %s lacks a claim, evidence, a check or a fix: %+v", at, f.Cause, f)
					}
					if strings.Contains(f.Claim, "wrong") && f.Proof != compare.ProofSignature {
						t.Errorf("%s blames a side: %q", f.Cause, f.Claim)
					}
				}
			}
			if proven == 0 {
				t.Errorf("nothing was found at %v", k.Want.Enters)
			}
		})
	}
}

// wantValues compares figures within 1 %.
func wantValues(t *testing.T, at string, f compare.Finding, want map[string]float64) {
	t.Helper()
	for name, w := range want {
		var got float64
		switch v := f.Values[name].(type) {
		case compare.Num:
			got = float64(v)
		case float64:
			got = v
		case int:
			got = float64(v)
		default:
			t.Errorf("at %s %s holds %v for %s, wanted %v", at, f.Cause, v, name, w)
			continue
		}
		if math.Abs(got-w) > 0.01*math.Abs(w) {
			t.Errorf("at %s %s holds %v for %s, wanted %v", at, f.Cause, got, name, w)
		}
	}
}

func TestFaultsAreProvenFromFewerTaps(t *testing.T) {
	rotated := []string{"q_rope", "k_rope"}
	for _, tc := range []struct {
		id, at, cause string
		hidden        []string
		reason        string
	}{
		{"D1", "layer_00.attn_probs", "rope.layout", rotated, "the scores tell the pairing"},
		{"D2", "layer_00.attn_probs", "rope.theta", rotated, "the scores tell theta"},
		{"D2/bf16", "layer_00.attn_probs", "rope.theta", rotated, "also in bfloat16"},
		{"X-rope-width", "layer_00.attn_probs", "rope.width", rotated, "the scores tell the width"},
		{"D11", "layer_00.attn_probs", "attention.head_map", rotated, "a head map does not hide behind the rotation"},
		{"D6", "layer_00.attn_probs", "attention.scale", []string{"q", "k", "q_rope", "k_rope"}, "the slope of the log-odds needs the probabilities only"},
		{"X-sink-extra", "layer_00.attn_probs", "attention.sink", []string{"q", "k", "q_rope", "k_rope"}, "row sums need the probabilities only"},
		{"D6", "layer_00.attn_ctx", "attention.scale", []string{"attn_probs"}, "a fused kernel writes no probabilities"},
		{"D7", "layer_00.attn_ctx", "attention.softcap", []string{"attn_probs"}, "softcap from the context"},
		{"D8", "layer_00.attn_ctx", "attention.window", []string{"attn_probs"}, "window from the context"},
		{"D9", "layer_00.attn_ctx", "attention.mask", []string{"attn_probs"}, "mask from the context"},
		{"D11", "layer_00.attn_ctx", "attention.head_map", []string{"attn_probs"}, "head map from the context"},
		{"D2", "layer_00.attn_ctx", "rope.theta", []string{"attn_probs", "q_rope", "k_rope"}, "theta from q, k, v and the context alone"},
		{"D1", "layer_00.q_rope", "rope.layout", []string{"q", "k"}, "without q the reference's manifest tells its rule"},
		{"D2", "layer_00.q_rope", "rope.theta", []string{"q", "k"}, "without q, theta from the phase differences"},
		{"D9", "layer_00", "attention.mask", []string{"input_norm", "q", "k", "v", "q_rope", "k_rope", "attn_probs", "attn_ctx", "attn_out", "post_attn_norm", "mlp_gate", "mlp_up", "mlp_act", "mlp_out"}, "the token profile tells the mask, as a signature"},
	} {
		t.Run(tc.id+" at "+tc.at+": "+tc.reason, func(t *testing.T) {
			t.Parallel()
			k, _ := corpus.Lookup(tc.id)
			c := diagnose.NewContext(without{k.Source(), tc.hidden}, tc.at, k.Floor, quiet)
			fs := positionalAt(c)
			if len(fs) == 0 || fs[0].Cause != tc.cause {
				t.Fatalf("found %v, wanted %s", causes(fs), tc.cause)
			}
			if fs[0].Proof != compare.ProofSignature {
				mustReproduce(t, c, fs[0])
			}
		})
	}
}

func causes(fs []compare.Finding) []string {
	var out []string
	for _, f := range fs {
		out = append(out, f.Cause+" ("+string(f.Proof)+")")
	}
	return out
}

func TestCleanPairsAreNotAccused(t *testing.T) {
	for _, id := range []string{
		"clean-float32", "clean-bf16", "clean-batch", "clean-massive/bf16", "clean-f16", "clean-tables/bf16",
		"clean-llama3/bf16", "clean-window/bf16", "clean-softcap/bf16", "clean-qk-norm/bf16", "clean-sink/bf16",
		"clean-decode/bf16", "clean-padded/bf16", "clean-conv/bf16", "clean-encoder/bf16", "clean-permuted", "clean-permuted/bf16", "clean-offset",
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			k, ok := corpus.Lookup(id)
			if !ok {
				t.Fatalf("the corpus has no case %s", id)
			}
			src := k.Source()
			seen := 0
			for _, s := range src.Steps() {
				part, _ := src.Part(s, src.Rank())
				for _, at := range part.Names(diagnose.Ref) {
					layer, _ := diagnose.SplitName(at)
					if layer > 1 && layer != 31 && layer != 4 {
						continue
					}
					seen++
					for _, f := range positionalAt(diagnose.NewContext(part, at, k.Floor, quiet)) {
						if !strings.HasPrefix(f.Cause, "benign.") {
							t.Errorf("at %s of step %d: %s (%s, %v to %v): %s", at, s, f.Cause, f.Proof, f.Before, f.After, f.Claim)
						}
						for _, want := range k.Want.Causes {
							if f.Cause != want {
								t.Errorf("at %s: %s, wanted %s", at, f.Cause, want)
							}
						}
					}
				}
			}
			if seen == 0 {
				t.Fatal("no checkpoint was looked at")
			}
		})
	}
}

// The pairs that fooled people: each has to be told from its double.
func TestLookAlikesArePartedByTheirFirstCause(t *testing.T) {
	for _, tc := range []struct{ id, at, cause, double string }{
		{"D2", "layer_00.q_rope", "rope.theta", "rope.scaling"},
		{"X-rope-linear", "layer_00.q_rope", "rope.scaling", "rope.theta"},
		{"D3", "layer_00.q_rope", "rope.scaling", "rope.theta"},
		{"X-rope-layout-weights", "layer_00.q", "rope.layout", "benign.layout"},
		{"clean-permuted", "layer_00.q", "benign.layout", "rope.layout"},
		{"D8", "layer_00.attn_probs", "attention.window", "layers.set"},
		{"X-window-parity", "layer_00.attn_probs", "layers.set", "attention.mask"},
		{"X-sink-extra", "layer_00.attn_probs", "attention.sink", "attention.scale"},
		{"D6-1.146", "layer_00.attn_probs", "attention.scale", "attention.sink"},
		{"D7", "layer_00.attn_probs", "attention.softcap", "attention.scale"},
		{"X-rope-freq-bf16-short", "layer_00.q_rope", "rope.precision", "rope.theta"},
		{"clean-offset", "layer_00.k_rope", "benign.offset", "rope.position"},
		{"X-rope-offset-k", "layer_00.k_rope", "rope.position", "benign.offset"},
	} {
		t.Run(tc.id, func(t *testing.T) {
			t.Parallel()
			k, _ := corpus.Lookup(tc.id)
			fs := positionalAt(diagnose.NewContext(k.Source(), tc.at, k.Floor, quiet))
			if len(fs) == 0 || fs[0].Cause != tc.cause {
				t.Fatalf("found %v, wanted %s first", causes(fs), tc.cause)
			}
			for _, f := range fs {
				if f.Cause == tc.double {
					t.Errorf("its double %s is reported too: %s", tc.double, f.Claim)
				}
			}
		})
	}
}

func TestBothStackedFaultsAreProvenOnThePortsOwnInputs(t *testing.T) {
	for _, tc := range []struct{ id, at, cause string }{
		{"S-rope-mlp", "layer_00.q_rope", "rope.theta"},
		{"S-rope-mlp", "layer_03.q_rope", "rope.theta"},
		{"S-scale-norm", "layer_01.attn_probs", "attention.scale"},
		{"S-mlp-attention", "layer_03.attn_probs", "attention.head_map"},
		{"S-embed-mask", "layer_02.attn_probs", "attention.mask"},
		{"S-eps-rope", "layer_00.q_rope", "rope.layout"},
	} {
		t.Run(tc.id+" at "+tc.at, func(t *testing.T) {
			t.Parallel()
			k, _ := corpus.Lookup(tc.id)
			c := diagnose.NewContext(k.Source(), tc.at, k.Floor, quiet)
			fs := positionalAt(c)
			if len(fs) == 0 || fs[0].Cause != tc.cause || fs[0].Proof != compare.ProofExact {
				t.Fatalf("found %v, wanted %s exactly", causes(fs), tc.cause)
			}
			mustReproduce(t, c, fs[0])
		})
	}
}

func TestReasoningNamesTheTokenInvariantWithNumbers(t *testing.T) {
	for _, tc := range []struct{ id, at, want string }{
		{"D2", "layer_00", "token 0 is exact"},
		{"D9", "layer_00", "only the last token is exact"},
		{"D13", "layer_00", "every token is off by about the same"},
		{"D17", "post_embed", "same direction, other magnitude"},
	} {
		k, _ := corpus.Lookup(tc.id)
		lines := diagnose.Reasoning(diagnose.NewContext(k.Source(), tc.at, k.Floor, quiet))
		if !slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, tc.want) }) {
			t.Errorf("%s at %s: no line says %q: %q", tc.id, tc.at, tc.want, lines)
		}
	}
}

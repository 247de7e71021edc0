package diagnose_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/diagnose"
	"github.com/layerparity/parity/diagnose/internal/corpus"
)

// algebraicFindings runs the algebraic hypotheses at a checkpoint, proofs first.
func algebraicFindings(c *diagnose.Context) []compare.Finding {
	var found []compare.Finding
	for _, h := range diagnose.Algebraic {
		if h.Applies(c.Tap) {
			found = append(found, h.Test(c)...)
		}
	}
	rank := []compare.Proof{compare.ProofExact, compare.ProofFit, compare.ProofSignature}
	slices.SortStableFunc(found, func(a, b compare.Finding) int {
		return cmp.Compare(slices.Index(rank, a.Proof), slices.Index(rank, b.Proof))
	})
	return found
}

func unheard(string, ...any) {}

// where returns the places of a case at which both sides have the checkpoint.
func where(c corpus.Case, src diagnose.Source) []string {
	return slices.DeleteFunc(slices.Clone(c.Want.Enters), func(at string) bool {
		return !src.Has(diagnose.Ref, at) || !src.Has(diagnose.Port, at)
	})
}

// repeats checks that a finding's try line leaves what the finding says.
func repeats(t *testing.T, ctx *diagnose.Context, f compare.Finding) {
	t.Helper()
	_, apply, ok := strings.Cut(f.Try, "--apply '")
	if !ok {
		if f.Proof == compare.ProofExact {
			t.Errorf("%s at %s is exact and has no try line", f.Cause, f.Checkpoint)
		}
		return
	}
	res, err := diagnose.Try(ctx, []string{strings.TrimSuffix(apply, "'")})
	if err != nil {
		t.Errorf("%s: %v", f.Try, err)
		return
	}
	if d := math.Abs(float64(res.After.RelL2 - f.After)); !(d <= 1e-3*float64(f.After)+1e-9) {
		t.Errorf("%s leaves %v, the finding says %v", f.Try, res.After.RelL2, f.After)
	}
}

// algebraicCases are the faults of the corpus that these hypotheses have to
// explain, with what the first finding is at every place where they enter.
var algebraicCases = []struct{ id, cause string }{
	{"D12", "parallel.shard_order"},
	{"D13", "mlp.gate_up_order"},
	{"D14", "mlp.activation"},
	{"D15", "norm.gain"},
	{"D15/bf16", "norm.gain"},
	{"D16", "norm.eps"},
	{"D17", "scale.constant"},
	{"D17-doubled/bf16", "scale.constant"},
	{"D18", "residual.algebra"},
	{"D18/bf16", "residual.algebra"},
	{"D19", "moe.renormalise"},
	{"D20", "moe.scale"},
	{"D21", "parallel.partial_sum"},
	{"D22", "parallel.bias"},
	{"D23", "parallel.rng"},
	{"D24", "order.dims"},
	{"D25", "numerics.overflow"},
	{"X-eps-outside", "norm.eps"},
	{"X-eps-floor", "norm.eps"},
	{"X-gain-missing", "norm.gain"},
	{"X-gain-minus-one", "norm.gain"},
	{"X-gain-bf16", "norm.gain"},
	{"X-norm-missing", "norm.missing"},
	{"X-norm-final-missing", "norm.missing"},
	{"X-qk-norm-missing", "norm.missing"},
	{"X-qk-norm-eps", "norm.eps"},
	{"X-norm-post-order", "norm.order"},
	{"X-norm-precision", "norm.precision"},
	{"X-norm-shards", "parallel.partial_sum"},
	{"X-overflow-norm", "numerics.overflow"},
	{"X-residual-mlp", "residual.algebra"},
	{"X-residual-multiplier", "residual.algebra"},
	{"X-residual-parallel", "norm.order"},
	{"X-embed-rounded", "scale.constant"},
	{"X-image-rows", "scale.row_class"},
	{"X-text-rows", "scale.row_class"},
	{"X-gate-up-weights", "mlp.gate_up_order"},
	{"X-act-quick", "mlp.activation"},
	{"X-moe-bias", "moe.selection"},
	{"X-moe-bias-kept", "moe.selection"},
	{"X-moe-raw", "moe.renormalise"},
	{"X-moe-shared-tp", "moe.shared"},
	{"X-moe-shared-divided", "moe.shared"},
	{"X-order-v-dims", "order.dims"},
	{"X-order-zigzag", "order.tokens"},
	{"X-order-windows", "order.tokens"},
	{"X-order-image-rows", "order.tokens"},
	{"X-order-strides", "order.dims"},
	{"X-partial-one-rank", "parallel.partial_sum"},
	{"X-bias-qkv", "offset.bias"},
	{"X-bias-four", "parallel.bias"},
	{"X-replica", "parallel.replica"},
	{"X-shard-copy", "parallel.shard_copy"},
	{"X-shard-zero", "parallel.shard_missing"},
	{"X-shard-stale", "parallel.shard_missing"},
	{"X-rng-same", "parallel.rng"},
	{"X-rng-four", "parallel.rng"},
	{"X-rng-fork", "parallel.rng"},
	{"X-layer-weights", "weights.swapped"},
	{"X-kv-swapped", "weights.swapped"},
	{"X-transposed-q", "weights.transposed"},
	{"X-unloaded-up", "weights.unloaded"},
	{"X-unloaded-zero", "weights.unloaded"},
	{"X-head-random", "weights.tied"},
	{"X-head-embed", "weights.tied"},
	{"X-embed-head", "input.embedding"},
	{"X-quant-zero", "quant.zero_point"},
	{"X-quant-nibbles", "quant.nibble_order"},
	{"X-quant-scales", "quant.scale_layout"},
	{"X-quant-blocks", "quant.scale_layout"},
	{"X-low-mlp", "numerics.low_precision"},
	{"X-low-probs", "numerics.low_precision"},
}

func TestEveryAlgebraicFaultIsExplainedWhereItEnters(t *testing.T) {
	for _, want := range algebraicCases {
		t.Run(want.id, func(t *testing.T) {
			c, ok := corpus.Lookup(want.id)
			if !ok {
				t.Fatal("no such case")
			}
			src := c.Source()
			explained := false
			for _, at := range where(c, src) {
				ctx := diagnose.NewContext(src, at, c.Floor, unheard)
				found := algebraicFindings(ctx)
				for _, f := range found {
					if slices.Contains(c.Want.MustNot, f.Cause) {
						t.Errorf("at %s: %s, which it is not", at, f.Cause)
					}
					repeats(t, ctx, f)
				}
				if len(found) == 0 || found[0].Cause != want.cause {
					continue
				}
				explained = true
				f := found[0]
				if c.Want.Exact && f.Proof != compare.ProofExact {
					t.Errorf("at %s: proof %s, want exact (before %v, after %v, floor %v)", at, f.Proof, f.Before, f.After, f.Floor)
				}
				for name, v := range c.Want.Values {
					if got, ok := value(f.Values[name]); !ok || math.Abs(got-v) > 0.01*math.Abs(v) {
						t.Errorf("at %s: %s is %v, want %v", at, name, f.Values[name], v)
					}
				}
				if f.Claim == "" || len(f.For) == 0 || f.Verify == "" || f.Fix == "" {
					t.Errorf("at %s: a finding without claim, evidence, check or fix: %+v", at, f)
				}
			}
			if !explained {
				t.Errorf("%s was not found first at any of %v", want.cause, c.Want.Enters)
			}
		})
	}
}

// value reads a number of a finding.
func value(v any) (float64, bool) {
	switch x := v.(type) {
	case compare.Num:
		return float64(x), true
	case float64:
		return x, true
	case int:
		return float64(x), true
	}
	return 0, false
}

// TestRightRunsAreAccusedOfNothing asks every hypothesis at every checkpoint of
// right pairs, not only where an error enters.
func TestRightRunsAreAccusedOfNothing(t *testing.T) {
	for id, reason := range map[string]string{
		"clean-float32":      "other order of sums",
		"clean-identical":    "no difference at all",
		"clean-massive/bf16": "one number holds nearly all the energy",
		"clean-batch":        "noise of 1e-4",
		"clean-routing":      "experts flip at ties",
		"clean-permuted":     "q and k in another order that cancels",
		"clean-qk-norm/bf16": "norms per head",
		"clean-granite/bf16": "a residual multiplier that only one manifest states",
		"clean-ranks/bf16":   "two ranks",
		"clean-bias/bf16":    "biases everywhere",
	} {
		c, ok := corpus.Lookup(id)
		if !ok {
			t.Errorf("%s: no such case", id)
			continue
		}
		src := c.Source()
		for _, at := range src.Names(diagnose.Ref) {
			ctx := diagnose.NewContext(src, at, c.Floor, unheard)
			for _, f := range algebraicFindings(ctx) {
				if !strings.HasPrefix(f.Cause, "benign.") {
					t.Errorf("%s (%s) at %s: %s: %s", id, reason, at, f.Cause, f.Claim)
				}
				repeats(t, ctx, f)
			}
		}
	}
}

package corpus

import (
	"slices"
	"strings"
)

// Cases lists the whole corpus in a fixed order: D1 to D25 of docs/faults.md
// part D, their bfloat16 twins, the cases beyond (X-...), faults seen through
// poorer dumps, stacked faults, and the clean controls.
func Cases() []Case {
	d := faults()
	x := beyond()
	return slices.Concat(d, twins(d), x, twins(named(x, alsoBF16...)), poorer(d), stackedCases(), cleanCases())
}

// faults are D1 to D25 with a float32 port.
func faults() []Case {
	return slices.Concat(
		ropeCases(), attentionCases(), orderCases(), mlpCases(), normCases(), residualCases(),
		moeCases(), parallelCases(), numericsCases(),
	)
}

// beyond are the kinds that part D does not list.
func beyond() []Case {
	return slices.Concat(
		moreRopeCases(), moreAttentionCases(), moreOrderCases(), moreMLPCases(), moreNormCases(),
		moreResidualCases(), moreMoECases(), moreParallelCases(), stateCases(), weightCases(),
		quantCases(), moreNumericsCases(), inputCases(),
	)
}

// Lookup returns the case with that id.
func Lookup(id string) (Case, bool) {
	for _, c := range Cases() {
		if c.ID == id {
			return c, true
		}
	}
	return Case{}, false
}

// tooSmall are the faults that a bfloat16 port hides: their effect at the place
// is of the size of one rounding.
var tooSmall = []string{"D3", "D14", "D16"}

// alsoBF16 are cases beyond part D that have a bfloat16 twin too, one or two of
// each family.
var alsoBF16 = []string{
	"X-rope-theta-up", "X-rope-linear", "X-rope-width", "X-rope-missing", "X-rope-offset-k",
	"X-scale-mla", "X-window-short", "X-window-parity", "X-sink-missing", "X-heads-four", "X-mask-padding",
	"X-act-gelu", "X-gate-up-weights", "X-gain-missing", "X-eps-large", "X-norm-missing",
	"X-residual-multiplier", "X-residual-mlp", "X-text-rows", "X-logits-scale",
	"X-moe-shared-tp", "X-moe-sigmoid", "X-partial-mlp", "X-bias-qkv", "X-shard-copy",
	"X-order-v-dims", "X-order-zigzag", "X-chunk-conv", "X-kv-zero", "X-decode-zero",
	"X-layer-weights", "X-transposed-q", "X-head-random", "X-quant-zero",
}

// named returns the cases with those ids, in their order.
func named(cases []Case, ids ...string) []Case {
	var out []Case
	for _, c := range cases {
		if slices.Contains(ids, c.ID) {
			out = append(out, c)
		}
	}
	return out
}

// twins are the same faults in a bfloat16 port: the honest test.
func twins(cases []Case) []Case {
	var out []Case
	for _, c := range cases {
		if c.arith != nil {
			continue // it has a precision of its own
		}
		id := c.ID
		c.ID += "/bf16"
		c.Title += ", bfloat16 port"
		c.arith = &arithBF16
		c.Want.Exact = false
		if slices.Contains(tooSmall, id) {
			c.Want.Silent, c.Want.Verdict = true, ""
		}
		out = append(out, c)
	}
	return out
}

// at moves where the fault shows.
func (c Case) at(step, rank int) Case {
	c.step, c.rank = step, rank
	return c
}

// layers edits the port's rules of every layer.
func layers(f func(r *Rules)) func(p *Plan) {
	return func(p *Plan) { p.Spec.each(f) }
}

// layer edits the port's rules of one layer.
func layer(l int, f func(r *Rules)) func(p *Plan) {
	return func(p *Plan) { f(&p.Spec.Block[l]) }
}

// seeded is the toy decoder with other weights and tokens, edited.
func seeded(seed uint64, edits ...func(*Spec)) Spec {
	return toy().with(append([]func(*Spec){func(s *Spec) { s.Seed = seed }}, edits...)...)
}

// every edits the model's rules of every layer.
func every(f func(r *Rules)) func(*Spec) { return func(s *Spec) { s.each(f) } }

func divergence(causes ...string) Want { return Want{Verdict: "divergence", Causes: causes} }

// enters says where. An error in the embedding itself is held to be one of the
// input too, which leaves the verdict open: "untrusted" is right as well.
func (w Want) enters(at ...string) Want {
	w.Enters = at
	if slices.Contains(at, embedPlace) {
		w.Verdict = ""
	}
	return w
}

func (w Want) exact() Want              { w.Exact = true; return w }
func (w Want) never(ids ...string) Want { w.MustNot = ids; return w }
func (w Want) values(ref, port float64) Want {
	return w.value("reference", ref).value("port", port)
}

func (w Want) value(name string, v float64) Want {
	m := map[string]float64{name: v}
	for k, x := range w.Values {
		m[k] = x
	}
	w.Values = m
	return w
}

// isLayerOutput tells layer_00 from layer_00.q.
func isLayerOutput(name string) bool {
	return strings.HasPrefix(name, "layer_") && !strings.Contains(name, ".")
}

package diagnose

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/layerparity/parity/compare"
)

// twoRuns is a Source of tensors held in memory, one step and rank, no manifest.
type twoRuns struct{ ref, port map[string]*Tensor }

func (s twoRuns) run(side Side) map[string]*Tensor {
	if side == Port {
		return s.port
	}
	return s.ref
}

func (s twoRuns) Tensor(side Side, name string) (*Tensor, bool) {
	t, ok := s.run(side)[name]
	return t, ok
}

func (s twoRuns) Has(side Side, name string) bool { _, ok := s.run(side)[name]; return ok }

func (s twoRuns) Names(side Side) (out []string) {
	for n := range s.run(side) {
		out = append(out, n)
	}
	return out
}

func (twoRuns) Facts(Side) Facts             { return Facts{} }
func (twoRuns) Part(int, int) (Source, bool) { return nil, false }
func (twoRuns) Steps() []int                 { return nil }
func (twoRuns) Ranks() []int                 { return nil }
func (twoRuns) Step() int                    { return -1 }
func (twoRuns) Rank() int                    { return -1 }

// at is a context on them with the floor of bfloat16.
func (s twoRuns) at(name string) *Context {
	return NewContext(s, name, func(string) float64 { return unknownFloor }, func(string, ...any) {})
}

// shaped gives a tensor a file's shape.
func shaped(t *Tensor, shape ...int) *Tensor {
	u := *t
	u.Shape = shape
	return &u
}

func one1(int) float64 { return 1 }

func TestHeadWidthIsReadFromShapes(t *testing.T) {
	q := gaussians(1, 5, 64, one1)
	probs := &Tensor{Shape: []int{1, 4, 5, 5}, Rows: 20, Cols: 5, Data: make([]float64, 100)}
	for _, tc := range []struct {
		reason string
		q      *Tensor
		probs  *Tensor
		want   int
	}{
		{"[T, heads, d] has the width in its last axis", shaped(q, 5, 8, 8), nil, 8},
		{"[1, T, heads, d] too", shaped(q, 1, 5, 8, 8), nil, 8},
		{"[1, T, D] is a batch of one, D is no head", shaped(q, 1, 5, 64), nil, 0},
		{"[1, T, D] beside probabilities of 4 heads", shaped(q, 1, 5, 64), probs, 16},
		{"one key head keeps its axis", shaped(q, 5, 1, 64), nil, 64},
	} {
		s := twoRuns{ref: map[string]*Tensor{"layer_00.q": tc.q}, port: map[string]*Tensor{}}
		if tc.probs != nil {
			s.ref["layer_00.attn_probs"] = tc.probs
		}
		if got := s.at("layer_00.q").headDim("layer_00.q", 64); got != tc.want {
			t.Errorf("%s: head width %d, want %d", tc.reason, got, tc.want)
		}
	}
}

func TestNarrowDTypesShowInTheValues(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	full, bf16, half, round := []float64{}, []float64{}, []float64{}, []float64{}
	for i := range 200 {
		v := r.NormFloat64()
		full = append(full, float64(float32(v)))
		bf16 = append(bf16, roundFloat("bfloat16", v))
		half = append(half, roundFloat("float16", v))
		round = append(round, float64(i%4)/4)
	}
	for _, tc := range []struct {
		reason, want string
		x            []float64
	}{
		{"float32 fills its bits", "", full},
		{"eight bits of mantissa", "bfloat16", bf16},
		{"eleven bits of mantissa", "float16", half},
		{"quarters are round in every dtype", "", round},
		{"ten values tell nothing", "", bf16[:10]},
		{"one full value is enough against it", "", append([]float64{1.0 / 3}, bf16...)},
	} {
		if got := shownDType(tc.x); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
}

func TestATryLineThatReadsOtherRanksIsNotLimitedToItsOwn(t *testing.T) {
	part := &compare.Part{Step: -1, Rank: 0}
	for _, tc := range []struct {
		reason, try string
		want        bool
	}{
		{"its own rank", "--at rank_00/layer_00.attn_out --apply 'scale(2)'", false},
		{"a sum over ranks", "--at rank_00/layer_00.attn_out --apply 'sum(rank_00/layer_00.attn_out, rank_01/layer_00.attn_out)'", true},
		{"no rank at all", "--at layer_00.q --apply 'scale(2)'", false},
	} {
		if got := otherPart(tc.try, part); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
		}
	}
}

func TestAFindingReportsTheErrorThatTryPrints(t *testing.T) {
	ref, port := gaussians(2, 6, 8, one1), gaussians(3, 6, 8, one1)
	s := twoRuns{ref: map[string]*Tensor{"x": ref}, port: map[string]*Tensor{"x": port}}
	// A trial on the port's own inputs, graded against another error.
	f := s.at("x").signature("unknown", trial{before: errorOf{Whole: 42}})
	var d2, r2 float64
	for i, v := range ref.Data {
		d2, r2 = d2+(port.Data[i]-v)*(port.Data[i]-v), r2+v*v
	}
	if want := math.Sqrt(d2 / r2); math.Abs(float64(f.Before)-want) > 1e-12 {
		t.Errorf("before is %v, want the checkpoint's own error %v", f.Before, want)
	}
}

// linearOf is y = x·wᵀ in the plainest way.
func linearOf(x *Tensor, w *Tensor) *Tensor {
	y := &Tensor{Rows: x.Rows, Cols: w.Rows, Shape: []int{x.Rows, w.Rows}, DType: "float32"}
	for t := range x.Rows {
		for o := range w.Rows {
			s := 0.0
			for i, v := range x.Row(t) {
				s += v * w.Row(o)[i]
			}
			y.Data = append(y.Data, s)
		}
	}
	return y
}

func TestAZeroPointIsToldFromABias(t *testing.T) {
	x := gaussians(5, 40, 32, one1)
	for i := range x.Data {
		x.Data[i] += 3 // inputs with a mean: their sum is nearly the same at every token
	}
	w := gaussians(6, 24, 32, one1)
	ref := linearOf(x, w)
	shifted := gaussians(6, 24, 32, one1)
	for i := range shifted.Data {
		shifted.Data[i] += 0.3
	}
	biased := ref.like(append([]float64(nil), ref.Data...))
	for i := range biased.Data {
		biased.Data[i] += 20 * math.Sin(float64(i%24))
	}
	for _, tc := range []struct {
		reason string
		port   *Tensor
		want   bool
	}{
		{"every weight shifted by 0.3", linearOf(x, shifted), true},
		{"a bias that the sums nearly explain", biased, false},
	} {
		s := twoRuns{ref: map[string]*Tensor{"layer_00.input_norm": x, "layer_00.q": ref}, port: map[string]*Tensor{"layer_00.input_norm": x, "layer_00.q": tc.port}}
		if _, got := zeroPoint(s.at("layer_00.q"), ref, tc.port); got != tc.want {
			t.Errorf("%s: told as a zero point: %v, want %v", tc.reason, got, tc.want)
		}
	}
}

func TestTokensOfTwoDimsHaveNoOrder(t *testing.T) {
	// Routing weights of two experts that sum to 1: experts exchanged in some
	// tokens make rows that some other token has as well.
	ref := &Tensor{Rows: 8, Cols: 2, Shape: []int{8, 2}, DType: "float32"}
	for _, w := range []float64{0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1} {
		ref.Data = append(ref.Data, w, 1-w)
	}
	port := ref.takeRows([]int{7, 1, 2, 4, 3, 5, 6, 0})
	s := twoRuns{ref: map[string]*Tensor{"layer_00.expert_weights": ref}, port: map[string]*Tensor{"layer_00.expert_weights": port}}
	if f, ok := tokenOrder(s.at("layer_00.expert_weights"), ref, port); ok {
		t.Errorf("told as %s: %s", f.Cause, f.Claim)
	}
}

func TestHalvesOfOneTimeEmbeddingAreToldFromOneRow(t *testing.T) {
	ref := gaussians(8, 1, 128, one1)
	port := ref.like(append(append([]float64(nil), ref.Data[64:]...), ref.Data[:64]...))
	s := twoRuns{ref: map[string]*Tensor{"time_embed": ref}, port: map[string]*Tensor{"time_embed": port}}
	f, ok := dimOrder(s.at("time_embed"), ref, port)
	if !ok || f.Cause != "order.dims" || !strings.Contains(f.Try, "permute(") {
		t.Errorf("halves exchanged in one row: found %v, %s %s", ok, f.Cause, f.Try)
	}
	// Any other order of one row is a guess.
	mixed := ref.takeCols(permOf(128, func(i int) int { return i * 37 % 128 }))
	if f, ok := dimOrder(s.at("time_embed"), ref, mixed); ok {
		t.Errorf("an order without a name from one row: %s", f.Claim)
	}
}

func TestAnInheritedErrorIsNoScaleOfTheScores(t *testing.T) {
	// Both sides score by 1/√8; the port's queries differ already and its
	// probabilities are rounded to bfloat16.
	probsOf := func(q, k *Tensor, round bool) *Tensor {
		p := &Tensor{Name: "layer_00.attn_probs", Rows: 2 * 12, Cols: 12, Shape: []int{2, 12, 12}, DType: "float32"}
		for h := range 2 {
			for i := range 12 {
				row, sum := make([]float64, 12), 0.0
				for j := 0; j <= i; j++ {
					s := 0.0
					for d := range 8 {
						s += q.Row(i)[h*8+d] * k.Row(j)[h*8+d]
					}
					row[j] = math.Exp(s / math.Sqrt(8))
					sum += row[j]
				}
				for j := range row {
					row[j] /= sum
					if round {
						row[j] = roundFloat("bfloat16", row[j])
					}
				}
				p.Data = append(p.Data, row...)
			}
		}
		if round {
			p.DType = "bfloat16"
		}
		return p
	}
	q, k, q2 := shaped(gaussians(11, 12, 16, one1), 12, 2, 8), shaped(gaussians(12, 12, 16, one1), 12, 2, 8), shaped(gaussians(13, 12, 16, one1), 12, 2, 8)
	s := twoRuns{
		ref:  map[string]*Tensor{"layer_00.q_rope": q, "layer_00.k_rope": k, "layer_00.attn_probs": probsOf(q, k, false)},
		port: map[string]*Tensor{"layer_00.q_rope": q2, "layer_00.k_rope": k, "layer_00.attn_probs": probsOf(q2, k, true)},
	}
	for _, f := range attentionHypothesis.Test(s.at("layer_00.attn_probs")) {
		t.Errorf("other queries under one rule are told as %s: %s", f.Cause, f.Claim)
	}
}

func TestNoiseOfItsOwnIsToldBesideTokenIDs(t *testing.T) {
	ref, other := gaussians(21, 48, 32, one1), gaussians(22, 48, 32, one1)
	port := ref.like(append(append([]float64(nil), ref.Data[:24*32]...), other.Data[24*32:]...))
	early := ref.like(append(append([]float64(nil), ref.Data[:19*32]...), other.Data[19*32:]...))
	ids := &Tensor{Rows: 48, Cols: 1, Shape: []int{48}, DType: "int64"}
	for i := range 48 {
		ids.Data = append(ids.Data, float64(i*i%97))
	}
	for _, tc := range []struct {
		reason string
		port   *Tensor
		want   bool
	}{
		{"the second half has nothing to do with the reference", port, true},
		{"the break lies at no shard's edge", early, false},
	} {
		s := twoRuns{
			ref:  map[string]*Tensor{"prompt_tokens": ids, "post_embed": ref},
			port: map[string]*Tensor{"prompt_tokens": ids, "post_embed": tc.port},
		}
		f, got := ownNoise(s.at("post_embed"), ref, tc.port)
		if got != tc.want || got && (f.Cause != "parallel.rng" || f.Values["block"] != 24) {
			t.Errorf("%s: told as noise: %v (%s %v), want %v", tc.reason, got, f.Cause, f.Values, tc.want)
		}
	}
}

func TestACapOnTiedLogitsIsNoOtherHead(t *testing.T) {
	embed, h := gaussians(31, 12, 16, one1), gaussians(32, 12, 16, one1)
	ids := &Tensor{Rows: 12, Cols: 1, Shape: []int{12}, DType: "int64"}
	for i := range 12 {
		ids.Data = append(ids.Data, float64(i))
	}
	logits := func(table *Tensor, f func(float64) float64) *Tensor {
		y := linearOf(h, table) // id i is row i
		for i, v := range y.Data {
			y.Data[i] = f(v)
		}
		return y
	}
	plain := func(v float64) float64 { return v }
	for _, tc := range []struct {
		reason string
		ref    *Tensor
		want   bool
	}{
		{"the reference caps the same logits at 5", logits(embed, func(v float64) float64 { return 5 * math.Tanh(v/5) }), false},
		{"the reference has a head of its own", logits(gaussians(33, 12, 16, one1), plain), true},
	} {
		run := func(l *Tensor) map[string]*Tensor {
			return map[string]*Tensor{"prompt_tokens": ids, "post_embed": embed, "post_final_norm": h, "logits": l}
		}
		s := twoRuns{ref: run(tc.ref), port: run(logits(embed, plain))}
		if got := testTied(s.at("logits")); (len(got) > 0) != tc.want {
			t.Errorf("%s: told as weights.tied: %v, want %v", tc.reason, len(got) > 0, tc.want)
		}
	}
}

func TestOneScaleIsNoNormalisationOfChannels(t *testing.T) {
	ref := gaussians(41, 64, 16, one1)
	port := ref.like(make([]float64, len(ref.Data)))
	for i, v := range ref.Data {
		port.Data[i] = roundFloat("bfloat16", v*9.797958971132712)
	}
	port.DType = "bfloat16"
	s := twoRuns{ref: map[string]*Tensor{"post_embed": ref}, port: map[string]*Tensor{"post_embed": port}}
	for _, f := range testChannelAffine(s.at("post_embed")) {
		t.Errorf("told as %s: %s", f.Cause, f.Claim)
	}
}

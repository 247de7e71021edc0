package diagnose

import (
	"math"
	"strings"
	"testing"
)

// bench is a Source over a few tensors in memory.
type bench struct {
	ref, port map[string]*Tensor
	facts     [2]Facts
}

func (b bench) side(s Side) map[string]*Tensor {
	if s == Port {
		return b.port
	}
	return b.ref
}

func (b bench) Tensor(s Side, name string) (*Tensor, bool) { t, ok := b.side(s)[name]; return t, ok }
func (b bench) Has(s Side, name string) bool               { _, ok := b.side(s)[name]; return ok }
func (b bench) Facts(s Side) Facts                         { return b.facts[s] }
func (b bench) Part(int, int) (Source, bool)               { return nil, false }
func (b bench) Steps() []int                               { return []int{0} }
func (b bench) Ranks() []int                               { return []int{0} }
func (b bench) Step() int                                  { return 0 }
func (b bench) Rank() int                                  { return 0 }
func (b bench) Names(s Side) []string {
	var out []string
	for n := range b.side(s) {
		out = append(out, n)
	}
	return out
}

// rows makes a tensor [rows, cols].
func rows(name string, cols int, data ...float64) *Tensor {
	return &Tensor{Name: name, Shape: []int{len(data) / cols, cols}, Rows: len(data) / cols, Cols: cols, Data: data, DType: "float32"}
}

// grids makes probabilities [heads, tokens, keys].
func grids(name string, heads, tokens int, data ...float64) *Tensor {
	keys := len(data) / heads / tokens
	return &Tensor{Name: name, Shape: []int{heads, tokens, keys}, Rows: heads * tokens, Cols: keys, Data: data, DType: "float32"}
}

func benchContext(at string, ref, port []*Tensor) *Context {
	b := bench{ref: map[string]*Tensor{}, port: map[string]*Tensor{}}
	for _, t := range ref {
		b.ref[t.Name] = t
	}
	for _, t := range port {
		b.port[t.Name] = t
	}
	return NewContext(b, at, func(string) float64 { return 1e-6 }, func(string, ...any) {})
}

func TestTransformsDoWhatTheirFormulasSay(t *testing.T) {
	x := rows("layer_00.x", 4, 1, 2, 3, 4, 5, 6, 7, 8)
	for _, tc := range []struct {
		expr string
		want []float64
	}{
		{"scale(2)", []float64{2, 4, 6, 8, 10, 12, 14, 16}},
		{"offset(-1)", []float64{0, 1, 2, 3, 4, 5, 6, 7}},
		{"scale(2, rows=1)", []float64{1, 2, 3, 4, 10, 12, 14, 16}},
		{"scale(0, cols=0-1+3)", []float64{0, 0, 3, 0, 0, 0, 7, 0}},
		{"add(y)", []float64{11, 12, 13, 14, 15, 16, 17, 18}},
		{"add(y, times=-1)", []float64{-9, -8, -7, -6, -5, -4, -3, -2}},
		{"mul(w)", []float64{1, 4, 9, 16, 5, 12, 21, 32}},
		{"div(w)", []float64{1, 1, 1, 1, 5, 3, 7. / 3, 2}},
		{"add(column)", []float64{101, 102, 103, 104, 205, 206, 207, 208}},
		{"sum(x, y, ref:x)", []float64{12, 14, 16, 18, 20, 22, 24, 26}},
		{"matmul(m)", []float64{4, 3, 2, 1, 8, 7, 6, 5}},
		{"matmul(m, transpose=true)", []float64{4, 3, 2, 1, 8, 7, 6, 5}},
		{"permute([1, 0])", []float64{2, 1, 4, 3, 6, 5, 8, 7}},
		{"permute([1, 0], block=2)", []float64{3, 4, 1, 2, 7, 8, 5, 6}},
		{"permute([1, 0], axis=rows)", []float64{5, 6, 7, 8, 1, 2, 3, 4}},
		{"permute(interleaved_to_half, block=4)", []float64{1, 3, 2, 4, 5, 7, 6, 8}},
		{"permute(half_to_interleaved, block=4)", []float64{1, 3, 2, 4, 5, 7, 6, 8}},
		{"permute(halves, block=4)", []float64{3, 4, 1, 2, 7, 8, 5, 6}},
		{"roll(1)", []float64{5, 6, 7, 8, 1, 2, 3, 4}},
		{"roll(-1, axis=cols)", []float64{2, 3, 4, 1, 6, 7, 8, 5}},
		{"swap(0, 1, block=2)", []float64{3, 4, 1, 2, 7, 8, 5, 6}},
		{"swap(0, 1, axis=rows)", []float64{5, 6, 7, 8, 1, 2, 3, 4}},
		{"reverse()", []float64{5, 6, 7, 8, 1, 2, 3, 4}},
		{"transpose() | transpose()", x.Data},
		{"zero([1])", []float64{1, 2, 3, 4, 0, 0, 0, 0}},
		{"zero([1], axis=cols)", []float64{1, 0, 3, 4, 5, 0, 7, 8}},
		{"clamp(2, 6)", []float64{2, 2, 3, 4, 5, 6, 6, 6}},
		{"concat(x, y) | slice(4, 8, axis=cols)", []float64{10, 10, 10, 10, 10, 10, 10, 10}},
		{"concat(x, y, axis=rows) | slice(0, 2)", x.Data},
		{"from(y) | scale(0.1)", []float64{1, 1, 1, 1, 1, 1, 1, 1}},
		{"relu()", x.Data},
		{"from(ref:x) | fit(all)", x.Data},
		{"softcap(2)", tanhs(2, x.Data)},
		{"softcap(2) | unsoftcap(2)", x.Data},
		{"log()", []float64{0, math.Ln2, math.Log(3), 2 * math.Ln2, math.Log(5), math.Log(6), math.Log(7), 3 * math.Ln2}},
		{"rmsnorm(eps=0)", rms(x.Data, 4, 0)},
		{"rmsnorm(eps=0, group=2)", rms(x.Data, 2, 0)},
		{"rmsnorm(eps=0, weight=w, plus=1) | div(w1)", rms(x.Data, 4, 0)},
		{"layernorm(eps=0)", []float64{-3 / math.Sqrt(5), -1 / math.Sqrt(5), 1 / math.Sqrt(5), 3 / math.Sqrt(5), -3 / math.Sqrt(5), -1 / math.Sqrt(5), 1 / math.Sqrt(5), 3 / math.Sqrt(5)}},
		{"round(bfloat16)", x.Data},
	} {
		t.Run(tc.expr, func(t *testing.T) {
			more := []*Tensor{
				x, rows("layer_00.y", 4, 10, 10, 10, 10, 10, 10, 10, 10), rows("layer_00.w", 4, 1, 2, 3, 4), rows("layer_00.w1", 4, 2, 3, 4, 5),
				rows("layer_00.column", 1, 100, 200),
				rows("layer_00.m", 4, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0),
			}
			ref := []*Tensor{rows("layer_00.x", 4, x.Data...)}
			c := benchContext("layer_00.x", ref, more)
			chain, err := ParseTransforms(tc.expr)
			if err != nil {
				t.Fatal(err)
			}
			_, got, _, err := evaluateTry(c, chain)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range tc.want {
				if math.Abs(got.Data[i]-w) > 1e-12*(1+math.Abs(w)) {
					t.Fatalf("got %v, want %v", got.Data, tc.want)
				}
			}
		})
	}
}

func tanhs(c float64, x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		e := math.Exp(2 * v / c)
		out[i] = c * (e - 1) / (e + 1)
	}
	return out
}

func rms(x []float64, n int, eps float64) []float64 {
	out := append([]float64(nil), x...)
	for lo := 0; lo < len(x); lo += n {
		s := 0.0
		for _, v := range x[lo : lo+n] {
			s += v * v / float64(n)
		}
		for i := lo; i < lo+n; i++ {
			out[i] /= math.Sqrt(s + eps)
		}
	}
	return out
}

func TestActivationsAtKnownPoints(t *testing.T) {
	// Values of the error function and of e from tables, to 10 digits.
	for _, tc := range []struct {
		expr    string
		x, want float64
	}{
		{"silu()", 1, 0.7310585786300049},
		{"silu()", -1, -0.2689414213699951},
		{"gelu()", 1, 0.8413447460685429},
		{"gelu()", -1, -0.1586552539314571},
		{"gelu_tanh()", 1, 0.8411919906082768},
		{"quick_gelu()", 1, 0.8457957659328212},
		{"relu()", -3, 0},
		{"relu2()", 3, 9},
		{"sigmoid()", -1000, 0},
		{"sigmoid()", 0, 0.5},
		{"tanh()", 1, 0.7615941559557649},
	} {
		c := benchContext("a", []*Tensor{rows("a", 1, 1)}, []*Tensor{rows("a", 1, tc.x)})
		chain, err := ParseTransforms(tc.expr)
		if err != nil {
			t.Fatal(err)
		}
		_, got, _, err := evaluateTry(c, chain)
		if err != nil || math.Abs(got.Data[0]-tc.want) > 1e-12 {
			t.Errorf("%s of %v is %v (%v), want %v", tc.expr, tc.x, got.Data[0], err, tc.want)
		}
	}
}

func TestTryMeasuresBeforeAndAfter(t *testing.T) {
	c := benchContext("post_embed", []*Tensor{rows("post_embed", 2, 3, 4)}, []*Tensor{rows("post_embed", 2, 6, 8)})
	res, err := Try(c, []string{"scale(1)", "scale(0.5)"})
	if err != nil {
		t.Fatal(err)
	}
	// ‖(3,4)‖ / ‖(3,4)‖ = 1 before; equal after. Direction never differed.
	if res.Before.RelL2 != 1 || res.Before.OneMinusCos != 0 || res.Before.NormRatio != 2 || res.Before.MaxDiff != 4 {
		t.Errorf("before: %+v", res.Before)
	}
	if res.After.RelL2 != 0 || res.After.Cos != 1 || res.After.NormRatio != 1 || res.After.MaxDiff != 0 {
		t.Errorf("after: %+v", res.After)
	}
	if len(res.Steps) != 2 || res.Steps[0].Metrics.RelL2 != 1 || res.Target != "ref:post_embed" {
		t.Errorf("steps: %+v of %s", res.Steps, res.Target)
	}
}

func TestTryAgainstAnotherTarget(t *testing.T) {
	c := benchContext("layer_00.q_rope", []*Tensor{rows("layer_00.q_rope", 2, 1, 0)}, []*Tensor{rows("layer_00.q_rope", 2, 0, 2), rows("layer_00.q", 2, 0, 1)})
	res, err := Try(c, []string{"from(q) | scale(2) | target(port)"})
	if err != nil {
		t.Fatal(err)
	}
	if res.After.RelL2 != 0 || res.Target != "port:layer_00.q_rope" {
		t.Errorf("after %v against %s", res.After.RelL2, res.Target)
	}
}

func TestNotFiniteValuesAreNeverEqual(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tc := range []struct {
		ref, port float64
		ok        func(r float64) bool
		reason    string
	}{
		{1, nan, math.IsNaN, "NaN in the port"},
		{inf, 1, func(r float64) bool { return r != 0 }, "Inf in the reference"},
		{inf, inf, func(r float64) bool { return r == 0 || math.IsNaN(r) }, "the same Inf"},
		{0, 0, func(r float64) bool { return r == 0 }, "both zero"},
		{0, 1, func(r float64) bool { return math.IsInf(r, 1) }, "only the reference is zero"},
	} {
		c := benchContext("a", []*Tensor{rows("a", 1, tc.ref)}, []*Tensor{rows("a", 1, tc.port)})
		res, err := Try(c, []string{"scale(1)"})
		if err != nil || !tc.ok(float64(res.After.RelL2)) {
			t.Errorf("%s: rel_l2 %v, %v", tc.reason, res.After.RelL2, err)
		}
	}
}

func TestChainsThatDoNotParseSayWhereAndWhatIsLegal(t *testing.T) {
	for _, tc := range []struct{ expr, want string }{
		{"", "expected a transform's name"},
		{"scle(2)", `unknown transform "scle"`},
		{"scale", "needs by (number)"},
		{"scale()", "needs by (number)"},
		{"scale(two)", "takes a number"},
		{"scale(NaN)", "takes a number"},
		{"scale(1, 2)", "too many arguments"},
		{"scale(by=1, by=2)", "given twice"},
		{"scale(to=1)", `unknown parameter "to"`},
		{"roll(1.5)", "takes a whole number"},
		{"roll(1, axis=depth)", "one of cols, rows"},
		{"permute([1, x])", `"x" is no number`},
		{"permute([1, 2)", "expected ',' or ']'"},
		{"scale(1) scale(2)", "expected '|'"},
		{"scale(1", "expected ',' or ')'"},
		{"scale(1) |", "expected a transform's name"},
		{"matmul(w, transpose=yes)", "takes true or false"},
		{"scale(2, rows=3-1)", "no range"},
		{"scale(2, rows=0-99999999999)", "no range"},
		{"sum()", "at least one TAP"},
		{"scale([1])", "not a list"},
		{"zero(1)", "takes a [list]"},
	} {
		_, err := ParseTransforms(tc.expr)
		if err == nil || !strings.Contains(err.Error(), tc.want) || tc.expr != "" && !strings.Contains(err.Error(), "offset") {
			t.Errorf("%q: %v, want %q with the offset", tc.expr, err, tc.want)
		}
	}
}

func TestChainsThatDoNotFitTheTensorsFail(t *testing.T) {
	for _, tc := range []struct{ expr, want string }{
		{"from(nowhere)", "did not dump it"},
		{"add(short)", "does not fit"},
		{"matmul(short)", "takes"},
		{"permute([0, 1, 2])", "does not divide"},
		{"permute([0, 5])", "blocks are 0 to 1"},
		{"slice(0, 9)", "outside 0 to 2"},
		{"slice(0, 1)", "the result has shape"},
		{"swap(0, 9)", "do not lie in"},
		{"zero([7])", "outside"},
		{"softcap(0)", "positive"},
		{"rope(dims=3, head_dim=4)", "even number"},
		{"rope(theta=-1, head_dim=4)", "positive"},
		{"rope(theta=10)", "give head_dim="},
		{"rope(positions=[1, 2, 3], head_dim=4)", "3 positions for 2 rows"},
		{"rope(freqs=[1], head_dim=4)", "1 frequencies for 2 pairs"},
		{"causal()", "probabilities are [heads, tokens, keys]"},
		{"scale(2, rows=9)", "outside 0 to 1"},
		{"rmsnorm(group=3)", "do not divide"},
		{"from(step_0007/x)", "no such step"},
	} {
		x := rows("layer_00.x", 4, 1, 2, 3, 4, 5, 6, 7, 8)
		c := benchContext("layer_00.x", []*Tensor{x}, []*Tensor{x, rows("layer_00.short", 3, 1, 2, 3)})
		if _, err := Try(c, []string{tc.expr}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.expr, err, tc.want)
		}
	}
	c := benchContext("nothing", nil, nil)
	if _, err := Try(c, []string{"scale(1)"}); err == nil || !strings.Contains(err.Error(), "no such checkpoint") {
		t.Errorf("a checkpoint that was not dumped: %v", err)
	}
	if _, err := Try(c, nil); err == nil || !strings.Contains(err.Error(), "no transform given") {
		t.Errorf("no transform: %v", err)
	}
}

func TestEveryTransformIsDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Transforms() {
		if seen[s.Name] {
			t.Errorf("%s is in the table twice", s.Name)
		}
		seen[s.Name] = true
		if s.Doc == "" || s.Formula == "" || s.apply == nil {
			t.Errorf("%s lacks a doc, a formula or its function", s.Name)
		}
		if !strings.HasPrefix(s.Usage(), s.Name+"(") {
			t.Errorf("usage of %s is %q", s.Name, s.Usage())
		}
		params := map[string]bool{}
		for _, p := range s.Params {
			if params[p.Name] {
				t.Errorf("%s has %s twice", s.Name, p.Name)
			}
			params[p.Name] = true
			if (p.Kind == argWord || p.Kind == argOrder) != (len(p.Words) > 0) {
				t.Errorf("%s(%s): a word needs its legal values, and only a word", s.Name, p.Name)
			}
		}
	}
	// Those that the issue names.
	for _, name := range strings.Fields("scale add permute roll transpose rope unrope rmsnorm softcap matmul swap sum window causal softmax") {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestPlacesAreSplitIntoStepRankAndName(t *testing.T) {
	for _, tc := range []struct {
		at         string
		step, rank int
		name       string
	}{
		{"layer_00.q", -1, -1, "layer_00.q"},
		{"step_0012/layer_00.q", 12, -1, "layer_00.q"},
		{"step_0001/rank_03/logits", 1, 3, "logits"},
		{"rank_03/logits", -1, 3, "logits"},
		{"other/logits", -1, -1, "other/logits"},
	} {
		step, rank, name := ParsePlace(tc.at)
		if step != tc.step || rank != tc.rank || name != tc.name {
			t.Errorf("%s: %d, %d, %s", tc.at, step, rank, name)
		}
	}
}

func FuzzParseTransforms(f *testing.F) {
	for _, s := range []string{"scale(2)", "unrope(theta=1e4) | rope(theta=5e5, layout=half)", "permute([1, 0], block=2)", "sum(a, b)|scale(1,rows=0-3+7)", "((", "a=[", "scale(1)|"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ts, err := ParseTransforms(s)
		if err == nil && len(ts) == 0 {
			t.Errorf("%q gives no transform and no error", s)
		}
		for _, x := range ts {
			// What was parsed is written as it was, and parses again.
			if _, err := ParseTransforms(x.String()); err != nil {
				t.Errorf("%q came out of %q and does not parse: %v", x, s, err)
			}
		}
	})
}

package compare

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/internal/dumptest"
)

// The table of floors, as it was decided: e, increment error, e of logits.
func TestFloors(t *testing.T) {
	for _, c := range []struct {
		p                    dump.Precision
		e, increment, logits float64
	}{
		{dump.Float32, 1e-10, 1e-4, 1e-9},
		{dump.TF32, 1e-6, 1e-2, 1e-5},
		{dump.Float16, 1e-5, 1e-2, 1e-4},
		{dump.BFloat16, 5e-4, 6e-2, 5e-3},
		{dump.EightBit, 5e-3, 1.5e-1, 5e-2},
		{dump.Unknown, 1e-2, math.Inf(1), 1e-2},
	} {
		f := floors[c.p]
		if f.e != c.e || f.increment != c.increment || f.logits != c.logits {
			t.Errorf("%s: %v, %v, %v; want %v, %v, %v", c.p, f.e, f.increment, f.logits, c.e, c.increment, c.logits)
		}
		if f.of(dump.KindLayer) != c.e || f.of(dump.KindTap) != c.e || f.of(dump.KindFinalNorm) != c.e || f.of(dump.KindOther) != c.e || f.of(dump.KindLogits) != c.logits || f.of(dump.KindEmbedding) != f.embed {
			t.Errorf("%s: a kind has another floor than its own", c.p)
		}
	}
	if coarser(dump.Float32, dump.BFloat16) != dump.BFloat16 || coarser(dump.EightBit, dump.Float16) != dump.EightBit || coarser(dump.Unknown, dump.EightBit) != dump.Unknown {
		t.Error("the coarser side of a pair does not decide")
	}
}

// layerOf makes a judged layer pair of the given token errors (rel_l2).
func layerOf(p dump.Precision, rel ...float64) *Pair {
	pr := &Pair{Place: dump.Canonical("layer_03"), precision: p, rel: rel, Geo: Geometry{Rows: len(rel), Cols: 8, Tokens: len(rel), Batch: 1},
		Out: &Checkpoint{}, Ref: &View{}, Port: &View{}, sums: &kernel.Sums{Whole: kernel.Moments{N: 8, A2: 1, B2: 1}}}
	pr.state = state{}
	pr.measure()
	return pr
}

// relOf is the rel_l2 whose error e is given.
func relOf(e float64) float64 { return math.Sqrt(2 * e) }

func TestAFloorIsExceededByTheNextNumberOnly(t *testing.T) {
	for p := range floors {
		pr := layerOf(p, 0, 0, 0)
		at := pr.floor()
		for _, c := range []struct {
			e   float64
			bad bool
		}{{at, false}, {math.Nextafter(at, 1), true}, {math.Nextafter(at, 0), false}, {0, false}, {math.NaN(), true}, {math.Inf(1), true}} {
			pr.state.e = c.e
			pr.Kind = dump.KindTap // the protocol's cosine is another rule
			if _, bad := floorRule(nil, pr); bad != c.bad {
				t.Errorf("%s: e = %v over a floor of %v: %t, want %t", p, c.e, at, bad, c.bad)
			}
		}
	}
}

// The rule of few tokens: more than 2 % above 10 floors, and the worst above 100.
func TestTokensRule(t *testing.T) {
	fl := floors[dump.Float32].e
	many := func(n int, over int, e float64) []float64 {
		rel := make([]float64, n)
		for i := range over {
			rel[i] = relOf(e)
		}
		return rel
	}
	for _, c := range []struct {
		reason string
		rel    []float64
		bad    bool
	}{
		{"1 of 16 far off", many(16, 1, 200*fl), true},
		{"1 of 16 at 99 floors", many(16, 1, 99*fl), false},
		{"1 of 50 is 2 %, not more", many(50, 1, 1e6*fl), false},
		{"2 of 50", many(50, 2, 1e6*fl), true},
		{"1 of 49", many(49, 1, 1e6*fl), true},
		{"none", many(50, 0, 0), false},
		{"8 of 16 at 9 floors", many(16, 8, 9*fl), false},
		{"an infinite token", append(many(16, 0, 0), math.Inf(1)), true},
	} {
		if why, bad := tokensRule(nil, layerOf(dump.Float32, c.rel...)); bad != c.bad {
			t.Errorf("%s: %t (%s), want %t", c.reason, bad, why, c.bad)
		}
	}
}

func TestGain(t *testing.T) {
	// By hand: rel 0.03 over inputs of 0.001 and 0.002 and bfloat16's 2^-8.
	in1, in2 := layerOf(dump.BFloat16, 1e-3, 1e-3, 1e-3), layerOf(dump.BFloat16, 2e-3, 2e-3, 2e-3)
	pr := layerOf(dump.BFloat16, 0.03, 0.03, 0.03)
	pr.inputs = []*Pair{in1, in2}
	pr.measure()
	if want := 0.03 / math.Sqrt(1e-6+4e-6+1/65536.0); math.Abs(pr.state.gain-want) > 1e-12*want {
		t.Errorf("gain %v, want %v", pr.state.gain, want)
	}
	for _, c := range []struct {
		p    dump.Precision
		gain float64
		bad  bool
	}{
		{dump.BFloat16, alarmGain, false}, {dump.BFloat16, math.Nextafter(alarmGain, 11), true}, {dump.Float16, 11, true}, {dump.EightBit, 11, true},
		{dump.Float32, 1e6, false}, {dump.TF32, 1e6, false}, {dump.Unknown, 1e6, false}, {dump.BFloat16, math.NaN(), false},
	} {
		pr.precision, pr.state.gain = c.p, c.gain
		if _, bad := gainRule(nil, pr); bad != c.bad {
			t.Errorf("%s, gain %v: %t, want %t", c.p, c.gain, bad, c.bad)
		}
	}
	pr.inputs, pr.precision, pr.state.gain = nil, dump.BFloat16, 1e6
	if _, bad := gainRule(nil, pr); bad {
		t.Error("a checkpoint without dumped inputs has no gain to speak of")
	}
}

// Above its floor with a gain under 4 nothing entered: it was passed on.
func TestAccumulatedErrorsEnterNowhere(t *testing.T) {
	pr := layerOf(dump.BFloat16, 0.04)
	pr.inputs = []*Pair{layerOf(dump.BFloat16, 0.03)}
	pr.state.bad = true
	for _, c := range []struct {
		by      string
		gain    float64
		tail    float64
		entered bool
	}{
		{"floor", math.Nextafter(minGain, 0), 0, false}, {"floor", minGain, 0, true},
		{"tokens", 0, math.Nextafter(minGain, 0), false}, {"tokens", 0, minGain, true},
		{"floor", math.NaN(), 0, true},
		{"nonfinite", 0, 0, true}, {"scale", 0, 0, true}, {"offset", 0, 0, true}, {"threshold", 0, 0, true}, {"integer", 0, 0, true},
	} {
		pr.state.by, pr.state.gain, pr.state.tailGain = c.by, c.gain, c.tail
		if pr.enters() != c.entered {
			t.Errorf("%s with a gain of %v, %v: enters %t, want %t", c.by, c.gain, c.tail, pr.enters(), c.entered)
		}
	}
	pr.state = state{bad: true, by: "floor", gain: 100}
	pr.inputs[0].state.bad = true
	if pr.enters() {
		t.Error("an error enters where an input is bad already")
	}
	pr.inputs[0].state.benign = true
	if !pr.enters() {
		t.Error("an input that differs in layout only hides an entry")
	}
	pr.inputs = nil
	pr.state.gain = 0
	if !pr.enters() {
		t.Error("an error above its floor without any dumped input enters there")
	}
}

// scalePair makes a pair of rows port = s·ref + noise, as sums.
func scalePair(s, noise float64) *Pair {
	pr := layerOf(dump.Float32, 0)
	rows := 8
	pr.Geo = Geometry{Rows: rows, Cols: 4, Tokens: rows, Batch: 1}
	pr.sums = &kernel.Sums{}
	for range rows {
		// a and an error orthogonal to it of the relative size noise.
		m := kernel.Moments{N: 4, A2: 1, Dot: s, B2: s*s + noise*noise, D2: (s-1)*(s-1) + noise*noise}
		pr.sums.Row = append(pr.sums.Row, m)
	}
	return pr
}

func TestScaleRule(t *testing.T) {
	for _, c := range []struct {
		scale, noise float64
		bad          bool
	}{
		{1, 0, false},
		{1.01, 0, true},
		{1.01, 1e-4, true},
		{1.01, 0.0009, true},
		{1.01, 0.0011, false}, // the deviation is under 10 residuals: rounding may do that
		{0.5, 0.01, true},
		{2, 0, true},
		{-1, 0, true},
		{1 + 0.9e-4, 0, false}, // under 1e-4
		{1 + 1.1e-4, 0, true},
		{1 + 1.1e-4, 1e-6, true},
		{1 + 1.1e-4, 1e-3, false},
	} {
		if why, bad := scaleRule(nil, scalePair(c.scale, c.noise)); bad != c.bad {
			t.Errorf("scale %v with a residual of %v: %t (%s), want %t", c.scale, c.noise, bad, why, c.bad)
		}
	}
}

func TestOffsetRule(t *testing.T) {
	for _, c := range []struct {
		rows            int
		share, residual float64
		bad             bool
	}{
		{16, 0.01, 0, true}, {16, 0.01, 0.0009, true}, {16, 0.01, 0.0011, false}, {16, 0.9e-4, 0, false}, {16, 1.1e-4, 0, true},
		{4, 0.01, 0, true}, {3, 0.01, 0, false}, {0, 0, 0, false},
	} {
		pr := layerOf(dump.Float32, 0)
		pr.bias = biasFit{rows: c.rows, share: c.share, residual: c.residual}
		if why, bad := offsetRule(nil, pr); bad != c.bad {
			t.Errorf("%d rows, share %v, residual %v: %t (%s), want %t", c.rows, c.share, c.residual, bad, why, c.bad)
		}
	}
}

// Scales and offsets through files: found though their cosine is perfect, by
// tokens, so that one massive row does not decide.
func TestPureScalesAndOffsetsFail(t *testing.T) {
	ref := net().Run()
	massive := func(d dumptest.Dump) dumptest.Dump {
		d = d.Clone()
		for _, n := range d.LayerNames() {
			for i := range d[n].Row(0) {
				d[n].Row(0)[i] *= 1e4
			}
		}
		return d
	}
	bias := func(name string, size float64, token int) dumptest.Dump {
		d := right()
		a := d[name].Clone()
		for row := range a.Shape[0] {
			if token >= 0 && row != token {
				continue
			}
			for i := range a.Row(row) {
				a.Row(row)[i] += size * math.Cos(float64(i))
			}
		}
		d[name] = a
		return d
	}
	scaledButRow0 := massive(right()) // right in the massive row, 1.01 in the others
	for i := 32; i < len(scaledButRow0["layer_05"].Data); i++ {
		scaledButRow0["layer_05"].Data[i] *= 1.01
	}
	only := func(d dumptest.Dump) dumptest.Dump { return d.With("post_final_norm", nil).With("logits", nil) }
	for _, c := range []struct {
		reason    string
		ref, port dumptest.Dump
		by        string
	}{
		{"the last layer x 1.001", only(ref), only(right().With("layer_05", ref["layer_05"].Map(times(1.001)))), "scale"},
		{"the last layer x 1.01 but for a massive row", only(massive(ref)), only(scaledButRow0), "scale"},
		{"an offset of 1 % in the last layer", only(ref), only(bias("layer_05", 0.02, -1)), "offset"},
		{"an offset of 1 % in the logits", ref, bias("logits", 0.1, -1), "offset"},
	} {
		// Held to bfloat16's floor, which is too wide to see them.
		dir, o, bf16 := t.TempDir(), DefaultOptions(), dump.BFloat16
		o.Floor = &bf16
		c2 := compareWith(t, c.ref.Write(t, filepath.Join(dir, "ref")), c.port.Write(t, filepath.Join(dir, "port")), o)
		if c2.Verdict != Divergence || c2.Enters == nil || c2.Enters.By != c.by {
			t.Errorf("%s: %s, enters %+v; want divergence by %s", c.reason, outcome(c2), c2.Enters, c.by)
		}
	}
	if c := runCase(t, guardCase{ref: only(ref), port: only(bias("layer_05", 1e-6, -1))}); c.Verdict != Parity {
		t.Errorf("an offset of rounding's size: %s (%s)", c.Verdict, c.Reason)
	}
}

func TestThresholds(t *testing.T) {
	ref := net().Run()
	port := ref.Noise(1, 0.01)
	dir := t.TempDir()
	r, p := ref.Write(t, filepath.Join(dir, "ref")), port.Write(t, filepath.Join(dir, "port"))
	base := compareFolders(t, r, p)
	if base.Verdict != Parity {
		t.Fatalf("noise of 1 %% of unknown precision: %s (%s)", base.Verdict, base.Reason)
	}
	var worst *Checkpoint
	for _, ck := range base.Checkpoints {
		if ck.Figures != nil && (worst == nil || ck.RelL2 > worst.RelL2) {
			worst = ck
		}
	}
	next := func(v Num, to float64) *Num { n := Num(math.Nextafter(float64(v), to)); return &n }
	for _, c := range []struct {
		reason string
		set    func(*Thresholds)
		want   Verdict
	}{
		{"rel_l2 exactly at the worst", func(th *Thresholds) { th.RelL2 = &worst.RelL2 }, Parity},
		{"the number below", func(th *Thresholds) { th.RelL2 = next(worst.RelL2, 0) }, Divergence},
		{"max_rel over everything", func(th *Thresholds) { n := Num(10); th.MaxRel = &n }, Parity},
		{"max_rel under everything", func(th *Thresholds) { n := Num(1e-9); th.MaxRel = &n }, Divergence},
		{"a cosine that nothing reaches", func(th *Thresholds) { th.Cos = 1 }, Untrusted}, // post_embed is the first below it,
		{"a limit on the embedding", func(th *Thresholds) {
			n := Num(1e-9)
			th.Overrides = []Override{{Pattern: "post_embed", RelL2: &n}}
		}, Divergence},
		{"a cosine by name", func(th *Thresholds) {
			n := Num(0.99999)
			th.Overrides = []Override{{Pattern: "layer_02", Cos: &n}}
		}, Divergence},
		{"by a name that is not there", func(th *Thresholds) {
			n := Num(0.99999)
			th.Overrides = []Override{{Pattern: "layer_99", Cos: &n}}
		}, Parity},
		{"the last override wins", func(th *Thresholds) {
			strict, loose := Num(1e-9), Num(1)
			th.Overrides = []Override{{Pattern: "*", RelL2: &strict}, {Pattern: "*", RelL2: &loose}}
		}, Parity},
	} {
		o := DefaultOptions()
		c.set(&o.Thresholds)
		if got := compareWith(t, r, p, o); got.Verdict != c.want {
			t.Errorf("%s: %s (%s), want %s", c.reason, got.Verdict, got.Reason, c.want)
		}
	}
}

func TestParseOverride(t *testing.T) {
	o, err := ParseOverride("layer_*:cos=0.999,rel-l2=0.01,max_rel=1e-3")
	if err != nil || o.Pattern != "layer_*" || *o.Cos != 0.999 || *o.RelL2 != 0.01 || *o.MaxRel != 1e-3 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{"", "layer_00", ":cos=1", "layer_00:", "a:cos", "a:cos=", "a:cos=x", "a:cos=NaN", "a:cosine=1", "[:cos=1", "a:cos=1,,"} {
		if _, err := ParseOverride(bad); err == nil {
			t.Errorf("%q is taken for a threshold", bad)
		} else if !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("%q: the error does not quote it: %v", bad, err)
		}
	}
}

func TestNamesMatchGlobsWithAndWithoutTheirStep(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"layer_03", "layer_03", true}, {"layer_0?", "layer_03", true}, {"layer_0[1-3]", "layer_03", true},
		{"layer_03", "step_0001/layer_03", true}, {"step_0001/*", "step_0001/layer_03", true}, {"step_0002/*", "step_0001/layer_03", false},
		{"layer_03", "layer_03.q", false}, {"layer_*", "layer_03.q", true}, {"*.q", "layer_03.q", true}, {"layer_3", "layer_03", false},
	} {
		if got := matchName(c.pattern, c.name); got != c.want {
			t.Errorf("%q on %q: %t", c.pattern, c.name, got)
		}
	}
}

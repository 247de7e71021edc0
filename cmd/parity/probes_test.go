package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

// The probes: tiny dumps with one property each, on which other tools are
// wrong. The shapes are those of the comparison that was published: 6 layers of
// [16, 64] float32.
const (
	probeLayers, probeTokens, probeDims = 6, 16, 64
	probeFrom                           = 3 // the layer that a fault begins at
)

// A probe changes the port (and the reference where the property is on both
// sides) and says what must come of it.
type probe struct {
	name   string
	change func(rng *rand.Rand, ref, port dumptest.Dump)
	// after changes the folders once they are written.
	after func(t *testing.T, refDir, portDir string)
	exit  int
	// enters names the place where the error enters, "" for none.
	enters string
	// guard and how name the guard that speaks.
	guard string
	how   compare.GuardStatus
	// also asserts what else the report must say.
	also func(t *testing.T, ref, port dumptest.Dump, c *compare.Comparison)
}

// layersOf lists the layers of a dump from a number on.
func layersOf(d dumptest.Dump, from int) []*dumptest.Array {
	var out []*dumptest.Array
	for l := from; ; l++ {
		a := d[fmt.Sprintf("layer_%02d", l)]
		if a == nil {
			return out
		}
		out = append(out, a)
	}
}

// eachLayer changes the elements of the layers from a number on.
func eachLayer(d dumptest.Dump, from int, f func(float64) float64) {
	for _, a := range layersOf(d, from) {
		for i, v := range a.Data {
			a.Data[i] = f(v)
		}
	}
}

// store sets the type that both sides are stored as.
func store(dt npy.DType, dumps ...dumptest.Dump) {
	for _, d := range dumps {
		for _, a := range d {
			if a.DType.IsFloat() {
				a.DType = dt
			}
		}
	}
}

// rel is √Σ(b-a)²/√Σa², worked out here.
func rel(a, b []float64) float64 {
	num, den := 0.0, 0.0
	for i := range a {
		num += (b[i] - a[i]) * (b[i] - a[i])
		den += a[i] * a[i]
	}
	return math.Sqrt(num / den)
}

// near asserts a figure.
func near(t *testing.T, what string, got compare.Num, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, float64(got), want)
	}
}

// f32 is what the file holds of v.
func f32(v float64) float64 { return float64(float32(v)) }

var probes = []probe{
	{name: "clean, 1e-6 noise", change: func(rng *rand.Rand, _, port dumptest.Dump) {
		for _, a := range layersOf(port, 0) {
			*a = *a.Noise(rng, 1e-6)
		}
	}, also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		near(t, "rel_l2 of layer_00", checkpoint(t, c, "layer_00").RelL2, 1e-6, 0.1)
	}},
	{name: "honest bf16 rounding", change: func(_ *rand.Rand, _, port dumptest.Dump) {
		eachLayer(port, 0, func(v float64) float64 {
			return float64(npy.BFloat16ToFloat32(npy.Float32ToBFloat16(float32(v))))
		})
	}},
	{name: "both tensors all zero", change: func(_ *rand.Rand, ref, port dumptest.Dump) {
		for _, d := range []dumptest.Dump{ref, port} {
			eachLayer(d, 0, func(float64) float64 { return 0 })
		}
	}, also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		ck := checkpoint(t, c, "layer_00")
		if ck.Status != compare.Equal || ck.Cos != 1 || ck.RelL2 != 0 {
			t.Errorf("two zero tensors: %s, cos %v, rel_l2 %v, want equal, 1, 0", ck.Status, ck.Cos, ck.RelL2)
		}
	}},
	{name: "float16", change: func(_ *rand.Rand, ref, port dumptest.Dump) { store(npy.Float16, ref, port) }},
	{name: "float16 with values near 300", change: func(rng *rand.Rand, ref, port dumptest.Dump) {
		for _, a := range layersOf(ref, 0) {
			for i := range a.Data { // 300² is beyond 65504
				a.Data[i] = 300 + 5*rng.NormFloat64()
			}
		}
		for l, a := range layersOf(ref, 0) {
			*layersOf(port, 0)[l] = *a.Noise(rng, 1e-4)
		}
		store(npy.Float16, ref, port)
	}, also: func(t *testing.T, ref, _ dumptest.Dump, c *compare.Comparison) {
		want := 0.0
		for _, v := range layersOf(ref, 0)[0].Data {
			want += v * v
		}
		near(t, "norm of the reference", checkpoint(t, c, "layer_00").NormRef, math.Sqrt(want), 1e-3)
	}},
	{name: "bfloat16 (V2)", change: func(_ *rand.Rand, ref, port dumptest.Dump) { store(npy.BFloat16, ref, port) },
		also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
			if ck := checkpoint(t, c, "layer_00"); ck.Port.DType != "bfloat16" {
				t.Errorf("2-byte void was read as %s", ck.Port.DType)
			}
		}},
	{name: "relative error 0.25 from layer 3 on", change: func(rng *rand.Rand, _, port dumptest.Dump) {
		for _, a := range layersOf(port, probeFrom) {
			*a = *a.Noise(rng, 0.25)
		}
	}, exit: 1, enters: "layer_03", also: func(t *testing.T, ref, port dumptest.Dump, c *compare.Comparison) {
		near(t, "rel_l2 of layer_03", checkpoint(t, c, "layer_03").RelL2, rel(ref["layer_03"].Data, port["layer_03"].Data), 1e-6)
		if firstAt(c) != "layer_03" {
			t.Errorf("first below 0.99 is %q, want layer_03", firstAt(c))
		}
	}},
	{name: "one NaN in the port", change: func(_ *rand.Rand, _, port dumptest.Dump) {
		port["layer_03"].Row(5)[7] = math.NaN()
	}, exit: 1, enters: "layer_03", also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		n := checkpoint(t, c, "layer_03").NonFinite
		if n == nil || n.PortNaN != 1 || n.Mismatched != 1 || !slices.Equal(n.FirstMismatch, []int{5, 7}) {
			t.Errorf("one NaN at [5 7] is reported as %+v", n)
		}
	}},
	{name: "+Inf against -Inf", change: func(_ *rand.Rand, ref, port dumptest.Dump) {
		ref["layer_03"].Row(2)[3], port["layer_03"].Row(2)[3] = math.Inf(1), math.Inf(-1)
	}, exit: 1, enters: "layer_03", also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		n := checkpoint(t, c, "layer_03").NonFinite
		if n == nil || n.RefPosInf != 1 || n.PortNegInf != 1 || n.Mismatched != 1 || !slices.Equal(n.FirstMismatch, []int{2, 3}) {
			t.Errorf("+Inf against -Inf at [2 3] is reported as %+v", n)
		}
	}},
	{name: "port all zero", change: func(_ *rand.Rand, _, port dumptest.Dump) {
		eachLayer(port, 0, func(float64) float64 { return 0 })
	}, exit: 1, enters: "layer_00", also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		if ck := checkpoint(t, c, "layer_00"); ck.Cos != 0 || ck.RelL2 != 1 || ck.NormPort != 0 {
			t.Errorf("one zero side: cos %v, rel_l2 %v, norm %v, want 0, 1, 0", ck.Cos, ck.RelL2, ck.NormPort)
		}
	}},
	{name: "port x 2 from layer 3", change: func(_ *rand.Rand, _, port dumptest.Dump) {
		eachLayer(port, probeFrom, func(v float64) float64 { return 2 * v })
	}, exit: 1, enters: "layer_03", also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		if ck := checkpoint(t, c, "layer_03"); ck.Cos != 1 || ck.Scale != 2 || ck.NormRatio != 2 || ck.RelL2 != 1 {
			t.Errorf("twice the reference: cos %v, scale %v, ratio %v, rel_l2 %v, want 1, 2, 2, 1", ck.Cos, ck.Scale, ck.NormRatio, ck.RelL2)
		}
	}},
	{name: "port x 1.01", change: func(_ *rand.Rand, _, port dumptest.Dump) {
		eachLayer(port, 0, func(v float64) float64 { return f32(v * 1.01) })
	}, exit: 1, enters: "layer_00", also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		ck := checkpoint(t, c, "layer_00")
		near(t, "scale", ck.Scale, 1.01, 1e-7)
		if !(ck.Cos > 0.9999999) {
			t.Errorf("cos %v of a pure scale", ck.Cos)
		}
	}},
	{name: "shape [15,64] against [16,64]", change: func(_ *rand.Rand, _, port dumptest.Dump) {
		port["layer_03"] = port["layer_03"].Rows(0, 15)
	}, exit: 1, also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		ck := checkpoint(t, c, "layer_03")
		if ck.Status != compare.Incomparable || !strings.Contains(ck.Reason, "[16 64]") || !strings.Contains(ck.Reason, "[15 64]") {
			t.Errorf("layer_03 is %s (%s), want incomparable with both shapes", ck.Status, ck.Reason)
		}
		if c.Coverage.Compared != c.Coverage.Paired-1 {
			t.Errorf("%d of %d pairs compared, want all but one", c.Coverage.Compared, c.Coverage.Paired)
		}
	}},
	{name: "a layer missing in the port", change: func(_ *rand.Rand, _, port dumptest.Dump) {
		delete(port, "layer_03")
	}, exit: 3, guard: "capture.missing", how: compare.Fail, also: missingLayer("layer_03", "ref")},
	{name: "layer_1 missing, layer_10 on both sides", change: func(rng *rand.Rand, ref, port dumptest.Dump) {
		ten := dumptest.Rand(rng, probeTokens, probeDims)
		ref["layer_10"], port["layer_10"] = ten, ten.Clone()
		ref["layer_1"] = ref["layer_01"]
		delete(ref, "layer_01")
		delete(port, "layer_01")
	}, exit: 3, guard: "capture.missing", how: compare.Fail, also: missingLayer("layer_01", "ref")},
	{name: "truncated file", after: func(t *testing.T, _, portDir string) {
		path := filepath.Join(portDir, "layer_03.npy")
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()-100); err != nil {
			t.Fatal(err)
		}
	}, change: func(rng *rand.Rand, _, port dumptest.Dump) {
		port["layer_02"] = port["layer_02"].Noise(rng, 1e-6)
	}, exit: 2, also: func(t *testing.T, ref, port dumptest.Dump, c *compare.Comparison) {
		ck := checkpoint(t, c, "layer_03")
		if ck.Status != compare.Unreadable || !strings.Contains(ck.Reason, "layer_03.npy") || !strings.Contains(ck.Reason, "4096") || !strings.Contains(ck.Reason, "3996") {
			t.Errorf("layer_03 is %s (%s), want unreadable with expected and found bytes", ck.Status, ck.Reason)
		}
		near(t, "rel_l2 of layer_02", checkpoint(t, c, "layer_02").RelL2, rel(ref["layer_02"].Data, port["layer_02"].Data), 1e-2)
		if c.Coverage.Compared != c.Coverage.Paired-1 {
			t.Errorf("%d of %d pairs compared, want all but one", c.Coverage.Compared, c.Coverage.Paired)
		}
	}},
	{name: "one massive row shared by both, all other rows unrelated", change: func(rng *rand.Rand, ref, port dumptest.Dump) {
		for l, a := range layersOf(port, 0) {
			*a = *dumptest.Rand(rng, probeTokens, probeDims)
			r := layersOf(ref, 0)[l]
			for i, v := range dumptest.Rand(rng, probeDims).Data {
				r.Row(0)[i], a.Row(0)[i] = 1000*v, 1000*v
			}
		}
	}, exit: 1, enters: "layer_00", also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		ck := checkpoint(t, c, "layer_00")
		if !(ck.Cos > 0.9999) {
			t.Errorf("whole-tensor cosine %v, the probe wants one that a gate of 0.99 passes", ck.Cos)
		}
		if ck.Dominant == nil || !slices.Equal(ck.Dominant.Tokens, []int{0}) || !(math.Abs(float64(ck.Dominant.CosWithout)) < 0.2) {
			t.Errorf("dominant is %+v, want token 0 and a cosine near 0 without it", ck.Dominant)
		}
		if c.First == nil || c.First.Checkpoint != "layer_00" || c.First.By != "median token cosine" {
			t.Errorf("first is %+v, want layer_00 by its median token", c.First)
		}
	}},
	{name: "index shifted by one", change: func(_ *rand.Rand, ref, port dumptest.Dump) {
		for l := probeLayers - 1; l > 0; l-- {
			port[fmt.Sprintf("layer_%02d", l)] = ref[fmt.Sprintf("layer_%02d", l-1)].Clone()
		}
		if e := ref["post_embed"]; e != nil {
			port["layer_00"] = e.Clone()
		} else {
			port["layer_00"] = dumptest.Rand(rand.New(rand.NewPCG(9, 9)), probeTokens, probeDims)
		}
	}, guard: "capture.index_shift", how: compare.Repaired, also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		ck := checkpoint(t, c, "layer_03")
		if ck.RelL2 != 0 || ck.Raw == nil || !(ck.Raw.RelL2 > 0.1) {
			t.Errorf("layer_03 after the shift: %+v, want rel_l2 0 and the raw figures beside it", ck.Figures)
		}
		if c.FirstRaw == nil || c.FirstRaw.Checkpoint != "layer_00" || c.First != nil {
			t.Errorf("first_raw %v and first %v, want layer_00 and none", c.FirstRaw, c.First)
		}
	}},
	{name: "NaN at the same places on both sides", change: func(_ *rand.Rand, ref, port dumptest.Dump) {
		for _, d := range []dumptest.Dump{ref, port} {
			d["layer_03"].Row(4)[4], d["layer_03"].Row(4)[9] = math.NaN(), math.Inf(1)
		}
	}, also: func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		ck := checkpoint(t, c, "layer_03")
		if ck.NonFinite == nil || ck.NonFinite.Matched != 2 || ck.RelL2 != 0 || !strings.Contains(strings.Join(ck.Notes, " "), "2 values are NaN or Inf") {
			t.Errorf("2 values that are not finite on both sides: %+v, notes %v", ck.NonFinite, ck.Notes)
		}
	}},
}

// missingLayer asserts that a layer is listed without a partner.
func missingLayer(name, side string) func(*testing.T, dumptest.Dump, dumptest.Dump, *compare.Comparison) {
	return func(t *testing.T, _, _ dumptest.Dump, c *compare.Comparison) {
		if len(c.Unpaired) != 1 || c.Unpaired[0].Checkpoint != name || c.Unpaired[0].Side != side || !c.Unpaired[0].Required {
			t.Errorf("unpaired is %+v, want %s of the %s", c.Unpaired, name, side)
		}
		if !strings.Contains(c.Reason, name) {
			t.Errorf("the reason %q does not name %s", c.Reason, name)
		}
	}
}

// runProbe makes the dumps of a probe and holds the report against it.
func runProbe(t *testing.T, p probe, ref dumptest.Dump) {
	port := ref.Clone()
	if p.change != nil {
		p.change(rand.New(rand.NewPCG(5, 5)), ref, port)
	}
	dir := t.TempDir()
	refDir, portDir := ref.Write(t, filepath.Join(dir, "ref")), port.Write(t, filepath.Join(dir, "port"))
	if p.after != nil {
		p.after(t, refDir, portDir)
	}
	status, c := compareDirs(t, refDir, portDir)
	if status != p.exit || entersAt(c) != p.enters {
		t.Errorf("exit status %d, enters %q (%s); want %d, %q", status, entersAt(c), c.Reason, p.exit, p.enters)
	}
	for _, g := range c.Guards {
		if (g.Status == compare.Fail || g.Status == compare.Repaired) && g.ID != p.guard {
			t.Errorf("guard %s is %s: %s", g.ID, g.Status, g.Evidence)
		}
	}
	if p.guard != "" && guardOf(c, p.guard, p.how) == nil {
		t.Errorf("no guard %s is %s", p.guard, p.how)
	}
	if p.also != nil {
		p.also(t, ref, port, c)
	}
}

func TestProbes(t *testing.T) {
	for _, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			runProbe(t, p, dumptest.Layers(1, probeLayers, probeTokens, probeDims))
		})
	}
}

func TestProbesWithIDsAndEmbedding(t *testing.T) {
	for _, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			ref := dumptest.Model(1, probeLayers, probeTokens, probeDims)
			delete(ref, "post_final_norm") // what follows the layers does not hold the fault
			delete(ref, "logits")
			runProbe(t, p, ref)
		})
	}
}

// With a single layer there is no neighbour, no trend and no shift to speak of:
// what must fail fails all the same.
func TestProbesOnASingleLayer(t *testing.T) {
	for _, p := range []struct {
		name  string
		port  func(rng *rand.Rand, a *dumptest.Array) *dumptest.Array
		exit  int
		first string
	}{
		{"clean, 1e-6 noise", func(rng *rand.Rand, a *dumptest.Array) *dumptest.Array { return a.Noise(rng, 1e-6) }, 0, ""},
		{"bfloat16", func(_ *rand.Rand, a *dumptest.Array) *dumptest.Array { return a.As(npy.BFloat16) }, 0, ""},
		{"float16", func(_ *rand.Rand, a *dumptest.Array) *dumptest.Array { return a.As(npy.Float16) }, 0, ""},
		{"float64", func(_ *rand.Rand, a *dumptest.Array) *dumptest.Array { return a.As(npy.Float64) }, 0, ""},
		{"relative error 0.25", func(rng *rand.Rand, a *dumptest.Array) *dumptest.Array { return a.Noise(rng, 0.25) }, 1, "layer_00"},
		{"one NaN", func(_ *rand.Rand, a *dumptest.Array) *dumptest.Array { a.Data[9] = math.NaN(); return a }, 1, "layer_00"},
		{"one Inf", func(_ *rand.Rand, a *dumptest.Array) *dumptest.Array { a.Data[9] = math.Inf(-1); return a }, 1, "layer_00"},
		{"all zero", func(_ *rand.Rand, a *dumptest.Array) *dumptest.Array {
			return a.Map(func(float64) float64 { return 0 })
		}, 1, "layer_00"},
		{"x 2", func(_ *rand.Rand, a *dumptest.Array) *dumptest.Array {
			return a.Map(func(v float64) float64 { return 2 * v })
		}, 1, ""},
		{"x 1.01", func(_ *rand.Rand, a *dumptest.Array) *dumptest.Array {
			return a.Map(func(v float64) float64 { return f32(v * 1.01) })
		}, 1, ""},
		{"one row missing", func(_ *rand.Rand, a *dumptest.Array) *dumptest.Array { return a.Rows(0, 15) }, 1, ""},
	} {
		ref := dumptest.Layers(1, 1, probeTokens, probeDims)
		port := dumptest.Dump{"layer_00": p.port(rand.New(rand.NewPCG(5, 5)), ref["layer_00"].Clone())}
		status, c := compareJSON(t, ref, port)
		if status != p.exit || firstAt(c) != p.first {
			t.Errorf("%s: exit status %d, first %q (%s); want %d, %q", p.name, status, firstAt(c), c.Reason, p.exit, p.first)
		}
	}
}

// A port with only layer_10 where the reference has only layer_1 is no pair: a
// tool that pairs by substrings passes it.
func TestLayer10IsNoPartnerOfLayer1(t *testing.T) {
	a := dumptest.Layers(1, 1, probeTokens, probeDims)["layer_00"]
	status, c := compareJSON(t, dumptest.Dump{"layer_1": a}, dumptest.Dump{"layer_10": a})
	if status != 2 || len(c.Unpaired) != 2 || c.Unpaired[0].Checkpoint != "layer_01" || c.Unpaired[1].Checkpoint != "layer_10" {
		t.Errorf("exit status %d, unpaired %+v; want 2 and both layers", status, c.Unpaired)
	}
}

package compare

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

// incrementsOf compares two dumps and returns the increment errors by layer.
func incrementsOf(t *testing.T, ref, port dumptest.Dump) (map[string]float64, *Comparison) {
	t.Helper()
	dir := t.TempDir()
	c := compareFolders(t, ref.Write(t, filepath.Join(dir, "ref")), port.Write(t, filepath.Join(dir, "port")))
	out := map[string]float64{}
	for _, ck := range c.Checkpoints {
		if ck.IncrementError != nil {
			out[ck.Name] = float64(*ck.IncrementError)
		}
	}
	return out, c
}

// The increment error by its definition, computed here: the median over tokens
// of ‖(b-b')-(a-a')‖ / ‖a-a'‖.
func TestIncrementErrorByDefinition(t *testing.T) {
	ref := net().Run()
	port := ref.Noise(4, 1e-3)
	got, _ := incrementsOf(t, ref, port)
	at := func(d dumptest.Dump, n string, row, i int) float64 { return float64(float32(d[n].Row(row)[i])) }
	before := "post_embed"
	for _, n := range ref.LayerNames() {
		var rel []float64
		for row := range 16 {
			num, den := 0.0, 0.0
			for i := range 32 {
				x := at(ref, n, row, i) - at(ref, before, row, i)
				y := at(port, n, row, i) - at(port, before, row, i)
				num += (y - x) * (y - x)
				den += x * x
			}
			rel = append(rel, math.Sqrt(num/den))
		}
		slices.Sort(rel)
		if want := rel[7]; math.Abs(got[n]-want) > 1e-9*want { // the lower median of 16
			t.Errorf("%s: %v, want %v", n, got[n], want)
		}
		before = n
	}
}

func TestZeroIncrements(t *testing.T) {
	a := dumptest.Rand(rand.New(rand.NewPCG(1, 1)), 4, 8)
	moved := a.Map(func(v float64) float64 { return v + 1 })
	base := dumptest.Dump{"layer_00": a, "layer_01": a}
	got, _ := incrementsOf(t, base, base)
	if got["layer_01"] != 0 {
		t.Errorf("nothing added on either side: %v, want 0", got["layer_01"])
	}
	got, _ = incrementsOf(t, base, base.With("layer_01", moved))
	if !math.IsInf(got["layer_01"], 1) {
		t.Errorf("only the port added something: %v, want +Inf", got["layer_01"])
	}
	got, _ = incrementsOf(t, base.With("layer_01", moved), base)
	if got["layer_01"] != 1 {
		t.Errorf("only the reference added something: %v, want 1", got["layer_01"])
	}
}

func TestAnIncrementOverLayersThatWereNotDumpedSaysSo(t *testing.T) {
	drop := func(d dumptest.Dump) dumptest.Dump { return d.With("layer_02", nil).With("layer_03", nil) }
	got, c := incrementsOf(t, drop(net().Run()), drop(right()))
	if _, ok := got["layer_04"]; !ok {
		t.Fatalf("layer_04 has no increment error: %v", got)
	}
	for _, ck := range c.Checkpoints {
		if said := strings.Contains(strings.Join(ck.Notes, " "), "spans layers layer_02 to layer_04"); said != (ck.Name == "layer_04") {
			t.Errorf("%s: notes %v", ck.Name, ck.Notes)
		}
	}
}

func TestNoIncrementAcrossWhatCannotBeJudged(t *testing.T) {
	got, _ := incrementsOf(t, net().Run(), right().With("layer_03", net().Run()["layer_03"].Rows(0, 15)))
	for _, n := range []string{"layer_03", "layer_04"} {
		if v, ok := got[n]; ok {
			t.Errorf("%s has an increment error of %v over a layer that could not be compared", n, v)
		}
	}
	if _, ok := got["layer_05"]; !ok {
		t.Error("layer_05 has none")
	}
}

// Small increments of a large stream: the rounding of the stream is an error of
// the increment, and no fault of the layer.
func TestRoundingOfALargeStreamIsNoFault(t *testing.T) {
	for _, dt := range []string{"float16", "bfloat16"} {
		ref := dumptest.Dump{}
		rng := rand.New(rand.NewPCG(2, 2))
		h := dumptest.Rand(rng, 16, 64).Map(func(v float64) float64 { return 300 * v })
		for l := range 8 {
			ref[[]string{"layer_00", "layer_01", "layer_02", "layer_03", "layer_04", "layer_05", "layer_06", "layer_07"}[l]] = h
			h = h.Noise(rng, 0.01)
		}
		port := dumptest.Dump{}
		for n, a := range ref {
			port[n] = a.Noise(rng, map[string]float64{"float16": 2e-4, "bfloat16": 2e-3}[dt])
		}
		as := map[string]func(dumptest.Dump) dumptest.Dump{"float16": half, "bfloat16": brain}[dt]
		if _, c := incrementsOf(t, as(ref), as(port)); c.Verdict != Parity {
			t.Errorf("%s: %s (%s)", dt, c.Verdict, c.Reason)
		}
	}
}

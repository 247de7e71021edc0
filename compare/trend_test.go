package compare

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/layerparity/parity/dump"
)

// layersWith makes layers whose median token has the given errors.
func layersWith(rel ...float64) []*Pair {
	var out []*Pair
	for l, r := range rel {
		out = append(out, &Pair{Place: dump.Place{Kind: dump.KindLayer, Layer: l}, rel: []float64{r}})
	}
	return out
}

func TestTrend(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		reason string
		rel    []float64
		kind   string
		at     int // -1: nowhere
	}{
		{"flat", []float64{1e-3, 1.1e-3, 0.9e-3, 1e-3, 1.2e-3, 1e-3}, "flat", -1},
		{"a cliff at layer 3", []float64{1e-4, 1e-4, 1.1e-4, 0.3, 0.31, 0.33, 0.3}, "cliff", 3},
		{"a cliff in the last layer: nothing takes it back", []float64{1e-4, 1e-4, 1.1e-4, 1e-4, 1e-4, 0.3}, "cliff", 5},
		{"a spike at layer 3", []float64{1e-4, 1e-4, 1.1e-4, 0.3, 1e-4, 1.2e-4, 1e-4}, "spike", 3},
		{"a spike at the first layer but one", []float64{1e-4, 0.3, 1e-4, 1e-4, 1.2e-4, 1e-4}, "spike", 1},
		{"drift: half as much again at every layer", []float64{1e-3, 1.5e-3, 2.2e-3, 3.4e-3, 5e-3, 7.6e-3, 1.1e-2}, "drift", -1},
		{"growth by less than 3 is flat", []float64{1e-3, 1.2e-3, 1.5e-3, 1.8e-3, 2.2e-3, 2.9e-3}, "flat", -1},
		{"wrong from the first layer on", []float64{0.3, 0.31, 0.33, 0.3, 0.32}, "flat", -1},
		{"no error before layer 2", []float64{0, 0, 0.1, 0.12, 0.1, 0.1}, "cliff", 2},
		{"no error but at layer 2", []float64{0, 0, 0.1, 0, 0, 0}, "spike", 2},
		{"no error but at the last layer", []float64{0, 0, 0, 0, 0, 0.1}, "cliff", 5},
		{"no error at all", []float64{0, 0, 0, 0, 0, 0}, "flat", -1},
		{"bit-equal at first, rounding then: no cliff", []float64{0, 0, 3e-7, 4e-7, 4e-7, 5e-7, 5e-7}, "flat", -1},
		{"from one last bit to rounding: no cliff", []float64{1e-11, 2e-7, 3e-7, 3e-7, 3e-7, 3e-7}, "drift", -1},
		{"from rounding to reduced products: a cliff, though below their floor", []float64{1e-7, 1e-7, 1e-7, 1e-3, 1e-3, 1e-3}, "cliff", 3},
		{"8 times is a cliff", []float64{1e-2, 1e-2, 1e-2, 8e-2, 8e-2, 8e-2}, "cliff", 3},
		{"6 times is none", []float64{1e-2, 1e-2, 1e-2, 6e-2, 6e-2, 6e-2}, "drift", -1},
		{"a layer without error among others is left out", []float64{1e-3, 1e-3, 0, 1e-3, 1e-3, 1e-3}, "flat", -1},
		{"NaN from layer 4 on", []float64{1e-3, 1e-3, 1e-3, 1e-3, inf, inf}, "cliff", 4},
		{"four layers are too few", []float64{1e-4, 1e-4, 0.3, 0.3}, "too few layers", -1},
		{"none", nil, "too few layers", -1},
	} {
		got := trendOf(layersWith(c.rel...))
		at := -1
		if got.At != nil {
			at = *got.At
		}
		if got.Kind != c.kind || at != c.at {
			t.Errorf("%s: %s at %d (%s), want %s at %d", c.reason, got.Kind, at, got.Text, c.kind, c.at)
		}
		if got.Text == "" || math.IsNaN(float64(got.Statistic)) {
			t.Errorf("%s: text %q, statistic %v", c.reason, got.Text, got.Statistic)
		}
	}
}

// The statistic by hand: steps of ln 1, ln 1, ln 1, ln 3000, ln 1 have a median
// of 0 and a spread of 0, so 0.25 is taken: ln(3000)/0.25 = 32.0.
func TestTrendStatistic(t *testing.T) {
	got := trendOf(layersWith(1e-4, 1e-4, 1e-4, 1e-4, 0.3, 0.3))
	if want := math.Log(3000) / 0.25; math.Abs(float64(got.Statistic)-want) > 1e-9 || got.Threshold != 8 {
		t.Errorf("statistic %v of %v, want %v of 8", got.Statistic, got.Threshold, want)
	}
}

// How often noise alone is called a cliff or a spike, in 4000 runs of a kind. Two
// models of noise: each layer's log error is independent (rounding is made anew
// at every layer), or it walks (what a layer is given it passes on). The steps of
// clean real runs have a standard deviation of 0.06 to 0.08.
func TestTrendFalseAlarms(t *testing.T) {
	const runs = 4000
	for _, c := range []struct {
		layers int
		sd     float64
		walk   bool
		limit  float64 // share of false alarms
	}{
		{5, 0.1, false, 0}, {5, 0.2, false, 0}, {5, 0.3, false, 0.002}, {5, 0.3, true, 0.002}, {5, 1, false, 0.16}, {5, 1, true, 0.08},
		{12, 0.3, false, 0.001}, {12, 0.3, true, 0.001}, {12, 1, false, 0.006}, {12, 1, true, 0.006},
		{30, 0.3, false, 0.001}, {30, 0.3, true, 0.001}, {30, 1, false, 0.001}, {30, 1, true, 0.001},
		{80, 0.3, false, 0.001}, {80, 1, true, 0.001},
	} {
		rng := rand.New(rand.NewPCG(uint64(c.layers), uint64(1000*c.sd)))
		alarms := 0
		for range runs {
			rel := make([]float64, c.layers)
			x := math.Log(1e-3)
			for l := range rel {
				step := c.sd * rng.NormFloat64()
				if c.walk {
					x += step
					step = 0
				}
				rel[l] = math.Exp(x + step)
			}
			if k := trendOf(layersWith(rel...)).Kind; k == "cliff" || k == "spike" {
				alarms++
			}
		}
		if rate := float64(alarms) / runs; rate > c.limit {
			t.Errorf("%d layers, steps of %g, walk %t: %.4f of the runs are called a cliff or a spike, at most %.4f may be", c.layers, c.sd, c.walk, rate, c.limit)
		}
	}
}

// And how often a real jump by a factor of 15 is seen under the noise of real runs.
func TestTrendSeesACliffInNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	seen := 0
	const runs = 1000
	for range runs {
		rel := make([]float64, 30)
		for l := range rel {
			x := math.Log(1e-4) + 0.08*rng.NormFloat64()
			if l >= 17 {
				x += math.Log(15)
			}
			rel[l] = math.Exp(x)
		}
		if got := trendOf(layersWith(rel...)); got.Kind == "cliff" && *got.At == 17 {
			seen++
		}
	}
	if seen < 990 {
		t.Errorf("%d of %d cliffs were found where they are", seen, runs)
	}
}

func TestNoCliffAndNoSpikeInCleanRealRuns(t *testing.T) {
	for _, name := range fixtures(t) {
		if !strings.HasPrefix(name, "clean-") {
			continue
		}
		c := compareFolders(t, filepath.Join(fixturesDir, name, "ref"), filepath.Join(fixturesDir, name, "port"))
		if c.Trend == nil || c.Trend.Kind == "cliff" || c.Trend.Kind == "spike" {
			t.Errorf("%s: %+v", name, c.Trend)
		}
	}
}

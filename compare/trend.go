package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/dump"
)

const (
	// trendLayers is the smallest number of layers that a trend is read from.
	trendLayers = 5
	// trendLimit is the statistic above which a step is no noise. Steps of clean
	// real runs have a standard deviation of 0.06 to 0.08. With Gaussian noise of
	// 0.3, four times that, it is crossed in fewer than 1 of 1000 runs of 5
	// layers or more; with noise of 1 in 15 % of 5 layers, 0.5 % of 12, 0.01 % of
	// 30 (trend_test.go measures it).
	trendLimit = 8
	// trendSpread is the smallest standard deviation that steps are measured in,
	// three times that of clean real runs: a cliff is a factor of 7.4 at least.
	trendSpread = 0.25
	// driftGrowth is the growth over all layers that makes a drift.
	driftGrowth = 3
)

// trendOf reads the run of the error over the layers. With x_l = log rel_l2 of
// layer l's median token, a step is s_l = x_l - x_(l-1); the statistic is
// max |s_l - median(s)| / max(1.4826·MAD(s), 0.25). Above trendLimit a step up
// that stays is a cliff, one that the next step takes back a spike; below, growth
// by more than 3 in all is a drift, else flat. An error that float32 rounding
// makes (e up to 1e-10) is neither cliff nor spike, whatever was before it.
//
// A layer without any error has no logarithm. Where only the first layers have
// none the step after them is infinite; other such layers are left out. Nor has
// one whose median token is not finite: the run ends in a cliff there.
func trendOf(layers []*Pair) *Trend {
	var rel []float64
	var at []int
	for _, pr := range layers {
		if pr.rel != nil && pr.aside == "" && len(pr.judged()) > 0 {
			rel, at = append(rel, median(pr.judged())), append(at, pr.Layer)
		}
	}
	t := &Trend{Kind: "flat", Threshold: trendLimit}
	if len(rel) < trendLayers {
		t.Kind = "too few layers"
		t.Text = fmt.Sprintf("%d layers were compared, a trend needs %d", len(rel), trendLayers)
		return t
	}
	if i := slices.IndexFunc(rel, func(r float64) bool { return math.IsInf(r, 1) }); i >= 0 {
		t.cliff(at[i], math.Inf(1), "its median token is not finite on one side")
		return t
	}
	seen := func(r float64) bool { return energy(r) > floors[dump.Float32].e }
	first := slices.IndexFunc(rel, func(r float64) bool { return r != 0 })
	if first < 0 {
		t.Text = "no layer differs in its median token"
		return t
	}
	if alone := !slices.ContainsFunc(rel[first+1:], func(r float64) bool { return r != 0 }); alone && first+1 < len(rel) && seen(rel[first]) {
		t.Kind, t.At, t.Statistic = "spike", &at[first], Num(math.Inf(1))
		t.Text = fmt.Sprintf("spike at layer %d: no other layer has any error; nearly always the dump's fault", at[first])
		return t
	}
	if first > 0 && seen(rel[first]) {
		t.cliff(at[first], math.Inf(1), "layers before it have no error at all")
		return t
	}
	rel, at = withError(rel, at)
	if len(rel) < trendLayers {
		t.Text = fmt.Sprintf("only %d layers differ in their median token", len(rel))
		return t
	}
	steps := make([]float64, 0, len(rel)-1)
	for i := 1; i < len(rel); i++ {
		steps = append(steps, math.Log(rel[i])-math.Log(rel[i-1]))
	}
	center := median(steps)
	dev := make([]float64, len(steps))
	for i, s := range steps {
		dev[i] = math.Abs(s - center)
	}
	spread := math.Max(1.4826*median(dev), trendSpread)
	worst := 0
	for i := range steps {
		if !(dev[i] <= dev[worst]) {
			worst = i
		}
	}
	stat := dev[worst] / spread
	t.Statistic = Num(stat)
	growth := rel[len(rel)-1] / rel[0]
	if top := max(rel[worst], rel[worst+1]); !seen(top) {
		stat = 0 // a step between roundings
	}
	switch {
	case !(stat <= trendLimit) && steps[worst] > 0 && worst+1 < len(steps) && steps[worst+1] < -steps[worst]/2:
		t.Kind, t.At = "spike", &at[worst+1]
		t.Text = fmt.Sprintf("spike at layer %d: the error jumps by %.3g and is gone at the next layer; nearly always the dump's fault", at[worst+1], math.Exp(steps[worst]))
	case !(stat <= trendLimit) && steps[worst] < 0 && worst > 0 && steps[worst-1] > -steps[worst]/2:
		t.Kind, t.At = "spike", &at[worst]
		t.Text = fmt.Sprintf("spike at layer %d: the error jumps by %.3g and is gone at the next layer; nearly always the dump's fault", at[worst], math.Exp(steps[worst-1]))
	case !(stat <= trendLimit) && steps[worst] > 0:
		t.cliff(at[worst+1], stat, fmt.Sprintf("the error jumps by a factor of %.3g and stays", math.Exp(steps[worst])))
	case growth > driftGrowth:
		t.Kind = "drift"
		t.Text = fmt.Sprintf("drift: the error grows by a factor of %.3g over %d layers, no single step stands out (%.1f of %d)", growth, len(rel), stat, trendLimit)
	default:
		t.Text = fmt.Sprintf("flat: the error stays within a factor of %.3g over %d layers", math.Max(growth, 1/growth), len(rel))
	}
	return t
}

// withError drops the layers without any error.
func withError(rel []float64, at []int) (r []float64, a []int) {
	for i, v := range rel {
		if v != 0 {
			r, a = append(r, v), append(a, at[i])
		}
	}
	return r, a
}

// cliff fills a trend that jumps and stays.
func (t *Trend) cliff(layer int, stat float64, why string) {
	t.Kind, t.At, t.Statistic = "cliff", &layer, Num(stat)
	t.Text = fmt.Sprintf("cliff at layer %d: %s", layer, why)
}

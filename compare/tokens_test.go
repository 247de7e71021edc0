package compare

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Selection gives what sorting would: NaN as the largest, ties by index.
func TestSelectionIsASort(t *testing.T) {
	values := rapid.SampledFrom([]float64{0, 1, 1, 2, 3, 0.5, math.NaN(), math.Inf(1)})
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(values, 1, 40).Draw(t, "x")
		order := make([]int, len(x))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return compareNaNLast(x[b], x[a]) })
		k := rapid.IntRange(0, len(x)).Draw(t, "k")
		if got := worstIndices(x, k); !slices.Equal(got, order[:k]) {
			t.Fatalf("worst %d of %v: %v, want %v", k, x, got, order[:k])
		}
		if got, want := medianIndex(x), order[len(x)-1-(len(x)-1)/2]; got != want {
			t.Fatalf("median of %v: index %d, want %d", x, got, want)
		}
	})
}

// The protocol's median is numpy's: with an even number of tokens the mean of the
// middle two, so that a cosine on either side of a threshold is not chosen by its
// index.
func TestMiddleIsTheMedianOfStatistics(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		reason string
		x      []float64
		want   float64
	}{
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 4}, 4},
		{"even: neither of the middle two", []float64{8, 1, 2, 3}, 2.5},
		{"NaN is the largest", []float64{nan, 1, 3}, 3},
		{"half of them NaN", []float64{nan, 1, 3, nan}, nan},
		{"nothing", nil, nan},
	} {
		if got := middle(slices.Clone(c.x)); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: middle of %v is %v, want %v", c.reason, c.x, got, c.want)
		}
	}
}

// compareNaNLast orders floats with NaN after +Inf.
func compareNaNLast(a, b float64) int {
	switch an, bn := math.IsNaN(a), math.IsNaN(b); {
	case an && bn:
		return 0
	case an:
		return 1
	case bn:
		return -1
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

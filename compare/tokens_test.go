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

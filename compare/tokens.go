package compare

import (
	"math"
	"slices"

	"github.com/layerparity/parity/compare/internal/kernel"
)

// tokenMoments groups the rows of a pair by token.
func tokenMoments(s *kernel.Sums, g Geometry) []kernel.Moments {
	if !g.Grouped || g.Tokens == 0 {
		return s.Row
	}
	m := make([]kernel.Moments, g.Tokens)
	for i := range m {
		m[i] = kernel.Moments{MaxAt: -1}
	}
	for r, row := range s.Row {
		m[r%g.Tokens] = m[r%g.Tokens].Add(row)
	}
	return m
}

// tokenErrors returns rel_l2 of every token: +Inf where only the reference is
// zero or a value is not finite on one side only, NaN where a token has nothing
// finite on both.
func tokenErrors(s *kernel.Sums, g Geometry) []float64 {
	ms := tokenMoments(s, g)
	rel := make([]float64, len(ms))
	for i, m := range ms {
		rel[i] = m.RelL2()
	}
	for r, n := range s.RowMismatched {
		if n > 0 {
			t := r
			if g.Grouped && g.Tokens > 0 {
				t = r % g.Tokens
			}
			rel[t] = math.Inf(1)
		}
	}
	return rel
}

// energy is e = rel²/2: 1-cos for a change of direction, and it sees a change
// of size too.
func energy(rel float64) float64 { return rel * rel / 2 }

// median returns the lower median of x without changing it; NaN values count as
// the largest, so that they cannot hide; an empty x gives NaN.
func median(x []float64) float64 { return quantile(x, 0.5) }

// quantile returns the element at position floor(q·(n-1)) of x in ascending
// order, NaN last.
func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Clone(x)
	return selectNth(s, int(q*float64(len(s)-1)))
}

// medianOf is median for an x that may be reordered.
func medianOf(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return selectNth(x, (len(x)-1)/2)
}

// middle is the median as statistics define it: the mean of both middle elements
// where x has an even number of them, which a threshold has to ask of. It
// reorders x; NaN counts as the largest, and the median of nothing is NaN.
func middle(x []float64) float64 {
	lower := medianOf(x)
	if len(x) == 0 || len(x)%2 == 1 {
		return lower
	}
	return (lower + selectNth(x, len(x)/2)) / 2
}

// selectNth returns the k-th smallest of x, NaN last, and reorders x: Hoare's
// selection, since a median of every column of every checkpoint is asked for.
func selectNth(x []float64, k int) float64 {
	lo, hi := 0, len(x)-1
	for lo < hi {
		pivot := x[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for less(x[i], pivot) {
				i++
			}
			for less(pivot, x[j]) {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return x[k]
		}
	}
	return x[k]
}

// medianIndex returns an index of the lower median of x, NaN counting as the
// largest: of equal values the one that has as many before it, in the order worst
// first and then by index, as the median has.
func medianIndex(x []float64) int {
	m := median(x)
	before := len(x) - 1 - (len(x)-1)/2
	for _, v := range x {
		if less(m, v) {
			before--
		}
	}
	for i, v := range x {
		if !less(m, v) && !less(v, m) {
			if before == 0 {
				return i
			}
			before--
		}
	}
	return -1
}

// worstIndices returns the indices of the k largest values, NaN first; ties take
// the lower index.
func worstIndices(x []float64, k int) []int {
	top := make([]int, 0, k+1)
	for i, v := range x {
		if len(top) == k && (k == 0 || !less(x[top[k-1]], v)) {
			continue
		}
		at := len(top)
		for at > 0 && less(x[top[at-1]], v) {
			at--
		}
		top = slices.Insert(top, at, i)
		top = top[:min(len(top), k)]
	}
	return top
}

// less orders floats with NaN last.
func less(a, b float64) bool { return a < b || (b != b && a == a) }

// dropNaN returns the values that are numbers.
func dropNaN(x []float64) []float64 {
	out := make([]float64, 0, len(x))
	for _, v := range x {
		if !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

package diagnose

import "slices"

// Hypotheses returns the whole table, in the order in which ties between equal
// proofs are settled.
func Hypotheses() []Hypothesis { return slices.Concat(positional, algebraic) }

// Applies tells whether the hypothesis can be tested at a tap.
func (h Hypothesis) Applies(tap string) bool {
	return slices.Contains(h.Taps, "*") || slices.Contains(h.Taps, tap)
}

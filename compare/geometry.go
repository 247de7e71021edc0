package compare

import (
	"fmt"
	"slices"

	"github.com/layerparity/parity/dump"
)

// Geometry says how a tensor is seen as rows and columns.
type Geometry struct {
	// Shape is the shape after reconciliation.
	Shape []int
	// Rows and Cols are what the kernel sums; Tokens is the number of tokens.
	Rows, Cols, Tokens int
	// Grouped is true where several rows belong to one token (the heads of
	// attn_probs [heads, T, S]): row r is of token r mod Tokens. Else every row
	// is a token of its own, (b, t) in a tensor with a batch axis.
	Grouped bool
	// Batch is the number of batch entries, 1 without a batch axis.
	Batch int
}

// headTaps are the taps whose middle axis may be heads.
var headTaps = []string{"q", "k", "v", "q_norm", "k_norm", "q_rope", "k_rope", "attn_ctx", "attn_probs"}

// geometryOf sees a shape as rows of tokens. tokens is the length of the prompt
// where it is known, else 0.
func geometryOf(p dump.Place, shape []int, tokens int) Geometry {
	g := Geometry{Shape: shape, Rows: 1, Cols: 1, Tokens: 1, Batch: 1}
	n := len(shape)
	switch {
	case n == 0:
		return g
	case n == 1 && p.Kind == dump.KindInput:
		// Ids, positions: one value a token.
		g.Rows, g.Tokens = shape[0], shape[0]
		return g
	case n == 1:
		g.Cols = shape[0]
		return g
	}
	heads := slices.Contains(headTaps, p.Tap) && n >= 3
	switch {
	case heads && p.Tap != "attn_probs" && !(tokens > 0 && shape[0] != tokens && shape[n-2] == tokens):
		// [T, H, d]; [B, T, H, d] where the second axis is the tokens'.
		g.Rows = shape[0]
		at := 1
		if n == 4 {
			g.Rows, g.Batch, at = shape[0]*shape[1], shape[0], 2
		}
		for _, s := range shape[at:] {
			g.Cols *= s
		}
		g.Tokens = g.Rows
	default:
		for _, s := range shape[:n-1] {
			g.Rows *= s
		}
		g.Cols, g.Tokens = shape[n-1], g.Rows
		if heads { // [H, T, S] and [H, T, d]: heads of one token belong together
			g.Tokens, g.Grouped = shape[n-2], true
		} else if n >= 3 && shape[n-2] > 0 {
			g.Batch = g.Rows / shape[n-2]
		}
	}
	return g
}

// token returns the token of a row and, with a batch axis, its batch entry.
func (g Geometry) token(row int) (token int, batch *int) {
	switch {
	case g.Grouped && g.Tokens > 0:
		return row % g.Tokens, nil
	case g.Batch > 1:
		per := g.Rows / g.Batch
		b := row / per
		return row % per, &b
	}
	return row, nil
}

// index unravels a flat position in the reconciled shape.
func (g Geometry) index(flat int64) []int {
	if flat < 0 {
		return nil
	}
	idx := make([]int, len(g.Shape))
	for i := len(g.Shape) - 1; i >= 0; i-- {
		if n := int64(g.Shape[i]); n > 0 {
			idx[i] = int(flat % n)
			flat /= n
		}
	}
	return idx
}

// reconcile makes two shapes one where that needs no guess: leading axes of
// size 1 go, and [T, H, d] equals [T, H*d], with a batch axis before it or not.
// note says what was done; ok is false for shapes that differ otherwise.
func reconcile(ref, port []int) (shape []int, note string, ok bool) {
	if slices.Equal(ref, port) {
		return ref, "", true
	}
	for i := range leadingOnes(ref) + 1 {
		for j := range leadingOnes(port) + 1 {
			if slices.Equal(ref[i:], port[j:]) {
				return longer(ref, port, ref[i:]), fmt.Sprintf("shapes %v and %v: leading axes of size 1 left out", ref, port), true
			}
		}
	}
	for i := range leadingOnes(ref) + 1 {
		for j := range leadingOnes(port) + 1 {
			a, b := ref[i:], port[j:]
			if len(a) < len(b) {
				a, b = b, a
			}
			if mergesTo(a, b) {
				return b, fmt.Sprintf("shapes %v and %v: heads and head_dim seen as one axis", ref, port), true
			}
		}
	}
	return nil, "", false
}

// mergesTo tells whether a is b with its last axis split in two.
func mergesTo(a, b []int) bool {
	n := len(b)
	return n >= 2 && len(a) == n+1 && slices.Equal(a[:n-1], b[:n-1]) && a[n-1]*a[n] == b[n-1]
}

// leadingOnes counts the leading axes of size 1 that are not the last.
func leadingOnes(s []int) int { return len(s) - len(dropOnes(s)) }

// longer prefers the shape that keeps a token axis: [1, D] over [D].
func longer(ref, port, dropped []int) []int {
	for _, s := range [][]int{ref, port} {
		if len(s) == 2 && len(dropped) < 2 {
			return s
		}
	}
	return dropped
}

// dropOnes removes leading axes of size 1, but never the last axis.
func dropOnes(s []int) []int {
	for len(s) > 1 && s[0] == 1 {
		s = s[1:]
	}
	return s
}

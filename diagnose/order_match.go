package diagnose

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

const (
	// matchSample is the number of values that stand for a long row or column
	// while partners are sought; the match is then checked on all of them.
	matchSample = 96
	// maxMatch bounds the items that are matched one by one.
	maxMatch = 8192
	// maxAssign bounds the items of a full assignment, which is cubic.
	maxAssign = 512
)

// sameMultiset tells whether the norms of the items (rows, or columns) agree as
// a multiset within tol: a permutation cannot change them, and few other faults
// keep them.
func sameMultiset(ref, port *Tensor, rows bool, tol float64) bool {
	a, b := itemNorms(ref, rows), itemNorms(port, rows)
	slices.Sort(a)
	slices.Sort(b)
	var d2, a2 float64
	for i, v := range a {
		d2 += (b[i] - v) * (b[i] - v)
		a2 += v * v
	}
	return a2 > 0 && math.Sqrt(d2/a2) <= tol
}

func itemNorms(t *Tensor, rows bool) []float64 {
	if rows {
		out := make([]float64, t.Rows)
		for i := range out {
			out[i] = math.Sqrt(dot(t.Row(i), t.Row(i)))
		}
		return out
	}
	out := make([]float64, t.Cols)
	for i := range t.Rows {
		for d, v := range t.Row(i) {
			out[d] += v * v
		}
	}
	for d := range out {
		out[d] = math.Sqrt(out[d])
	}
	return out
}

// matchItems finds, for each item (row or column) of port, the item of ref that
// it is: port_i = ref_perm[i]. It compares unit vectors over sampled values; ok
// is false where the result is no bijection. Items that are equal in ref are
// told apart by an assignment of least cost.
func matchItems(ref, port *Tensor, rows bool) (perm []int, ok bool) {
	n := ref.Cols
	if rows {
		n = ref.Rows
	}
	if n < 2 || n > maxMatch {
		return nil, false
	}
	a, b := itemMatrix(ref, rows), itemMatrix(port, rows)
	perm = make([]int, n)
	taken := make([]bool, n)
	bijective := true
	const strip = 512
	var c mat.Dense
	for lo := 0; lo < n; lo += strip {
		hi := min(lo+strip, n)
		_, k := b.Dims()
		c.Reset()
		c.Mul(b.Slice(lo, hi, 0, k), a.T())
		for i := lo; i < hi; i++ {
			row := c.RawRowView(i - lo)
			best := i // a tie stays where it is
			for j, v := range row {
				if v > row[best]+1e-12 {
					best = j
				}
			}
			perm[i] = best
			bijective = bijective && !taken[best]
			taken[best] = true
		}
	}
	if bijective {
		return perm, true
	}
	if n > maxAssign {
		return nil, false
	}
	c.Reset()
	c.Mul(b, a.T())
	cost := make([][]float64, n)
	for i := range cost {
		cost[i] = make([]float64, n)
		for j := range cost[i] {
			cost[i][j] = 1 - c.At(i, j)
		}
		cost[i][i] -= 1e-9
	}
	return assign(cost), true
}

// itemMatrix lays sampled values of each item out as a unit row.
func itemMatrix(t *Tensor, rows bool) *mat.Dense {
	n, m := t.Cols, t.Rows
	if rows {
		n, m = m, n
	}
	k := min(m, matchSample)
	out := mat.NewDense(n, k, nil)
	for i := range n {
		row := out.RawRowView(i)
		var s float64
		for j := range k {
			at := j * m / k
			if rows {
				row[j] = t.Data[i*t.Cols+at]
			} else {
				row[j] = t.Data[at*t.Cols+i]
			}
			s += row[j] * row[j]
		}
		if s > 0 {
			s = 1 / math.Sqrt(s)
			for j := range row {
				row[j] *= s
			}
		}
	}
	return out
}

// inverse returns q with q[p[i]] = i.
func inverse(p []int) []int {
	q := make([]int, len(p))
	for i, v := range p {
		q[v] = i
	}
	return q
}

// isIdentity tells whether nothing moves.
func isIdentity(p []int) bool {
	for i, v := range p {
		if i != v {
			return false
		}
	}
	return true
}

// compressed writes a permutation as blocks of equal size that move whole, and
// the shortest stretch whose order repeats along the axis.
func compressed(p []int) (order []int, block int) {
	n := len(p)
	block = 1
	for b := n / 2; b > 1; b-- {
		if n%b == 0 && movesWhole(p, b) {
			block = b
			break
		}
	}
	for i := 0; i < n; i += block {
		order = append(order, p[i]/block)
	}
	for s := 1; s < len(order); s++ {
		if len(order)%s == 0 && repeats(order, s) {
			return order[:s], block
		}
	}
	return order, block
}

func movesWhole(p []int, b int) bool {
	for i, v := range p {
		if i%b == 0 {
			if v%b != 0 {
				return false
			}
		} else if v != p[i-1]+1 {
			return false
		}
	}
	return true
}

func repeats(order []int, s int) bool {
	for i, v := range order {
		if v != order[i%s]+i-i%s {
			return false
		}
	}
	return true
}

// runCount is the number of stretches that stay together.
func runCount(p []int) int {
	n := 1
	for i := 1; i < len(p); i++ {
		if p[i] != p[i-1]+1 {
			n++
		}
	}
	return n
}

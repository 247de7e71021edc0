package diagnose

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// errSingular is returned where a system has no unique least-squares solution.
var errSingular = errors.New("columns are linearly dependent")

// rankTolerance is the ratio to the largest singular value below which a
// direction counts as absent: the data are at best float32.
const rankTolerance = 1e-7

// leastSquares returns X [n, k] that minimises ‖A·X - B‖ for A [m, n] and
// B [m, k], by singular values so that a nearly dependent column is an error
// and not a huge coefficient. Columns of A are scaled to unit length first: the
// parts of a residual stream differ by orders of magnitude.
func leastSquares(a, b *mat.Dense) (*mat.Dense, error) {
	m, n := a.Dims()
	if m < n {
		return nil, errSingular
	}
	scaled := mat.DenseCopyOf(a)
	length := make([]float64, n)
	for j := range n {
		length[j] = mat.Norm(a.ColView(j), 2)
		if length[j] == 0 || math.IsNaN(length[j]) || math.IsInf(length[j], 0) {
			return nil, errSingular
		}
		for i := range m {
			scaled.Set(i, j, a.At(i, j)/length[j])
		}
	}
	var svd mat.SVD
	if !svd.Factorize(scaled, mat.SVDThin) {
		return nil, errSingular
	}
	if svd.Rank(rankTolerance) < n {
		return nil, errSingular
	}
	var x mat.Dense
	svd.SolveTo(&x, b, n)
	_, k := b.Dims()
	for j := range n {
		for i := range k {
			x.Set(j, i, x.At(j, i)/length[j])
		}
	}
	return &x, nil
}

// combine returns the coefficients c that minimise ‖Σ c_i·parts_i - y‖, with
// each row (token) given the weight w_t, so that one massive token does not
// decide alone. Params len(parts).
func combine(y []float64, parts [][]float64, rows int, w []float64) ([]float64, error) {
	n, cols := len(parts), 0
	if rows > 0 {
		cols = len(y) / rows
	}
	gram := mat.NewSymDense(n, nil)
	rhs := mat.NewVecDense(n, nil)
	for t := range rows {
		lo, hi, w2 := t*cols, (t+1)*cols, w[t]*w[t]
		for i := range n {
			rhs.SetVec(i, rhs.AtVec(i)+w2*dot(parts[i][lo:hi], y[lo:hi]))
			for j := i; j < n; j++ {
				gram.SetSym(i, j, gram.At(i, j)+w2*dot(parts[i][lo:hi], parts[j][lo:hi]))
			}
		}
	}
	// Normal equations of a handful of parts: scaled to a unit diagonal, their
	// condition is the square of the correlation's, which is checked.
	d := make([]float64, n)
	for i := range n {
		d[i] = math.Sqrt(gram.At(i, i))
		if d[i] == 0 || math.IsNaN(d[i]) || math.IsInf(d[i], 0) {
			return nil, errSingular
		}
	}
	for i := range n {
		rhs.SetVec(i, rhs.AtVec(i)/d[i])
		for j := i; j < n; j++ {
			gram.SetSym(i, j, gram.At(i, j)/(d[i]*d[j]))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(gram) || chol.Cond() > 1e10 {
		return nil, errSingular
	}
	var x mat.VecDense
	if err := chol.SolveVecTo(&x, rhs); err != nil {
		return nil, errSingular
	}
	c := make([]float64, n)
	for i := range n {
		c[i] = x.AtVec(i) / d[i]
	}
	return c, nil
}

// affine fits y = a + b·x by least squares and returns the residual relative to
// the spread of y (0 where y is constant and met exactly).
func affine(x, y []float64) (a, b, resid float64) {
	n := float64(len(x))
	var mx, my float64
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	var sxx, sxy, syy float64
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
		syy += (y[i] - my) * (y[i] - my)
	}
	if sxx == 0 {
		return my, 0, 0
	}
	b = sxy / sxx
	a = my - b*mx
	if syy == 0 {
		return a, b, 0
	}
	var rss float64
	for i := range x {
		e := y[i] - a - b*x[i]
		rss += e * e
	}
	return a, b, math.Sqrt(rss / syy)
}

// assign solves the square assignment problem: to each row of cost [n][n] its
// own column, with the least total cost (Jonker-Volgenant shortest augmenting
// paths, O(n³); R. Jonker and A. Volgenant, Computing 38, 1987). match[i] is
// the column of row i. Costs must be finite.
func assign(cost [][]float64) (match []int) {
	n := len(cost)
	u, v := make([]float64, n+1), make([]float64, n+1)
	owner, way := make([]int, n+1), make([]int, n+1) // owner[j]: row of column j, 1-based
	for i := 1; i <= n; i++ {
		owner[0] = i
		j0 := 0
		least := make([]float64, n+1)
		used := make([]bool, n+1)
		for j := range least {
			least[j] = math.Inf(1)
		}
		for owner[j0] != 0 {
			used[j0] = true
			i0, delta, j1 := owner[j0], math.Inf(1), 0
			for j := 1; j <= n; j++ {
				if used[j] {
					continue
				}
				if cur := cost[i0-1][j-1] - u[i0] - v[j]; cur < least[j] {
					least[j], way[j] = cur, j0
				}
				if least[j] < delta {
					delta, j1 = least[j], j
				}
			}
			for j := range used {
				if used[j] {
					u[owner[j]] += delta
					v[j] -= delta
				} else {
					least[j] -= delta
				}
			}
			j0 = j1
		}
		for j0 != 0 {
			j1 := way[j0]
			owner[j0] = owner[j1]
			j0 = j1
		}
	}
	match = make([]int, n)
	for j := 1; j <= n; j++ {
		match[owner[j]-1] = j - 1
	}
	return match
}

// dot is Σ x·y. Lengths must agree.
func dot(x, y []float64) float64 {
	var s float64
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
	"gonum.org/v1/gonum/mat"
)

// groupScales: each block of the weight has a factor of its own, and the factors
// are those of one block over another's: scales read in another order. What each
// group of inputs adds to an output is estimated with the least weight that
// explains the reference, so the factors are estimates, and only their pattern
// over hundreds of outputs speaks.
func groupScales(c *Context, ref, port *Tensor) (compare.Finding, bool) {
	x, in, ok := c.linearInput()
	whole := distance(ref, port)
	if !ok || x.Rows < 4*minTokens || whole.Token > 1 {
		return compare.Finding{}, false
	}
	if medianRowError(ref, port) < 0.01*whole.Token {
		return compare.Finding{}, false // a few tokens only: no weight does that
	}
	x, _ = sampled(x, x)
	ref, port = sampled(ref, port)
	stride := outputStride(ref.Cols)
	outs := permOf(ref.Cols/stride, func(i int) int { return i * stride })
	square := ref.Cols == x.Cols
	ref, port = ref.takeCols(outs), port.takeCols(outs)
	w := leastWeight(x, ref)
	if w == nil {
		return compare.Finding{}, false
	}
	type layout struct {
		name, fix string
		z         float64
		group     int
	}
	best := layout{}
	for _, group := range []int{32, 64, 128, 16} {
		g := x.Cols / group
		if x.Cols%group != 0 || g < 2 || g > 32 {
			continue
		}
		ratio := blockFactors(x, ref, port, w, group)
		if z := antisymmetry(ratio, func(o, k int) (int, int) { return o, g - 1 - k }); z > best.z {
			best = layout{"the scales of each row are read in reverse order of the groups", "read the scales in the order of the groups", z, group}
		}
		if square && group >= stride {
			rows := blockMean(ratio, group/stride)
			if z := antisymmetry(rows, func(o, k int) (int, int) { return k, o }); z > best.z {
				best = layout{"the scales of square blocks are transposed", "transpose the scales with the weight, or neither", z, group}
			}
		}
	}
	if best.z < 8 {
		return compare.Finding{}, false
	}
	f := c.signature("quant.scale_layout", trial{before: whole, after: whole, floor: c.localFloor(c.At), values: len(ref.Data)})
	sides(&f, "each block's own scale", best.name)
	f.Values["group"], f.Values["z"] = best.group, compare.Num(best.z)
	f.Claim = fmt.Sprintf("blocks of %d inputs of the port's %s carry factors that undo each other pairwise: %s", best.group, c.At, best.name)
	f.For = append(f.For, fmt.Sprintf("factors of the blocks, estimated from %s, are each other's reciprocals under that order, %s standard errors from chance", in, g3(best.z)))
	f.Against = append(f.Against, "the factors are estimates; dump the dequantised weight to divide it block by block")
	f.Verify = "divide the dequantised weights of both sides block by block and compare with the stored scales"
	f.Fix = best.fix
	return f, true
}

// outputStride thins the outputs to a few hundred, by a power of two so that
// blocks stay blocks.
func outputStride(cols int) int {
	s := 1
	for cols/s > 512 {
		s *= 2
	}
	return s
}

// leastWeight is the weight [in, out] of least size with x·W = y.
func leastWeight(x, y *Tensor) *mat.Dense {
	a := mat.NewDense(x.Rows, x.Cols, x.Data)
	var g mat.Dense
	g.Mul(a, a.T())
	s, err := leastSquares(&g, mat.NewDense(y.Rows, y.Cols, y.Data))
	if err != nil {
		return nil
	}
	var w mat.Dense
	w.Mul(a.T(), s)
	return &w
}

// blockFactors estimates, per output and group of inputs, the factor minus one
// by which the group's share of the output is multiplied in port: port - ref
// regressed on the shares, per output.
func blockFactors(x, ref, port *Tensor, w *mat.Dense, group int) [][]float64 {
	g := x.Cols / group
	shares := make([]*mat.Dense, g)
	all := mat.NewDense(x.Rows, x.Cols, x.Data)
	for k := range g {
		var s mat.Dense
		s.Mul(all.Slice(0, x.Rows, k*group, (k+1)*group), w.Slice(k*group, (k+1)*group, 0, ref.Cols))
		shares[k] = &s
	}
	out := make([][]float64, ref.Cols)
	for o := range out {
		a, d := mat.NewDense(x.Rows, g, nil), mat.NewDense(x.Rows, 1, nil)
		for t := range x.Rows {
			for k := range g {
				a.Set(t, k, shares[k].At(t, o))
			}
			d.Set(t, 0, port.Row(t)[o]-ref.Row(t)[o])
		}
		out[o] = make([]float64, g)
		if coef, err := leastSquares(a, d); err == nil {
			for k := range g {
				out[o][k] = coef.At(k, 0)
			}
		}
	}
	return out
}

// blockMean averages the factors over blocks of outputs.
func blockMean(f [][]float64, group int) [][]float64 {
	var out [][]float64
	for o := 0; o+group <= len(f); o += group {
		mean := make([]float64, len(f[o]))
		for _, row := range f[o : o+group] {
			for k, v := range row {
				mean[k] += v / float64(group)
			}
		}
		out = append(out, mean)
	}
	return out
}

// antisymmetry is how many standard errors the factors' correlation with minus
// their partners' lies from zero. A pair is counted once, and what is its own
// partner not at all.
func antisymmetry(f [][]float64, partner func(o, k int) (int, int)) float64 {
	var xy, xx, yy float64
	n := 0
	for o := range f {
		for k, v := range f[o] {
			po, pk := partner(o, k)
			if po < o || po == o && pk <= k || po >= len(f) || pk >= len(f[po]) {
				continue
			}
			u := f[po][pk]
			xy, xx, yy = xy-v*u, xx+v*v, yy+u*u
			n++
		}
	}
	if n < 3 || xx == 0 || yy == 0 {
		return 0
	}
	r := xy / math.Sqrt(xx*yy)
	return r / math.Sqrt(max(1e-6, 1-r*r)) * math.Sqrt(float64(n-1))
}

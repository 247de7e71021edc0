package compare

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/dump"
)

// A pure scale or offset is not what rounding does, however small it is.
const (
	// pureRatio is how many times larger than the residual left after the fit
	// a scale or offset must be.
	pureRatio = 10
	// pureMin is the smallest deviation that counts.
	pureMin = 1e-4
)

// scaleFit holds medians over tokens, since one massive number would decide for
// the whole tensor; all are NaN where no token has a norm on both sides.
type scaleFit struct {
	// deviation is |scale-1|, residual what is left after the best scale,
	// √(1-cos²).
	deviation, residual, scale float64
}

// pure tells whether the scale stands out of what is left after it.
func (f scaleFit) pure() bool { return f.deviation > pureRatio*f.residual && f.deviation > pureMin }

// scaleRule: the port is the reference times a constant.
func scaleRule(_ *part, p *Pair) (string, bool) {
	f := p.tokensOf().scale
	return fmt.Sprintf("a pure scale: port is %.6g x reference, residual %.2g after the fit; rounding does not do that", f.scale, f.residual), f.pure()
}

// biasFit is what a sample of rows says of a constant offset per dim.
type biasFit struct {
	rows int
	// share is √(n·Σmean²)/√Σa², residual √Σ(d-mean)²/√Σa², with d = port-ref
	// and mean over the sampled rows.
	share, residual float64
}

// offsetRule: the port is the reference plus the same vector for every token.
func offsetRule(_ *part, p *Pair) (string, bool) {
	b := p.bias
	bad := b.rows >= 4 && b.share > pureRatio*b.residual && b.share > pureMin
	return fmt.Sprintf("a constant offset per dim: %.2g of the reference's norm, residual %.2g over %d tokens", b.share, b.residual, b.rows), bad
}

// biasRows is how many rows the offset is looked for in; an offset is in all of
// them.
const biasRows = 64

// fitBias samples rows and fits a constant offset. Rows far larger than the
// median row are left out: an offset is lost in them.
func (p *Pair) fitBias() (fit biasFit, err error) {
	if p.Geo.Rows < 4 || p.Geo.Cols == 0 || p.Geo.Grouped || p.Kind == dump.KindInput {
		return fit, nil
	}
	norms := make([]float64, len(p.sums.Row))
	for i, m := range p.sums.Row {
		norms[i] = math.Sqrt(m.A2)
	}
	limit := 20 * median(norms)
	var rows []int
	step := max(1, p.Geo.Rows/biasRows)
	for r := 0; r < p.Geo.Rows && len(rows) < biasRows; r += step {
		if p.sums.RowNonFinite == nil || p.sums.RowNonFinite[r] == 0 {
			if norms[r] <= limit {
				rows = append(rows, r)
			}
		}
	}
	if len(rows) < 4 {
		return fit, nil
	}
	mean, d2, a2 := make([]float64, p.Geo.Cols), 0.0, 0.0
	err = p.eachRow(func(_ int, x, y []float64) {
		for i, v := range x {
			d := y[i] - v
			mean[i] += d
			d2 += sq(d)
			a2 += sq(v)
		}
	}, rows...)
	if err != nil {
		return fit, err
	}
	n, m2 := float64(len(rows)), 0.0
	for _, m := range mean {
		m2 += m * m / n // n·(m/n)²
	}
	return biasFit{rows: len(rows), share: math.Sqrt(m2 / a2), residual: math.Sqrt(math.Max(0, d2-m2) / a2)}, nil
}

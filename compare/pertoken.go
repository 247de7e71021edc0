package compare

import (
	"math"

	"github.com/layerparity/parity/compare/internal/kernel"
)

// perToken is what several rules, guards and the report ask of the tokens of a
// pair; it is worked out once for each set of sums.
type perToken struct {
	of *kernel.Sums
	// moments are the sums of each token.
	moments []kernel.Moments
	// medianCos is the median over tokens of the cosine: 1 minus the median of
	// 1-cos, so that NaN cannot hide.
	medianCos float64
	// scale is the fit of a constant multiplier.
	scale scaleFit
}

// tokensOf returns the figures per token of a pair that has sums.
func (p *Pair) tokensOf() *perToken {
	if t := p.tokens; t != nil && t.of == p.sums {
		return t
	}
	ms := tokenMoments(p.sums, p.Geo)
	omc := make([]float64, len(ms))
	devs, res, scales := make([]float64, 0, len(ms)), make([]float64, 0, len(ms)), make([]float64, 0, len(ms))
	for i := range ms {
		m := &ms[i]
		c := m.OneMinusCos()
		omc[i] = c
		if m.N > 0 && m.A2 > 0 && m.B2 > 0 {
			s := m.Scale()
			devs, res, scales = append(devs, math.Abs(s-1)), append(res, math.Sqrt(math.Max(0, c*(2-c)))), append(scales, s)
		}
	}
	p.tokens = &perToken{
		of: p.sums, moments: ms, medianCos: 1 - middle(omc),
		scale: scaleFit{deviation: medianOf(devs), residual: medianOf(res), scale: medianOf(scales)},
	}
	return p.tokens
}

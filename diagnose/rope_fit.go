package diagnose

import (
	"math"
	"math/cmplx"
)

// pairFit is the rotation of one pair as a line: phase = at + w·position.
type pairFit struct {
	w, at float64
	// sigma is the standard error of w, spread the r.m.s. phase left.
	sigma, spread float64
	ok            bool
}

// fitPair fits pair i. Neighbouring rows give w within (-π, π) without
// ambiguity, then lags of 2, 4, 8, ... sharpen it, and a weighted least-squares
// line over the unwrapped phases gives the digits. Rows whose positions are not
// consecutive (another request, an image) only take part in the last step.
func (m *turns) fitPair(i int) pairFit {
	pos := m.pos[0]
	w, ok := 0.0, false
	for lag := 1; lag < m.rows; lag *= 2 {
		var s complex128
		var size float64
		for t := 0; t+lag < m.rows; t++ {
			if pos[t+lag]-pos[t] != float64(lag) {
				continue
			}
			z := m.c[(t+lag)*m.n+i] * cmplx.Conj(m.c[t*m.n+i])
			s += z
			size += cmplx.Abs(z)
		}
		// Where the steps do not agree on a direction a longer lag would be a
		// guess.
		if size == 0 || cmplx.Abs(s) < 0.5*size {
			break
		}
		if lag == 1 {
			w, ok = cmplx.Phase(s), true
			continue
		}
		w += wrap(cmplx.Phase(s)-float64(lag)*w) / float64(lag)
	}
	if !ok {
		return pairFit{}
	}
	f := pairFit{w: w, ok: true}
	for range 3 {
		if !m.refine(i, &f) {
			return pairFit{}
		}
	}
	return f
}

// refine takes one weighted least-squares step on w and the intercept.
func (m *turns) refine(i int, f *pairFit) bool {
	pos := m.pos[0]
	var centre complex128
	for t := 0; t < m.rows; t++ {
		centre += m.c[t*m.n+i] * cmplx.Exp(complex(0, -f.w*pos[t]))
	}
	base := cmplx.Phase(centre)
	var sw, sp, sd, spp, spd, sdd, n float64
	for t := 0; t < m.rows; t++ {
		z := m.c[t*m.n+i]
		wt := cmplx.Abs(z)
		if wt == 0 {
			continue
		}
		d := wrap(cmplx.Phase(z) - f.w*pos[t] - base)
		sw += wt
		sp += wt * pos[t]
		sd += wt * d
		spp += wt * pos[t] * pos[t]
		spd += wt * pos[t] * d
		sdd += wt * d * d
		n++
	}
	if sw == 0 || n < 3 {
		return false
	}
	varP := spp/sw - (sp/sw)*(sp/sw)
	if varP <= 0 {
		return false
	}
	cov := spd/sw - (sp/sw)*(sd/sw)
	step := cov / varP
	f.w += step
	f.at = wrap(base + sd/sw - step*sp/sw)
	left := math.Max(0, sdd/sw-(sd/sw)*(sd/sw)-step*cov)
	f.spread = math.Sqrt(left)
	// Never below what float32 tensors can tell.
	f.sigma = math.Max(f.spread, 1e-8) / math.Sqrt(n*varP)
	return true
}

// wrap brings an angle into (-π, π].
func wrap(a float64) float64 {
	return a - 2*math.Pi*math.Round(a/(2*math.Pi))
}

// fitPairs fits every pair; ok is false where any pair has no line.
func (m *turns) fitPairs() (fits []pairFit, ok bool) {
	fits, ok = make([]pairFit, m.n), true
	for i := range fits {
		fits[i] = m.fitPair(i)
		if !fits[i].ok {
			ok = false
		}
	}
	return fits, ok
}

// commonOffset is the position offset that explains the intercepts,
// at_i = w_i·offset, by least squares starting at the slowest pairs, whose
// intercepts do not wrap.
func commonOffset(fits []pairFit) float64 {
	var num, den, off float64
	for i := len(fits) - 1; i >= 0; i-- {
		f := fits[i]
		if f.w == 0 {
			continue
		}
		wt := 1 / (f.spread*f.spread + 1e-14)
		num += wt * f.w * (f.w*off + wrap(f.at-f.w*off))
		den += wt * f.w * f.w
		if den > 0 {
			off = num / den
		}
	}
	return off
}

// lawFit is theta^(-2i/den)/factor fitted to frequencies in the logarithm.
type lawFit struct {
	theta, factor float64
	ok            bool
}

// fitLaw fits pairs from..to (exclusive). With free the factor is fitted too,
// else it is 1.
func fitLaw(fits []pairFit, from, to, den int, free bool) lawFit {
	var sw, sx, sy, sxx, sxy float64
	for i := from; i < to; i++ {
		f := fits[i]
		if !f.ok || !(f.w > 5*f.sigma) {
			continue
		}
		x, y := 2*float64(i)/float64(den), math.Log(f.w)
		wt := (f.w / f.sigma) * (f.w / f.sigma)
		sw += wt
		sx += wt * x
		sy += wt * y
		sxx += wt * x * x
		sxy += wt * x * y
	}
	if free {
		v := sxx - sx*sx/sw
		if sw == 0 || !(v > 1e-9*sw) {
			return lawFit{}
		}
		slope := (sxy - sx*sy/sw) / v
		return lawFit{theta: math.Exp(-slope), factor: math.Exp(-(sy - slope*sx) / sw), ok: true}
	}
	if sxx == 0 {
		return lawFit{}
	}
	return lawFit{theta: math.Exp(-sxy / sxx), factor: 1, ok: true}
}

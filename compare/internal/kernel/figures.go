package kernel

import "math"

// The figures follow docs/metrics.md. None has an epsilon in a denominator and none
// hides a NaN; the special cases are decided by the maxima, not by sums that may
// have underflowed:
//
//	N == 0 (nothing finite to compare)   every figure is NaN
//	both sides all zero                  equal: cos 1, 1-cos 0, rel 0, ratio 1
//	exactly one side all zero            cos 0, 1-cos 1; the rest by its own comment

// zeros tells which sides have a sum of squares of zero.
func zeros(a2, b2 float64) (both, one bool) {
	return a2 == 0 && b2 == 0, (a2 == 0) != (b2 == 0)
}

// oneMinusCos is max(0, (d2 - dn²) / (2·na·nb)) with na = √a2, nb = √b2 and
// dn = (a2-b2)/(na+nb), which keeps its precision down to one changed bit; where
// the cosine is below 0.5 it is 1 - dot/(na·nb). For two zero vectors 0, for one
// zero vector 1.
func oneMinusCos(dot, a2, b2, d2 float64) float64 {
	if both, one := zeros(a2, b2); both {
		return 0
	} else if one {
		return 1
	}
	na, nb := math.Sqrt(a2), math.Sqrt(b2)
	n := na * nb
	if c := dot / n; c < 0.5 {
		return 1 - c
	}
	dn := (a2 - b2) / (na + nb)
	r := (d2 - float64(dn*dn)) / (2 * n)
	if r < 0 {
		return 0
	}
	return r
}

// relL2 is √d2/√a2: 0 if both sides are zero, +Inf if only the reference is.
func relL2(a2, b2, d2 float64) float64 {
	if both, _ := zeros(a2, b2); both {
		return 0
	}
	return math.Sqrt(d2) / math.Sqrt(a2)
}

// normRatio is √b2/√a2: 1 if both sides are zero, +Inf if only the reference is.
func normRatio(a2, b2 float64) float64 {
	if both, _ := zeros(a2, b2); both {
		return 1
	}
	return math.Sqrt(b2) / math.Sqrt(a2)
}

// snr is 10·log10(a2/d2) in dB: +Inf if d2 is 0 (two zero vectors included),
// -Inf if only the reference is zero.
func snr(a2, d2 float64) float64 {
	if d2 == 0 {
		return math.Inf(1)
	}
	return 10 * math.Log10(a2/d2)
}

// OneMinusCos returns 1 - cosine, accurate down to a single changed bit (see
// oneMinusCos): 0 for two zero vectors, 1 if exactly one is zero, NaN if N is 0.
func (m Moments) OneMinusCos() float64 {
	if m.N == 0 {
		return math.NaN()
	}
	return oneMinusCos(m.Dot, m.A2, m.B2, m.D2)
}

// Cos returns the cosine, 1 - OneMinusCos.
func (m Moments) Cos() float64 { return 1 - m.OneMinusCos() }

// RelL2 returns √Σ(a-b)² / √Σa²: 0 for two zero vectors, +Inf if only the
// reference is zero, 1 if only the port is, NaN if N is 0.
func (m Moments) RelL2() float64 {
	if m.N == 0 {
		return math.NaN()
	}
	return relL2(m.A2, m.B2, m.D2)
}

// MaxRel returns max|a-b| / max|a|: 0 for two zero vectors, +Inf if only the
// reference is zero, NaN if N is 0.
func (m Moments) MaxRel() float64 {
	switch {
	case m.N == 0:
		return math.NaN()
	case m.Max == 0:
		return 0
	}
	return m.Max / m.MaxA
}

// NormRatio returns √Σb² / √Σa²: 1 for two zero vectors, +Inf if only the
// reference is zero, NaN if N is 0.
func (m Moments) NormRatio() float64 {
	if m.N == 0 {
		return math.NaN()
	}
	return normRatio(m.A2, m.B2)
}

// Scale returns Σab / Σa², the factor s that minimises Σ(b - s·a)²: 1 for two
// zero vectors, NaN if only the reference is zero or N is 0.
func (m Moments) Scale() float64 {
	if m.N == 0 {
		return math.NaN()
	}
	return scale(m.Dot, m.A2, m.B2)
}

func scale(dot, a2, b2 float64) float64 {
	if both, _ := zeros(a2, b2); both {
		return 1
	}
	return dot / a2
}

// MeanDiff returns Σ|a-b| / N, NaN if N is 0.
func (m Moments) MeanDiff() float64 { return m.S1 / float64(m.N) }

// SNR returns 10·log10(Σa² / Σ(a-b)²) in dB: +Inf where nothing differs, -Inf
// if only the reference is zero, NaN if N is 0.
func (m Moments) SNR() float64 {
	if m.N == 0 {
		return math.NaN()
	}
	return snr(m.A2, m.D2)
}

// Dot returns Σab = (A2+B2-D2)/2, to the precision of the larger of A2 and B2.
func (c ColMoments) Dot() float64 { return (c.A2 + c.B2 - c.D2) / 2 }

// OneMinusCos is Moments.OneMinusCos for a column; a column without a finite
// position reads as two zero vectors.
func (c ColMoments) OneMinusCos() float64 { return oneMinusCos(c.Dot(), c.A2, c.B2, c.D2) }

// Cos returns the cosine, 1 - OneMinusCos.
func (c ColMoments) Cos() float64 { return 1 - c.OneMinusCos() }

// RelL2 is Moments.RelL2 for a column.
func (c ColMoments) RelL2() float64 { return relL2(c.A2, c.B2, c.D2) }

// NormRatio is Moments.NormRatio for a column.
func (c ColMoments) NormRatio() float64 { return normRatio(c.A2, c.B2) }

// Scale is Moments.Scale for a column.
func (c ColMoments) Scale() float64 { return scale(c.Dot(), c.A2, c.B2) }

// SNR is Moments.SNR for a column.
func (c ColMoments) SNR() float64 { return snr(c.A2, c.D2) }

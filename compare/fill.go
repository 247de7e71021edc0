package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
)

// worstListed is how many of the worst tokens and dims a report lists.
const worstListed = 5

// figures derives the whole-tensor figures from the sums.
func figures(p *Pair) *Figures {
	m := p.sums.Whole
	f := &Figures{
		Cos: Num(m.Cos()), OneMinusCos: Num(m.OneMinusCos()), RelL2: Num(m.RelL2()),
		MaxDiff: Num(m.Max), MaxRel: Num(m.MaxRel()), NormRatio: Num(m.NormRatio()), Scale: Num(m.Scale()),
		MeanDiff: Num(m.MeanDiff()), SNR: Num(m.SNR()),
		NormRef: Num(math.Ldexp(math.Sqrt(m.A2), m.Exp)), NormPort: Num(math.Ldexp(math.Sqrt(m.B2), m.Exp)),
		MaxAt: p.Geo.index(m.MaxAt),
	}
	if m.N == 0 {
		f.MaxDiff, f.MaxAt = Num(math.NaN()), []int{}
	}
	return f
}

// medianCos is the cosine of the median token: the upper median of 1-cos, so
// that NaN cannot hide.
func medianCos(p *Pair) float64 {
	return 1 - median(tokenOneMinusCos(p))
}

// tokenOneMinusCos lists 1-cos of every token.
func tokenOneMinusCos(p *Pair) []float64 {
	ms := tokenMoments(p.sums, p.Geo)
	out := make([]float64, len(ms))
	for i, m := range ms {
		out[i] = m.OneMinusCos()
	}
	return out
}

// fill turns a judged pair into the report's checkpoint.
func (p *Pair) fill(entry *Pair) error {
	c := p.Out
	c.Tokens, c.Dims = p.Geo.Tokens, p.Geo.Cols
	switch {
	case p.err != nil:
		c.Status, c.Reason = Unreadable, p.err.Error()
		return nil
	case p.problem != "":
		c.Status, c.Reason = Incomparable, p.problem
		return nil
	case p.aside != "":
		c.Status, c.Reason = Noted, p.aside
		return nil
	}
	if p.sums != nil {
		if err := p.fillFigures(); err != nil {
			c.Status, c.Reason = Unreadable, err.Error()
			return err
		}
	} else if c.Ints != nil {
		c.Tokens, c.Dims = int(p.Ref.Record.Header.Len()), 1
	}
	c.Status, c.Reason = p.status(entry)
	return nil
}

// status words the pair's state.
func (p *Pair) status(entry *Pair) (Status, string) {
	s := p.state
	equal := (p.Out.Ints != nil && p.Out.Ints.Equal) ||
		(p.sums != nil && p.sums.Whole.D2 == 0 && p.sums.Whole.Max == 0 && p.sums.NonFinite.Mismatched == 0)
	switch {
	case equal && !s.bad:
		return Equal, ""
	case !s.bad && p.Out.Ints != nil:
		return Noted, "differs only in ties"
	case !s.bad:
		return Agrees, ""
	case s.benign:
		return Noted, s.reason + "; everything computed from it agrees: a difference of layout or capture"
	case p == entry:
		return Enters, s.reason
	case p.enters():
		return Fails, s.reason
	case p.accumulated():
		return Inherited, s.reason + fmt.Sprintf("; gain %.1f: accumulated, no single place", s.gain)
	}
	return Inherited, s.reason
}

// fillFigures derives everything the report prints from the sums.
func (p *Pair) fillFigures() (err error) {
	c := p.Out
	c.Figures = figures(p)
	if at := p.sums.Whole.MaxAt; at >= 0 {
		var x, y float64
		if x, err = valueAt(p.Ref, at+int64(p.Ref.Row0*p.Geo.Cols)); err != nil {
			return err
		}
		if y, err = valueAt(p.Port, at+int64(p.Port.Row0*p.Geo.Cols)); err != nil {
			return err
		}
		c.MaxRef, c.MaxPort = Num(x), Num(y)
	}
	e, w, f := Num(p.state.e), Num(p.state.worst), Num(p.floor())
	c.Error, c.WorstError, c.Floor, c.FloorOf = &e, &w, &f, p.precision.String()
	if p.inferred {
		c.FloorOf += " (read off the run: no manifest)"
	}
	if !math.IsNaN(p.state.gain) {
		g := Num(p.state.gain)
		c.Gain = &g
	}
	if p.inc != nil {
		i := Num(median(p.inc))
		c.IncrementError = &i
	}
	p.fillTokens()
	p.fillDims()
	p.fillNonFinite()
	if c.Dominant, err = p.dominant(); err != nil {
		return err
	}
	if p.precision == dump.TF32 && !p.inferred && p.state.e > floors[dump.Float32].e && p.state.e <= floors[dump.TF32].e && p.Kind != dump.KindEmbedding {
		c.Notes = append(c.Notes, fmt.Sprintf("%.0e: more than float32 rounding, the size of reduced-precision products; --floor float32 holds it to that", p.state.e))
	}
	if c.Logits != nil && c.Logits.Note != "" {
		c.Notes = append(c.Notes, c.Logits.Note)
	}
	return nil
}

// fillTokens lists the figures of all tokens, the median and the worst.
func (p *Pair) fillTokens() {
	ms := tokenMoments(p.sums, p.Geo)
	all := make([]TokenFigures, len(ms))
	for r, m := range ms {
		t, b := r, (*int)(nil)
		if !p.Geo.Grouped {
			t, b = p.Geo.token(r)
		}
		all[r] = TokenFigures{Token: t, Batch: b, Cos: Num(m.Cos()), OneMinusCos: Num(m.OneMinusCos()), RelL2: Num(p.rel[r]),
			Error: Num(energy(p.rel[r])), MaxDiff: Num(m.Max), NormRatio: Num(m.NormRatio()), Scale: Num(m.Scale())}
	}
	p.Out.PerToken = all
	if len(all) == 0 {
		return
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b TokenFigures) int { return compareNaNLast(float64(b.RelL2), float64(a.RelL2)) })
	p.Out.MedianToken = &sorted[len(sorted)-1-int(0.5*float64(len(sorted)-1))]
	if sorted[0].RelL2 != 0 {
		p.Out.WorstTokens = slices.Clone(sorted[:min(worstListed, len(sorted))])
	}
}

// fillDims lists the figures of all dims and the worst, by their share of the
// error.
func (p *Pair) fillDims() {
	type dim struct {
		DimFigures
		d2 float64
	}
	all := make([]dim, len(p.sums.Col))
	p.Out.PerDim = make([]DimFigures, len(all))
	for i, m := range p.sums.Col {
		all[i] = dim{DimFigures{Dim: i, Cos: Num(m.Cos()), OneMinusCos: Num(m.OneMinusCos()), RelL2: Num(m.RelL2()), MaxDiff: Num(m.Max), NormRatio: Num(m.NormRatio())}, math.Ldexp(m.D2, 2*m.Exp)}
		p.Out.PerDim[i] = all[i].DimFigures
	}
	slices.SortStableFunc(all, func(a, b dim) int { return cmp.Compare(b.d2, a.d2) })
	for _, d := range all[:min(worstListed, len(all))] {
		if d.d2 > 0 {
			p.Out.WorstDims = append(p.Out.WorstDims, d.DimFigures)
		}
	}
}

// fillNonFinite reports NaN and Inf where there are any.
func (p *Pair) fillNonFinite() {
	n := p.sums.NonFinite
	if n.FirstAt < 0 {
		return
	}
	p.Out.NonFinite = nonFinite(n, p.Geo)
	if n.Mismatched == 0 {
		p.Out.Notes = append(p.Out.Notes, fmt.Sprintf("%d values are NaN or Inf at the same places on both sides; the rest is compared", n.Matched))
	}
}

// nonFinite copies the kernel's counts.
func nonFinite(n kernel.NonFinite, g Geometry) *NonFinite {
	return &NonFinite{
		RefNaN: n.RefNaN, RefPosInf: n.RefPosInf, RefNegInf: n.RefNegInf,
		PortNaN: n.PortNaN, PortPosInf: n.PortPosInf, PortNegInf: n.PortNegInf,
		Matched: n.Matched, Mismatched: n.Mismatched, FirstMismatch: g.index(n.FirstMismatch),
	}
}

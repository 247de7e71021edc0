package compare

import (
	"fmt"
	"math"

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

// fill turns a judged pair into the report's checkpoint.
func (p *Pair) fill(entry *Pair, detail bool) error {
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
		if err := p.fillFigures(detail); err != nil {
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
	case !s.bad && p.Geo.Rows*p.Geo.Cols == 0:
		return Noted, "empty on both sides: nothing was compared"
	case !s.bad && p.sums != nil && p.sums.Whole.N == 0:
		return Noted, "no value is finite on both sides: nothing was compared"
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
func (p *Pair) fillFigures(detail bool) (err error) {
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
	p.fillTokens(detail)
	p.fillDims(detail)
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

// tokenFigures are the figures of row r of the grouped moments.
func (p *Pair) tokenFigures(ms []kernel.Moments, r int) TokenFigures {
	t, b := r, (*int)(nil)
	if !p.Geo.Grouped {
		t, b = p.Geo.token(r)
	}
	m := ms[r]
	return TokenFigures{Token: t, Batch: b, Cos: Num(m.Cos()), OneMinusCos: Num(m.OneMinusCos()), RelL2: Num(p.rel[r]),
		Error: Num(energy(p.rel[r])), MaxDiff: Num(m.Max), NormRatio: Num(m.NormRatio()), Scale: Num(m.Scale())}
}

// fillTokens lists the median token, the worst and, on demand, all.
func (p *Pair) fillTokens(detail bool) {
	ms := p.tokensOf().moments
	if len(ms) == 0 {
		return
	}
	if detail {
		for r := range ms {
			p.Out.PerToken = append(p.Out.PerToken, p.tokenFigures(ms, r))
		}
	}
	median := p.tokenFigures(ms, medianIndex(p.rel))
	p.Out.MedianToken = &median
	worst := worstIndices(p.rel, min(worstListed, len(p.rel)))
	if p.rel[worst[0]] == 0 {
		return
	}
	for _, r := range worst {
		p.Out.WorstTokens = append(p.Out.WorstTokens, p.tokenFigures(ms, r))
	}
}

// dimFigures are the figures of column i.
func (p *Pair) dimFigures(i int) DimFigures {
	m := p.sums.Col[i]
	return DimFigures{Dim: i, Cos: Num(m.Cos()), OneMinusCos: Num(m.OneMinusCos()), RelL2: Num(m.RelL2()), MaxDiff: Num(m.Max), NormRatio: Num(m.NormRatio())}
}

// fillDims lists the dims that hold most of the error and, on demand, all.
func (p *Pair) fillDims(detail bool) {
	if detail {
		for i := range p.sums.Col {
			p.Out.PerDim = append(p.Out.PerDim, p.dimFigures(i))
		}
	}
	d2 := make([]float64, len(p.sums.Col))
	for i, m := range p.sums.Col {
		d2[i] = m.D2
		if m.Exp != 0 {
			d2[i] = math.Ldexp(m.D2, 2*m.Exp)
		}
	}
	for _, i := range topIndices(d2, min(worstListed, len(d2))) {
		if d2[i] > 0 {
			p.Out.WorstDims = append(p.Out.WorstDims, p.dimFigures(i))
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

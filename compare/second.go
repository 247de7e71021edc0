package compare

import (
	"errors"
	"math"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
)

// secondPass reads again what needs the results of the first: increments of the
// residual stream, offsets, logits, dominant tokens and dims.
func (p *part) secondPass() error {
	if err := p.increments(); err != nil {
		return err
	}
	for _, pr := range p.Pairs {
		if pr.sums == nil || pr.err != nil || pr.aside != "" || pr.sums.Whole.N == 0 {
			continue
		}
		// A constant offset that is too small for pureMin needs no look, and one
		// in a pair without any difference cannot be.
		if pr.sums.Whole.D2 > 0 && median(pr.rel) > pureMin/2 {
			pr.bias, pr.err = pr.fitBias()
		}
		if pr.err == nil && pr.Kind == dump.KindLogits {
			pr.Out.Logits, pr.err = pr.compareLogits()
		}
		if err := p.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// increments computes, for each checkpoint of the residual stream, the error of
// what it added to the one before it.
func (p *part) increments() error {
	var prev *Pair
	for _, pr := range p.Pairs {
		if !pr.Residual() {
			continue
		}
		if pr.sums == nil || pr.err != nil || pr.aside != "" {
			prev = nil // the increment would span what cannot be judged
			continue
		}
		if prev != nil && prev.Geo.Rows == pr.Geo.Rows && prev.Geo.Cols == pr.Geo.Cols {
			inc, stored, err := p.increment(prev, pr)
			switch {
			case err == nil:
				pr.inc, pr.incStored = inc, stored
				if prev.Kind == dump.KindLayer && pr.Layer-prev.Layer > 1 {
					pr.Out.Notes = append(pr.Out.Notes, "its increment error spans layers "+dump.LayerName(prev.Layer+1, "")+" to "+pr.Name+": those between were not dumped")
				}
			case p.ctx.Err() != nil:
				return p.ctx.Err()
			default:
				pr.err = err
			}
		}
		prev = pr
	}
	return nil
}

// increment returns √Σ((b-b')-(a-a'))² / √Σ(a-a')² per token: 0 where nothing
// was added on either side, +Inf where only the port added something. stored is
// √Σa² / √Σ(a-a')²: how many times larger the stream is than what was added, so
// how much its rounding weighs there.
func (p *part) increment(prev, pr *Pair) (inc, stored []float64, err error) {
	inc, stored = make([]float64, pr.Geo.Rows), make([]float64, pr.Geo.Rows)
	if prev.sums.Whole.D2 == 0 && pr.sums.Whole.D2 == 0 && pr.sums.NonFinite.FirstAt < 0 {
		return inc, stored, nil // bit-equal on both sides
	}
	before, done1, err := openPair(prev.Ref, prev.Port, prev.Geo)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, done1()) }()
	here, done2, err := openPair(pr.Ref, pr.Port, pr.Geo)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, done2()) }()
	ms, err := kernel.RunIncrements(p.ctx, kernel.IncPair{
		RefPrev: before.Ref, Ref: here.Ref, PortPrev: before.Port, Port: here.Port, Rows: pr.Geo.Rows, Cols: pr.Geo.Cols,
	}, p.kernelOptions("increment of "+pr.Out.Name))
	if err != nil {
		return nil, nil, err
	}
	for i, m := range ms {
		if m.D2 == 0 && m.A2 == 0 {
			continue
		}
		inc[i] = math.Sqrt(m.D2) / math.Sqrt(m.A2)
		row := pr.sums.Row[i]
		stored[i] = math.Ldexp(math.Sqrt(row.A2), row.Exp) / math.Sqrt(m.A2)
	}
	return inc, stored, nil
}

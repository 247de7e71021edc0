package compare

import (
	"errors"
	"math"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
)

// secondPass reads again what needs the results of the first: increments of the
// residual stream, offsets, probabilities, logits.
func (p *part) secondPass() error {
	if err := p.increments(); err != nil {
		return err
	}
	p.each(func(pr *Pair) {
		if pr.sums == nil || pr.err != nil || pr.aside != "" || pr.sums.Whole.N == 0 {
			return
		}
		// A constant offset that is too small for pureMin needs no look, and one
		// in a pair without any difference cannot be.
		if pr.sums.Whole.D2 > 0 && median(pr.rel) > pureMin/2 {
			pr.bias, pr.err = pr.fitBias()
		}
		if pr.err == nil && pr.Tap == "attn_probs" && pr.sums.Whole.D2 > 0 {
			pr.probs, pr.err = pr.countRows()
		}
		if pr.err == nil && pr.Kind == dump.KindLogits {
			pr.Out.Logits, pr.err = pr.compareLogits()
		}
	})
	return p.ctx.Err()
}

// each calls f for every pair, several at once; f keeps to its own pair. It ends
// early when the context does.
func (p *part) each(f func(*Pair)) {
	kernel.Each(len(p.Pairs), p.o.Workers, func(i int) {
		if p.ctx.Err() == nil {
			f(p.Pairs[i])
		}
	})
}

// increments computes, for each checkpoint of the residual stream, the error of
// what it added to the one before it.
func (p *part) increments() error {
	for _, chain := range p.chains() {
		if err := p.sumChain(chain); err != nil {
			return err
		}
	}
	return nil
}

// chains lists the stretches of the residual stream that can be read together,
// each checkpoint the predecessor of the next; what ends one begins the next.
// A step that is bit-equal at both ends is zero and needs no reading.
func (p *part) chains() [][]*Pair {
	var out [][]*Pair
	var chain []*Pair
	end := func(next ...*Pair) {
		if len(chain) > 1 {
			out = append(out, chain)
		}
		chain = next
	}
	for _, pr := range p.Pairs {
		if !pr.Residual() {
			continue
		}
		if pr.sums == nil || pr.err != nil || pr.aside != "" {
			end() // the increment would span what cannot be judged
			continue
		}
		if len(chain) == 0 {
			chain = []*Pair{pr}
			continue
		}
		prev := chain[len(chain)-1]
		switch {
		case prev.Geo.Rows != pr.Geo.Rows || prev.Geo.Cols != pr.Geo.Cols:
			end(pr)
			continue
		case prev.sums.Whole.D2 == 0 && pr.sums.Whole.D2 == 0 && pr.sums.NonFinite.FirstAt < 0:
			pr.inc, pr.incStored = make([]float64, pr.Geo.Rows), make([]float64, pr.Geo.Rows)
			pr.noteGap(prev)
			end(pr)
			continue
		case len(chain) == maxOpen:
			end(prev)
		}
		chain = append(chain, pr)
	}
	end()
	return out
}

// noteGap says where the increment spans layers that were not dumped.
func (p *Pair) noteGap(prev *Pair) {
	if prev.Kind == dump.KindLayer && p.Layer-prev.Layer > 1 {
		p.Out.Notes = append(p.Out.Notes, "its increment error spans layers "+dump.LayerName(prev.Layer+1, "")+" to "+p.Name+": those between were not dumped")
	}
}

// sumChain sums the increments of a chain. A file that cannot be read is its
// pair's error; the error returned is that of a cancelled context.
func (p *part) sumChain(chain []*Pair) error {
	c := kernel.Chain{Rows: chain[0].Geo.Rows, Cols: chain[0].Geo.Cols}
	var err error
	for i, o := range p.openPairs(chain) {
		if o.err != nil {
			chain[i].err, err = o.err, o.err
			continue
		}
		c.Ref, c.Port = append(c.Ref, o.job.Ref), append(c.Port, o.job.Port)
		defer func() { chain[i].err = errors.Join(chain[i].err, o.close()) }()
	}
	var ms [][]kernel.IncMoments
	if err == nil {
		ms, err = kernel.RunChain(p.ctx, c, p.kernelOptions("increment of "+chain[1].Out.Name))
	}
	switch {
	case err == nil:
		for i, pr := range chain[1:] {
			pr.setIncrement(ms[i])
			pr.noteGap(chain[i])
		}
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case len(chain) > 2: // which of them, and what can be had beside it
		for i := range chain[1:] {
			if chain[i].err == nil && chain[i+1].err == nil {
				if err := p.sumChain(chain[i : i+2]); err != nil {
					return err
				}
			}
		}
	case chain[1].err == nil:
		chain[1].err = err
	}
	return nil
}

// setIncrement keeps √Σ((b-b')-(a-a'))² / √Σ(a-a')² per token: 0 where nothing
// was added on either side, +Inf where only the port added something. incStored
// is √Σa² / √Σ(a-a')²: how many times larger the stream is than what was added,
// so how much its rounding weighs there.
func (p *Pair) setIncrement(ms []kernel.IncMoments) {
	p.inc, p.incStored = make([]float64, len(ms)), make([]float64, len(ms))
	for i, m := range ms {
		if m.D2 == 0 && m.A2 == 0 {
			continue
		}
		p.inc[i] = math.Sqrt(m.D2) / math.Sqrt(m.A2)
		row := p.sums.Row[i]
		p.incStored[i] = math.Ldexp(math.Sqrt(row.A2), row.Exp) / math.Sqrt(m.A2)
	}
}

package compare

import (
	"context"
	"fmt"
	"slices"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
)

// Compare holds two dumps against each other: pairs, guards, figures, where the
// error enters, and a verdict. Files that cannot be read are results, not
// errors; the error is for a context that was cancelled.
func Compare(ctx context.Context, ref, port *dump.Dump, o Options) (*Comparison, error) {
	c := &Comparison{
		Schema: Schema, Version: o.Version, Thresholds: o.Thresholds,
		Ref: info(ref), Port: info(port),
		Guards: []Guard{}, Checkpoints: []*Checkpoint{}, Unpaired: []Unpaired{}, Warnings: []string{}, Findings: []Finding{},
	}
	runs, alone := pairRuns(ref, port)
	several := len(runs) > 1 || len(alone) > 0
	var parts []*part
	for _, r := range runs {
		p := newPart(ctx, r.ref, r.port, o, several)
		p.Step, p.Rank = r.step, r.rank
		if several {
			p.label = dump.Label(r.step, r.rank)
		}
		if err := p.run(); err != nil {
			return nil, fmt.Errorf("comparing %s with %s: %w", r.ref.Dir, r.port.Dir, err)
		}
		if p.forked(runs[0].step) {
			c.Warnings = append(c.Warnings, fmt.Sprintf("the texts fork at step %d: the runs generated different tokens, so the comparison ends before it", p.Step))
			alone = nil
			break
		}
		parts = append(parts, p)
	}
	c.collect(parts, alone, o)
	return c, nil
}

// info describes a dump for the report.
func info(d *dump.Dump) DumpInfo {
	i := DumpInfo{Path: d.Path}
	for _, r := range d.Runs {
		i.Tensors += len(r.Records)
	}
	if m := d.Runs[0].Manifest; m != nil {
		i.Manifest = true
		i.Model, i.DType, i.Mode = m.Text("id"), dump.LogicalName(m.Text("dtype")), m.Mode
		i.Framework = m.Framework.Name
		if m.Framework.Version != "" {
			i.Framework += " " + m.Framework.Version
		}
	}
	return i
}

// runPair is one step and rank that will be compared.
type runPair struct {
	ref, port  *dump.Run
	step, rank int
}

// lonely is a run that only one side has.
type lonely struct {
	run  *dump.Run
	side string
}

// pairRuns pairs runs by step and rank. A side without step or rank folders
// meets the only step of the other side, and each of its ranks.
func pairRuns(ref, port *dump.Dump) (pairs []runPair, alone []lonely) {
	used := make(map[*dump.Run]bool)
	for _, r := range ref.Runs {
		for _, q := range port.Runs {
			if !meets(r.Step, q.Step, len(steps(ref)), len(steps(port))) || !meets(r.Rank, q.Rank, 1, 1) {
				continue
			}
			used[r], used[q] = true, true
			pairs = append(pairs, runPair{r, q, max(r.Step, q.Step), max(r.Rank, q.Rank)})
		}
	}
	for _, r := range ref.Runs {
		if !used[r] {
			alone = append(alone, lonely{r, "ref"})
		}
	}
	for _, r := range port.Runs {
		if !used[r] {
			alone = append(alone, lonely{r, "port"})
		}
	}
	slices.SortStableFunc(pairs, func(a, b runPair) int {
		if a.step != b.step {
			return a.step - b.step
		}
		return a.rank - b.rank
	})
	return pairs, alone
}

// steps lists the steps of a dump.
func steps(d *dump.Dump) []int {
	var s []int
	for _, r := range d.Runs {
		if !slices.Contains(s, r.Step) {
			s = append(s, r.Step)
		}
	}
	return s
}

// meets tells whether two indices name the same place; -1 meets the only other.
func meets(a, b, na, nb int) bool { return a == b || (a < 0 && nb == 1) || (b < 0 && na == 1) }

// forked tells whether a later step saw other ids because the runs generated
// different tokens.
func (p *part) forked(first int) bool {
	return p.Step > first && !p.trustTokens()
}

// collect merges the parts into the report and decides the verdict.
func (c *Comparison) collect(parts []*part, alone []lonely, o Options) {
	var entry *Pair
	for _, p := range parts {
		if entry == nil {
			entry = p.entry()
		}
		c.Guards = append(c.Guards, p.guards...)
		c.Warnings = append(c.Warnings, p.warn...)
		c.Unpaired = append(c.Unpaired, p.unpaired()...)
		c.Coverage.Paired += len(p.Pairs)
		c.Parts = append(c.Parts, p.Part)
	}
	for _, l := range alone {
		c.missingRun(l, o)
	}
	for _, p := range parts {
		p.each(func(pr *Pair) {
			if err := pr.fill(entry, o.Detail); err != nil {
				pr.err = err
			}
		})
		for _, pr := range p.Pairs {
			c.Checkpoints = append(c.Checkpoints, pr.Out)
			c.cover(pr)
		}
	}
	c.Coverage.Ref, c.Coverage.Port = c.Ref.Tensors, c.Port.Tensors
	for _, u := range c.Unpaired {
		if dump.Canonical(baseName(u.Checkpoint)).Kind == dump.KindLayer {
			c.Coverage.LayersAll++
		}
	}
	c.First, c.FirstRaw = firstOf(parts, o, false), firstOf(parts, o, true)
	if len(parts) > 0 {
		c.Trend = trendOf(parts[0].layerPairs())
	}
	c.decide(parts, entry, o)
}

// missingRun reports a step or rank that only one side has.
func (c *Comparison) missingRun(l lonely, o Options) {
	name := l.run.Label()
	if name == "" {
		name = l.run.Dir
	}
	u := Unpaired{Checkpoint: name, Side: l.side, File: l.run.Dir, Required: true, Allowed: matchAny(o.AllowUnpaired, name)}
	c.Unpaired = append(c.Unpaired, u)
	if u.Allowed {
		return
	}
	other := map[string]string{"ref": "port", "port": "reference"}[l.side]
	c.Guards = append(c.Guards, Guard{ID: "capture.missing", Status: Fail, Part: name,
		Evidence: fmt.Sprintf("%s has no partner in the %s", name, other), Remedy: "dump it, choose with --step and --rank, or name it in --allow-unpaired"})
}

// compared tells whether at least one element of a pair was held against its
// partner: an empty pair, or one without a finite value on both sides, was not.
func (p *Pair) compared() bool {
	switch {
	case !p.comparable() || p.aside != "":
		return false
	case p.Out.Ints != nil:
		return p.Geo.Rows*p.Geo.Cols > 0
	}
	return p.sums != nil && (p.sums.Whole.N > 0 || p.sums.NonFinite.Mismatched > 0)
}

// cover counts a pair.
func (c *Comparison) cover(p *Pair) {
	compared := p.compared()
	if compared {
		c.Coverage.Compared++
	}
	if p.Kind == dump.KindLayer {
		c.Coverage.LayersAll++
		if compared {
			c.Coverage.Layers++
		}
	}
}

// baseName drops the step and rank.
func baseName(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}

// firstOf finds the first of tokens, post_embed, layer outputs, final norm and
// logits whose cosine, whole tensor or median token, is below its threshold;
// raw asks for the figures before repairs.
func firstOf(parts []*part, o Options, raw bool) *First {
	for _, p := range parts {
		if raw && p.firstRaw != nil {
			if p.firstRaw.first != nil {
				return p.firstRaw.first
			}
			continue
		}
		for _, pr := range p.Pairs {
			if pr.Name == "prompt_tokens" && pr.problem != "" {
				return nil // other prompts: nothing after them can be judged
			}
			if !pr.Required() || !pr.comparable() && !(raw && pr.hasRaw) || pr.aside != "" && !(raw && pr.hasRaw) {
				continue
			}
			if f := pr.crosses(o.Thresholds.of(pr.Out.Name).cos, raw); f != nil {
				return f
			}
		}
	}
	return nil
}

// cosines are the cosine of a whole tensor and of its median token.
type cosines struct{ cos, median float64 }

// withoutTies computes the cosines over the tokens that were not set aside; any
// is false where none is left.
func (p *Pair) withoutTies() (c cosines, any bool) {
	m := kernel.Moments{MaxAt: -1}
	var tokens []float64
	for t, row := range p.tokensOf().moments {
		if !p.ties[t] {
			m, tokens = m.Add(row), append(tokens, row.OneMinusCos())
		}
	}
	return cosines{m.Cos(), 1 - middle(tokens)}, len(tokens) > 0
}

// crosses tells whether and by which figure a pair is below a cosine.
func (p *Pair) crosses(limit Num, raw bool) *First {
	first := func(by string, v float64) *First {
		return &First{Checkpoint: p.Out.Name, Layer: p.Out.Layer, By: by, Value: Num(v), Threshold: limit}
	}
	if p.Out.Ints != nil {
		if !p.Out.Ints.Equal {
			return first("integers", 0)
		}
		return nil
	}
	var cos, med float64
	switch {
	case raw && p.hasRaw:
		cos, med = float64(p.Out.Raw.Cos), p.rawMedianCos
	case p.sums == nil:
		return nil
	default:
		if p.sums.NonFinite.Mismatched > 0 {
			return first("nonfinite", float64(p.sums.NonFinite.Mismatched))
		}
		if p.sums.Whole.N == 0 {
			return nil // empty, or nothing finite on both sides: said elsewhere
		}
		cos, med = p.sums.Whole.Cos(), p.tokensOf().medianCos
		if len(p.ties) > 0 { // a choice that flipped inside the noise is none of the figures' business
			rest, any := p.withoutTies()
			if !any {
				return nil
			}
			cos, med = rest.cos, rest.median
		}
	}
	switch {
	case !(cos >= float64(limit)):
		return first("cosine", cos)
	case !(med >= float64(limit)):
		return first("median token cosine", med)
	}
	return nil
}

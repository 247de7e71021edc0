package compare

import (
	"github.com/layerparity/parity/dump"
)

// guardEmbedding demands that post_embed is equal within the storage dtype's
// rounding: else embedding or input are off before the first layer.
func guardEmbedding(p *part) []Guard {
	const remedy = "compare token ids, embedding weights, their scale and dtype before looking at any layer"
	pr := p.lookup("post_embed")
	if pr == nil {
		a, b := p.Ref.Lookup("post_embed"), p.Port.Lookup("post_embed")
		return one(NotChecked, "dump post_embed on both sides", "post_embed is missing in %s", missingIn(a == nil, b == nil))
	}
	if !p.trustTokens() {
		return one(NotApplicable, "", "the ids differ")
	}
	if pr.err != nil {
		return one(NotChecked, "", "%s", guardError(pr.err))
	}
	if pr.problem != "" {
		g := one(Fail, remedy, "%s", pr.problem)
		g[0].Checkpoint = pr.Name
		return g
	}
	if pr.sums == nil {
		return one(NotApplicable, "", "post_embed holds integers")
	}
	for _, name := range []string{"time_embed", "tower_out"} { // computed by the model, and part of it
		if in := p.lookup(name); in != nil && in.state.bad && !in.state.benign {
			return one(NotApplicable, "", "post_embed holds %s, which differs already", name)
		}
	}
	if pr.state.bad && !pr.state.benign && pr.state.by != "threshold" { // a limit of the user's is no rounding
		g := one(Fail, remedy, "%s (%s)", pr.state.reason, evidenceOf(pr))
		g[0].Checkpoint = pr.Name
		return g
	}
	if pr.state.benign {
		return one(Pass, "", "post_embed differs (%s), and everything computed from it agrees: taken at another place", evidenceOf(pr))
	}
	return one(Pass, "", "post_embed agrees within %s rounding: %s", pr.precision, evidenceOf(pr))
}

// guardSpike looks for a required checkpoint that differs while everything
// computed from it agrees: the model cannot do that, the dump can. Integers
// where floats belong were looked for before.
func guardSpike(p *part) []Guard {
	if p.broken {
		return nil // what was found already explains more
	}
	for _, pr := range p.Pairs {
		if (pr.Kind != dump.KindLayer && pr.Kind != dump.KindFinalNorm) || !pr.state.benign || !(pr.state.e > protocolError) {
			continue
		}
		g := one(Fail, "dump again and look at what this hook catches: another module, a stale file or a buffer",
			"%s differs (%s), and everything computed from it agrees: not what the model computed", pr.Name, evidenceOf(pr))
		g[0].Checkpoint = pr.Name
		return g
	}
	return one(Pass, "", "no checkpoint is contradicted by what follows")
}

// guardMissing demands a partner for every required checkpoint.
func guardMissing(p *part) []Guard {
	var missing []string
	side := ""
	for _, u := range p.unpaired() {
		if u.Required && !u.Allowed && u.Explained == "" {
			missing = append(missing, dump.Canonical(u.Checkpoint).Name)
			side = u.Side
		}
	}
	if len(missing) == 0 {
		return one(Pass, "", "every required checkpoint has a partner")
	}
	other := map[string]string{"ref": "port", "port": "reference"}[side]
	g := one(Fail, "dump it, or name it in --allow-unpaired if it cannot exist there",
		"%s without a partner: %s has none in the %s", summary(missing), missing[0], other)
	g[0].Checkpoint = missing[0]
	return g
}

// unpaired lists what only one side has, in execution order of that side.
func (p *part) unpaired() []Unpaired {
	out := make([]Unpaired, 0, len(p.alone))
	for _, a := range p.alone {
		out = append(out, Unpaired{
			Checkpoint: p.name(a.rec.Name), Side: a.side, File: a.rec.File, Required: a.rec.Required(),
			Allowed: matchAny(p.o.AllowUnpaired, p.name(a.rec.Name)), Explained: p.explained[a.rec],
		})
	}
	return out
}

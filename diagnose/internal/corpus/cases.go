package corpus

import "slices"

// Cases lists the whole corpus in a fixed order: D1 to D25, their bfloat16
// twins, the cases beyond, and the clean controls.
func Cases() []Case {
	d := slices.Concat(
		ropeCases(), attentionCases(), mlpCases(), normCases(), residualCases(),
	)
	all := slices.Clone(d)
	for _, c := range d {
		all = append(all, c.twin())
	}
	return append(all, cleanCases()...)
}

// Lookup returns the case with that id.
func Lookup(id string) (Case, bool) {
	for _, c := range Cases() {
		if c.ID == id {
			return c, true
		}
	}
	return Case{}, false
}

// twin is the same case with a bfloat16 port.
func (c Case) twin() Case {
	c.ID += "/bf16"
	c.Title += ", bfloat16 port"
	c.arith = &arithBF16
	return c
}

// layers edits the port's rules of every layer.
func layers(f func(r *Rules)) func(p *Plan) {
	return func(p *Plan) { p.Spec.each(f) }
}

func divergence(causes ...string) Want { return Want{Verdict: "divergence", Causes: causes} }

func (w Want) enters(at ...string) Want { w.Enters = at; return w }
func (w Want) exact() Want              { w.Exact = true; return w }
func (w Want) silent() Want             { w.Silent = true; return w }
func (w Want) never(ids ...string) Want { w.MustNot = ids; return w }
func (w Want) values(ref, port float64) Want {
	w.Values = map[string]float64{"reference": ref, "port": port}
	return w
}

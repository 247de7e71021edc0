package corpus

import "github.com/layerparity/parity/diagnose"

// poorer shows some faults through dumps that say less: no sub-taps, no
// manifest facts, few tokens, heads on an axis of their own.
func poorer(faults []Case) []Case {
	byID := map[string]Case{}
	for _, c := range faults {
		byID[c.ID] = c
	}
	var out []Case
	for _, v := range []struct {
		ids  []string
		edit func(Case) Case
	}{
		{[]string{"D1", "D2", "D6", "D9", "D13", "D15", "D17", "D18"}, layersOnly},
		{[]string{"D1", "D2", "D8", "D11", "D15", "D16", "D19"}, withoutFacts},
		{[]string{"D1", "D2", "D6", "D13", "D15", "D17"}, fewTokens},
		{[]string{"D1", "D2", "D11"}, headAxis},
		{[]string{"D1", "D2", "D8", "D9", "D13", "D14", "D15", "D16", "D17", "D18"}, otherShape},
	} {
		for _, id := range v.ids {
			out = append(out, v.edit(byID[id]))
		}
	}
	return out
}

// editBoth edits the dump of both sides.
func (c Case) editBoth(name string, f func(r *Run)) Case {
	before := c.both
	c.family += name
	c.both = func(p *Plan) {
		if before != nil {
			before(p)
		}
		p.edit(f)
	}
	return c
}

// layersOnly keeps what every hook gives: the residual stream and the ends.
func layersOnly(c Case) Case {
	c.ID += "/layers"
	c.Title += ", no sub-taps"
	c.Want.Exact, c.Want.Silent, c.Want.Values = false, true, nil
	c.Want.Causes = append(append([]string(nil), c.Want.Causes...), "unknown")
	c.Want.Enters = []string{layer0, embedPlace}
	return c.editBoth("/layers", func(r *Run) {
		for _, p := range r.Parts {
			p.drop(func(name string) bool { layer, tap := diagnose.SplitName(name); return layer >= 0 && tap != "layer" })
		}
	})
}

// withoutFacts is a folder of nothing but .npy files, without positions.
func withoutFacts(c Case) Case {
	c.ID += "/bare"
	c.Title += ", no manifest and no positions"
	c.bare = true
	return c.editBoth("/bare", func(r *Run) {
		for _, p := range r.Parts {
			p.drop(func(name string) bool { return name == "position_ids" })
		}
	})
}

// fewTokens has a prompt of 9.
func fewTokens(c Case) Case {
	c.ID += "/short"
	c.Title += ", 9 tokens"
	c.base = c.base.with(func(s *Spec) { s.Tokens = 9 })
	c.Want.Silent = true
	return c
}

// otherShape is a model of 3 layers with 4 wide heads over one key-value head,
// other weights and 33 tokens.
func otherShape(c Case) Case {
	c.ID += "/mqa"
	c.Title += ", 4 heads of 32 over one key-value head"
	c.base = c.base.with(func(s *Spec) {
		s.Seed, s.Tokens = 16, 33
		s.Heads, s.KVHeads, s.HeadDim = 4, 1, 32
		s.Layers, s.Block = 3, s.Block[:3]
	})
	return c
}

// headAxis dumps q, k, v and their rotated forms as [T, heads, head_dim].
func headAxis(c Case) Case {
	c.ID += "/heads"
	c.Title += ", heads on an axis of their own"
	hd := c.base.HeadDim
	return c.editBoth("/heads", func(r *Run) {
		for _, p := range r.Parts {
			for name, a := range p.Tensors {
				switch _, tap := diagnose.SplitName(name); tap {
				case "q", "k", "v", "q_rope", "k_rope":
					b := *a
					b.Shape = []int{a.Shape[0], a.Shape[1] / hd, hd}
					p.Tensors[name] = &b
				}
			}
		}
	})
}

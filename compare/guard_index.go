package compare

import (
	"fmt"

	"github.com/layerparity/parity/dump"
)

// guardIndexShift looks for hidden_states[i] taken as the output of layer i on
// one side. The shift by one under which more layers agree is taken, over all
// layers; the comparison is then aligned and scored again.
func guardIndexShift(p *part) []Guard {
	layers := p.layerPairs()
	if len(layers) < 3 {
		return one(NotApplicable, "", "fewer than 3 layers")
	}
	agree0 := 0
	for _, pr := range layers {
		if pr.rel != nil && energy(median(pr.rel)) <= guardTolerance {
			agree0++
		}
	}
	if first := layers[0]; first.rel != nil && energy(median(first.rel)) <= guardTolerance {
		return one(Pass, "", "%s agrees where it stands", first.Name)
	}
	for _, shift := range []int{-1, 1} {
		agree, err := p.countShifted(shift, agree0)
		if err != nil {
			return one(NotChecked, "", "%s", guardError(err))
		}
		if agree >= max(2, agree0+2) {
			return p.applyShift(shift, agree)
		}
	}
	return one(Pass, "", "no shift by one makes more layers agree than the %d that do", agree0)
}

// shiftedRef returns the reference's tensor that stands for layer n under a
// shift, among layer outputs and post_embed.
func shiftedRef(refs map[int]*dump.Record, embed *dump.Record, n int) *dump.Record {
	if n == -1 {
		return embed
	}
	return refs[n]
}

// countShifted counts the port's layers l that agree with the reference's layer
// l+shift. It gives up early where none of the first does.
func (p *part) countShifted(shift, agree0 int) (int, error) {
	refs, embed := layerRecords(p.Ref), p.Ref.Lookup("post_embed")
	agree, tested := 0, 0
	for _, pr := range p.layerPairs() {
		r := shiftedRef(refs, embed, pr.Layer+shift)
		if r == nil || r.Err != nil || pr.err != nil {
			continue
		}
		ref := newView(r)
		shape, _, ok := reconcile(r.Shape(), pr.Port.Record.Shape())
		if !ok || ref.DType.IsInt() {
			continue
		}
		was := 1.0
		if pr.rel != nil {
			was = energy(median(pr.rel))
		}
		e, err := p.tokenError(ref, pr.Port, geometryOf(pr.Place, shape, p.tokens))
		if err != nil {
			return 0, err
		}
		tested++
		if e <= guardTolerance && !(was <= guardTolerance) {
			agree++
		}
		if tested == 3 && agree == 0 {
			return 0, nil
		}
	}
	return agree, nil
}

// applyShift pairs every port layer with the reference's tensor it really is.
func (p *part) applyShift(shift, agree int) []Guard {
	refs, embed := layerRecords(p.Ref), p.Ref.Lookup("post_embed")
	var again []*Pair
	left := ""
	for _, pr := range p.layerPairs() {
		r := shiftedRef(refs, embed, pr.Layer+shift)
		pr.keepRaw()
		if r == nil {
			// Nothing left to hold it against: the shift explains that.
			pr.aside = "the index shift leaves it without a partner"
			left = pr.Name
			continue
		}
		pr.Ref = newView(r)
		pr.Out.Ref = stored(r)
		pr.sums, pr.rel = nil, nil
		pr.fit(p.tokens)
		pr.repaired("index shift: compared with the reference's %s", dump.Canonical(r.Name).Name)
		again = append(again, pr)
	}
	p.shift = shift
	if err := p.sumPairs(again); err != nil {
		return one(NotChecked, "", "%s", guardError(err))
	}
	what := "the input of layer i (hidden_states[i])"
	if shift > 0 {
		what = "the output of layer i+1"
	}
	g := one(Repaired, "take hidden_states[i+1], or hook the layer's output",
		"the port's layer i holds %s: under a shift by %d, %d layers agree%s", what, shift, agree, orphan(left))
	g[0].Checkpoint = again[0].Name
	return g
}

// orphan names the layer that a shift leaves alone.
func orphan(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; %s has no partner", name)
}

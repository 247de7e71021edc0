package compare

import (
	"fmt"
	"slices"

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

// applyShift pairs every port layer with the reference's tensor it really is,
// those that had no partner included.
func (p *part) applyShift(shift, agree int) []Guard {
	refs, embed := layerRecords(p.Ref), p.Ref.Lookup("post_embed")
	p.firstRaw = &rawFirst{firstOf([]*part{p}, p.o, true)} // names change below
	p.pairLonely(shift, refs)
	var again []*Pair
	left := ""
	used := make(map[*dump.Record]bool)
	for _, pr := range p.layerPairs() {
		r := shiftedRef(refs, embed, pr.Layer+shift)
		pr.keepRaw()
		if r == nil {
			// Nothing left to hold it against: the shift explains that.
			pr.aside = "the index shift leaves it without a partner"
			left = pr.Name
			continue
		}
		used[r] = true
		pr.Ref = newView(r)
		pr.Out.Ref = stored(r)
		pr.sums, pr.rel = nil, nil
		pr.fit(p.tokens)
		pr.repaired("index shift: compared with the reference's %s", dump.Canonical(r.Name).Name)
		again = append(again, pr)
	}
	if shift < 0 {
		left = p.renumber(refs, used)
		again = slices.DeleteFunc(again, func(pr *Pair) bool { return p.lookup(pr.Name) != pr })
	}
	for _, a := range p.alone {
		if a.side == "ref" && a.rec.Kind == dump.KindLayer && used[a.rec] {
			p.explained[a.rec] = "the index shift gives it a partner"
		}
	}
	p.shift = shift
	if err := p.sumPairs(again); err != nil {
		return one(NotChecked, "", "%s", guardError(err))
	}
	what := "the input of layer i (hidden_states[i])"
	if shift > 0 {
		what = "the output of layer i+1"
	}
	g := one(Repaired, "take hidden_states[i+1], or hook the layer's output; or count layers from 0 on both sides",
		"the port's layer i holds %s: under a shift by %d, %d layers agree%s", what, shift, agree, orphan(left))
	g[0].Checkpoint = again[0].Name
	return g
}

// renumber gives the pairs the reference's layer numbers where the port's are one
// too high, so that a fault is named where it is in the model. What the port
// calls its first layer is the embedding, and the reference's last layer has no
// partner left.
func (p *part) renumber(refs map[int]*dump.Record, used map[*dump.Record]bool) (left string) {
	p.Pairs = slices.DeleteFunc(p.Pairs, func(pr *Pair) bool { return pr.Kind == dump.KindLayer && pr.Ref.Record.Kind != dump.KindLayer })
	for _, pr := range p.layerPairs() {
		pr.Place = pr.Ref.Record.Place
		pr.Out.Name = p.name(pr.Name)
		layer := pr.Layer
		pr.Out.Layer = &layer
		pr.Out.Repairs = []string{"index shift: the port calls it " + pr.Port.Record.Name}
	}
	p.index()
	for _, r := range refs {
		if !used[r] {
			p.alone = append(p.alone, unpaired{r, "ref"})
			p.explained[r] = "the index shift leaves it without a partner"
			left = r.Name
		}
	}
	return left
}

// pairLonely makes pairs of port layers that had no partner under their own
// number and have one under the shift.
func (p *part) pairLonely(shift int, refs map[int]*dump.Record) {
	alone := p.alone[:0:0]
	for _, a := range p.alone {
		r := refs[a.rec.Layer+shift]
		if a.side != "port" || a.rec.Kind != dump.KindLayer || a.rec.Err != nil || r == nil {
			alone = append(alone, a)
			continue
		}
		p.addPair(r, a.rec)
		pr := p.Pairs[len(p.Pairs)-1]
		pr.Place = a.rec.Place
		pr.Out.Name = p.name(a.rec.Name)
		layer := a.rec.Layer
		pr.Out.Layer = &layer
	}
	if len(alone) == len(p.alone) {
		return
	}
	p.alone = alone
	slices.SortStableFunc(p.Pairs, func(a, b *Pair) int { return dump.ComparePlaces(a.Place, b.Place) })
	p.index()
}

// orphan names the layer that a shift leaves alone.
func orphan(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; %s has no partner", name)
}

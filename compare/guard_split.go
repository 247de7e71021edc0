package compare

import (
	"fmt"

	"github.com/layerparity/parity/dump"
)

// guardSplit looks for vLLM-style layers, which return (hidden, residual): only
// the sum is the residual stream. Where both halves were saved the sum is
// compared; a half alone cannot be repaired.
func guardSplit(p *part) []Guard {
	const remedy = "dump hidden + residual as the layer's output"
	var again []*Pair
	sums, half := 0, 0
	for _, pr := range p.layerPairs() {
		if pr.rel == nil || pr.aside != "" {
			continue
		}
		was := energy(median(pr.rel))
		for _, side := range []struct {
			run  *dump.Run
			view **View
		}{{p.Port, &pr.Port}, {p.Ref, &pr.Ref}} {
			res := side.run.Lookup(dump.LayerName((*side.view).Record.Layer, "residual"))
			if res == nil || res.Err != nil || res.Header.Len() != (*side.view).Record.Header.Len() {
				continue
			}
			half++
			sum := **side.view
			sum.Plus = res
			old := *side.view
			*side.view = &sum
			e, err := p.tokenError(pr.Ref, pr.Port, pr.Geo)
			if err != nil {
				return one(NotChecked, "", "%s", guardError(err))
			}
			if !(e < was) {
				*side.view = old // the stored tensor is the stream already
				continue
			}
			if same(e, was) {
				sums++
			}
			p.explained[res] = "the other half of " + pr.Name
			pr.keepRaw()
			pr.repaired("hidden + residual compared: the layer returns them apart")
			again = append(again, pr)
			break
		}
	}
	if sums > 0 {
		if err := p.sumPairs(again); err != nil {
			return one(NotChecked, "", "%s", guardError(err))
		}
		g := one(Repaired, remedy, "hidden + residual agrees where hidden alone does not, at %d layers, first %s", sums, again[0].Name)
		g[0].Checkpoint = again[0].Name
		return g
	}
	for _, pr := range again { // no sum agreed: leave the tensors as they were
		pr.Ref.Plus, pr.Port.Plus = nil, nil
		pr.Out.Repairs = nil
	}
	if name, evidence := p.halfOnly(); name != "" {
		g := one(Fail, remedy, "%s", evidence)
		g[0].Checkpoint = name
		return g
	}
	if half == 0 {
		return one(NotApplicable, "", "no layer has a second half")
	}
	return one(Pass, "", "layer outputs are whole")
}

// halfOnly looks for layers that hold one half of a split stream alone: they
// equal the other side's mlp_out, or its stream before the MLP, and what was
// computed from them agrees. Where it does not, the model lost its residual.
func (p *part) halfOnly() (name, evidence string) {
	found, tested := 0, 0
	for _, pr := range p.layerPairs() {
		if pr.rel == nil || pr.aside != "" || energy(median(pr.rel)) <= guardTolerance {
			continue
		}
		was := energy(median(pr.rel))
		for _, c := range []struct {
			run  *dump.Run
			view *View
			side string
		}{{p.Ref, pr.Port, "port"}, {p.Port, pr.Ref, "reference"}} {
			for _, tap := range []string{"mlp_out", "ffn_inp"} {
				r := c.run.Lookup(dump.LayerName(pr.Layer, tap))
				if r == nil || r.Err != nil {
					continue
				}
				v := newView(r)
				g, ok := alignTail(v, c.view)
				if !ok {
					continue
				}
				tested++
				e, err := p.tokenError(v, c.view, g)
				if err == nil && same(e, was) && p.heals(pr, was) {
					found++
					if name == "" {
						name = pr.Name
						evidence = fmt.Sprintf("%s of the %s equals the other side's %s (e = %.2g): one half of (hidden, residual) was saved", pr.Name, c.side, r.Name, e)
					}
				}
			}
		}
	}
	if found == 0 || tested == 0 {
		return "", ""
	}
	return name, evidence
}

// heals tells whether what a run computed after a layer agrees although the
// layer's tensor does not, by an error was: the tensor is then not what the next
// block read. The nearest later tap, final norm or logits decide; where none was
// dumped nothing speaks against it.
func (p *part) heals(layer *Pair, was float64) bool {
	after := false
	for _, pr := range p.Pairs {
		if pr == layer {
			after = true
			continue
		}
		if !after || pr.rel == nil || pr.Kind == dump.KindLayer {
			continue
		}
		return energy(median(pr.rel)) <= was/20
	}
	return true
}

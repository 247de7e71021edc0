package compare

import (
	"fmt"

	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/npy"
)

// guardDTypeView looks for 16-bit floats that were saved or labelled as another
// 16-bit type: bfloat16 as integers, float16 bits as bfloat16 and the reverse.
// The reading under which the pair agrees is taken.
func guardDTypeView(p *part) []Guard {
	const remedy = "save bfloat16 as such (2-byte void, named in the manifest) or widen it to float32 before saving"
	var fixed []*Pair
	var how string
	candidates := 0
	for _, pr := range p.Pairs {
		if pr.err != nil || pr.Kind == dump.KindInput || pr.integers() && pr.Tap == "expert_ids" {
			continue
		}
		for _, v := range []*View{pr.Ref, pr.Port} {
			if v.DType.Size() != 2 || v.DType == npy.Int16 && pr.Kind == dump.KindOther {
				continue
			}
			candidates++
			if as, ok := p.tryViews(pr, v); ok {
				fixed = append(fixed, pr)
				how = as
				break
			}
		}
	}
	if candidates == 0 {
		return one(NotApplicable, "", "no 16-bit tensor")
	}
	if len(fixed) == 0 {
		return one(Pass, "", "%d 16-bit tensors are what they are labelled", candidates)
	}
	if err := p.sumPairs(fixed); err != nil {
		return one(NotChecked, "", "%s", guardError(err))
	}
	g := one(Repaired, remedy, "%s: %d checkpoints agree under that reading only", how, len(fixed))
	g[0].Checkpoint = fixed[0].Name
	return g
}

// tryViews reads one side's 16 bits as the other 16-bit floats and keeps the
// reading that makes the pair agree.
func (p *part) tryViews(pr *Pair, v *View) (how string, ok bool) {
	labelled, wasProblem := v.DType, pr.problem
	other := pr.Port
	if v == pr.Port {
		other = pr.Ref
	}
	if other.DType.IsInt() {
		return "", false
	}
	was := 1.0
	if pr.sums != nil {
		was = energy(median(pr.rel))
		if was <= guardTolerance {
			return "", false
		}
	}
	for _, as := range []npy.DType{npy.BFloat16, npy.Float16} {
		if as == labelled {
			continue
		}
		v.DType = as
		pr.fit(p.tokens)
		if pr.problem == "" {
			if e, err := p.tokenError(pr.Ref, pr.Port, pr.Geo); err == nil && same(e, was) {
				side := "port"
				if v == pr.Ref {
					side = "reference"
				}
				pr.keepRaw()
				how = fmt.Sprintf("the %s's %s are %s bits", side, labelled, as)
				pr.repaired("%s", how)
				return how, true
			}
		}
	}
	v.DType, pr.problem = labelled, wasProblem
	return "", false
}

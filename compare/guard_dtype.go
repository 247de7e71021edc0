package compare

import (
	"fmt"
	"iter"
	"slices"

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
	// readings holds what a side's 16-bit type turned out to be; plain counts
	// the tensors of a type that agree as they are labelled.
	readings, plain := make(map[labelled]npy.DType), make(map[labelled]int)
	for _, pr := range p.Pairs {
		for side, v := range pr.narrow() {
			candidates++
			label := labelled{side, v.DType}
			if as, ok := p.tryViews(pr, v, side); ok {
				fixed, how, readings[label] = append(fixed, pr), as, v.DType
				break
			}
			if pr.rel != nil && energy(median(pr.rel)) <= guardTolerance {
				plain[label]++
			}
		}
	}
	agree := len(fixed)
	// What one tensor of a side turned out to be all are, those behind a fault
	// of the model too.
	for _, pr := range p.Pairs {
		for side, v := range pr.narrow() {
			label := labelled{side, v.DType}
			as, ok := readings[label]
			if !ok || plain[label] > 0 || slices.Contains(fixed, pr) {
				continue
			}
			pr.keepRaw()
			v.DType = as
			pr.fit(p.tokens)
			pr.repaired("the %s's %s are %s bits", side, label.dtype, as)
			fixed = append(fixed, pr)
		}
	}
	if len(fixed) == 0 {
		for _, pr := range p.Pairs {
			for side, v := range pr.narrow() {
				if v.DType.IsInt() && !pr.integers() {
					g := one(Fail, remedy, "%s of the %s holds %s where floats belong, and neither as bfloat16 nor as float16 does it agree", pr.Name, side, v.DType)
					g[0].Checkpoint = pr.Name
					return g
				}
			}
		}
	}
	if len(fixed) == 0 {
		if n, at, says := p.statedViews(); n > 0 {
			g := one(Repaired, remedy, "%s: %d checkpoints were read so", says, n)
			g[0].Checkpoint = at
			return g
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
	g := one(Repaired, remedy, "%s: %d checkpoints agree under that reading only", how, agree)
	g[0].Checkpoint = fixed[0].Name
	return g
}

// statedViews counts the pairs that hold 16-bit integers which a manifest says
// are floats; reading them needed no test, and is said.
func (p *part) statedViews() (n int, at, says string) {
	for _, pr := range p.Pairs {
		for side, v := range pr.narrow() {
			if stored := v.Record.Header.DType; stored.IsInt() && v.DType.IsFloat() {
				if n++; at == "" {
					at, says = pr.Name, fmt.Sprintf("the %s's %s are %s bits by its manifest", side, stored, v.DType)
				}
				break
			}
		}
	}
	return n, at, says
}

// labelled is a type as one side's files call it.
type labelled struct {
	side  string
	dtype npy.DType
}

// narrow yields the sides of a pair that hold 16 bits where floats belong.
func (p *Pair) narrow() iter.Seq2[string, *View] {
	return func(yield func(string, *View) bool) {
		if p.err != nil || p.Kind == dump.KindInput || p.integers() && p.Tap == "expert_ids" {
			return
		}
		for _, s := range []struct {
			side string
			v    *View
		}{{"reference", p.Ref}, {"port", p.Port}} {
			if s.v.DType.Size() != 2 || s.v.DType == npy.Int16 && p.Kind == dump.KindOther {
				continue
			}
			if !yield(s.side, s.v) {
				return
			}
		}
	}
}

// tryViews reads one side's 16 bits as the other 16-bit floats and keeps the
// reading that makes the pair agree.
func (p *part) tryViews(pr *Pair, v *View, side string) (how string, ok bool) {
	label, wasProblem := v.DType, pr.problem
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
		if as == label {
			continue
		}
		v.DType = as
		pr.fit(p.tokens)
		if pr.problem == "" {
			if e, err := p.tokenError(pr.Ref, pr.Port, pr.Geo); err == nil && same(e, was) {
				pr.keepRaw()
				how = fmt.Sprintf("the %s's %s are %s bits", side, label, as)
				pr.repaired("%s", how)
				return how, true
			}
		}
	}
	v.DType, pr.problem = label, wasProblem
	return "", false
}

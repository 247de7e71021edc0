package compare

import (
	"fmt"

	"github.com/layerparity/parity/dump"
)

// guardMask checks the attention mask of both runs. Without one in the dump it
// looks for what a decode prefix without its mask leaves: equal ids, and
// embeddings right up to a position and wrong from it on.
func guardMask(p *part) []Guard {
	const remedy = "extend attention_mask (and position_ids) to the whole prefix in the run that was dumped"
	if m := p.lookup("attention_mask"); m != nil && m.comparable() {
		if m.Out.Ints != nil && !m.Out.Ints.Equal {
			g := one(Fail, remedy, "the masks differ at %d places, first at %v", m.Out.Ints.Different, m.Out.Ints.FirstAt)
			g[0].Checkpoint = "attention_mask"
			return g
		}
		return one(Pass, "", "both masks are equal")
	}
	a, b := p.Ref.Lookup("attention_mask"), p.Port.Lookup("attention_mask")
	if m := p.lookup("attention_mask"); m != nil && m.problem != "" {
		g := one(Fail, remedy, "the masks differ: %s", m.problem)
		g[0].Checkpoint = "attention_mask"
		return g
	}
	for _, side := range []struct {
		name string
		rec  *dump.Record
	}{{"reference", a}, {"port", b}} {
		if side.rec == nil || side.rec.Err != nil || p.tokens == 0 {
			continue
		}
		if s := side.rec.Shape(); len(s) > 0 && s[len(s)-1] < p.tokens {
			g := one(Fail, remedy, "the %s's attention_mask covers %d of %d tokens", side.name, s[len(s)-1], p.tokens)
			g[0].Checkpoint = "attention_mask"
			return g
		}
	}
	if from, at := p.maskOnset(); from > 0 {
		return []Guard{{Status: NotChecked, Checkpoint: at, Remedy: remedy,
			Evidence: fmt.Sprintf("ids are equal, and %s is right up to token %d and wrong from token %d on: a prefix whose mask or positions were not extended looks so; attention_mask was not dumped", at, from-1, from)}}
	}
	if p.mode() == "teacher_forced" {
		return one(NotChecked, "dump attention_mask for decode prefixes", "a decode prefix without attention_mask in the dump")
	}
	return one(NotApplicable, "", "no mask was dumped and no sign of a wrong one")
}

// mode returns what the manifests say of the run, "" where they say nothing.
func (p *part) mode() string {
	for _, r := range []*dump.Run{p.Ref, p.Port} {
		if r.Manifest != nil && r.Manifest.Mode != "" {
			return r.Manifest.Mode
		}
	}
	return ""
}

// maskOnset finds, at post_embed, the token from which all rows are wrong while
// all before are right.
func (p *part) maskOnset() (from int, at string) {
	pr := p.lookup("post_embed")
	if pr == nil || pr.rel == nil || !p.tokensEqual() {
		return 0, ""
	}
	n := len(pr.rel)
	for from < n && energy(pr.rel[from]) <= guardTolerance {
		from++
	}
	if from == 0 || from == n {
		return 0, ""
	}
	for _, r := range pr.rel[from:] {
		if energy(r) <= guardTolerance {
			return 0, ""
		}
	}
	return from, pr.Name
}

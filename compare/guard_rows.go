package compare

import (
	"fmt"

	"github.com/layerparity/parity/dump"
)

// rowShape sees a float tensor as rows and columns for row alignment: the last
// axis and everything before it; ok is false for shapes with heads.
func rowShape(v *View) (rows, cols int, ok bool) {
	s := dropOnes(v.Record.Shape())
	switch len(s) {
	case 1:
		return 1, s[0], true
	case 2:
		return s[0], s[1], true
	}
	return 0, 0, false
}

// guardExtraRows repairs pairs where one side has more rows: the whole sequence
// against its last position for final norm and logits, and padding that is the
// same at every checkpoint.
func guardExtraRows(p *part) []Guard {
	const remedy = "dump the same positions on both sides"
	last, err := p.lastRows()
	if err != nil {
		return one(NotChecked, "", "%s", guardError(err))
	}
	extra, bad := p.extraRows()
	if len(extra) == 0 {
		if len(last) > 0 {
			g := one(Repaired, remedy, "one side keeps only the last position of %s: compared with the last row of the other", summary(last))
			g[0].Checkpoint, g[0].Convention = last[0], true
			return g
		}
		return one(Pass, "", "no side has rows that the other lacks")
	}
	if bad != "" || !p.trustTokens() {
		return one(NotApplicable, "", "rows differ, and not by the same count everywhere: %s", bad)
	}
	if len(extra) == 1 {
		return one(NotApplicable, "", "only %s differs in rows: one checkpoint does not tell padding from a wrong shape", extra[0].Name)
	}
	how, err := p.alignRows(extra)
	if err != nil {
		return one(NotChecked, "", "%s", guardError(err))
	}
	if how == "" {
		g := one(Fail, remedy, "one side has more rows at every checkpoint, and no alignment makes them agree")
		g[0].Checkpoint = extra[0].Name
		return g
	}
	g := one(Repaired, remedy, "%s", how)
	g[0].Checkpoint = extra[0].Name
	return g
}

// trustTokens is false when the ids were found to differ: then rows differ
// because the inputs do.
func (p *part) trustTokens() bool {
	for _, g := range p.guards {
		sampled := g.ID == "capture.extra_rows" && g.Checkpoint == "prompt_tokens"
		if (g.ID == "input.tokens" || g.ID == "input.extra_token" || sampled) && g.Status == Fail {
			return false
		}
	}
	return true
}

// lastRows compares final norm and logits of one position with the last row of
// the side that has all.
func (p *part) lastRows() (names []string, err error) {
	var fixed []*Pair
	for _, pr := range p.Pairs {
		if (pr.Kind != dump.KindFinalNorm && pr.Kind != dump.KindLogits) || pr.problem == "" || pr.err != nil {
			continue
		}
		n, c1, ok1 := rowShape(pr.Ref)
		m, c2, ok2 := rowShape(pr.Port)
		if !ok1 || !ok2 || c1 != c2 || n == m || min(n, m) != 1 || pr.Ref.DType.IsInt() || pr.Port.DType.IsInt() {
			continue
		}
		pr.rows(1, c1, n-1, m-1)
		pr.repaired("shapes %v and %v: the last of %d rows compared", pr.Ref.Record.Shape(), pr.Port.Record.Shape(), max(n, m))
		fixed, names = append(fixed, pr), append(names, pr.Name)
	}
	return names, p.sumPairs(fixed)
}

// extraRows lists the pairs that differ in rows only. bad says where the counts
// are not the same everywhere.
func (p *part) extraRows() (extra []*Pair, bad string) {
	dn, dm := 0, 0
	for _, pr := range p.Pairs {
		if pr.err != nil || pr.Kind == dump.KindInput || pr.Kind == dump.KindOther || pr.integers() {
			continue
		}
		n, c1, ok1 := rowShape(pr.Ref)
		m, c2, ok2 := rowShape(pr.Port)
		if !ok1 || !ok2 || c1 != c2 {
			continue
		}
		if n == m {
			if n > 1 && bad == "" && (pr.Residual() || pr.Kind == dump.KindTap) {
				bad = fmt.Sprintf("%s has %d rows on both sides", pr.Name, n)
			}
			continue
		}
		if pr.problem == "" || (min(n, m) == 1 && !pr.Residual()) {
			continue
		}
		if dn == 0 {
			dn, dm = n, m
		}
		if n != dn || m != dm {
			bad = fmt.Sprintf("%s has %d and %d rows, %s %d and %d", extra[0].Name, dn, dm, pr.Name, n, m)
		}
		extra = append(extra, pr)
	}
	return extra, bad
}

// maxOffset bounds how many alignments are tried.
const maxOffset = 256

// alignRows finds where the shorter side's rows lie in the longer one's and
// applies that to every pair.
func (p *part) alignRows(extra []*Pair) (how string, err error) {
	probe := extra[0]
	n, cols, _ := rowShape(probe.Ref)
	m, _, _ := rowShape(probe.Port)
	short, diff := min(n, m), max(n, m)-min(n, m)
	best, at := guardTolerance, -1
	for off := 0; off <= min(diff, maxOffset); off++ {
		shift := off
		if off == min(diff, maxOffset) {
			shift = diff // the other end, however far
		}
		ref, port := newView(probe.Ref.Record), newView(probe.Port.Record)
		if n > m {
			ref.Row0 = shift
		} else {
			port.Row0 = shift
		}
		e, err := p.tokenError(ref, port, Geometry{Shape: []int{short, cols}, Rows: short, Cols: cols, Tokens: short, Batch: 1})
		if err != nil {
			return "", err
		}
		if e <= best {
			best, at = e, shift
			if e == 0 {
				break
			}
		}
	}
	if at < 0 {
		return "", nil
	}
	side := "port"
	if n > m {
		side = "reference"
	}
	for _, pr := range extra {
		_, c, _ := rowShape(pr.Ref)
		if n > m {
			pr.rows(short, c, at, 0)
		} else {
			pr.rows(short, c, 0, at)
		}
		pr.repaired("%d rows that only the %s has were left out", diff, side)
	}
	for _, pr := range p.Pairs { // probabilities over another length cannot be cut
		if pr.Tap == "attn_probs" && pr.problem != "" {
			pr.aside, pr.problem = "its rows and keys include those that only one side has", ""
		}
	}
	where := fmt.Sprintf("%d at the start and %d at the end", at, diff-at)
	how = fmt.Sprintf("the %s has %d rows more at every checkpoint (%s): ignored, %d rows compared", side, diff, where, short)
	return how, p.sumPairs(extra)
}

// guardRowShift looks for a port whose rows are the reference's moved by one
// token although the ids are equal.
func guardRowShift(p *part) []Guard {
	if !p.trustTokens() {
		return one(NotApplicable, "", "the ids differ")
	}
	moved, tested := 0, 0
	by, first := 0, ""
	for _, pr := range p.Pairs {
		if !pr.Residual() || pr.rel == nil || pr.Geo.Rows < 4 || pr.Geo.Batch > 1 {
			continue
		}
		tested++
		was := energy(median(pr.rel))
		if was <= guardTolerance {
			continue
		}
		for _, s := range []int{1, -1} {
			ref, port := *pr.Ref, *pr.Port
			if s > 0 {
				port.Row0 += s
			} else {
				ref.Row0 -= s
			}
			n := pr.Geo.Rows - 1
			e, err := p.tokenError(&ref, &port, Geometry{Shape: []int{n, pr.Geo.Cols}, Rows: n, Cols: pr.Geo.Cols, Tokens: n, Batch: 1})
			if err != nil {
				return one(NotChecked, "", "%s", guardError(err))
			}
			if same(e, was) {
				moved++
				by = s
				if first == "" {
					first = pr.Name
				}
			}
		}
		if moved == 0 && tested >= 3 {
			break // a shift would be everywhere
		}
	}
	switch {
	case tested == 0:
		return one(NotApplicable, "", "no checkpoint with rows to shift")
	case moved == 0:
		return one(Pass, "", "rows stand at their tokens")
	}
	g := one(Fail, "look for an extra BOS, left against right padding, or a slice [1:] in one dumper",
		"row t+%d of the port is row t+%d of the reference at %d checkpoints, first %s", max(by, 0), max(-by, 0), moved, first)
	g[0].Checkpoint = first
	return g
}

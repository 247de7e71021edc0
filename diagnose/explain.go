// Package diagnose says why two dumps differ: it tests hypotheses on the dumped
// tensors at the place where the error enters, and reports what it can prove.
package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/dump"
)

// Options choose how a comparison is explained.
type Options struct {
	// Progress is told which checkpoint is being looked at; nil is silent.
	Progress func(what string)
}

// Explain tests the hypotheses and fills c.Findings. The order of work is that
// of docs/diagnosis.md: inputs and captures (the guards), then the place where
// the error enters, then what differs independently downstream. What fits
// nothing is reported as unknown, with the taps that would settle it.
func Explain(ctx context.Context, c *compare.Comparison, o Options) error {
	e := &explainer{ctx: ctx, c: c, o: o, notes: map[string]bool{}}
	e.guards()
	switch c.Verdict {
	case compare.Divergence:
		e.divergence()
	case compare.Untrusted:
		e.untrusted()
	case compare.Parity:
		e.benign()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e.finish()
	c.Findings = e.findings
	if s := nextStep(c); s != "" {
		c.NextStep = s
	}
	return nil
}

// explainer is one run of Explain.
type explainer struct {
	ctx      context.Context
	c        *compare.Comparison
	o        Options
	findings []compare.Finding
	// tried are the ids of hypotheses that were tested, notes what they refused.
	tried    []string
	notes    map[string]bool
	noteList []string
}

// guards turns what the guards found into findings.
func (e *explainer) guards() {
	for _, g := range e.c.Guards {
		if g.Status != compare.Fail && g.Status != compare.Repaired || g.Convention {
			continue
		}
		f := compare.Finding{Cause: g.ID, Checkpoint: g.Checkpoint, Proof: compare.ProofSignature, Claim: g.Evidence, Fix: g.Remedy,
			Verify: "dump again after the remedy, and compare", For: []string{"guard " + g.ID + " " + string(g.Status)}}
		if ck := e.checkpoint(g.Checkpoint); ck != nil {
			f.Layer = ck.Layer
			if ck.Raw != nil && ck.Figures != nil && g.Status == compare.Repaired {
				f.Before, f.After, f.Proof = ck.Raw.RelL2, ck.RelL2, compare.ProofExact
				if ck.Floor != nil {
					f.Floor = compare.Num(math.Sqrt(2 * float64(*ck.Floor)))
				}
				f.Rows = ck.Tokens
			}
		}
		if g.Status == compare.Fail && g.ID != "input.embedding" {
			f.Proof = compare.ProofExact // the guard measured it on the tensors
		} // that the embedding differs is a place, not yet a cause
		e.findings = append(e.findings, f)
	}
}

// checkpoint finds a checkpoint of the report.
func (e *explainer) checkpoint(name string) *compare.Checkpoint {
	for _, ck := range e.c.Checkpoints {
		if ck.Name == name {
			return ck
		}
	}
	return nil
}

// divergence explains where the error enters, then looks downstream.
func (e *explainer) divergence() {
	part, at := e.place()
	if part == nil {
		return
	}
	src := NewSource(e.c, part)
	found := e.test(src, part, at)
	if len(found) == 0 {
		// Other places that are bad while their inputs are good, siblings of
		// the first: both halves of a pair of taps.
		for _, p := range part.Pairs {
			if p.Name != at && p.EntersHere() && len(found) == 0 {
				found = e.test(src, part, p.Name)
			}
		}
	}
	c := NewContext(src, at, floorOf(part), e.note)
	e.c.Reasoning = append(e.c.Reasoning, Reasoning(c)...)
	if c.Layer >= 0 && c.Tap != "layer" { // the signatures are told by the block's output
		e.c.Reasoning = append(e.c.Reasoning, Reasoning(c.Move(LayerName(c.Layer, "")))...)
	}
	e.findings = append(e.findings, found...)
	if len(found) > 0 {
		e.downstream(src, part, at, found)
	}
}

// place returns the part and the canonical name of the checkpoint that is
// explained first.
func (e *explainer) place() (*compare.Part, string) {
	name := ""
	switch {
	case e.c.Enters != nil:
		name = e.c.Enters.Checkpoint
	case e.c.First != nil:
		name = e.c.First.Checkpoint
	default:
		for _, ck := range e.c.Checkpoints {
			if ck.Status == compare.Incomparable || ck.Status == compare.Fails {
				name = ck.Name
				break
			}
		}
	}
	for _, p := range e.c.Parts {
		base, ok := strings.CutPrefix(name, p.Label())
		if !ok {
			continue
		}
		base = strings.TrimPrefix(base, "/")
		if p.Find(base) != nil {
			return p, base
		}
	}
	return nil, ""
}

// test runs every hypothesis that applies at a checkpoint and returns what they
// found, best first.
func (e *explainer) test(src Source, part *compare.Part, at string) []compare.Finding {
	if e.o.Progress != nil {
		e.o.Progress(at)
	}
	c := NewContext(src, at, floorOf(part), e.note)
	var found []compare.Finding
	for _, h := range Hypotheses() {
		if e.ctx.Err() != nil {
			return nil
		}
		if !h.Applies(c.Tap) {
			continue
		}
		if !slices.Contains(e.tried, h.ID) {
			e.tried = append(e.tried, h.ID)
		}
		found = append(found, e.run(h, c)...)
	}
	for i := range found {
		e.locate(&found[i], part)
	}
	return best(found)
}

// run tests one hypothesis; a bug in it must not cost the user the others.
func (e *explainer) run(h Hypothesis, c *Context) (found []compare.Finding) {
	defer func() {
		if r := recover(); r != nil {
			e.c.Warnings = append(e.c.Warnings, fmt.Sprintf("hypothesis %s failed at %s: %v; please report it", h.ID, c.At, r))
			found = nil
		}
	}()
	return h.Test(c)
}

// locate puts the part's label before a finding's checkpoint and the paths into
// its try line.
func (e *explainer) locate(f *compare.Finding, part *compare.Part) {
	if l := part.Label(); l != "" && !strings.HasPrefix(f.Checkpoint, l) {
		f.Checkpoint = l + "/" + f.Checkpoint
	}
	flags := partFlags(part)
	if strings.Contains(f.Try, "cache=true") || otherPart(f.Try, part) {
		flags = "" // it reads other steps or ranks too; the place says which
	}
	f.Try = strings.Replace(f.Try, "REF PORT", quote(e.c.Ref.Path)+" "+quote(e.c.Port.Path)+flags, 1)
}

// otherPart tells whether a try line reads tensors of another step or rank than
// its own, which flags that select one part would hide.
func otherPart(try string, part *compare.Part) bool {
	for _, w := range partWord.FindAllStringSubmatch(try, -1) {
		n, err := strconv.Atoi(w[2])
		if err != nil || w[1] == "step" && n != part.Step || w[1] == "rank" && n != part.Rank {
			return true
		}
	}
	return false
}

// partWord finds the prefixes of parts in a try line.
var partWord = regexp.MustCompile(`\b(step|rank)_(\d+)/`)

// partFlags are the flags that select a part.
func partFlags(p *compare.Part) string {
	if p.Label() == "" {
		return ""
	}
	s := ""
	if p.Step >= 0 {
		s += fmt.Sprintf(" --step %d", p.Step)
	}
	if p.Rank >= 0 {
		s += fmt.Sprintf(" --rank %d", p.Rank)
	}
	return s
}

// quote makes a path one word of a POSIX shell.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// unknownFloor is the rel_l2 that a proof is held to where nothing tells the
// precision: bfloat16's. The verdict's own floor is the protocol's cosine there,
// which would let half a fault pass for an exact explanation.
var unknownFloor = math.Sqrt(2 * 5e-4)

// floorOf takes floors from the comparison's pairs.
func floorOf(part *compare.Part) func(string) float64 {
	of := func(p *compare.Pair) float64 {
		if p.Class() == dump.Unknown {
			return unknownFloor
		}
		return p.FloorRel()
	}
	return func(name string) float64 {
		if p := part.Find(name); p != nil {
			return of(p)
		}
		for _, p := range part.Pairs {
			if p.Good() || p.Bad() {
				return of(p)
			}
		}
		return unknownFloor
	}
}

// note records a refusal once.
func (e *explainer) note(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !e.notes[s] {
		e.notes[s] = true
		e.noteList = append(e.noteList, s)
	}
}

// proofRank orders proofs, strongest first.
var proofRank = map[compare.Proof]int{compare.ProofExact: 0, compare.ProofFit: 1, compare.ProofSignature: 2}

// best sorts findings by proof, then by the energy they explain, then by place;
// one cause at one checkpoint is kept once, and no fit beside an exact proof.
func best(found []compare.Finding) []compare.Finding {
	slices.SortStableFunc(found, func(a, b compare.Finding) int {
		if c := cmp.Compare(proofRank[a.Proof], proofRank[b.Proof]); c != 0 {
			return c
		}
		if c := cmp.Compare(left(a), left(b)); c != 0 {
			return c
		}
		return cmp.Compare(a.Params, b.Params)
	})
	var out []compare.Finding
	for _, f := range found {
		if !slices.ContainsFunc(out, func(g compare.Finding) bool {
			return g.Checkpoint == f.Checkpoint && (g.Cause == f.Cause || g.Proof == compare.ProofExact && f.Proof == compare.ProofFit)
		}) {
			out = append(out, f)
		}
	}
	return out
}

// left is the share of the error's energy that a finding leaves unexplained, in
// steps of a tenth of a decade, so that rounding does not order findings.
func left(f compare.Finding) float64 {
	if !(f.Before > 0) {
		return 1
	}
	// Below the floor nothing is left to compare: fewer parameters decide.
	s := math.Max(float64(f.After), float64(f.Floor)) / float64(f.Before)
	if !(s > 1e-12) {
		s = 1e-12
	}
	return math.Round(10 * math.Log10(s*s))
}

// untrusted explains a failed embedding, which the tensors may still name. What
// follows from a wrong embedding blames no layer; only where the embedding is
// explained exactly are later faults looked for, and only proofs on the port's
// own inputs count.
func (e *explainer) untrusted() {
	for _, g := range e.c.Guards {
		if g.Status != compare.Fail || g.ID != "input.embedding" {
			continue
		}
		for _, part := range e.c.Parts {
			if part.Label() != g.Part {
				continue
			}
			src := NewSource(e.c, part)
			// What the embedding is made of comes first: pixels, a time embedding, a
			// tower's output. Where one differs, the embedding only follows.
			var found []compare.Finding
			inherited := false
			for _, p := range part.Pairs {
				if slices.Contains(embeddingInputs, p.Name) && p.Bad() {
					inherited = true
					found = append(found, e.test(src, part, p.Name)...)
				}
			}
			if inherited {
				e.findings = append(found, e.findings...)
				continue
			}
			found = e.test(src, part, "post_embed")
			e.findings = append(found, e.findings...)
			if len(found) > 0 && found[0].Proof == compare.ProofExact {
				e.downstream(src, part, "post_embed", found)
			}
		}
	}
}

// embeddingInputs are the dumped tensors that post_embed may be computed from.
var embeddingInputs = []string{"pixel_values", "tower_out", "time_embed"}

// benign explains what differs and is right: layouts, precision, ties.
func (e *explainer) benign() {
	for _, part := range e.c.Parts {
		src := NewSource(e.c, part)
		last := ""
		for _, p := range part.Pairs {
			if p.Benign() {
				e.keepBenign(e.test(src, part, p.Name))
			}
			if p.Good() && strings.HasPrefix(p.Name, "layer_") {
				last = p.Name
			}
		}
		if last != "" {
			e.keepBenign(e.test(src, part, last))
		}
	}
}

// keepBenign keeps the findings that accuse nobody.
func (e *explainer) keepBenign(found []compare.Finding) {
	for _, f := range found {
		if !strings.HasPrefix(f.Cause, "benign.") || slices.ContainsFunc(e.findings, func(g compare.Finding) bool { return g.Cause == f.Cause }) {
			continue
		}
		e.findings = append(e.findings, f)
	}
}

// finish adds an honest unknown where a divergence has no explanation, and puts
// signatures after proofs.
func (e *explainer) finish() {
	if e.c.Verdict == compare.Divergence {
		e.findings = slices.DeleteFunc(e.findings, func(f compare.Finding) bool {
			return strings.HasPrefix(f.Cause, "benign.") && f.Proof != compare.ProofExact
		})
		proven := slices.ContainsFunc(e.findings, func(f compare.Finding) bool {
			return f.Proof != compare.ProofSignature && !strings.HasPrefix(f.Cause, "capture.") && !strings.HasPrefix(f.Cause, "benign.")
		})
		if !proven {
			e.findings = append(e.findings, e.unknown())
		}
	}
	slices.SortStableFunc(e.findings, func(a, b compare.Finding) int {
		return cmp.Compare(proofRank[a.Proof], proofRank[b.Proof])
	})
	if e.findings == nil {
		e.findings = []compare.Finding{}
	}
}

// unknown says what was tried and which tensors would settle it.
func (e *explainer) unknown() compare.Finding {
	f := compare.Finding{Cause: "unknown", Proof: compare.ProofSignature}
	if e.c.Enters != nil {
		f.Checkpoint, f.Layer = e.c.Enters.Checkpoint, e.c.Enters.Layer
	} else if e.c.First != nil {
		f.Checkpoint, f.Layer = e.c.First.Checkpoint, e.c.First.Layer
	}
	f.Claim = fmt.Sprintf("no hypothesis that could be tested fits (%s)", strings.Join(e.tried, ", "))
	f.Against = e.noteList
	f.Verify = e.wanted(f)
	return f
}

// blockTaps are the taps that localise an error inside a block, in order.
var blockTaps = []string{"input_norm", "q", "k", "v", "q_rope", "k_rope", "attn_probs", "attn_ctx", "attn_out", "post_attn_norm", "mlp_gate", "mlp_up", "mlp_act", "mlp_out"}

// wanted names the taps of the block that were not dumped on both sides.
func (e *explainer) wanted(f compare.Finding) string {
	part, at := e.place()
	if part == nil {
		return ""
	}
	layer, _ := SplitName(at)
	if layer < 0 {
		return "dump the sub-taps of the first and the last layer on both sides, and compare again"
	}
	var missing []string
	for _, t := range blockTaps {
		if part.Find(LayerName(layer, t)) == nil {
			missing = append(missing, LayerName(layer, t))
		}
	}
	if len(missing) == 0 {
		return fmt.Sprintf("all taps of layer %d were dumped: dump a second run of the port to tell a race from a fault, and repeat in float32", layer)
	}
	return "these taps on both sides would settle it: " + strings.Join(missing, ", ")
}

package compare

import (
	"fmt"

	"github.com/layerparity/parity/dump"
)

// decide sets the verdict by the table of docs/metrics.md: the highest row that
// applies, over all steps and ranks.
func (c *Comparison) decide(parts []*part, entry *Pair, o Options) {
	c.Verdict, c.Reason = c.judge(parts, entry, o)
	c.ExitStatus = c.Verdict.Info().Exit
	switch c.Verdict {
	case Untrusted:
		c.First = nil // no layer is blamed; first_raw tells what was seen
	default:
		if entry != nil {
			c.Enters = entry.describe()
		}
	}
	c.NextStep = nextStep(c)
}

// judge walks the rows of the verdict table from the top.
func (c *Comparison) judge(parts []*part, entry *Pair, o Options) (Verdict, string) {
	if why := c.unreadable(parts); why != "" {
		return Trouble, why
	}
	if c.Coverage.Paired == 0 {
		return Trouble, c.nothing(parts)
	}
	for _, g := range c.Guards {
		if g.Status == Fail {
			return Untrusted, fmt.Sprintf("%s: %s", g.ID, g.Evidence)
		}
	}
	if o.Strict {
		for _, g := range c.Guards {
			// A comparison can undo what these dumpers did; a proof of the dumpers
			// must not.
			if g.Status == Repaired && dumperFaults[g.ID] {
				return Untrusted, fmt.Sprintf("%s: %s", g.ID, g.Evidence)
			}
			if g.Status == NotChecked {
				return Untrusted, fmt.Sprintf("%s could not be checked: %s", g.ID, g.Evidence)
			}
		}
	}
	if entry != nil {
		return Divergence, fmt.Sprintf("the error enters at %s", entry.Out.Name)
	}
	for _, p := range parts {
		for _, pr := range p.Pairs {
			if pr.err == nil && pr.problem != "" && pr.aside == "" {
				return Divergence, fmt.Sprintf("%s cannot be compared: %s", pr.Out.Name, pr.problem)
			}
		}
	}
	if !anyTensor(parts) {
		return Trouble, c.nothing(parts)
	}
	if c.First != nil {
		return Divergence, fmt.Sprintf("%s is past its threshold: %s", c.First.Checkpoint, c.First.words())
	}
	for _, p := range parts {
		for _, pr := range p.Pairs {
			if pr.sums == nil || pr.aside != "" || pr.state.benign {
				continue
			}
			if why, bad := thresholdRule(p, pr); bad {
				return Divergence, fmt.Sprintf("%s is past its threshold: %s", pr.Out.Name, why)
			}
		}
	}
	c.accumulated(parts)
	c.unknownPrecision(parts)
	return Parity, fmt.Sprintf("%d checkpoints agree within their floors or thresholds", c.Coverage.Compared)
}

// dumperFaults are the guards whose repair hides a fault of the dumper. Rows that
// only one side keeps and 16-bit views are conventions of an engine.
var dumperFaults = map[string]bool{
	"capture.index_shift": true, "capture.post_final_norm": true, "capture.split_residual": true, "capture.scaled_residual": true,
}

// words says how a place crosses its threshold.
func (f *First) words() string {
	switch f.By {
	case "integers":
		return "integers differ"
	case "nonfinite":
		return "NaN or Inf on one side only"
	}
	return fmt.Sprintf("%s %.6f is below %g", f.By, float64(f.Value), float64(f.Threshold))
}

// unreadable names the first file that cannot be read whole.
func (c *Comparison) unreadable(parts []*part) string {
	for _, p := range parts {
		for _, pr := range p.Pairs {
			if pr.err != nil {
				return fmt.Sprintf("%s cannot be read: %v", pr.Out.Name, pr.err)
			}
		}
		for _, a := range p.alone {
			if a.rec.Err != nil {
				return fmt.Sprintf("%s cannot be read: %v", p.name(a.rec.Name), a.rec.Err)
			}
		}
	}
	return ""
}

// nothing explains why nothing was compared.
func (c *Comparison) nothing(parts []*part) string {
	if len(parts) == 0 {
		return "nothing to compare: no step and rank is in both dumps; --step and --rank choose one where the other side has no such folders"
	}
	if c.Coverage.Paired == 0 {
		return "nothing to compare: no checkpoint is in both dumps; see the unpaired names, --map renames them"
	}
	if c.Coverage.Compared > 0 {
		return "nothing that the model computed was compared, only its inputs; see the unpaired names, --map renames them"
	}
	return "nothing could be compared: every pair is empty, without a finite value on both sides, or was set aside"
}

// anyTensor tells whether anything was compared that the model computed: equal
// ids, positions and masks alone are no success.
func anyTensor(parts []*part) bool {
	for _, p := range parts {
		for _, pr := range p.Pairs {
			if pr.compared() && !(pr.Kind == dump.KindInput && pr.integers()) {
				return true
			}
		}
	}
	return false
}

// accumulated warns where errors are above their floors and entered nowhere.
func (c *Comparison) accumulated(parts []*part) {
	for _, p := range parts {
		for _, pr := range p.Pairs {
			if pr.state.bad && !pr.state.benign && pr.accumulated() {
				c.Warnings = append(c.Warnings, fmt.Sprintf("%s: %s, with a gain of only %.1f over its inputs: accumulated, no single place; repeat in a wider dtype to settle", pr.Out.Name, pr.state.reason, pr.state.gain))
				return
			}
		}
	}
}

// unknownPrecision warns where only the protocol's threshold could be held
// against errors that float32 would not make.
func (c *Comparison) unknownPrecision(parts []*part) {
	for _, p := range parts {
		for _, pr := range p.Pairs {
			if pr.precision == dump.Unknown && pr.sums != nil && pr.aside == "" && pr.computed() && pr.state.e > floors[dump.Float32].e {
				c.Warnings = append(c.Warnings, fmt.Sprintf("the dumps do not say what precision they were computed in, so only the cosine %g was asked for: %s has a median token error of %.2g, float32 would be held to %.0g; a manifest or --floor float32 settles it", float64(c.Thresholds.Cos), pr.Out.Name, pr.state.e, floors[dump.Float32].e))
				return
			}
		}
	}
}

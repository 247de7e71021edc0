package diagnose

import (
	"fmt"
	"strings"

	"github.com/layerparity/parity/compare"
)

// Brief writes the hypotheses of an explained comparison as a Markdown table to
// divide among several people: claim, evidence for and against with numbers, the
// cheapest next check, taps to add.
func Brief(c *compare.Comparison) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Hypotheses: %s against %s\n\nVerdict: **%s** - %s\n\n", cellText(c.Ref.Path), cellText(c.Port.Path), c.Verdict, cellText(c.Reason))
	if c.Enters != nil {
		fmt.Fprintf(&b, "The error enters at `%s`: %s\n\n", c.Enters.Checkpoint, cellText(c.Enters.Text))
	}
	b.WriteString("| # | cause | where | proof | claim | for | against | next check |\n|--:|---|---|---|---|---|---|---|\n")
	for i, f := range c.Findings {
		evidence := f.For
		if f.Before != 0 || f.After != 0 {
			evidence = append([]string{fmt.Sprintf("rel_l2 %.2g before, %.2g after, floor %.2g", float64(f.Before), float64(f.After), float64(f.Floor))}, evidence...)
		}
		next := f.Verify
		if f.Try != "" {
			next = strings.TrimSpace("`" + strings.ReplaceAll(f.Try, "`", "'") + "` " + next)
		}
		fmt.Fprintf(&b, "| %d | `%s` | `%s` | %s | %s | %s | %s | %s |\n", i+1, f.Cause, cellText(f.Checkpoint), f.Proof, cellText(f.Claim),
			cellText(strings.Join(evidence, "; ")), cellText(strings.Join(f.Against, "; ")), strings.ReplaceAll(next, "|", `\|`))
	}
	b.WriteString("\n## Not testable or silent here\n\n| hypothesis | causes | needs |\n|---|---|---|\n")
	for _, h := range Hypotheses() {
		said := false
		for _, f := range c.Findings {
			for _, id := range h.Causes {
				said = said || id == f.Cause
			}
		}
		if !said {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", h.ID, strings.Join(h.Causes, ", "), cellText(h.Needs))
		}
	}
	fmt.Fprintf(&b, "\nNext: %s\n", cellText(c.NextStep))
	return b.String()
}

// cellText keeps text inside one table cell.
func cellText(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;").Replace(s)
}

package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/layerparity/parity/compare"
)

// md escapes text for a Markdown line or table cell.
func md(s string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "#", `\#`, "@", "@\u200b").Replace(clean(s))
}

// code quotes a name as code; a backtick inside cannot end it.
func code(s string) string { return "`" + strings.ReplaceAll(clean(s), "`", "'") + "`" }

// cell quotes a name as code inside a table.
func cell(s string) string { return strings.ReplaceAll(code(s), "|", `\|`) }

// Markdown writes the comparison for a pull request or a job summary.
func Markdown(w io.Writer, c *compare.Comparison, o Options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## parity: %s\n\n%s\n\n", headline(c), md(c.Reason))
	if e := c.Enters; e != nil {
		fmt.Fprintf(&b, "- **enters at** %s: %s\n", code(e.Checkpoint), md(e.Text))
	}
	if c.First != nil {
		fmt.Fprintf(&b, "- **first below the threshold** %s\n", md(firstText(c.First)))
	}
	if r := c.FirstRaw; r != nil && (c.First == nil || c.First.Checkpoint != r.Checkpoint) {
		fmt.Fprintf(&b, "- **before repairs** %s\n", md(firstText(r)))
	}
	fmt.Fprintf(&b, "- **ref** %s\n- **port** %s\n- **coverage** %d compared, %d of %d layers\n\n", md(side(c.Ref)), md(side(c.Port)), c.Coverage.Compared, c.Coverage.Layers, c.Coverage.LayersAll)
	b.WriteString("| guard | status | evidence | remedy |\n|---|---|---|---|\n")
	for _, g := range c.Guards {
		if o.All || notable(g) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(guardName(g)), g.Status, md(g.Evidence), md(g.Remedy))
		}
	}
	n := countGuards(c)
	fmt.Fprintf(&b, "\n%d guards pass, %d do not apply.\n\n", n[compare.Pass], n[compare.NotApplicable])
	b.WriteString("| status | checkpoint | 1-cos | median e | worst e | increment |\n|---|---|--:|--:|--:|--:|\n")
	for _, r := range rows(c, o.All) {
		cs := r.cells()
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", cs[0], cell(cs[1]), cs[2], cs[3], cs[4], cs[5])
	}
	for _, f := range c.Findings {
		fmt.Fprintf(&b, "\n### %s at %s (%s)\n\n%s\n\n", code(f.Cause), code(f.Checkpoint), f.Proof, md(f.Claim))
		fmt.Fprintf(&b, "rel\\_l2 %s before, %s after, floor %s.\n\n", small(f.Before), small(f.After), small(f.Floor))
		for _, t := range f.For {
			fmt.Fprintf(&b, "- for: %s\n", md(t))
		}
		for _, t := range f.Against {
			fmt.Fprintf(&b, "- against: %s\n", md(t))
		}
		if f.Try != "" {
			fmt.Fprintf(&b, "- try: %s\n", code(f.Try))
		}
		if f.Verify != "" {
			fmt.Fprintf(&b, "- verify: %s\n", md(f.Verify))
		}
		if f.Fix != "" {
			fmt.Fprintf(&b, "- fix: %s\n", md(f.Fix))
		}
	}
	for _, u := range c.Unpaired {
		fmt.Fprintf(&b, "\n- unpaired: %s is in the %s only", code(u.Checkpoint), u.Side)
	}
	for _, warn := range c.Warnings {
		fmt.Fprintf(&b, "\n- warning: %s", md(warn))
	}
	fmt.Fprintf(&b, "\n\n**Next:** %s\n", md(c.NextStep))
	_, err := io.WriteString(w, b.String())
	return err
}

package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/layerparity/parity/compare"
)

// screen collects the terminal report.
type screen struct {
	b     bytes.Buffer
	o     Options
	width int
}

// Terminal writes the comparison for a person: the verdict and the first
// divergent checkpoint first, then guards, the layers, the divergent checkpoint
// opened up, and what to do next. Every line fits into Width columns.
func Terminal(w io.Writer, c *compare.Comparison, o Options) error {
	s := &screen{o: o, width: o.Width}
	if s.width == 0 {
		s.width = 100
	}
	s.verdict(c)
	s.guards(c)
	if err := s.table(c); err != nil {
		return err
	}
	s.open(c)
	s.logits(c)
	s.findings(c)
	s.rest(c)
	_, err := w.Write(s.b.Bytes())
	return err
}

// ANSI colours, used only where they are allowed and never alone.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	reset  = "\x1b[0m"
)

// paint colours a string where colours are allowed.
func (s *screen) paint(color, text string) string {
	if !s.o.Color {
		return text
	}
	return color + text + reset
}

// line prints a label and a wrapped text beside it.
func (s *screen) line(label, text string) {
	const pad = 15
	indent := strings.Repeat(" ", pad+2)
	fmt.Fprintf(&s.b, "  %-*s%s\n", pad, label, wrap(clean(text), s.width-pad-2, indent))
}

// title begins a section.
func (s *screen) title(text string) { fmt.Fprintf(&s.b, "\n%s\n", s.paint(bold, text)) }

// verdictColors colour the headline.
var verdictColors = map[compare.Verdict]string{
	compare.Parity: green, compare.Divergence: red, compare.Untrusted: yellow, compare.Trouble: red,
}

// verdict prints the headline and where.
func (s *screen) verdict(c *compare.Comparison) {
	fmt.Fprintf(&s.b, "%s  %s\n", s.paint(bold+verdictColors[c.Verdict], headline(c)), wrap(clean(c.Reason), s.width-len(headline(c))-2, "  "))
	if e := c.Enters; e != nil {
		s.line("enters at", e.Checkpoint+": "+e.Text)
	}
	switch {
	case c.First != nil:
		s.line("first below", firstText(c.First))
	case c.Verdict == compare.Divergence:
		s.line("first below", fmt.Sprintf("nowhere: no checkpoint's cosine falls below %g", float64(c.Thresholds.Cos)))
	}
	if r := c.FirstRaw; r != nil && (c.First == nil || c.First.Checkpoint != r.Checkpoint) {
		s.line("before repairs", firstText(r))
	}
	if c.Trend != nil && c.Verdict == compare.Divergence && c.Trend.Kind != "too few layers" {
		s.line("over layers", c.Trend.Text)
	}
	s.line("ref", side(c.Ref))
	s.line("port", side(c.Port))
}

// firstText words a First.
func firstText(f *compare.First) string {
	switch f.By {
	case "integers":
		return f.Checkpoint + ": integers differ"
	case "nonfinite":
		return f.Checkpoint + ": NaN or Inf on one side only"
	}
	return fmt.Sprintf("%s: %s %.4f (threshold %g)", f.Checkpoint, f.By, float64(f.Value), float64(f.Threshold))
}

// side describes one dump in a line.
func side(d compare.DumpInfo) string {
	parts := []string{d.Path}
	for _, p := range []string{d.Model, d.DType, d.Framework, d.Mode} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if !d.Manifest {
		parts = append(parts, "no manifest")
	}
	return strings.Join(parts, ", ")
}

// guards prints the guards that need attention, and counts the others.
func (s *screen) guards(c *compare.Comparison) {
	n := countGuards(c)
	s.title(fmt.Sprintf("Guards: %d pass, %d repaired, %d fail, %d not checked, %d n/a",
		n[compare.Pass], n[compare.Repaired], n[compare.Fail], n[compare.NotChecked], n[compare.NotApplicable]))
	colors := map[compare.GuardStatus]string{compare.Fail: red, compare.Repaired: yellow, compare.NotChecked: yellow}
	for _, g := range c.Guards {
		if !s.o.All && !notable(g) {
			continue
		}
		status := fmt.Sprintf("%-15s", g.Status)
		if color := colors[g.Status]; color != "" {
			status = s.paint(color, status)
		}
		fmt.Fprintf(&s.b, "  %s%s\n", status, wrap(clean(guardName(g)+": "+g.Evidence), s.width-17, strings.Repeat(" ", 17)))
		if g.Remedy != "" && g.Status != compare.Pass {
			s.line("", "-> "+g.Remedy)
		}
	}
}

// table prints the checkpoints.
func (s *screen) table(c *compare.Comparison) error {
	if len(c.Checkpoints) == 0 {
		return nil
	}
	s.title("Checkpoints (e = rel_l2²/2 per token, which is 1-cos for a change of direction)")
	var b bytes.Buffer
	right, left := tw.AlignRight, tw.AlignLeft
	align := tw.CellAlignment{PerColumn: []tw.Align{left, left, right, right, right, right, left}}
	plain := tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off}
	t := tablewriter.NewTable(&b,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Symbols: tw.NewSymbols(tw.StyleASCII),
			Settings: tw.Settings{
				Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off},
				Lines:      tw.Lines{ShowHeaderLine: tw.Off, ShowTop: tw.Off, ShowBottom: tw.Off},
			},
		})),
		tablewriter.WithConfig(tablewriter.Config{
			Header: tw.CellConfig{Alignment: align, Formatting: plain},
			Row:    tw.CellConfig{Alignment: align, Formatting: plain},
		}))
	t.Header(header)
	list := rows(c, s.o.All)
	for _, r := range list {
		line := r.cells()
		line[1] = shorten(line[1], s.width-74)
		if err := t.Append(line); err != nil {
			return err
		}
	}
	if err := t.Render(); err != nil {
		return err
	}
	for i, text := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n") {
		text = strings.TrimRight(text, " ")
		if i > 0 && i-1 < len(list) {
			text = s.paintRow(list[i-1], text)
		}
		fmt.Fprintln(&s.b, text)
	}
	if hidden := len(c.Checkpoints) - count(list); hidden > 0 {
		fmt.Fprintf(&s.b, "  %d sub-checkpoints are not shown; --all shows them\n", hidden)
	}
	return nil
}

// count is the number of checkpoints that rows show.
func count(list []row) int {
	n := 0
	for _, r := range list {
		n += len(r.fold)
		if r.one != nil {
			n++
		}
	}
	return n
}

// paintRow colours a line by its status.
func (s *screen) paintRow(r row, text string) string {
	if r.one == nil {
		return text
	}
	switch r.one.Status {
	case compare.Enters, compare.Fails, compare.Incomparable, compare.Unreadable:
		return s.paint(bold+red, text)
	case compare.Inherited:
		return s.paint(red, text)
	case compare.Noted:
		return s.paint(yellow, text)
	}
	return text
}

// open prints the divergent checkpoint in full.
func (s *screen) open(c *compare.Comparison) {
	ck := opened(c)
	if ck == nil {
		return
	}
	s.title(clean(ck.Name))
	if ck.Reason != "" {
		s.line(mark[ck.Status], ck.Reason)
	}
	for _, r := range ck.Repairs {
		s.line("repaired", r)
	}
	if c.Enters != nil && ck.Name == c.Enters.Checkpoint {
		for _, in := range c.Enters.Inputs {
			s.line("input", fmt.Sprintf("%s: e %s, floor %s", in.Checkpoint, small(in.Error), small(in.Floor)))
		}
		s.line("gain", fmt.Sprintf("%s times what its inputs and rounding account for (right runs stay under 4)", small(c.Enters.Gain)))
	}
	if f := ck.Figures; f != nil {
		s.line("whole", fmt.Sprintf("cosine %.6f, rel_l2 %s, norm ratio %.6g, best-fit scale %.6g, mean |diff| %s, SNR %.1f dB",
			float64(f.Cos), small(f.RelL2), float64(f.NormRatio), float64(f.Scale), small(f.MeanDiff), float64(f.SNR)))
		s.line("max diff", fmt.Sprintf("%s at %v: reference %s, port %s", value(f.MaxDiff), f.MaxAt, value(f.MaxRef), value(f.MaxPort)))
	}
	s.tokens(ck)
	if d := ck.Dominant; d != nil {
		s.line("dominant", fmt.Sprintf("tokens %v (%.1f %% of the energy), dims %v (%.1f %%); 1-cos without them %s",
			d.Tokens, 100*float64(d.TokenShare), d.Dims, 100*float64(d.DimShare), small(d.OneMinusCosWithout)))
	}
	if n := ck.NonFinite; n != nil {
		s.line("not finite", fmt.Sprintf("reference %d NaN, %d Inf; port %d NaN, %d Inf; %d at the same places, %d not",
			n.RefNaN, n.RefPosInf+n.RefNegInf, n.PortNaN, n.PortPosInf+n.PortNegInf, n.Matched, n.Mismatched))
	}
	if i := ck.Ints; i != nil && !i.Equal {
		s.line("integers", fmt.Sprintf("%d differ, first at %v: reference %d, port %d", i.Different, i.FirstAt, i.FirstRef, i.FirstPort))
	}
	for _, n := range ck.Notes {
		s.line("note", n)
	}
}

// tokens prints the worst tokens and dims.
func (s *screen) tokens(ck *compare.Checkpoint) {
	if len(ck.WorstTokens) > 0 {
		var list []string
		for _, t := range ck.WorstTokens {
			at := fmt.Sprint(t.Token)
			if t.Batch != nil {
				at = fmt.Sprintf("(%d,%d)", *t.Batch, t.Token)
			}
			list = append(list, fmt.Sprintf("%s: %s", at, small(t.RelL2)))
		}
		s.line("worst tokens", "rel_l2 "+strings.Join(list, ", ")+medianText(ck))
	}
	if len(ck.WorstDims) > 0 {
		var list []string
		for _, d := range ck.WorstDims {
			list = append(list, fmt.Sprintf("%d: %s", d.Dim, small(d.RelL2)))
		}
		s.line("worst dims", "rel_l2 "+strings.Join(list, ", "))
	}
}

// medianText adds the median token to the worst.
func medianText(ck *compare.Checkpoint) string {
	if ck.MedianToken == nil {
		return ""
	}
	return fmt.Sprintf("; median %s", small(ck.MedianToken.RelL2))
}

// logits prints what the distributions say.
func (s *screen) logits(c *compare.Comparison) {
	for _, ck := range c.Checkpoints {
		l := ck.Logits
		if l == nil {
			continue
		}
		s.title(clean(ck.Name))
		text := fmt.Sprintf("argmax %d and %d; top-%d overlap %.0f %%; KL(ref||port) %s; margin %s against an RMS error of %s",
			l.ArgmaxRef, l.ArgmaxPort, l.K, 100*float64(l.TopK), small(l.KL), small(l.Margin), small(l.RMSError))
		if l.Rows > 1 {
			text += fmt.Sprintf("; over %d positions %d flips, %d of them inside the noise", l.Rows, l.Flips, l.Ties)
		}
		s.line("last position", text)
		if l.Note != "" {
			s.line("note", l.Note)
		}
	}
}

// findings prints what explain found.
func (s *screen) findings(c *compare.Comparison) {
	if len(c.Reasoning) > 0 {
		s.title("What the shape of the error says")
		for _, r := range c.Reasoning {
			s.line("-", r)
		}
	}
	for i, f := range c.Findings {
		s.title(fmt.Sprintf("Finding %d: %s at %s (%s)", i+1, clean(f.Cause), clean(f.Checkpoint), f.Proof))
		s.line("claim", f.Claim)
		if f.Before != 0 || f.After != 0 {
			s.line("proof", fmt.Sprintf("rel_l2 %s before, %s after, floor %s; %d parameters, %d rows", small(f.Before), small(f.After), small(f.Floor), f.Params, f.Rows))
		}
		for _, t := range f.For {
			s.line("for", t)
		}
		for _, t := range f.Against {
			s.line("against", t)
		}
		if f.Try != "" {
			fmt.Fprintf(&s.b, "  %-15s%s\n", "try", clean(f.Try)) // never wrapped: it is to be copied
		}
		if f.Verify != "" {
			s.line("verify", f.Verify)
		}
		if f.Fix != "" {
			s.line("fix", f.Fix)
		}
	}
}

// rest prints coverage, what had no partner, warnings and the next step.
func (s *screen) rest(c *compare.Comparison) {
	s.title(fmt.Sprintf("Coverage: %d of %d reference and %d port tensors compared, %d of %d layers",
		c.Coverage.Compared, c.Coverage.Ref, c.Coverage.Port, c.Coverage.Layers, c.Coverage.LayersAll))
	const show = 8
	for i, u := range c.Unpaired {
		if i == show && !s.o.All {
			s.line("unpaired", fmt.Sprintf("and %d more; --all shows them", len(c.Unpaired)-show))
			break
		}
		text := fmt.Sprintf("%s is in the %s only", u.Checkpoint, map[string]string{"ref": "reference", "port": "port"}[u.Side])
		switch {
		case u.Explained != "":
			text += ": " + u.Explained
		case u.Allowed:
			text += ": allowed"
		case u.Required:
			text += ": required"
		}
		s.line("unpaired", text)
	}
	if opened(c) == nil {
		for _, ck := range c.Checkpoints {
			if ck.Status == compare.Noted || len(ck.Repairs) > 0 && s.o.All {
				s.line("note", ck.Name+": "+strings.Join(append(ck.Repairs, ck.Reason), "; "))
			}
		}
	}
	for _, w := range c.Warnings {
		s.line("warning", w)
	}
	fmt.Fprintf(&s.b, "\nNext: %s\n", wrap(clean(c.NextStep), s.width-6, "      "))
}

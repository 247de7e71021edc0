package triage

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/layerparity/parity/diagnose/catalog"
)

// Formats are the names that Render knows.
var Formats = []string{"terminal", "json", "markdown"}

// maxRanked is how many patterns the texts name; JSON holds all.
const maxRanked = 6

// Render writes the result in one of Formats.
func Render(w io.Writer, format string, r *Result) error {
	switch format {
	case "json":
		return renderJSON(w, r)
	case "terminal", "":
		return renderText(w, r, textStyle)
	case "markdown":
		return renderText(w, r, markdownStyle)
	}
	return fmt.Errorf("format %q is not one of %s", format, strings.Join(Formats, ", "))
}

// document is schema parity.triage/1.
type document struct {
	Schema  string            `json:"schema"`
	Answers map[string]string `json:"answers"`
	Logs    []logJSON         `json:"logs"`
	Source  *Audit            `json:"source"`
	// Patterns are all that the evidence speaks for, best first.
	Patterns []patternJSON `json:"patterns"`
	Notes    []string      `json:"notes"`
	Warnings []string      `json:"warnings"`
}

type logJSON struct {
	Name    string      `json:"name"`
	Lines   int         `json:"lines"`
	Bytes   int64       `json:"bytes"`
	Matches []matchJSON `json:"matches"`
}

type matchJSON struct {
	Matcher  string      `json:"matcher"`
	Says     string      `json:"says"`
	Patterns []string    `json:"patterns"`
	Count    int         `json:"count"`
	Found    []foundJSON `json:"found"`
}

type foundJSON struct {
	Line int    `json:"line"`
	Text string `json:"text"`
	Note string `json:"note,omitempty"`
}

type patternJSON struct {
	ID     string   `json:"id"`
	Title  string   `json:"title"`
	Score  int      `json:"score"`
	Why    []string `json:"why"`
	Cause  string   `json:"cause"`
	Verify string   `json:"verify"`
	Fix    string   `json:"fix"`
}

func renderJSON(w io.Writer, r *Result) error {
	doc := document{
		Schema: "parity.triage/1", Answers: r.Answers, Source: r.Source,
		Logs: []logJSON{}, Patterns: []patternJSON{},
		Notes: orEmpty(r.Notes), Warnings: orEmpty(r.Warnings),
	}
	if doc.Answers == nil {
		doc.Answers = map[string]string{}
	}
	for _, l := range r.Logs {
		out := logJSON{Name: l.Name, Lines: l.Lines, Bytes: l.Bytes, Matches: []matchJSON{}}
		for _, h := range l.Hits {
			m := matchJSON{Matcher: h.Matcher, Says: says(h.Matcher), Patterns: h.Patterns, Count: h.Count}
			for _, f := range h.Found {
				m.Found = append(m.Found, foundJSON(f))
			}
			out.Matches = append(out.Matches, m)
		}
		doc.Logs = append(doc.Logs, out)
	}
	for _, x := range r.Ranked {
		p := x.Pattern
		doc.Patterns = append(doc.Patterns, patternJSON{p.ID, p.Title, x.Score, x.Why, p.Cause, p.Verify, p.Fix})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// says returns what a matcher's message means.
func says(id string) string {
	for _, m := range matchers {
		if m.ID == id {
			return m.Says
		}
	}
	return ""
}

// style is how the text differs between a terminal and Markdown.
type style struct {
	format  string
	heading func(string) string
	item    func(string) string
	// quote shows a foreign line, which must not be read as markup.
	quote func(string) string
	// note is a remark below an item.
	note func(string) string
}

var textStyle = style{
	format:  "terminal",
	heading: func(s string) string { return s },
	item:    func(s string) string { return "  " + s },
	quote:   func(s string) string { return "      " + s },
	note:    func(s string) string { return "      " + s },
}

var markdownStyle = style{
	format:  "markdown",
	heading: func(s string) string { return "## " + s + "\n" },
	item:    func(s string) string { return "- " + s },
	quote:   func(s string) string { return "\n  ```\n  " + strings.ReplaceAll(s, "```", "` ` `") + "\n  ```\n" },
	note:    func(s string) string { return "  - " + s },
}

func renderText(w io.Writer, r *Result, s style) error {
	p := printer{w: w}
	for _, l := range r.Logs {
		p.printf("%s\n", s.heading(fmt.Sprintf("log %s: %d lines, %d kinds of message recognised", l.Name, l.Lines, len(l.Hits))))
		shown := map[int]bool{}
		for _, h := range l.Hits {
			p.printf("%s\n", s.item(fmt.Sprintf("%s -> %s%s", says(h.Matcher), strings.Join(h.Patterns, ", "), times(h.Count))))
			for _, f := range h.Found {
				if shown[f.Line] {
					p.printf("%s\n", s.note(fmt.Sprintf("line %d, as above", f.Line)))
				} else {
					p.printf("%s\n", s.quote(fmt.Sprintf("%d: %s", f.Line, f.Text)))
				}
				shown[f.Line] = true
				if f.Note != "" {
					p.printf("%s\n", s.note(f.Note))
				}
			}
		}
		p.printf("\n")
	}
	if r.Source != nil {
		renderAudit(&p, r.Source, s)
	}
	for _, n := range r.Notes {
		p.printf("%s\n", s.item(n))
	}
	if len(r.Notes) > 0 {
		p.printf("\n")
	}
	if len(r.Ranked) == 0 {
		p.printf("%s\n", "No known pattern was recognised. That proves nothing: look for the first message that is not normal.")
		return p.err
	}
	p.printf("%s\n", s.heading("patterns, best first"))
	for i, x := range r.Ranked {
		if i == maxRanked {
			p.printf("%s\n", s.item(fmt.Sprintf("and %d more", len(r.Ranked)-maxRanked)))
			break
		}
		p.printf("%s\n", s.item(fmt.Sprintf("%-28s  %s", x.Pattern.ID, x.Pattern.Title)))
		for j, why := range x.Why {
			if j == 3 {
				p.printf("%s\n", s.note(fmt.Sprintf("and %d more reasons", len(x.Why)-3)))
				break
			}
			p.printf("%s\n", s.note(why))
		}
	}
	p.printf("\n")
	if p.err != nil {
		return p.err
	}
	if err := catalog.Render(w, s.format, []catalog.Pattern{r.Ranked[0].Pattern}); err != nil {
		return err
	}
	p.printf("\nThe others in full: parity patterns ID\n")
	return p.err
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (%d lines)", n)
}

func renderAudit(p *printer, a *Audit, s style) {
	p.printf("%s\n", s.heading(fmt.Sprintf("sources: %d files read by Python %s, %d findings", a.Files, a.Python, len(a.Findings))))
	for _, f := range a.Findings {
		p.printf("%s\n", s.item(fmt.Sprintf("%s:%d: %s: %s [%s -> %s]", plain(f.File), f.Line, f.Severity, plain(f.Reason), f.Rule, f.Pattern)))
	}
	if a.Truncated {
		p.printf("%s\n", s.item("there are more findings than are listed"))
	}
	if a.Ignored > 0 {
		p.printf("%s\n", s.item(fmt.Sprintf("%d findings on lines that say \"# parity: ignore\"", a.Ignored)))
	}
	p.printf("\n")
}

// Doubts lists what was not read and why, for the warnings.
func (a *Audit) Doubts() []string {
	var out []string
	for _, list := range [][]SourceTrouble{a.Errors, a.Skipped} {
		for _, t := range list {
			where := plain(t.File)
			if t.Line > 0 {
				where = fmt.Sprintf("%s:%d", where, t.Line)
			}
			out = append(out, fmt.Sprintf("%s was not audited: %s", where, plain(t.Reason)))
		}
	}
	return out
}

package catalog

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Formats are the names that Render and RenderList know.
var Formats = []string{"terminal", "json", "markdown"}

// width is the column at which terminal text is wrapped.
const width = 98

// Render writes patterns in full, in one of Formats.
func Render(w io.Writer, format string, patterns []Pattern) error {
	switch format {
	case "json":
		return renderJSON(w, patterns)
	case "markdown":
		return write(w, func(b *strings.Builder) {
			for i, p := range patterns {
				if i > 0 {
					b.WriteByte('\n')
				}
				markdown(b, p)
			}
		})
	case "terminal", "":
		return write(w, func(b *strings.Builder) {
			for i, p := range patterns {
				if i > 0 {
					b.WriteByte('\n')
				}
				terminal(b, p)
			}
		})
	}
	return unknownFormat(format)
}

// RenderList writes one line for each pattern, grouped by family, in one of
// Formats; JSON is the same as Render's.
func RenderList(w io.Writer, format string, patterns []Pattern) error {
	switch format {
	case "json":
		return renderJSON(w, patterns)
	case "markdown":
		return write(w, func(b *strings.Builder) {
			for i, group := range groups(patterns) {
				if i > 0 {
					b.WriteByte('\n')
				}
				fmt.Fprintf(b, "## %s\n\n| id | pattern |\n|---|---|\n", group.title)
				for _, p := range group.patterns {
					fmt.Fprintf(b, "| `%s` | %s |\n", p.ID, cell(p.Title))
				}
			}
		})
	case "terminal", "":
		return write(w, func(b *strings.Builder) {
			for i, group := range groups(patterns) {
				if i > 0 {
					b.WriteByte('\n')
				}
				fmt.Fprintf(b, "%s\n", group.title)
				for _, p := range group.patterns {
					fmt.Fprintf(b, "  %-28s  %s\n", p.ID, p.Title)
				}
			}
		})
	}
	return unknownFormat(format)
}

func unknownFormat(format string) error {
	return fmt.Errorf("format %q is not one of %s", format, strings.Join(Formats, ", "))
}

// document is the JSON form, schema parity.patterns/1.
type document struct {
	Schema   string    `json:"schema"`
	Patterns []Pattern `json:"patterns"`
}

func renderJSON(w io.Writer, patterns []Pattern) error {
	if patterns == nil {
		patterns = []Pattern{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(document{"parity.patterns/1", patterns})
}

// parts are the four parts in the order in which they are told.
func parts(p Pattern) [4]struct{ name, text string } {
	return [4]struct{ name, text string }{
		{"match", p.Match},
		{"cause", p.Cause},
		{"verify", p.Verify},
		{"fix", p.Fix},
	}
}

func terminal(b *strings.Builder, p Pattern) {
	fmt.Fprintf(b, "%s: %s\n", p.ID, p.Title)
	for _, part := range parts(p) {
		wrap(b, part.name, part.text)
		if part.name == "verify" {
			for _, c := range p.Commands {
				fmt.Fprintf(b, "            $ %s\n", c)
			}
		}
	}
	if len(p.Sources) > 0 {
		wrap(b, "seen in", strings.Join(p.Sources, ", "))
	}
	if len(p.Related) > 0 {
		wrap(b, "related", strings.Join(p.Related, ", "))
	}
}

// wrap writes text after a label, broken at width and indented under itself. A
// word longer than the line stands on a line of its own.
func wrap(b *strings.Builder, label, text string) {
	const indent = 10
	fmt.Fprintf(b, "  %-7s ", label)
	col := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case col+1+n > width:
			fmt.Fprintf(b, "\n%*s", indent, "")
			col = indent
		default:
			b.WriteByte(' ')
			col++
		}
		b.WriteString(word)
		col += n
	}
	b.WriteByte('\n')
}

func markdown(b *strings.Builder, p Pattern) {
	fmt.Fprintf(b, "### `%s`: %s\n\n", p.ID, escape(p.Title))
	for _, part := range parts(p) {
		fmt.Fprintf(b, "- **%s**: %s\n", part.name, escape(part.text))
		if part.name == "verify" && len(p.Commands) > 0 {
			fmt.Fprintf(b, "\n  ```sh\n")
			for _, c := range p.Commands {
				fmt.Fprintf(b, "  %s\n", c)
			}
			fmt.Fprintf(b, "  ```\n\n")
		}
	}
	if len(p.Sources) > 0 {
		b.WriteString("- **seen in**: ")
		for i, s := range p.Sources {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(b, "[%s](%s)", s, SourceURL(s))
		}
		b.WriteByte('\n')
	}
	if len(p.Related) > 0 {
		fmt.Fprintf(b, "- **related**: `%s`\n", strings.Join(p.Related, "`, `"))
	}
}

// SourceURL turns "owner/repo#7" into the address of that thread.
func SourceURL(source string) string {
	repo, number, _ := strings.Cut(source, "#")
	return "https://github.com/" + repo + "/issues/" + number
}

// escape keeps Markdown from reading our plain text: it holds *, _, < and |.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`", "[", `\[`, "]", `\]`).Replace(s)
}

// cell is escape for a table's cell.
func cell(s string) string { return strings.ReplaceAll(escape(s), "|", `\|`) }

type group struct {
	title    string
	patterns []Pattern
}

// groups puts patterns of one family together, families in table order.
func groups(patterns []Pattern) []group {
	var out []group
	for _, f := range families {
		g := group{title: f.Title}
		for _, p := range patterns {
			if p.Family == f.ID {
				g.patterns = append(g.patterns, p)
			}
		}
		if len(g.patterns) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// write builds the whole text first, so that w gets one write and one error.
func write(w io.Writer, build func(*strings.Builder)) error {
	var b strings.Builder
	build(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

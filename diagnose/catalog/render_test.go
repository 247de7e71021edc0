package catalog

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func render(t *testing.T, format string, patterns ...Pattern) string {
	t.Helper()
	var b strings.Builder
	if err := Render(&b, format, patterns); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTerminalTextFitsAHundredColumns(t *testing.T) {
	for _, p := range All() {
		for line := range strings.Lines(render(t, "terminal", p)) {
			isCommand := strings.HasPrefix(strings.TrimSpace(line), "$ ")
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 && !isCommand {
				t.Errorf("%s: %d columns: %s", p.ID, n, line)
			}
		}
	}
}

func TestTerminalTextTellsTheFourPartsInOrder(t *testing.T) {
	p := Pattern{ID: "x.y", Title: "A title", Match: "what it looks like", Cause: "why", Verify: "how", Fix: "do",
		Commands: []string{"parity explain ref/ port/"}, Sources: []string{"o/r#7"}, Related: []string{"x.z"}}
	want := `x.y: A title
  match   what it looks like
  cause   why
  verify  how
            $ parity explain ref/ port/
  fix     do
  seen in o/r#7
  related x.z
`
	if got := render(t, "terminal", p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMarkdownEscapesPlainText(t *testing.T) {
	p := Pattern{ID: "x.y", Title: "a_b", Match: "c*tanh(x/c) for q_len < 3", Cause: "why", Verify: "how", Fix: "do", Sources: []string{"o/r#7"}}
	got := render(t, "markdown", p)
	for _, want := range []string{"### `x.y`: a\\_b\n", `c\*tanh(x/c) for q\_len &lt; 3`, "[o/r#7](https://github.com/o/r/issues/7)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestJSONHoldsEveryPattern(t *testing.T) {
	var doc struct {
		Schema   string
		Patterns []map[string]any
	}
	if err := json.Unmarshal([]byte(render(t, "json", All()...)), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != "parity.patterns/1" || len(doc.Patterns) != len(All()) {
		t.Errorf("schema %q, %d patterns, want %d", doc.Schema, len(doc.Patterns), len(All()))
	}
	if doc.Patterns[0]["id"] != "input.tokens" || doc.Patterns[0]["finding"] != true {
		t.Errorf("first pattern: %v", doc.Patterns[0])
	}
	if got := render(t, "json"); !strings.Contains(got, `"patterns": []`) {
		t.Errorf("no patterns must be an empty list: %s", got)
	}
}

func TestTheListNamesEveryPatternOnce(t *testing.T) {
	for _, format := range []string{"terminal", "markdown"} {
		var b strings.Builder
		if err := RenderList(&b, format, All()); err != nil {
			t.Fatal(err)
		}
		for _, p := range All() {
			want := "  " + p.ID + " "
			if format == "markdown" {
				want = "| `" + p.ID + "` |"
			}
			if n := strings.Count(b.String(), want); n != 1 {
				t.Errorf("%s: %s occurs %d times", format, p.ID, n)
			}
		}
	}
}

func TestAnUnknownFormatIsAnError(t *testing.T) {
	for _, f := range []func() error{
		func() error { return Render(&strings.Builder{}, "yaml", nil) },
		func() error { return RenderList(&strings.Builder{}, "yaml", nil) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "terminal, json, markdown") {
			t.Errorf("error = %v", err)
		}
	}
}

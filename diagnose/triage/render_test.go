package triage

import (
	"encoding/json"
	"strings"
	"testing"
)

func rendered(t *testing.T, format string, r *Result) string {
	t.Helper()
	var b strings.Builder
	if err := Render(&b, format, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sample(t *testing.T) *Result {
	t.Helper()
	log := read(t, "start\nRuntimeError: The expanded size of the tensor (24) must match the existing size (12) at non-singleton dimension 2.\n```\n"+oom+" ``` \n")
	r := &Result{
		Answers: map[string]string{"kind": "shape"},
		Logs:    []Log{log},
		Source: &Audit{Schema: auditSchema, Python: "3.11.7", Files: 3, Findings: []SourceFinding{
			{File: "a\x1b[31m.py", Line: 7, Rule: "rng-under-rank", Pattern: "train.rng_fork", Severity: "warning", Reason: "torch.randn draws"},
		}, Errors: []SourceTrouble{}, Skipped: []SourceTrouble{}},
	}
	r.Conclude()
	return r
}

func TestTheTextNamesLineNotePatternAndReason(t *testing.T) {
	got := rendered(t, "terminal", sample(t))
	for _, want := range []string{
		"log test.log: 4 lines, 2 kinds of message recognised",
		"two sizes that should be equal differ -> video.kv_buffer, train.shape",
		"2: RuntimeError: The expanded size of the tensor (24)",
		"24 / 12 = 2 exactly",
		"sources: 3 files read by Python 3.11.7, 1 findings",
		"a.py:7: warning: torch.randn draws [rng-under-rank -> train.rng_fork]",
		"patterns, best first",
		"test.log:2: expanded-size",
		"you said: an exception",
		"  match   ", "  cause   ", "  verify  ", "  fix     ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("an escape sequence in\n%s", got)
	}
}

func TestMarkdownFencesForeignText(t *testing.T) {
	got := rendered(t, "markdown", sample(t))
	if strings.Count(got, "```")%2 != 0 {
		t.Errorf("an open fence in\n%s", got)
	}
	if !strings.Contains(got, "` ` `") {
		t.Errorf("a fence inside a line was not broken up:\n%s", got)
	}
}

func TestJSONHoldsEverything(t *testing.T) {
	var doc struct {
		Schema  string
		Answers map[string]string
		Logs    []struct {
			Matches []struct{ Matcher, Says string }
		}
		Source   struct{ Files int }
		Patterns []struct {
			ID    string
			Score int
			Why   []string
		}
		Notes, Warnings []string
	}
	if err := json.Unmarshal([]byte(rendered(t, "json", sample(t))), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != "parity.triage/1" || doc.Answers["kind"] != "shape" || len(doc.Logs[0].Matches) != 2 || doc.Source.Files != 3 {
		t.Errorf("%+v", doc)
	}
	if doc.Notes == nil || doc.Warnings == nil || len(doc.Patterns) < 3 || doc.Patterns[0].Score < doc.Patterns[1].Score {
		t.Errorf("%+v", doc)
	}
}

func TestNothingRecognisedIsSaidAsNoProof(t *testing.T) {
	r := &Result{Logs: []Log{read(t, "all is well\n")}}
	r.Conclude()
	if r.Recognised() {
		t.Error("recognised something")
	}
	if got := rendered(t, "terminal", r); !strings.Contains(got, "That proves nothing") {
		t.Errorf("text\n%s", got)
	}
}

func TestAnUnknownFormatIsAnError(t *testing.T) {
	if err := Render(&strings.Builder{}, "yaml", &Result{}); err == nil || !strings.Contains(err.Error(), "terminal, json, markdown") {
		t.Errorf("error = %v", err)
	}
}

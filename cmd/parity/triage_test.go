package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// triaged runs parity triage with some standard input.
func triaged(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), append([]string{"triage"}, args...), &env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs})
	return status, out.String(), errs.String()
}

// written writes a file and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	watchdogLog = "step 10\nSaving checkpoint to out/\n[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, " +
		"NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
	badSource = "import torch.distributed as dist\ndef f(x):\n    if dist.get_rank() == 0:\n        dist.all_reduce(x)\n"
)

func TestALogIsRecognised(t *testing.T) {
	path := written(t, "train.log", watchdogLog)
	status, out, errs := triaged(t, "", "--log", path)
	if status != 1 || errs != "" {
		t.Errorf("status %d, %s", status, errs)
	}
	for _, want := range []string{"3: [Rank 1] Watchdog", "line 2 announced a save", "NumelIn=1 is a reduction of one number", "hang.checkpoint_save"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestALogComesFromStandardInput(t *testing.T) {
	status, out, _ := triaged(t, watchdogLog, "--log", "-", "--format", "json")
	var doc struct {
		Logs     []struct{ Name string }
		Patterns []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if status != 1 || doc.Logs[0].Name != "-" || doc.Patterns[0].ID != "hang.checkpoint_save" {
		t.Errorf("status %d, %+v", status, doc)
	}
}

func TestSourcesAreNamedWithFileAndLine(t *testing.T) {
	path := written(t, "train.py", badSource)
	status, out, errs := triaged(t, "", "--source", filepath.Dir(path))
	if status != 1 || errs != "" {
		t.Errorf("status %d, %s", status, errs)
	}
	if !strings.Contains(out, "train.py:4: error: dist.all_reduce must be called by every rank") || !strings.Contains(out, "hang.asymmetric_collective") {
		t.Errorf("text\n%s", out)
	}
}

func TestStatusesOfTriage(t *testing.T) {
	good := written(t, "good.log", "step 1 loss 2.3\n")
	empty := written(t, "empty.log", "")
	bad := written(t, "bad.log", "RuntimeError: CUDA error: device-side assert triggered\n")
	clean := filepath.Dir(written(t, "ok.py", "x = 1\n"))
	broken := filepath.Dir(written(t, "broken.py", "def f(:\n"))
	for _, c := range []struct {
		reason string
		status int
		errs   string
		args   []string
	}{
		{"nothing suspicious in a log", 0, "", []string{"--log", good}},
		{"nothing suspicious in sources", 0, "", []string{"--source", clean}},
		{"a pattern in one of two logs", 1, "", []string{"--log", good, "--log", bad}},
		{"an answer is evidence", 1, "", []string{"--kind", "hang"}},
		{"an empty log", 2, "it is empty", []string{"--log", empty}},
		{"no such log, beside a good one", 2, "nowhere", []string{"--log", bad, "--log", "nowhere.log"}},
		{"a folder as a log", 2, "reading log", []string{"--log", clean}},
		{"sources that cannot be parsed", 2, "syntax error", []string{"--source", broken}},
		{"no such folder", 2, "nowhere", []string{"--source", "nowhere"}},
		{"no such interpreter", 2, "--python", []string{"--source", clean, "--python", "no-python-here"}},
		{"an answer that is none", 2, `--"purple" is no answer to "kind"`, []string{"--kind", "purple"}},
		{"a format that is none", 2, "yaml", []string{"--kind", "hang", "--format", "yaml"}},
		{"an argument", 2, "unknown command", []string{"train.log"}},
		{"nothing to go by", 2, "nothing to go by", nil},
	} {
		status, out, errs := triaged(t, "", c.args...)
		if status != c.status || !strings.Contains(errs, c.errs) || (c.errs == "") != (errs == "") {
			t.Errorf("%s: status %d, want %d; %s", c.reason, status, c.status, errs)
		}
		if c.reason == "an empty log" && out != "" {
			t.Errorf("%s: a report of nothing\n%s", c.reason, out)
		}
		if c.reason == "no such log, beside a good one" && !strings.Contains(out, "train.device_assert") {
			t.Errorf("%s: what could be read is not shown\n%s", c.reason, out)
		}
	}
}

func TestWithoutATerminalTheQuestionsAreToldWithTheirFlags(t *testing.T) {
	status, out, _ := triaged(t, "")
	if status != 2 || !strings.Contains(out, "--kind hang|loss|shape|quality") || !strings.Contains(out, "--log FILE") {
		t.Errorf("status %d\n%s", status, out)
	}
}

func TestQuestionsAreAskedInOrder(t *testing.T) {
	status, out, errs := triaged(t, "hang\nyes\none\neval\n\n", "--ask")
	if status != 1 || !strings.Contains(out, "hang.uneven_batches: ") {
		t.Errorf("status %d\n%s", status, out)
	}
	if before, _, ok := strings.Cut(errs, "At which stage?"); !ok || !strings.Contains(before, "What do you see?") {
		t.Errorf("asked\n%s", errs)
	}
}

func TestAFileThatCannotBeParsedIsAWarningBesideTheOthers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.py": badSource, "b.py": "def f(:\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	status, _, errs := triaged(t, "", "--source", dir)
	if status != 1 || !strings.Contains(errs, "warning: b.py:1 was not audited: syntax error") {
		t.Errorf("status %d, %s", status, errs)
	}
}

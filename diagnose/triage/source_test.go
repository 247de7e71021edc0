package triage

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/layerparity/parity/diagnose/catalog"
)

// sources writes files into a new folder.
func sources(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const bad = "import torch.distributed as dist\ndef f(x):\n    if dist.get_rank() == 0:\n        dist.all_reduce(x)\n"

func TestTheCarriedAuditIsTheOneOfThePythonPackage(t *testing.T) {
	original, err := os.ReadFile("../../pydumpers/src/parity_dump/source_audit.py")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(original, auditScript) {
		t.Error("diagnose/triage/source_audit.py differs from pydumpers/src/parity_dump/source_audit.py: copy it")
	}
}

func TestSourcesAreAudited(t *testing.T) {
	dir := sources(t, map[string]string{"pkg/train.py": bad, "pkg/ok.py": "x = 1\n", "pkg/broken.py": "def f(:\n"})
	a, err := AuditSource(context.Background(), "", dir)
	if err != nil {
		t.Fatal(err)
	}
	if a.Files != 2 || len(a.Findings) != 1 || len(a.Errors) != 1 {
		t.Fatalf("%+v", a)
	}
	f := a.Findings[0]
	if f.File != "pkg/train.py" || f.Line != 4 || f.Rule != "collective-under-rank" || f.Pattern != "hang.asymmetric_collective" || f.Severity != "error" {
		t.Errorf("%+v", f)
	}
	if doubts := a.Doubts(); len(doubts) != 1 || !strings.HasPrefix(doubts[0], "pkg/broken.py:1 was not audited: syntax error") {
		t.Errorf("doubts %q", doubts)
	}
	r := &Result{Source: a}
	r.Conclude()
	if first(r) != "hang.asymmetric_collective" || r.Ranked[0].Why[0] != "pkg/train.py:4: collective-under-rank" {
		t.Errorf("%+v", r.Ranked)
	}
}

func TestTheAuditDoesNotSeeTheUsersEnvironment(t *testing.T) {
	evil := sources(t, map[string]string{"ast.py": "raise SystemExit('imported from the folder')\n", "json.py": "raise SystemExit('no')\n", "train.py": bad})
	t.Setenv("PYTHONPATH", evil)
	t.Setenv("PYTHONSTARTUP", filepath.Join(evil, "ast.py"))
	t.Chdir(evil)
	a, err := AuditSource(context.Background(), "", ".")
	if err != nil || a.Files != 3 || len(a.Findings) != 1 {
		t.Errorf("%v %+v", err, a)
	}
}

func TestAFolderThatLooksLikeAFlagIsAFolder(t *testing.T) {
	dir := sources(t, map[string]string{"--rules/train.py": bad})
	t.Chdir(dir)
	a, err := AuditSource(context.Background(), "", "--rules")
	if err != nil || len(a.Findings) != 1 {
		t.Errorf("%v %+v", err, a)
	}
}

func TestAuditsThatCannotBeDoneAreErrors(t *testing.T) {
	dir := sources(t, map[string]string{"train.py": bad})
	fake := func(script string) string {
		path := filepath.Join(t.TempDir(), "python3")
		if err := os.WriteFile(path, []byte("#!/bin/sh\ncat >/dev/null\n"+script), 0o777); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ reason, python, dir, want string }{
		{"no such folder", "", filepath.Join(dir, "nowhere"), "nowhere"},
		{"a folder without Python", "", t.TempDir(), "no Python file in"},
		{"nothing that parses", "", sources(t, map[string]string{"a.py": "def f(:\n"}), "could be parsed; a.py:1: syntax error"},
		{"no such interpreter", "python-that-is-not-there", dir, "--python"},
		{"an interpreter that fails", fake("echo 'Traceback' >&2; echo 'ValueError: boom' >&2; exit 1\n"), dir, "ValueError: boom"},
		{"an interpreter that says something else", fake("echo hello\n"), dir, "reading the output"},
		{"another schema", fake(`echo '{"schema":"parity.source-audit/9","files":1}'` + "\n"), dir, "parity.source-audit/9"},
	} {
		_, err := AuditSource(context.Background(), c.python, c.dir)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.reason, err, c.want)
		}
	}
}

func TestAnAuditCanBeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := AuditSource(ctx, "", sources(t, map[string]string{"a.py": bad})); err == nil {
		t.Error("no error")
	}
}

func TestRulesOfTheAuditHaveTheirPatterns(t *testing.T) {
	cmd := exec.Command("python3", "-I", "-", "--rules")
	cmd.Stdin = bytes.NewReader(auditScript)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Rules []struct{ ID, Pattern, Severity string }
	}
	if err := json.Unmarshal(out, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rules) < 15 {
		t.Errorf("%d rules", len(table.Rules))
	}
	for _, r := range table.Rules {
		if _, ok := catalog.Get(r.Pattern); !ok {
			t.Errorf("rule %s: no pattern %s", r.ID, r.Pattern)
		}
		if severities[r.Severity] == 0 {
			t.Errorf("rule %s: no weight for %s", r.ID, r.Severity)
		}
	}
}

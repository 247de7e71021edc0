package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/internal/dumptest"
)

// runParity runs one command line in this process.
func runParity(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &env{Stdin: bytes.NewReader(nil), Stdout: &out, Stderr: &errs})
	return status, out.String(), errs.String()
}

// compareJSON runs parity compare on two dumps and reads its JSON.
func compareJSON(t *testing.T, ref, port dumptest.Dump, flags ...string) (int, *compare.Comparison) {
	t.Helper()
	dir := t.TempDir()
	return compareDirs(t, ref.Write(t, filepath.Join(dir, "ref")), port.Write(t, filepath.Join(dir, "port")), flags...)
}

// compareDirs runs parity compare on two folders and reads its JSON.
func compareDirs(t *testing.T, ref, port string, flags ...string) (int, *compare.Comparison) {
	t.Helper()
	status, stdout, stderr := runParity(t, append([]string{"compare", ref, port, "--format", "json"}, flags...)...)
	var c compare.Comparison
	if err := json.Unmarshal([]byte(stdout), &c); err != nil {
		t.Fatalf("status %d, the report is no JSON: %v\n%s\n%s", status, err, stdout, stderr)
	}
	if status != c.ExitStatus {
		t.Errorf("exit status %d, the report says %d", status, c.ExitStatus)
	}
	return status, &c
}

// checkpoint finds a checkpoint of a report.
func checkpoint(t *testing.T, c *compare.Comparison, name string) *compare.Checkpoint {
	t.Helper()
	for _, ck := range c.Checkpoints {
		if ck.Name == name {
			return ck
		}
	}
	t.Fatalf("the report has no %s", name)
	return nil
}

// guardOf returns the first result of a guard with one of the statuses.
func guardOf(c *compare.Comparison, id string, status compare.GuardStatus) *compare.Guard {
	for i, g := range c.Guards {
		if g.ID == id && g.Status == status {
			return &c.Guards[i]
		}
	}
	return nil
}

// entersAt and firstAt name the places of a report, "" for none.
func entersAt(c *compare.Comparison) string {
	if c.Enters == nil {
		return ""
	}
	return c.Enters.Checkpoint
}

func firstAt(c *compare.Comparison) string {
	if c.First == nil {
		return ""
	}
	return c.First.Checkpoint
}

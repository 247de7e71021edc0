package triage

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// auditScript is a copy of pydumpers/src/parity_dump/source_audit.py; a test
// holds both to the same bytes.
//
//go:embed source_audit.py
var auditScript []byte

// auditSchema is the schema of the script's output.
const auditSchema = "parity.source-audit/1"

// Audit is what the source audit found.
type Audit struct {
	Schema string `json:"schema"`
	// Python is the version of the interpreter whose parser read the sources.
	Python string `json:"python"`
	// Files is the number of files that were parsed.
	Files    int             `json:"files"`
	Findings []SourceFinding `json:"findings"`
	// Errors are files that could not be parsed, Skipped files that were not
	// read (too large, special, unreadable).
	Errors  []SourceTrouble `json:"errors"`
	Skipped []SourceTrouble `json:"skipped"`
	// Ignored counts findings whose line says "# parity: ignore".
	Ignored int `json:"ignored"`
	// Truncated tells that there were more findings than are listed.
	Truncated bool `json:"truncated"`
}

// SourceFinding is a place in the sources that a rule names.
type SourceFinding struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Rule string `json:"rule"`
	// Pattern is an id of the catalogue.
	Pattern string `json:"pattern"`
	// Severity is "error" (wrong by construction), "warning" (wrong where ranks
	// differ) or "hint" (look at it).
	Severity string       `json:"severity"`
	Reason   string       `json:"reason"`
	Path     []SourceStep `json:"path,omitempty"`
}

// SourceStep is one call on the way to a collective.
type SourceStep struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Call string `json:"call"`
}

// SourceTrouble is a file that was not audited, and why.
type SourceTrouble struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// maxAudit bounds the output that is taken from the interpreter.
const maxAudit = 64 << 20

// AuditSource audits the Python sources below dir with an interpreter, "python3"
// where python is empty. The interpreter runs isolated (-I: no environment, no
// user site, not the current folder), reads the audit from standard input, and
// parses the sources without importing them. A folder without a single Python
// file that can be parsed is an error: nothing was looked at.
func AuditSource(ctx context.Context, python, dir string) (*Audit, error) {
	if python == "" {
		python = "python3"
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("auditing sources: %w", err)
	}
	if strings.HasPrefix(dir, "-") {
		dir = "./" + dir // a name, not a flag of the script
	}
	cmd := exec.CommandContext(ctx, python, "-I", "-", dir)
	cmd.Stdin = bytes.NewReader(auditScript)
	stdout := &limited{max: maxAudit}
	stderr := &limited{max: 64 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("auditing sources: %s was not found; the audit needs a Python 3.9 or later, named by --python", python)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("auditing sources: %w", ctx.Err())
		}
		if msg := lastLine(stderr.String()); msg != "" {
			return nil, fmt.Errorf("auditing sources with %s: %w: %s", python, err, msg)
		}
		return nil, fmt.Errorf("auditing sources with %s: %w", python, err)
	}
	var a Audit
	if err := json.Unmarshal(stdout.Bytes(), &a); err != nil || a.Schema != auditSchema {
		if err == nil {
			err = fmt.Errorf("schema %q, want %q", a.Schema, auditSchema)
		}
		return nil, fmt.Errorf("auditing sources: reading the output of %s: %w", python, err)
	}
	if a.Files == 0 {
		if len(a.Errors) > 0 {
			e := a.Errors[0]
			return &a, fmt.Errorf("auditing sources: no Python file of %s could be parsed; %s:%d: %s", dir, e.File, e.Line, e.Reason)
		}
		return &a, fmt.Errorf("auditing sources: no Python file in %s", dir)
	}
	return &a, nil
}

// severities orders the evidence of the audit.
var severities = map[string]int{"error": weightCause, "warning": weightSymptom, "hint": weightHint}

func (a *Audit) evidence() []evidence {
	var out []evidence
	for _, f := range a.Findings {
		out = append(out, evidence{f.Pattern, max(severities[f.Severity], weightHint), fmt.Sprintf("%s:%d: %s", plain(f.File), f.Line, f.Rule), f.Rule})
	}
	return out
}

// limited keeps at most max bytes and fails beyond, which ends the process that
// writes.
type limited struct {
	bytes.Buffer
	max int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.max {
		return 0, io.ErrShortWrite
	}
	return l.Buffer.Write(p)
}

// lastLine returns the last line of a traceback, made safe for a terminal.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return plain(lines[len(lines)-1])
}

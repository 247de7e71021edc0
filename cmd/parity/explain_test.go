package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/layerparity/parity/compare"
)

// expectation is what a fixture's expected.json says of explain.
type expectation struct {
	Verdict string         `json:"verdict"`
	Causes  []string       `json:"causes"`
	Values  map[string]any `json:"values"`
}

// The real dumps: the right cause first, its values, nothing but benign causes
// for right ports.
func TestExplainNamesTheCausesOfTheRealDumps(t *testing.T) {
	files, err := filepath.Glob("../../testdata/fixtures/*/expected.json")
	if err != nil || len(files) < 17 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want expectation
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			_, stdout, stderr := runParity(t, "explain", dir+"/ref", dir+"/port", "--format", "json")
			var got compare.Comparison
			if err := json.Unmarshal([]byte(stdout), &got); err != nil {
				t.Fatalf("%v\n%s", err, stderr)
			}
			if string(got.Verdict) != want.Verdict {
				t.Errorf("verdict %s, want %s", got.Verdict, want.Verdict)
			}
			accused := slices.DeleteFunc(slices.Clone(want.Causes), func(c string) bool { return strings.HasPrefix(c, "benign.") })
			if len(accused) == 0 {
				for _, f := range got.Findings {
					if !strings.HasPrefix(f.Cause, "benign.") {
						t.Errorf("a right port is accused of %s at %s: %s", f.Cause, f.Checkpoint, f.Claim)
					}
				}
				return
			}
			if len(got.Findings) == 0 || !slices.Contains(want.Causes, got.Findings[0].Cause) {
				t.Fatalf("findings %+v, want one of %v first", got.Findings, want.Causes)
			}
			first := got.Findings[0]
			for name, v := range want.Values {
				if !sameValue(first.Values[name], v) {
					t.Errorf("%s: %v, want %v", name, first.Values[name], v)
				}
			}
			if first.Try != "" {
				reproduces(t, first)
			}
		})
	}
}

// sameValue compares numbers within 1 %, lists element by element.
func sameValue(got, want any) bool {
	switch w := want.(type) {
	case float64:
		g, ok := got.(float64)
		return ok && math.Abs(g-w) <= 0.01*math.Abs(w)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !sameValue(g[i], w[i]) {
				return false
			}
		}
		return true
	}
	return got == want
}

// reproduces runs the finding's try line and holds its figures against the
// proof's.
func reproduces(t *testing.T, f compare.Finding) {
	t.Helper()
	args, err := shellWords(f.Try)
	if err != nil || args[0] != "parity" {
		t.Fatalf("try line %q: %v", f.Try, err)
	}
	_, stdout, stderr := runParity(t, append(args[1:], "--format", "json")...)
	var tried struct {
		Before struct {
			RelL2 compare.Num `json:"rel_l2"`
		} `json:"before"`
		After struct {
			RelL2 compare.Num `json:"rel_l2"`
		} `json:"after"`
	}
	if err := json.Unmarshal([]byte(stdout), &tried); err != nil {
		t.Fatalf("%s: %v\n%s", f.Try, err, stderr)
	}
	if !printed(float64(tried.After.RelL2), float64(f.After)) {
		t.Errorf("%s: rel_l2 %g after, the finding says %g", f.Try, tried.After.RelL2, f.After)
	}
	// On the port's own tensor the proof's "before" is the distance to what the
	// reference's rule makes of the port's input, which try does not print.
	if !strings.Contains(f.Try, "target(port)") && !printed(float64(tried.Before.RelL2), float64(f.Before)) {
		t.Errorf("%s: rel_l2 %g before, the finding says %g", f.Try, tried.Before.RelL2, f.Before)
	}
}

// printed allows for the digits that a line prints.
func printed(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b)+1e-9 }

// shellWords splits a line at blanks outside single quotes.
func shellWords(line string) (words []string, err error) {
	word, open, quoted := "", false, false
	for _, r := range line {
		switch {
		case r == '\'':
			open, quoted = !open, true
		case r == ' ' && !open:
			if word != "" || quoted {
				words = append(words, word)
			}
			word, quoted = "", false
		default:
			word += string(r)
		}
	}
	if open {
		return nil, fmt.Errorf("a quote is not closed")
	}
	return append(words, word), nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// patterns runs the command and returns its status and output.
func patterns(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(context.Background(), append([]string{"patterns"}, args...), &env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	return status, out.String(), errs.String()
}

func TestAnIDPrintsItsPatternInFourParts(t *testing.T) {
	status, out, errs := patterns("rope.theta", "--format", "json")
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
	}
	var doc struct {
		Patterns []struct{ ID, Match, Cause, Verify, Fix string }
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	got := doc.Patterns
	if len(got) != 1 || got[0].ID != "rope.theta" || got[0].Match == "" || got[0].Cause == "" || got[0].Verify == "" || got[0].Fix == "" {
		t.Errorf("%+v", got)
	}
}

func TestWordsFindThePatternThatPeopleMean(t *testing.T) {
	for words, want := range map[string]string{
		"nccl watchdog timeout": "hang.nccl_timeout", "interleaved half split rotary": "rope.layout", "bias added on every rank": "parallel.bias",
	} {
		status, out, _ := patterns(strings.Fields(words)...)
		first, _, _ := strings.Cut(out, "\n")
		if status != 0 || !strings.Contains(first, want) {
			t.Errorf("%q finds first %q, want %s", words, first, want)
		}
	}
}

func TestTheListNamesEveryFamilyAndNothingFoundIsTrouble(t *testing.T) {
	if status, out, _ := patterns(); status != 0 || !strings.Contains(out, "attention.mask") || !strings.Contains(out, "state.kv") {
		t.Errorf("status %d\n%s", status, out)
	}
	if status, _, errs := patterns("zzzqqq"); status != 2 || !strings.Contains(errs, "no pattern matches") {
		t.Errorf("status %d, %s", status, errs)
	}
	if status, _, errs := patterns("rope.theta", "--format", "yaml"); status != 2 || !strings.Contains(errs, "yaml") {
		t.Errorf("status %d, %s", status, errs)
	}
}

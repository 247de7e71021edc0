// Command score runs the whole tool on the fault corpus and prints how often it
// is right: verdict, place, first cause, values, silence on clean pairs.
//
//	go run ./diagnose/internal/corpus/score [-markdown] [-v] [ID...]
//
// Each case is written as two dump folders and read back, so that what is scored
// is what a user gets.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/diagnose"
	"github.com/layerparity/parity/diagnose/internal/corpus"
	"github.com/layerparity/parity/dump"
)

// result is one case's score.
type result struct {
	c                           corpus.Case
	verdict, enters             string
	top                         *compare.Finding
	all                         []string
	verdictOK, placeOK, causeOK bool
	valuesOK, quietOK, secondOK bool
	silent                      bool
	failure                     error
}

func main() {
	markdown := flag.Bool("markdown", false, "print the table of docs/diagnosis.md")
	verbose := flag.Bool("v", false, "print every case, right ones too")
	flag.Parse()
	var results []result
	for _, c := range corpus.Cases() {
		if flag.NArg() > 0 && !slices.ContainsFunc(flag.Args(), func(p string) bool { ok, _ := filepath.Match(p, c.ID); return ok || p == c.ID }) {
			continue
		}
		r := score(c)
		results = append(results, r)
		if *verbose || !r.right() {
			fmt.Fprintln(os.Stderr, r.line())
		}
	}
	summary(results, *markdown)
	for _, r := range results {
		if !r.right() {
			os.Exit(1)
		}
	}
}

// score writes, compares and explains one case.
func score(c corpus.Case) (r result) {
	r.c = c
	dir, err := os.MkdirTemp("", "corpus-")
	if err != nil {
		r.failure = err
		return r
	}
	defer os.RemoveAll(dir)
	ref, port := c.Build()
	if r.failure = ref.Write(filepath.Join(dir, "ref")); r.failure != nil {
		return r
	}
	if r.failure = port.Write(filepath.Join(dir, "port")); r.failure != nil {
		return r
	}
	a, err := dump.Open(filepath.Join(dir, "ref"), dump.Options{})
	if err != nil {
		r.failure = err
		return r
	}
	b, err := dump.Open(filepath.Join(dir, "port"), dump.Options{})
	if err != nil {
		r.failure = err
		return r
	}
	cmp, err := compare.Compare(context.Background(), a, b, compare.DefaultOptions())
	if err == nil {
		err = diagnose.Explain(context.Background(), cmp, diagnose.Options{})
	}
	if err != nil {
		r.failure = err
		return r
	}
	r.judge(cmp)
	return r
}

// judge holds an explained comparison against what the case deserves.
func (r *result) judge(c *compare.Comparison) {
	w := r.c.Want
	r.verdict = string(c.Verdict)
	r.verdictOK = w.Verdict == "" || w.Verdict == r.verdict || w.Silent && c.Verdict == compare.Parity
	if c.Enters != nil {
		r.enters = filepath.Base(c.Enters.Checkpoint)
	}
	r.placeOK = len(w.Enters) == 0 || slices.Contains(w.Enters, r.enters) || w.Silent && r.enters == "" || c.Verdict == compare.Untrusted
	for i := range c.Findings {
		r.all = append(r.all, c.Findings[i].Cause)
	}
	if len(c.Findings) > 0 {
		r.top = &c.Findings[0]
	}
	accused := slices.DeleteFunc(slices.Clone(r.all), func(s string) bool { return strings.HasPrefix(s, "benign.") || s == "unknown" })
	r.quietOK = true
	for _, id := range w.MustNot {
		r.quietOK = r.quietOK && !slices.Contains(r.all, id)
	}
	r.silent = len(accused) == 0
	switch {
	case w.Clean:
		r.causeOK = r.silent && c.Verdict == compare.Parity
	case w.Silent && r.silent:
		r.causeOK = true
	default:
		r.causeOK = r.top != nil && slices.Contains(w.Causes, r.top.Cause)
	}
	r.valuesOK = w.Silent && r.silent || r.values(c)
	r.secondOK = len(w.Second) == 0 || slices.ContainsFunc(w.Second, func(id string) bool { return slices.Contains(r.all, id) })
}

// values looks for the wanted figures, within 1 %, in the findings of an
// accepted cause.
func (r *result) values(c *compare.Comparison) bool {
	for name, want := range r.c.Want.Values {
		ok := false
		for _, f := range c.Findings {
			if !slices.Contains(r.c.Want.Causes, f.Cause) {
				continue
			}
			if got, is := number(f.Values[name]); is && math.Abs(got-want) <= 0.01*math.Abs(want)+1e-12 {
				ok = true
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// number reads a value of a finding.
func number(v any) (float64, bool) {
	switch x := v.(type) {
	case compare.Num:
		return float64(x), true
	case float64:
		return x, true
	case int:
		return float64(x), true
	case int64:
		return float64(x), true
	}
	return 0, false
}

// right tells whether nothing is wrong with the case.
func (r *result) right() bool {
	return r.failure == nil && r.verdictOK && r.placeOK && r.causeOK && r.valuesOK && r.quietOK && r.secondOK
}

// line prints a case for people.
func (r *result) line() string {
	if r.failure != nil {
		return fmt.Sprintf("%-34s FAILED %v", r.c.ID, r.failure)
	}
	var wrong []string
	for _, x := range []struct {
		ok   bool
		what string
	}{{r.verdictOK, "verdict"}, {r.placeOK, "place"}, {r.causeOK, "cause"}, {r.valuesOK, "value"}, {r.quietOK, "must-not"}, {r.secondOK, "second"}} {
		if !x.ok {
			wrong = append(wrong, x.what)
		}
	}
	top := ""
	if r.top != nil {
		top = fmt.Sprintf("%s(%s) %v", r.top.Cause, r.top.Proof, r.top.Values)
	}
	return fmt.Sprintf("%-34s wrong: %-22s %s enters %s; says %s [%s]; wants %v at %v %v", r.c.ID, strings.Join(wrong, ","), r.verdict, r.enters, top, strings.Join(r.all, " "), r.c.Want.Causes, r.c.Want.Enters, r.c.Want.Values)
}

// summary prints the totals, or the whole table.
func summary(results []result, markdown bool) {
	if markdown {
		fmt.Println("| case | what | verdict | enters | first finding | proof | right |\n|---|---|---|---|---|---|---|")
		for _, r := range results {
			cause, proof := "-", "-"
			if r.top != nil {
				cause, proof = r.top.Cause, string(r.top.Proof)
			}
			fmt.Printf("| %s | %s | %s | %s | %s | %s | %s |\n", r.c.ID, r.c.Title, r.verdict, or(r.enters, "-"), cause, proof, map[bool]string{true: "yes", false: "**no**"}[r.right()])
		}
		fmt.Println()
	}
	places(results)
	var exact, exactRight, fault, faultRight, value, valueRight, clean, cleanRight, place, placeRight int
	for _, r := range results {
		w := r.c.Want
		count := func(all, ok *int, right bool) {
			*all++
			if right {
				*ok++
			}
		}
		if w.Clean {
			count(&clean, &cleanRight, r.causeOK && r.quietOK)
			continue
		}
		count(&fault, &faultRight, r.causeOK && r.quietOK)
		if w.Exact {
			count(&exact, &exactRight, r.causeOK)
		}
		if len(w.Values) > 0 {
			count(&value, &valueRight, r.valuesOK)
		}
		if len(w.Enters) > 0 {
			count(&place, &placeRight, r.placeOK)
		}
	}
	fmt.Printf("right cause first: %d of %d faults, %d of %d exact ones\n", faultRight, fault, exactRight, exact)
	fmt.Printf("right value within 1 %%: %d of %d\n", valueRight, value)
	fmt.Printf("right place: %d of %d\n", placeRight, place)
	fmt.Printf("silent on clean pairs: %d of %d\n", cleanRight, clean)
}

// places prints how often the entering checkpoint is right, silent or wrong on
// faults, and how often a clean pair is accused of one: the table that the rule
// of docs/metrics.md is judged by.
func places(results []result) {
	type row struct{ right, silent, wrong, falsely, clean int }
	rows := map[string]*row{"float32": {}, "bfloat16": {}}
	for _, r := range results {
		class := "float32"
		if r.c.DType() != "float32" {
			class = "bfloat16"
		}
		t := rows[class]
		switch {
		case r.failure != nil:
		case r.c.Want.Clean:
			t.clean++
			if r.enters != "" || r.verdict != string(compare.Parity) {
				t.falsely++
			}
		case len(r.c.Want.Enters) == 0 || r.verdict == string(compare.Untrusted):
		case slices.Contains(r.c.Want.Enters, r.enters):
			t.right++
		case r.enters == "":
			t.silent++
		default:
			t.wrong++
		}
	}
	fmt.Println("| port | place right | silent | wrong | clean pairs | falsely accused |\n|---|--:|--:|--:|--:|--:|")
	for _, class := range []string{"float32", "bfloat16"} {
		t := rows[class]
		fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", map[string]string{"float32": "float32", "bfloat16": "16-bit and tf32"}[class], t.right, t.silent, t.wrong, t.clean, t.falsely)
	}
	fmt.Println()
}

// or returns the first that is not empty.
func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

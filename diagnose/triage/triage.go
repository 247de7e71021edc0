// Package triage recognises known failures without dumps: from a few answers,
// from a log, and from the Python sources of a training or serving program. It
// ends in patterns of the catalogue.
//
// Three sources of evidence, each a table of its own:
//
//   - questions.go and rules.go: the triage questions in their order, and what
//     answers speak for which patterns;
//   - matchers.go: lines of a log, read as a stream in bounded memory;
//   - source_audit.py: rules over the syntax tree of the sources, read by the
//     user's own python3, which imports and runs none of them.
package triage

import (
	"cmp"
	"slices"

	"github.com/layerparity/parity/diagnose/catalog"
)

// Result is what triage found. It is plain data.
type Result struct {
	// Answers are the answers that were given, by question id.
	Answers map[string]string
	// Logs are the logs that were read, in order.
	Logs []Log
	// Source is the audit of --source, nil without it.
	Source *Audit
	// Ranked are the patterns that the evidence speaks for, best first.
	Ranked []Ranked
	// Notes are conclusions over several lines or logs.
	Notes []string
	// Warnings are doubts about the reading itself, such as a file that could
	// not be parsed.
	Warnings []string
}

// Ranked is a pattern with the evidence for it.
type Ranked struct {
	Pattern catalog.Pattern
	// Score orders the list: the sum of the weights of the evidence.
	Score int
	// Why are the reasons, strongest first.
	Why []string
}

// Evidence is one reason to think of a pattern.
type evidence struct {
	id     string
	weight int
	why    string
	// key is the matcher, rule or answer that it comes from: the same one again,
	// in another log or line, is no further evidence.
	key string
}

// Weights of evidence. Their order is what counts.
const (
	weightHint    = 1 // an answer, or a message that is often harmless
	weightSymptom = 3 // a message that follows from a fault elsewhere
	weightCause   = 6 // a message or a line of source that names the fault
)

// rank sums the evidence by pattern, the strongest of each key. Equal scores keep
// the order in which the evidence came, which is the order of the lines.
func rank(all []evidence) []Ranked {
	var out []Ranked
	at := map[string]int{}
	counted := map[[2]string]bool{}
	slices.SortStableFunc(all, func(x, y evidence) int { return cmp.Compare(y.weight, x.weight) })
	for _, e := range all {
		i, ok := at[e.id]
		if !ok {
			p, known := catalog.Get(e.id)
			if !known {
				continue // a test holds every id in every table to the catalogue
			}
			i = len(out)
			at[e.id] = i
			out = append(out, Ranked{Pattern: p})
		}
		if key := [2]string{e.id, e.key}; !counted[key] {
			counted[key] = true
			out[i].Score += e.weight
		}
		if !slices.Contains(out[i].Why, e.why) {
			out[i].Why = append(out[i].Why, e.why)
		}
	}
	slices.SortStableFunc(out, func(x, y Ranked) int { return cmp.Compare(y.Score, x.Score) })
	return out
}

// Recognised tells whether anything was found: the command's exit status 1.
func (r *Result) Recognised() bool { return len(r.Ranked) > 0 }

// Conclude fills Ranked and Notes from the answers, logs and audit.
func (r *Result) Conclude() {
	var all []evidence
	all = append(all, answersEvidence(r.Answers)...)
	for _, log := range r.Logs {
		all = append(all, log.evidence()...)
	}
	notes, more := compareRanks(r.Logs)
	r.Notes = append(r.Notes, notes...)
	all = append(all, more...)
	if r.Source != nil {
		all = append(all, r.Source.evidence()...)
	}
	r.Ranked = rank(all)
}

package triage

import (
	"fmt"
	"strings"
)

// Question is one triage question.
type Question struct {
	// ID is its name in flags and JSON.
	ID string
	// Text is what is asked.
	Text string
	// Choices are the answers, in the order in which they are numbered.
	Choices []Choice
	// asked tells whether the question makes sense after earlier answers.
	asked func(answers map[string]string) bool
}

// Choice is one answer.
type Choice struct {
	// ID is its name in flags and JSON; Text what is shown.
	ID, Text string
}

// Questions are the protocol's triage questions in their order. The last one,
// the end of the traceback, is not in the table: it is text, read by the log's
// matchers.
var Questions = []Question{
	{
		ID: "kind", Text: "What do you see?",
		Choices: []Choice{
			{"hang", "it hangs, or a collective times out"},
			{"loss", "the loss is NaN, spikes, or differs from the reference's"},
			{"shape", "a shape or size error, or another exception"},
			{"quality", "it runs, and its output is wrong"},
		},
	},
	{
		ID: "one-rank", Text: "Is it right on one rank (one process, one device)?",
		Choices: []Choice{
			{"yes", "yes: wrong on several only"},
			{"no", "no: wrong on one as well"},
		},
	},
	{
		ID: "nodes", Text: "One node or several?",
		Choices: []Choice{
			{"one", "it happens on one node too"},
			{"several", "it happens on several nodes only"},
		},
		asked: func(a map[string]string) bool { return a["one-rank"] != "no" },
	},
	{
		ID: "stage", Text: "At which stage?",
		Choices: []Choice{
			{"start", "at the start: ranks joining, groups, loading weights"},
			{"first-step", "at the first step or the first prompt"},
			{"later", "after some steps, not at a fixed one"},
			{"save", "when a checkpoint is saved, or right after"},
			{"eval", "at an evaluation or the end of an epoch"},
			{"resume", "after a resume, an upgrade or a change of parallelism"},
			{"decode", "in decoding: the first tokens are right"},
		},
	},
}

// QuestionByID returns a question of the table.
func QuestionByID(id string) (Question, bool) {
	for _, q := range Questions {
		if q.ID == id {
			return q, true
		}
	}
	return Question{}, false
}

// Parse reads an answer: a choice's id, the beginning of one that no other
// choice shares, or its number. Empty and "?" mean that it is not known and give
// "".
func (q Question) Parse(s string) (string, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "" || s == "?" {
		return "", nil
	}
	var found []string
	for i, c := range q.Choices {
		if s == c.ID || s == fmt.Sprint(i+1) {
			return c.ID, nil
		}
		if strings.HasPrefix(c.ID, s) {
			found = append(found, c.ID)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return "", fmt.Errorf("%q is no answer to %q: %s", s, q.ID, strings.Join(q.ids(), ", "))
}

func (q Question) ids() []string {
	var out []string
	for _, c := range q.Choices {
		out = append(out, c.ID)
	}
	return out
}

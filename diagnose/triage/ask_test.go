package triage

import (
	"slices"
	"strings"
	"testing"
)

func ask(t *testing.T, in string, known map[string]string) (answers map[string]string, tail *Log, out string) {
	t.Helper()
	var b strings.Builder
	tail, err := Ask(strings.NewReader(in), &b, known)
	if err != nil {
		t.Fatal(err)
	}
	return known, tail, b.String()
}

func TestQuestionsComeInTheProtocolsOrder(t *testing.T) {
	var order []string
	for _, q := range Questions {
		order = append(order, q.ID)
	}
	if want := []string{"kind", "one-rank", "nodes", "stage"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	_, _, out := ask(t, "1\nyes\none\nsave\n\n", map[string]string{})
	last := -1
	for _, q := range []string{"What do you see?", "right on one rank", "One node or several?", "At which stage?", "last lines of the traceback"} {
		i := strings.Index(out, q)
		if i <= last {
			t.Errorf("%q is not asked in order in\n%s", q, out)
		}
		last = i
	}
}

func TestAnswersLeadToPatterns(t *testing.T) {
	for _, c := range []struct{ in, want, reason string }{
		{"hang\nyes\none\nsave\n\n", "hang.checkpoint_save", "words"},
		{"1\n1\n1\n4\n\n", "hang.checkpoint_save", "numbers"},
		{"h\ny\no\nsa\n\n", "hang.checkpoint_save", "beginnings"},
		{"shape\nyes\none\nfirst-step\n\n", "video.kv_buffer", "a shape error on several ranks"},
		{"quality\nyes\n\nfirst-step\n\n", "video.half_noise", "wrong on several ranks"},
		{"quality\n\n\ndecode\n\n", "path.decode_state", "the first tokens are right"},
		{"loss\nyes\none\nlater\n\n", "train.rng_fork", "from some step on"},
		{"hang\nyes\nseveral\n\n\n", "hang.network", "several nodes only"},
		{"hang\nyes\none\nstart\n\n", "hang.rendezvous", "at the start"},
		{"hang\nyes\none\neval\n\n", "hang.uneven_batches", "the end of an epoch"},
		{"hang\nyes\none\nlater\n\n", "hang.divergent_condition", "at no fixed step"},
	} {
		answers, _, _ := ask(t, c.in, map[string]string{})
		r := &Result{Answers: answers}
		r.Conclude()
		if len(r.Ranked) == 0 || r.Ranked[0].Pattern.ID != c.want {
			t.Errorf("%s: %v leads to %v, want %s", c.reason, answers, first(r), c.want)
		}
	}
}

func first(r *Result) string {
	if len(r.Ranked) == 0 {
		return "nothing"
	}
	return r.Ranked[0].Pattern.ID
}

func TestATracebackIsReadLikeALog(t *testing.T) {
	_, tail, _ := ask(t, "\n\n\n\nTraceback (most recent call last):\n"+oom+"\n\nnot read\n", map[string]string{})
	if tail == nil || ids(tail.Hits) != "out-of-memory" || tail.Hits[0].Found[0].Line != 2 {
		t.Fatalf("%+v", tail)
	}
	r := &Result{Logs: []Log{*tail}}
	r.Conclude()
	if first(r) != "train.oom" {
		t.Errorf("first is %s", first(r))
	}
}

func TestWhatIsNotKnownIsNotAsserted(t *testing.T) {
	answers, tail, _ := ask(t, "\n?\n\n\n\n", map[string]string{})
	r := &Result{Answers: answers}
	r.Conclude()
	if tail != nil || r.Recognised() {
		t.Errorf("answers %v lead to %s", answers, first(r))
	}
}

func TestANodeQuestionIsNotAskedOfOneRank(t *testing.T) {
	_, _, out := ask(t, "hang\nno\nlater\n\n", map[string]string{})
	if strings.Contains(out, "One node or several?") {
		t.Errorf("asked\n%s", out)
	}
}

func TestKnownAnswersAreNotAskedAgain(t *testing.T) {
	answers, _, out := ask(t, "yes\none\nsave\n\n", map[string]string{"kind": "hang"})
	if strings.Contains(out, "What do you see?") || answers["stage"] != "save" {
		t.Errorf("%v\n%s", answers, out)
	}
}

func TestAReplyThatIsNoAnswerIsAskedAgain(t *testing.T) {
	answers, _, out := ask(t, "purple\nhang\n9\nyes\none\ns\nsave\n\n", map[string]string{})
	if answers["kind"] != "hang" || answers["one-rank"] != "yes" || answers["stage"] != "save" {
		t.Errorf("answers %v", answers)
	}
	for _, want := range []string{`"purple" is no answer`, `"9" is no answer`, `"s" is no answer`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestQuestionsEndWithTheInputOrAtQ(t *testing.T) {
	for _, in := range []string{"hang\n", "hang\nq\nyes\n", "hang"} {
		answers, tail, _ := ask(t, in, map[string]string{})
		if answers["kind"] != "hang" || len(answers) != 1 || tail != nil {
			t.Errorf("%q: %v", in, answers)
		}
	}
}

func TestHelpNamesEveryFlagAndAnswer(t *testing.T) {
	var b strings.Builder
	if err := Help(&b); err != nil {
		t.Fatal(err)
	}
	for _, q := range Questions {
		if !strings.Contains(b.String(), "--"+q.ID) {
			t.Errorf("no --%s", q.ID)
		}
		for _, c := range q.Choices {
			if !strings.Contains(b.String(), c.ID) || !strings.Contains(b.String(), c.Text) {
				t.Errorf("no %s", c.ID)
			}
		}
	}
	for _, flag := range []string{"--log", "--source"} {
		if !strings.Contains(b.String(), flag) {
			t.Errorf("no %s", flag)
		}
	}
}

func TestRulesUseAnswersThatExist(t *testing.T) {
	for _, r := range rules {
		if r.kind == "" || len(r.patterns) == 0 {
			t.Errorf("rule %q has no kind or no pattern", r.why)
		}
		for id, answer := range map[string]string{"kind": r.kind, "one-rank": r.oneRank, "nodes": r.nodes, "stage": r.stage} {
			q, ok := QuestionByID(id)
			if !ok {
				t.Fatalf("no question %s", id)
			}
			if answer != "" && !slices.Contains(q.ids(), answer) {
				t.Errorf("rule %q: %s has no answer %q", r.why, id, answer)
			}
		}
	}
}

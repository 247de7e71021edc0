package compare

import (
	"fmt"
	"slices"

	"github.com/layerparity/parity/dump"
)

// maxTokens bounds how many ids are aligned.
const maxTokens = 1 << 20

// guardTokens holds the ids of both prompts against each other and names the
// edit where they differ: nothing else can be judged then.
func guardTokens(p *part) []Guard {
	const remedy = "tokenise the prompt once and feed the same ids to both runs (check BOS, chat template, add_special_tokens)"
	a, b := p.Ref.Lookup("prompt_tokens"), p.Port.Lookup("prompt_tokens")
	if a == nil || b == nil {
		return one(NotChecked, "dump prompt_tokens on both sides", "prompt_tokens is missing in %s", missingIn(a == nil, b == nil))
	}
	x, y, err := bothInts(a, b)
	if err != nil {
		return one(NotChecked, "save prompt_tokens as an integer array", "%s", guardError(err))
	}
	if slices.Equal(x, y) {
		return one(Pass, "", "%d ids are equal", len(x))
	}
	if g := p.sampledGuard(x, y); g != nil {
		return g
	}
	id, edit := tokenEdit(x, y)
	g := one(Fail, remedy, "%s", edit)
	g[0].ID, g[0].Checkpoint = id, "prompt_tokens"
	return g
}

// sampledGuard speaks of dumps that keep different rows of one sequence by their
// own choice; nil where that is not what their manifests say.
func (p *part) sampledGuard(x, y []int64) []Guard {
	rows := func(m *dump.Manifest) []int {
		if m == nil {
			return nil
		}
		return m.Tokens
	}
	whole := func(m *dump.Manifest, ids []int64) []int64 {
		if len(rows(m)) > 0 && m.Prompt != nil {
			return m.Prompt.TokenIDs
		}
		return ids
	}
	a, b := p.Ref.Manifest, p.Port.Manifest
	if slices.Equal(rows(a), rows(b)) || !slices.Equal(whole(a, x), whole(b, y)) {
		return nil
	}
	kept := func(m *dump.Manifest, n int) string {
		if len(rows(m)) == 0 {
			return fmt.Sprintf("all %d tokens", n)
		}
		return fmt.Sprintf("%d of its tokens, the last of them %d", n, rows(m)[n-1])
	}
	if len(rows(a)) > 0 && len(rows(a)) != len(x) || len(rows(b)) > 0 && len(rows(b)) != len(y) {
		return nil // a manifest that contradicts its files
	}
	g := one(Fail, "dump the same tokens on both sides (parity-dump --tokens)",
		"the sequence is the same, but the reference keeps %s and the port %s: their rows are not of the same tokens", kept(a, len(x)), kept(b, len(y)))
	g[0].ID, g[0].Checkpoint = "capture.extra_rows", "prompt_tokens"
	return g
}

// bothInts reads two integer records whole.
func bothInts(a, b *dump.Record) (x, y []int64, err error) {
	for _, r := range []*dump.Record{a, b} {
		if r.Err == nil && !r.DType.IsInt() {
			return nil, nil, fmt.Errorf("%s holds %s, not integers", r.File, r.DType)
		}
	}
	if x, err = readInts(a, maxTokens); err != nil {
		return nil, nil, err
	}
	y, err = readInts(b, maxTokens)
	return x, y, err
}

// missingIn names the sides that lack something.
func missingIn(ref, port bool) string {
	switch {
	case ref && port:
		return "both dumps"
	case ref:
		return "the reference"
	}
	return "the port"
}

// tokenEdit names the edit from x to y by their common ends, and its cause.
func tokenEdit(x, y []int64) (id, edit string) {
	head := 0
	for head < min(len(x), len(y)) && x[head] == y[head] {
		head++
	}
	tail := 0
	for tail < min(len(x), len(y))-head && x[len(x)-1-tail] == y[len(y)-1-tail] {
		tail++
	}
	// A repeated id may stand at several places: the first one is named, so that
	// a second BOS is "at 0".
	if long := max(len(x), len(y)); len(x) != len(y) && head+tail == min(len(x), len(y)) {
		all, n := x, long-head-tail
		if len(y) > len(x) {
			all = y
		}
		for head > 0 && all[head-1] == all[head+n-1] {
			head, tail = head-1, tail+1
		}
	}
	cut, put := x[head:len(x)-tail], y[head:len(y)-tail]
	switch {
	case len(cut) == 0:
		return "input.extra_token", fmt.Sprintf("port has %s at %d: %s%s", more(len(put)), head, idList(put), doubled(put, y, head))
	case len(put) == 0:
		return "input.extra_token", fmt.Sprintf("port lacks %s at %d: %s%s", tokensWord(len(cut)), head, idList(cut), doubled(cut, x, head))
	}
	return "input.tokens", fmt.Sprintf("ids differ from position %d on: reference %s, port %s (%d against %d ids)", head, idList(cut), idList(put), len(x), len(y))
}

// doubled says so where one token more repeats its neighbour at the front.
func doubled(put, all []int64, at int) string {
	if len(put) == 1 && at <= 1 && len(all) > 1 && all[0] == all[1] {
		return " (BOS twice)"
	}
	if len(put) == 1 && at == 0 {
		return " (a BOS or other special token on one side only)"
	}
	return ""
}

func more(n int) string {
	if n == 1 {
		return "one more token"
	}
	return fmt.Sprintf("%d more tokens", n)
}

func tokensWord(n int) string {
	if n == 1 {
		return "one token"
	}
	return fmt.Sprintf("%d tokens", n)
}

// idList prints the first few ids.
func idList(ids []int64) string {
	const show = 6
	if len(ids) == 1 {
		return fmt.Sprintf("id %d", ids[0])
	}
	if len(ids) <= show {
		return fmt.Sprintf("ids %v", ids)
	}
	return fmt.Sprintf("ids %v and %d more", ids[:show], len(ids)-show)
}

package compare

import (
	"strings"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

// Dumps that keep other rows of one sequence by choice are told so, and not that
// their prompts differ.
func TestDumpsThatKeepOtherRowsOfOneSequence(t *testing.T) {
	ref := net().Run()
	var ids []int
	for _, v := range ref["prompt_tokens"].Data {
		ids = append(ids, int(v))
	}
	port := right().Map(func(_ string, a *dumptest.Array) *dumptest.Array { return a.Rows(0, 4) })
	port["prompt_tokens"] = dumptest.Ints(ids[:4]...)
	keeps := func(tokens, ids []int) map[string]any {
		return says(map[string]any{"tokens": tokens, "prompt": map[string]any{"token_ids": ids}})
	}
	four := []int{0, 1, 2, 3}
	other := append([]int{ids[0] + 1}, ids[1:]...)
	for _, c := range []struct {
		reason            string
		ref               dumptest.Dump
		refSays, portSays map[string]any
		verdict           Verdict
		guard, evidence   string
	}{
		{"the port keeps four tokens", ref, says(nil), keeps(four, ids), Untrusted, "capture.extra_rows", "the port 4 of its tokens, the last of them 3"},
		{"both keep the same four", port, keeps(four, ids), keeps(four, ids), Parity, "", ""},
		{"the port's sequence is another one", ref, says(nil), keeps(four, other), Untrusted, "input.extra_token", "port lacks"},
		{"the manifest contradicts its file", ref, says(nil), keeps(four[:3], ids), Untrusted, "input.extra_token", "port lacks"},
	} {
		res := runCase(t, guardCase{reason: c.reason, ref: c.ref, port: port, refSays: c.refSays, portSays: c.portSays})
		var failed []Guard
		for _, g := range res.Guards {
			if g.Status == Fail || g.Status == Repaired {
				failed = append(failed, g)
			}
		}
		switch {
		case res.Verdict != c.verdict:
			t.Errorf("%s: verdict %s (%s), want %s", c.reason, res.Verdict, res.Reason, c.verdict)
		case c.guard == "" && len(failed) > 0, c.guard != "" && (len(failed) != 1 || failed[0].ID != c.guard || !strings.Contains(failed[0].Evidence, c.evidence)):
			t.Errorf("%s: guards %+v, want %q alone", c.reason, failed, c.guard)
		}
	}
}

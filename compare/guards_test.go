package compare

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

// A guardCase is a pair of dumps and how one guard ends on it.
type guardCase struct {
	reason    string
	ref, port dumptest.Dump
	// refSays and portSays are manifests: nil for none, fields over a complete one
	// else.
	refSays, portSays map[string]any
	want              GuardStatus
	id                string // another cause id than the table's
	at                string // the checkpoint of the result
	evidence          string // words of its evidence
	verdict           Verdict
	enters            string
}

// says is a manifest with the fields of a full-precision CPU run and more.
func says(more map[string]any) map[string]any {
	m := map[string]any{
		"framework": map[string]any{"device": "cpu"}, "mode": "prefill",
		"model": map[string]any{"id": "tiny", "dtype": "float32"},
	}
	for k, v := range more {
		m[k] = v
	}
	return m
}

// runCase compares the dumps of a case.
func runCase(t *testing.T, c guardCase) *Comparison {
	t.Helper()
	dir := t.TempDir()
	ref, port := c.ref.Write(t, filepath.Join(dir, "ref")), c.port.Write(t, filepath.Join(dir, "port"))
	if c.refSays != nil {
		dumptest.Manifest(t, ref, c.refSays)
	}
	if c.portSays != nil {
		dumptest.Manifest(t, port, c.portSays)
	}
	return compareFolders(t, ref, port)
}

// checkGuard runs a guard's cases: status, place and evidence, the verdict that
// follows, and that no other guard accuses a dump that this one repaired.
func checkGuard(t *testing.T, id string, cases []guardCase) {
	t.Helper()
	seen := map[GuardStatus]bool{}
	for _, c := range cases {
		res := runCase(t, c)
		want := id
		if c.id != "" {
			want = c.id
		}
		var got *Guard
		for i, g := range res.Guards {
			if g.ID == want && (got == nil || g.Status == c.want) {
				got = &res.Guards[i]
			}
		}
		switch {
		case got == nil:
			t.Errorf("%s: no guard %s", c.reason, want)
			continue
		case got.Status != c.want:
			t.Errorf("%s: %s is %s (%s), want %s", c.reason, want, got.Status, got.Evidence, c.want)
		case c.at != got.Checkpoint && (c.want == Fail || c.want == Repaired):
			t.Errorf("%s: at %q, want %q", c.reason, got.Checkpoint, c.at)
		case !strings.Contains(got.Evidence, c.evidence):
			t.Errorf("%s: evidence %q does not say %q", c.reason, got.Evidence, c.evidence)
		case (got.Status == Fail || got.Status == Repaired) && got.Remedy == "":
			t.Errorf("%s: no remedy", c.reason)
		}
		if c.verdict != "" && res.Verdict != c.verdict {
			t.Errorf("%s: verdict %s (%s), want %s", c.reason, res.Verdict, res.Reason, c.verdict)
		}
		if e := outcome(res).Enters; (e == nil) != (c.enters == "") || e != nil && *e != c.enters {
			t.Errorf("%s: enters %s, want %q", c.reason, outcome(res), c.enters)
		}
		if c.want == Repaired {
			for _, g := range res.Guards {
				if g.Status == Fail && c.verdict != Untrusted {
					t.Errorf("%s: guard %s fails beside the repair: %s", c.reason, g.ID, g.Evidence)
				}
			}
		}
		seen[c.want] = true
	}
	if !seen[Fail] && !seen[Repaired] || !seen[Pass] && !seen[NotApplicable] {
		t.Errorf("the cases of %s show no fault or no sound dump", id)
	}
}

// net is the network of the guards' tests: 6 layers of [16, 32].
func net() *dumptest.Net { return dumptest.NewNet(3, 6, 16, 32) }

// withFault runs net with another increment at one layer.
func withFault(layer int, f func(float64) float64) dumptest.Dump {
	n := net()
	n.Fault = dumptest.At(layer, f)
	return n.Run()
}

// right is a port without a fault: float32 rounding beside the reference.
func right() dumptest.Dump { return net().Run().Noise(9, 1e-7) }

func times(c float64) func(float64) float64 { return func(v float64) float64 { return c * v } }

func TestEveryGuardIsInTheTableOnceAStage(t *testing.T) {
	type key struct {
		id    string
		stage stage
	}
	seen := map[key]bool{}
	for _, g := range guards {
		if seen[key{g.id, g.stage}] {
			t.Errorf("%s is twice in one stage", g.id)
		}
		seen[key{g.id, g.stage}] = true
		if family, _, _ := strings.Cut(g.id, "."); family != "input" && family != "capture" {
			t.Errorf("%s is neither of the input nor of the capture family", g.id)
		}
	}
}

func TestASoundPairPassesEveryGuard(t *testing.T) {
	full := map[string]any{"model": map[string]any{"id": "tiny", "dtype": "float32", "num_layers": 6}}
	c := runCase(t, guardCase{ref: net().Run(), port: right(), refSays: says(full), portSays: says(full)})
	for _, g := range c.Guards {
		if g.Status != Pass && g.Status != NotApplicable {
			t.Errorf("%s is %s: %s", g.ID, g.Status, g.Evidence)
		}
	}
	if c.Verdict != Parity {
		t.Errorf("verdict %s: %s", c.Verdict, c.Reason)
	}
}

// Real faults of the model that look like faults of the dump: none may be
// explained away, each is named where it is.
func TestNoGuardExplainsARealFaultAway(t *testing.T) {
	ref := net().Run()
	for _, c := range []struct {
		reason, enters string
		port           dumptest.Dump
	}{
		{"layer 3 adds nothing: its output equals that of layer 2", "layer_03", withFault(3, times(0))},
		{"layers 2 and 3 add nothing: three equal outputs", "layer_02", func() dumptest.Dump {
			n := net()
			n.Fault = func(l int, _, add *dumptest.Array) {
				if l == 2 || l == 3 {
					clear(add.Data)
				}
			}
			return n.Run()
		}()},
		{"the last layer adds nothing", "layer_05", withFault(5, times(0))},
		{"the first layer adds nothing: its output equals the embedding", "layer_00", withFault(0, times(0))},
		{"the last layer adds 1.5 times too much, and is no final norm", "layer_05", withFault(5, times(1.5))},
		{"the last layer has the wrong sign", "layer_05", withFault(5, times(-1))},
		{"the stream is doubled after layer 0: a residual fault, since the logits are wrong", "layer_00", func() dumptest.Dump {
			n := net()
			n.Stream = func(l int, h *dumptest.Array) {
				if l == 0 {
					*h = *h.Map(times(2))
				}
			}
			return n.Run()
		}()},
		{"the stream is doubled after every layer", "layer_00", func() dumptest.Dump {
			n := net()
			n.Stream = func(_ int, h *dumptest.Array) { *h = *h.Map(times(2)) }
			return n.Run()
		}()},
		{"layers 2 and 3 are swapped", "layer_02", func() dumptest.Dump {
			n := net()
			n.Weight[2], n.Weight[3] = n.Weight[3], n.Weight[2]
			return n.Run()
		}()},
		{"layer 2 has the weights of layer 3", "layer_02", func() dumptest.Dump {
			n := net()
			n.Weight[2] = n.Weight[3]
			return n.Run()
		}()},
		{"one layer's weights for all", "layer_01", func() dumptest.Dump {
			n := net()
			for i := range n.Weight {
				n.Weight[i] = n.Weight[0]
			}
			return n.Run()
		}()},
		{"wrong from layer 0 on", "layer_00", withFault(0, times(-1))},
		{"one token is wrong from layer 2 on", "layer_02", func() dumptest.Dump {
			n := net()
			n.Fault = func(l int, _, add *dumptest.Array) {
				if l == 2 {
					for i, v := range add.Row(7) {
						add.Row(7)[i] = -v
					}
				}
			}
			return n.Run()
		}()},
		{"the last tokens are wrong from layer 2 on, and stay wrong", "layer_02", func() dumptest.Dump {
			n := net()
			n.Fault = func(l int, _, add *dumptest.Array) {
				if l == 2 {
					clear(add.Data[12*32:])
				}
			}
			return n.Run()
		}()},
		{"the logits are doubled", "logits", ref.With("logits", ref["logits"].Map(times(2)))},
		{"the logits' rows are those of the token before", "logits", ref.With("logits", roll(ref["logits"]))},
	} {
		got := runCase(t, guardCase{ref: ref, port: c.port})
		if got.Verdict != Divergence || got.Enters == nil || got.Enters.Checkpoint != c.enters {
			t.Errorf("%s: %s (%s), want divergence that enters at %s", c.reason, outcome(got), got.Reason, c.enters)
		}
		for _, g := range got.Guards {
			if g.Status == Fail || g.Status == Repaired {
				t.Errorf("%s: guard %s is %s: %s", c.reason, g.ID, g.Status, g.Evidence)
			}
		}
	}
}

// roll moves the rows of an array down by one; the last becomes the first.
func roll(a *dumptest.Array) *dumptest.Array {
	b := a.Clone()
	n := a.Shape[0]
	for t := range n {
		copy(b.Row((t+1)%n), a.Row(t))
	}
	return b
}

func TestGuardTokens(t *testing.T) {
	ids := func(ids ...int) dumptest.Dump { return net().Run().With("prompt_tokens", dumptest.Ints(ids...)) }
	base := []int{1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}
	edit := func(at int, ids ...int) []int {
		out := append([]int{}, base[:at]...)
		out = append(out, ids...)
		return append(out, base[at:]...)[:max(16, 16+len(ids))]
	}
	checkGuard(t, "input.tokens", []guardCase{
		{reason: "equal ids", ref: ids(base...), port: ids(base...), want: Pass, evidence: "16 ids are equal", verdict: Parity},
		{reason: "equal ids, saved as int32", ref: ids(base...), port: func() dumptest.Dump {
			d := ids(base...)
			d["prompt_tokens"].DType = npy.Int32
			return d
		}(), want: Pass, verdict: Parity},
		{reason: "BOS twice", ref: ids(base...), port: ids(edit(0, 1)...), id: "input.extra_token", want: Fail, at: "prompt_tokens",
			evidence: "port has one more token at 0: id 1 (BOS twice)", verdict: Untrusted},
		{reason: "a BOS that the reference lacks", ref: ids(base...), port: ids(edit(0, 2)...), id: "input.extra_token", want: Fail, at: "prompt_tokens",
			evidence: "port has one more token at 0: id 2", verdict: Untrusted},
		{reason: "the port lacks the first id", ref: ids(base...), port: ids(base[1:]...), id: "input.extra_token", want: Fail, at: "prompt_tokens",
			evidence: "port lacks one token at 0: id 1", verdict: Untrusted},
		{reason: "two ids more in the middle", ref: ids(base...), port: ids(edit(5, 77, 78)...), id: "input.extra_token", want: Fail, at: "prompt_tokens",
			evidence: "port has 2 more tokens at 5: ids [77 78]", verdict: Untrusted},
		{reason: "another id", ref: ids(base...), port: ids(append(append([]int{}, base[:4]...), append([]int{99}, base[5:]...)...)...), want: Fail, at: "prompt_tokens",
			evidence: "ids differ from position 4 on: reference id 13, port id 99 (16 against 16 ids)", verdict: Untrusted},
		{reason: "no ids in the port", ref: ids(base...), port: net().Run().With("prompt_tokens", nil), want: NotChecked,
			evidence: "missing in the port", verdict: Untrusted}, // a required checkpoint without a partner
		{reason: "no ids at all", ref: net().Run().With("prompt_tokens", nil), port: net().Run().With("prompt_tokens", nil), want: NotChecked,
			evidence: "missing in both dumps", verdict: Parity},
		{reason: "ids saved as floats on one side", ref: ids(base...), port: func() dumptest.Dump {
			d := ids(base...)
			d["prompt_tokens"].DType = npy.Float32
			return d
		}(), want: NotChecked, evidence: "not integers"},
	})
}

func TestTokenEdits(t *testing.T) {
	for _, c := range []struct {
		x, y     []int64
		id, edit string
	}{
		{[]int64{1, 2, 3}, []int64{1, 1, 2, 3}, "input.extra_token", "port has one more token at 0: id 1 (BOS twice)"},
		{[]int64{1, 1, 2, 3}, []int64{1, 2, 3}, "input.extra_token", "port lacks one token at 0: id 1 (BOS twice)"},
		{[]int64{2, 3}, []int64{1, 2, 3}, "input.extra_token", "port has one more token at 0: id 1 (a BOS or other special token on one side only)"},
		{[]int64{1, 5, 5, 6}, []int64{1, 5, 5, 5, 6}, "input.extra_token", "port has one more token at 1: id 5"},
		{[]int64{1, 2, 3}, []int64{1, 2, 1, 2, 3}, "input.extra_token", "port has 2 more tokens at 0: ids [1 2]"},
		{[]int64{1, 2, 3}, []int64{1, 2, 3, 4}, "input.extra_token", "port has one more token at 3: id 4"},
		{[]int64{1, 2}, []int64{}, "input.extra_token", "port lacks 2 tokens at 0: ids [1 2]"},
		{[]int64{1, 2, 3}, []int64{1, 9, 3}, "input.tokens", "ids differ from position 1 on: reference id 2, port id 9 (3 against 3 ids)"},
		{[]int64{1, 2, 3, 4, 5, 6, 7, 8}, []int64{9}, "input.tokens", "ids differ from position 0 on: reference ids [1 2 3 4 5 6] and 2 more, port id 9 (8 against 1 ids)"},
	} {
		if id, edit := tokenEdit(c.x, c.y); id != c.id || edit != c.edit {
			t.Errorf("%v to %v: %s, %q; want %s, %q", c.x, c.y, id, edit, c.id, c.edit)
		}
	}
}

func TestMissingCheckpoints(t *testing.T) {
	ref := net().Run()
	for _, name := range []string{"prompt_tokens", "post_embed", "layer_00", "layer_03", "layer_05", "post_final_norm", "logits"} {
		for _, c := range []guardCase{
			{reason: name + " missing in the port", ref: ref, port: right().With(name, nil)},
			{reason: name + " missing in the reference", ref: ref.With(name, nil), port: right()},
		} {
			got := runCase(t, c)
			g := guardNamed(got, "capture.missing")
			if got.Verdict != Untrusted || g == nil || g.Status != Fail || g.Checkpoint != name || !strings.Contains(g.Evidence, name) {
				t.Errorf("%s: %s (%s), guard %+v; want untrusted and its name", c.reason, got.Verdict, got.Reason, g)
			}
		}
	}
	tap := ref["layer_02"].Map(times(0.5))
	got := runCase(t, guardCase{ref: ref.With("layer_02.attn_out", tap), port: right()})
	if got.Verdict != Parity || len(got.Unpaired) != 1 || got.Unpaired[0].Required || got.Coverage.Ref != 11 || got.Coverage.Port != 10 {
		t.Errorf("a sub-tap on one side: %s, unpaired %+v, coverage %+v; want parity, one, not required", got.Verdict, got.Unpaired, got.Coverage)
	}
}

// guardNamed returns the first result of a guard that is no pass, else its first.
func guardNamed(c *Comparison, id string) *Guard {
	var first *Guard
	for i, g := range c.Guards {
		if g.ID != id {
			continue
		}
		if g.Status != Pass {
			return &c.Guards[i]
		}
		if first == nil {
			first = &c.Guards[i]
		}
	}
	return first
}

func TestAllowUnpairedNamesWhatMayBeMissing(t *testing.T) {
	dir := t.TempDir()
	ref := net().Run().Write(t, filepath.Join(dir, "ref"))
	port := right().With("layer_03", nil).Write(t, filepath.Join(dir, "port"))
	for _, c := range []struct {
		globs []string
		want  Verdict
	}{{nil, Untrusted}, {[]string{"layer_03"}, Parity}, {[]string{"layer_0[0-9]"}, Parity}, {[]string{"layer_02"}, Untrusted}, {[]string{"nothing", "*_03"}, Parity}} {
		o := DefaultOptions()
		o.AllowUnpaired = c.globs
		if got := compareWith(t, ref, port, o); got.Verdict != c.want {
			t.Errorf("--allow-unpaired %v: %s, want %s", c.globs, got.Verdict, c.want)
		}
	}
}

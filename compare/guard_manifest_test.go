package compare

import (
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

func TestGuardIncomplete(t *testing.T) {
	ref, port := net().Run(), right()
	checkGuard(t, "capture.incomplete", []guardCase{
		{reason: "both say complete", ref: ref, port: port, refSays: says(nil), portSays: says(nil), want: Pass, verdict: Parity},
		{reason: "the port's run was interrupted", ref: ref, port: port, refSays: says(nil), portSays: says(map[string]any{"complete": false}),
			want: Fail, evidence: "the port's manifest says complete: false", verdict: Untrusted},
		{reason: "the reference's run was interrupted", ref: ref, port: port, refSays: says(map[string]any{"complete": false}), portSays: says(nil),
			want: Fail, evidence: "the reference's manifest says complete: false", verdict: Untrusted},
		{reason: "the manifest does not say", ref: ref, port: port, refSays: says(nil), portSays: says(map[string]any{"complete": nil}), want: NotChecked, verdict: Parity},
		{reason: "no manifest", ref: ref, port: port, want: NotChecked, verdict: Parity},
	})
}

func TestGuardStale(t *testing.T) {
	ref, port := net().Run(), right()
	model := func(fields map[string]any) map[string]any {
		m := map[string]any{"id": "tiny", "dtype": "float32"}
		for k, v := range fields {
			m[k] = v
		}
		return says(map[string]any{"model": m})
	}
	other := dumptest.NewNet(77, 6, 16, 32).Run()
	other["prompt_tokens"] = ref["prompt_tokens"]
	noIDs := right()
	delete(noIDs, "prompt_tokens")
	checkGuard(t, "capture.stale", []guardCase{
		{reason: "the same model, prompt, mode and step", ref: ref, port: port, refSays: says(map[string]any{"step": 0}), portSays: says(map[string]any{"step": 0}), want: Pass, verdict: Parity},
		{reason: "another number of layers", ref: ref, port: port, refSays: model(map[string]any{"num_layers": 6}), portSays: model(map[string]any{"num_layers": 8}),
			want: Fail, evidence: "num_layers is 6 in the reference and 8 in the port", verdict: Untrusted},
		{reason: "another width", ref: ref, port: port, refSays: model(map[string]any{"hidden_size": 32}), portSays: model(map[string]any{"hidden_size": 64}),
			want: Fail, evidence: "hidden_size is 32", verdict: Untrusted},
		{reason: "another vocabulary", ref: ref, port: port, refSays: model(map[string]any{"vocab_size": 10}), portSays: model(map[string]any{"vocab_size": 11}),
			want: Fail, evidence: "vocab_size is 10", verdict: Untrusted},
		{reason: "a fact that one side does not state", ref: ref, port: port, refSays: model(map[string]any{"vocab_size": 10}), portSays: model(nil), want: Pass, verdict: Parity},
		{reason: "incremental decode against prefill", ref: ref, port: port, refSays: says(nil), portSays: says(map[string]any{"mode": "incremental"}),
			want: Fail, evidence: "mode is prefill in the reference and incremental in the port", verdict: Untrusted},
		{reason: "teacher forced and prefill are one computation", ref: ref, port: port, refSays: says(nil), portSays: says(map[string]any{"mode": "teacher_forced"}), want: Pass, verdict: Parity},
		{reason: "a server's prefill of the same ids is a prefill", ref: ref, port: port, refSays: says(nil), portSays: says(map[string]any{"mode": "serve"}), want: Pass, verdict: Parity},
		{reason: "a server's run of ids that nobody knows may be anything", ref: ref, port: noIDs, refSays: says(nil), portSays: says(map[string]any{"mode": "serve"}),
			want: Fail, evidence: "mode is prefill in the reference and serve in the port", verdict: Untrusted},
		{reason: "another step", ref: ref, port: port, refSays: says(map[string]any{"step": 1}), portSays: says(map[string]any{"step": 2}),
			want: Fail, evidence: "step is 1 in the reference and 2 in the port", verdict: Untrusted},
		{reason: "another framework, device, version and dtype is no other model", ref: ref, port: port, refSays: says(nil),
			portSays: says(map[string]any{"framework": map[string]any{"name": "jax", "version": "0.12", "device": "cuda"}, "model": map[string]any{"id": "tiny", "dtype": "bfloat16"}}),
			want:     Pass, verdict: Parity},
		{reason: "the model's path and its hub name", ref: ref, port: port, refSays: model(map[string]any{"id": "org/Tiny-Model"}), portSays: model(map[string]any{"id": `C:\models\tiny-model.Q4_1.gguf`}), want: Pass, verdict: Parity},
		{reason: "another name, the same embedding", ref: ref, port: port, refSays: model(map[string]any{"id": "small"}), portSays: model(map[string]any{"id": "other"}),
			want: Pass, evidence: "give the same embedding", verdict: Parity},
		{reason: "another model", ref: ref, port: other, refSays: model(map[string]any{"id": "small"}), portSays: model(map[string]any{"id": "other"}),
			want: Fail, evidence: `the model is "small" in the reference and "other" in the port`, verdict: Untrusted},
		{reason: "other prompts, equal ids: a template that was rendered beforehand", ref: ref, port: port,
			refSays: says(map[string]any{"prompt": map[string]any{"text": "a"}}), portSays: says(map[string]any{"prompt": map[string]any{"text": "b"}}), want: Pass, verdict: Parity},
		{reason: "other prompts, no ids", ref: ref.With("prompt_tokens", nil), port: port.With("prompt_tokens", nil),
			refSays: says(map[string]any{"prompt": map[string]any{"text": "a"}}), portSays: says(map[string]any{"prompt": map[string]any{"text": "b"}}),
			want: Fail, evidence: `the prompts differ: "a" and "b"`, verdict: Untrusted},
		{reason: "no manifest in the port", ref: ref, port: port, refSays: says(nil), want: NotChecked, evidence: "no manifest in the port", verdict: Parity},
	})
}

func TestModelNames(t *testing.T) {
	for _, c := range []struct {
		x, y string
		same bool
	}{
		{"SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", true},
		{"SmolLM2-135M-Instruct", "/models/smollm2-135m-instruct-q4_1.gguf", true},
		{"llama-3.1-8b", "Llama_3.1_8B.onnx", true},
		{"qwen3-8b-awq", "Qwen3-8B", true},
		{"qwen3-8b", "qwen3-14b", false},
		{"llama-3-8b", "llama-3.1-8b", false},
		{"a", "b", false},
	} {
		if got := sameModel(c.x, c.y); got != c.same {
			t.Errorf("%q and %q: same %t, want %t", c.x, c.y, got, c.same)
		}
	}
}

func TestGuardCalls(t *testing.T) {
	ref, port := net().Run(), right()
	tensors := func(calls int) map[string]any {
		return says(map[string]any{"tensors": []any{
			map[string]any{"name": "layer_00", "file": "layer_00.npy", "calls": 1, "order": 0},
			map[string]any{"name": "layer_02", "file": "layer_02.npy", "calls": calls, "order": 1},
		}})
	}
	checkGuard(t, "capture.chunked", []guardCase{
		{reason: "each place fired once", ref: ref, port: port, refSays: tensors(1), portSays: tensors(1), want: Pass, verdict: Parity},
		{reason: "a hook of the port fired 3 times", ref: ref, port: port, refSays: tensors(1), portSays: tensors(3), want: Fail, at: "layer_02",
			evidence: "fired 3 times", verdict: Untrusted},
		{reason: "a hook of the reference fired twice", ref: ref, port: port, refSays: tensors(2), portSays: tensors(1), want: Fail, at: "layer_02",
			evidence: "fired 2 times", verdict: Untrusted},
		{reason: "calls are not counted", ref: ref, port: port, refSays: says(nil), portSays: says(nil), want: NotApplicable, verdict: Parity},
		{reason: "no manifest", ref: ref, port: port, want: NotApplicable, verdict: Parity},
	})
}

func TestGuardIntegers(t *testing.T) {
	ref := net().Run()
	positions := dumptest.Ints(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	quantised := func(d dumptest.Dump) dumptest.Dump {
		d = d.Clone()
		for _, n := range d.LayerNames() {
			d[n] = d[n].Map(times(20)).As(npy.Int8)
		}
		return d
	}
	checkGuard(t, "capture.wrong_tensor", []guardCase{
		{reason: "floats where floats belong", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "positions were caught instead of the layer", ref: ref, port: right().With("layer_03", positions), want: Fail, at: "layer_03",
			evidence: "holds int64 where floats belong", verdict: Untrusted},
		{reason: "positions on both sides", ref: ref.With("layer_03", positions), port: right().With("layer_03", positions), want: Fail, at: "layer_03",
			evidence: "holds int64 where floats belong", verdict: Untrusted},
		{reason: "ids where the embedding belongs", ref: ref, port: right().With("post_embed", ref["prompt_tokens"]), want: Fail, at: "post_embed", verdict: Untrusted},
		{reason: "8-bit integers against floats", ref: ref, port: quantised(ref), want: Fail, at: "layer_00", evidence: "holds int8", verdict: Untrusted},
		{reason: "8-bit integers on both sides: compared for equality", ref: quantised(ref), port: quantised(ref), want: Pass, verdict: Parity},
		{reason: "other names may hold integers", ref: ref.With("page_table", positions), port: right().With("page_table", positions), want: Pass, verdict: Parity},
		{reason: "expert ids are integers", ref: ref.With("layer_01.expert_ids", positions), port: right().With("layer_01.expert_ids", positions), want: Pass, verdict: Parity},
	})
}

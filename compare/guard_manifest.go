package compare

import (
	"fmt"
	"path"
	"strings"

	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/internal/lazy"
	"github.com/layerparity/parity/npy"
)

// guardIncomplete looks for a run that was interrupted.
func guardIncomplete(p *part) []Guard {
	const remedy = "run the dump again to its end; the manifest is written last"
	stated := 0
	for _, side := range []struct {
		name string
		run  *dump.Run
	}{{"reference", p.Ref}, {"port", p.Port}} {
		m := side.run.Manifest
		if m == nil || m.Complete == nil {
			continue
		}
		stated++
		if !*m.Complete {
			return one(Fail, remedy, "the %s's manifest says complete: false", side.name)
		}
	}
	if stated < 2 {
		return one(NotChecked, "write a manifest with the dumpers of parity_dump", "no manifest states that the dump is complete on both sides")
	}
	return one(Pass, "", "both manifests say complete")
}

// guardCalls looks for places that fired more than once in one forward pass.
func guardCalls(p *part) []Guard {
	stated := false
	for _, run := range []*dump.Run{p.Ref, p.Port} {
		for _, r := range run.Records {
			if r.Meta == nil || r.Meta.Calls == 0 {
				continue
			}
			stated = true
			if r.Meta.Calls > 1 {
				g := one(Fail, "dump one forward pass only: take the hook off before generate(), or write one folder a step",
					"%s fired %d times and its file holds one of them", r.File, r.Meta.Calls)
				g[0].Checkpoint = r.Name
				return g
			}
		}
	}
	if !stated {
		return one(NotApplicable, "", "no manifest counts calls")
	}
	return one(Pass, "", "every place fired once")
}

// sizeFacts are the numbers that two runs of one model must share.
var sizeFacts = []string{"num_layers", "hidden_size", "vocab_size"}

// guardStale looks for dumps of different models, prompts, modes or steps.
func guardStale(p *part) []Guard {
	const remedy = "dump both sides again from the same checkpoint, prompt and mode"
	a, b := p.Ref.Manifest, p.Port.Manifest
	if a == nil || b == nil {
		return one(NotChecked, "write a manifest with the dumpers of parity_dump", "there is no manifest in %s", missingIn(a == nil, b == nil))
	}
	for _, f := range sizeFacts {
		x, ok1 := a.Fact(f)
		y, ok2 := b.Fact(f)
		if ok1 && ok2 && x != y {
			return one(Fail, remedy, "%s is %g in the reference and %g in the port", f, x, y)
		}
	}
	if a.Mode != b.Mode && a.Mode != "" && b.Mode != "" {
		// A teacher-forced prefill and a prefill are the same computation. "serve"
		// says who asked for it, not what was computed: the ids tell.
		prefill := func(m string) bool { return m == "prefill" || m == "teacher_forced" }
		served := (a.Mode == "serve" || b.Mode == "serve") && p.tokensEqual()
		if !served && (!prefill(a.Mode) || !prefill(b.Mode)) {
			return one(Fail, remedy, "mode is %s in the reference and %s in the port", a.Mode, b.Mode)
		}
	}
	if a.Step != nil && b.Step != nil && *a.Step != *b.Step {
		return one(Fail, remedy, "step is %d in the reference and %d in the port", *a.Step, *b.Step)
	}
	if a.Prompt != nil && b.Prompt != nil && a.Prompt.Text != b.Prompt.Text && a.Prompt.Text != "" && b.Prompt.Text != "" && !p.tokensEqual() {
		return one(Fail, remedy, "the prompts differ: %.40q and %.40q", a.Prompt.Text, b.Prompt.Text)
	}
	x, y := a.Text("id"), b.Text("id")
	if x != "" && y != "" && !sameModel(x, y) {
		// Paths and hub names of one model differ; other weights show in the
		// embedding.
		if !p.tokensEqual() || !p.embeddingEqual() {
			return one(Fail, remedy, "the model is %q in the reference and %q in the port, and their embeddings do not agree", x, y)
		}
		return one(Pass, "", "model ids %q and %q differ, and the same ids give the same embedding", x, y)
	}
	return one(Pass, "", "model, prompt, mode and step agree as far as both manifests state them")
}

// quantSuffix is what file names of quantised weights end in.
var quantSuffix = lazy.Regexp(`[-._](q\d\w*|iq\d\w*|f16|bf16|f32|fp8|fp16|fp32|int8|int4|awq|gptq|gguf|onnx|safetensors)$`)

// sameModel compares model ids by their last path element, without case, file
// extension and quantisation.
func sameModel(x, y string) bool {
	norm := func(s string) string {
		s = strings.ToLower(path.Base(strings.ReplaceAll(s, `\`, "/")))
		for {
			t := quantSuffix().ReplaceAllString(s, "")
			if t == s {
				return strings.NewReplacer("-", "", "_", "", ".", "").Replace(s)
			}
			s = t
		}
	}
	a, b := norm(x), norm(y)
	return strings.Contains(a, b) || strings.Contains(b, a)
}

// tokensEqual tells whether both runs saw the same ids.
func (p *part) tokensEqual() bool {
	t := p.lookup("prompt_tokens")
	if t == nil || !t.comparable() || !t.integers() {
		return false
	}
	i, err := compareInts(t)
	return err == nil && i.Equal
}

// embeddingEqual tells whether both embeddings agree to the coarsest precision.
func (p *part) embeddingEqual() bool {
	e := p.lookup("post_embed")
	if e == nil || !e.comparable() || e.integers() {
		return false
	}
	v, err := p.tokenError(e.Ref, e.Port, e.Geo)
	return err == nil && v <= floors[dump.EightBit].embed
}

// guardIntegers looks for integers where a float tensor belongs: a hook that
// caught positions or ids. 16-bit integers may be a view, which has its own
// guard.
func guardIntegers(p *part) []Guard {
	for _, pr := range p.Pairs {
		if pr.err != nil || pr.Kind == dump.KindInput {
			continue
		}
		for _, v := range []*View{pr.Ref, pr.Port} {
			if v.DType.IsInt() && v.DType.Size() != 2 && pr.Tap != "expert_ids" && pr.Kind != dump.KindOther && !pr.quantised() {
				g := one(Fail, "hook the module's output, not its first argument: vLLM-style layers take positions first",
					"%s holds %s where floats belong", v.Record.File, v.DType)
				g[0].Checkpoint = pr.Name
				return g
			}
		}
	}
	return nil // the final stage reports the pass
}

// quantised tells whether both sides hold 8-bit integers: a hidden state that was
// quantised on purpose, and is compared for equality.
func (p *Pair) quantised() bool {
	eight := func(v *View) bool { return v.DType == npy.Int8 || v.DType == npy.Uint8 }
	return eight(p.Ref) && eight(p.Port)
}

// summary joins a few names for evidence.
func summary(names []string) string {
	const show = 4
	if len(names) <= show {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:show], ", "), len(names)-show)
}

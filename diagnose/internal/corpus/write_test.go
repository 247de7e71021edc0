package corpus

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/layerparity/parity/diagnose"
	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/npy"
)

func TestAWrittenRunReadsBackBitByBit(t *testing.T) {
	p := build(t, "D2/bf16")
	dir := t.TempDir()
	if err := p.Port.Write(dir); err != nil {
		t.Fatal(err)
	}
	d, err := dump.Open(dir, dump.Options{})
	if err != nil {
		t.Fatal(err)
	}
	part := p.Port.Parts[[2]int{0, 0}]
	if len(d.Runs) != 1 || len(d.Runs[0].Records) != len(part.Names) {
		t.Fatalf("read %d runs", len(d.Runs))
	}
	run := d.Runs[0]
	for i, r := range run.Records {
		if r.Name != part.Names[i] {
			t.Errorf("record %d is %s, want %s", i, r.Name, part.Names[i])
		}
	}
	r := run.Lookup("layer_03.mlp_act")
	if r.DType != npy.BFloat16 {
		t.Errorf("dtype is %v, want bfloat16", r.DType)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "layer_03.mlp_act.npy"))
	if err != nil {
		t.Fatal(err)
	}
	want := part.Tensors["layer_03.mlp_act"].Data
	got := make([]float64, len(want))
	npy.DecodeFloat64(got, raw[len(raw)-2*len(want):], npy.BFloat16)
	for i, v := range want {
		if got[i] != float64(v) {
			t.Fatalf("element %d is %v, want %v", i, got[i], v)
		}
	}
	if n, ok := run.Manifest.Fact("num_kv_heads"); !ok || n != 2 {
		t.Errorf("num_kv_heads is %v", n)
	}
	if _, ok := run.Manifest.Fact("rope_theta"); ok {
		t.Error("the port's dumper must not know theta")
	}
}

func TestStepsAndRanksGetFolders(t *testing.T) {
	for id, file := range map[string]string{
		"D4":         "step_0003/layer_00.k_rope.npy",
		"D21":        "rank_01/layer_00.attn_out.npy",
		"X-rng-fork": "step_0002/rank_01/post_embed.npy",
	} {
		p := build(t, id)
		dir := t.TempDir()
		if err := p.Ref.Write(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file))); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := dump.Open(dir, dump.Options{}); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestABareDumpHasNoManifest(t *testing.T) {
	p := build(t, "D1/bare")
	dir := t.TempDir()
	if err := p.Port.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, dump.ManifestFile)); !os.IsNotExist(err) {
		t.Errorf("dump.json: %v, want none", err)
	}
}

func TestWriteSaysWhatItCouldNotMake(t *testing.T) {
	p := build(t, "clean-float32")
	file := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := p.Ref.Write(file); err == nil {
		t.Error("a file in the way is no error")
	}
}

func TestMemoryServesWhatASourceMust(t *testing.T) {
	c, _ := Lookup("D21")
	s := c.Source()
	x, ok := s.Tensor(diagnose.Port, probs0)
	if !ok || x.Rows != 4*48 || x.Cols != 48 || len(x.Shape) != 3 {
		t.Fatalf("attn_probs of a rank: %+v", x)
	}
	ids, ok := s.Tensor(diagnose.Ref, "prompt_tokens")
	if !ok || ids.Rows != 48 || ids.Cols != 1 {
		t.Errorf("prompt_tokens have %d rows of %d", ids.Rows, ids.Cols)
	}
	if s.Has(diagnose.Ref, "layer_09") {
		t.Error("a layer that is not there")
	}
	other, ok := s.Part(0, 1)
	if !ok || other.Rank() != 1 || len(other.Ranks()) != 2 || len(other.Steps()) != 1 {
		t.Error("the other rank is not reached")
	}
	if _, ok := s.Part(0, 2); ok {
		t.Error("a rank that is not there")
	}
	if names := s.Names(diagnose.Ref); names[0] != "prompt_tokens" || names[len(names)-1] != "logits" {
		t.Errorf("names run from %s to %s", names[0], names[len(names)-1])
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMakecorpusWritesCasesAndTheirAnswers(t *testing.T) {
	dir := t.TempDir()
	var out, trouble bytes.Buffer
	if status := run([]string{dir, "D13", "D13/bf16"}, &out, &trouble); status != 0 {
		t.Fatalf("status %d: %s", status, trouble.String())
	}
	for _, file := range []string{"D13/ref/dump.json", "D13/port/layer_05.mlp_act.npy", "D13_bf16/port/logits.npy"} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file))); err != nil {
			t.Error(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []entry
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Want.Causes[0] != "mlp.gate_up_order" || list[1].DType != "bfloat16" {
		t.Errorf("cases.json says %+v", list)
	}
}

func TestMakecorpusListsItsCases(t *testing.T) {
	var out, trouble bytes.Buffer
	if status := run([]string{"-list"}, &out, &trouble); status != 0 || !strings.Contains(out.String(), "clean-identical") {
		t.Errorf("status %d, listed %d bytes", status, out.Len())
	}
}

func TestMakecorpusRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "usage"},
		{[]string{"-x"}, "usage"},
		{[]string{t.TempDir(), "D99"}, `no case "D99"`},
	} {
		var out, trouble bytes.Buffer
		if status := run(c.args, &out, &trouble); status != 2 || !strings.Contains(trouble.String(), c.says) {
			t.Errorf("%v: status %d, %q", c.args, status, trouble.String())
		}
	}
}

package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/internal/dumptest"
)

// TestMain lets the scripts run parity as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"parity": func() {
			os.Exit(run(context.Background(), os.Args[1:], &env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
		},
	})
}

// TestScripts runs testdata/script: each file is a session at a terminal.
func TestScripts(t *testing.T) {
	fixtures, err := filepath.Abs("../../testdata/fixtures")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("FIXTURES", fixtures)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  exits,
			"mkdump": mkdump,
			"mknpz":  mknpz,
			"mkraw":  mkraw,
			"shrink": shrink,
		},
	})
}

// exits runs a command and asserts its exit status: exits N command args...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N command args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ee *exec.ExitError
		if !errors.As(err, &ee) {
			ts.Fatalf("running %s: %v", args[1], err)
		}
		got = ee.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// mkdump writes a dump of six layers: mkdump DIR [option...], options being
//
//	layers=N    how many layers
//	model       ids, embedding, final norm and logits too
//	noise=E     a relative error at every layer
//	fault=N     a relative error of 0.25 from layer N on
//	drop=NAME   without this tensor
//	only=NAME   this tensor alone
//	name=FORMAT file names of the layers, as blk.%d.out
//	ids=N       a prompt_tokens of the ids 1..N
//	first=N     an id before all others
//	manifest    a dump.json that names every tensor, complete, float32 on a CPU
func mkdump(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: mkdump DIR [option...]")
	}
	option := func(name string) (string, bool) {
		for _, a := range args[1:] {
			if a == name {
				return "", true
			}
			if v, ok := strings.CutPrefix(a, name+"="); ok {
				return v, true
			}
		}
		return "", false
	}
	number := func(name string, otherwise float64) float64 {
		v, ok := option(name)
		if !ok {
			return otherwise
		}
		f, err := strconv.ParseFloat(v, 64)
		ts.Check(err)
		return f
	}
	layers := int(number("layers", 6))
	d := dumptest.Layers(1, layers, 16, 64)
	if _, ok := option("model"); ok {
		d = dumptest.Model(1, layers, 16, 64)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	noise, from := number("noise", 0), int(number("fault", 1000))
	for l := range layers {
		name := fmt.Sprintf("layer_%02d", l)
		if noise > 0 {
			d[name] = d[name].Noise(rng, noise)
		}
		if l >= from {
			d[name] = d[name].Noise(rng, 0.25)
		}
	}
	if n := int(number("ids", 0)); n > 0 {
		d["prompt_tokens"] = dumptest.Ints()
		if v, ok := option("first"); ok {
			id, err := strconv.ParseFloat(v, 64)
			ts.Check(err)
			d["prompt_tokens"].Data = append(d["prompt_tokens"].Data, id)
		}
		for id := range n {
			d["prompt_tokens"].Data = append(d["prompt_tokens"].Data, float64(id+1))
		}
		d["prompt_tokens"].Shape[0] = len(d["prompt_tokens"].Data)
	}
	if name, ok := option("drop"); ok {
		delete(d, name)
	}
	if only, ok := option("only"); ok {
		d = dumptest.Dump{only: d[only]}
	}
	if format, ok := option("name"); ok {
		for l := range layers {
			if old := fmt.Sprintf("layer_%02d", l); d[old] != nil {
				d[fmt.Sprintf(format, l)] = d[old]
				delete(d, old)
			}
		}
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	m := dump.Manifest{Schema: dump.Schema, Mode: "prefill", Complete: new(true),
		Framework: dump.Framework{Name: "test", Device: "cpu"}, Model: map[string]any{"id": "tiny", "dtype": "float32"}}
	for name, b := range d.Members() {
		ts.Check(os.WriteFile(filepath.Join(dir, name), b, 0o644))
		m.Tensors = append(m.Tensors, dump.Tensor{Name: strings.TrimSuffix(name, ".npy"), File: name, Calls: 1})
	}
	if _, ok := option("manifest"); ok {
		ts.Check(dump.WriteManifest(dir, &m))
	}
}

// mkraw writes a .npy of no values with a header of its own: mkraw FILE DESCR.
func mkraw(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mkraw FILE DESCR")
	}
	header := fmt.Sprintf("{'descr': %s, 'fortran_order': False, 'shape': (0,), }\n", args[1])
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), 0)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), append(b, header...), 0o644))
}

// mknpz packs the files of a folder: mknpz FILE DIR stored|deflated|zip64.
func mknpz(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: mknpz FILE DIR stored|deflated|zip64")
	}
	members := make(map[string][]byte)
	entries, err := os.ReadDir(ts.MkAbs(args[1]))
	ts.Check(err)
	for _, e := range entries {
		members[e.Name()], err = os.ReadFile(filepath.Join(ts.MkAbs(args[1]), e.Name()))
		ts.Check(err)
	}
	methods := []string{"stored", "deflated", "zip64"}
	var b []byte
	switch slices.Index(methods, args[2]) {
	case 0:
		b, err = dumptest.Archive(members, zip.Store)
	case 1:
		b, err = dumptest.Archive(members, zip.Deflate)
	case 2:
		b = dumptest.Archive64(members)
	default:
		ts.Fatalf("%s is none of %v", args[2], methods)
	}
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

// shrink cuts bytes off the end of a file: shrink FILE N.
func shrink(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: shrink FILE N")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	path := ts.MkAbs(args[0])
	info, err := os.Stat(path)
	ts.Check(err)
	ts.Check(os.Truncate(path, info.Size()-n))
}

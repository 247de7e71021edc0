package dump_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

// vector is a small array whose values do not matter.
func vector() *dumptest.Array { return dumptest.Floats([]float64{1, 2, 3, 4}, 2, 2) }

// named makes a dump of small arrays.
func named(names ...string) dumptest.Dump {
	d := dumptest.Dump{}
	for _, n := range names {
		d[n] = vector()
	}
	return d
}

// order lists the names of a dump's only run.
func order(t *testing.T, dir string, o dump.Options) []string {
	t.Helper()
	d, err := dump.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range d.Runs[0].Records {
		names = append(names, r.Name)
	}
	return names
}

func TestExecutionOrder(t *testing.T) {
	dir := named("logits", "layer_10", "layer_9", "layer_9.mlp_out", "layer_9.q", "layer_9.residual", "layer_9.gadget", "layer_10.input_norm", "post_embed", "prompt_tokens",
		"post_final_norm", "zeta10", "zeta9", "layer_9.attn_out", "position_ids").Write(t, t.TempDir())
	want := []string{"prompt_tokens", "position_ids", "post_embed", "layer_09.q", "layer_09.attn_out", "layer_09.mlp_out", "layer_09.gadget", "layer_09", "layer_09.residual",
		"layer_10.input_norm", "layer_10", "post_final_norm", "logits", "zeta9", "zeta10"}
	if got := order(t, dir, dump.Options{}); !slices.Equal(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
}

func TestUnknownNamesFollowTheManifest(t *testing.T) {
	dir := named("zulu", "alpha", "layer_00", "layer_01").Write(t, t.TempDir())
	entry := func(name string, order int) any {
		return map[string]any{"name": name, "file": name + ".npy", "order": order}
	}
	dumptest.Manifest(t, dir, map[string]any{"tensors": []any{entry("layer_01", 3), entry("zulu", 0), entry("layer_00", 1), entry("alpha", 2)}})
	if got, want := order(t, dir, dump.Options{}), []string{"zulu", "layer_00", "alpha", "layer_01"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDuplicatesNameBoth(t *testing.T) {
	for _, pair := range [][2]string{{"layer_3", "layer_03"}, {"layers.3", "l_out-3"}, {"emb", "post_embed"}, {"norm", "result_norm"}} {
		dir := named(pair[0], pair[1]).Write(t, t.TempDir())
		_, err := dump.Open(dir, dump.Options{})
		if err == nil || !strings.Contains(err.Error(), pair[0]+".npy") || !strings.Contains(err.Error(), pair[1]+".npy") || !strings.Contains(err.Error(), "both mean") {
			t.Errorf("%v: %v", pair, err)
		}
	}
}

func TestRenames(t *testing.T) {
	dir := named("blk.0.out", "blk.1.out", "other").Write(t, t.TempDir())
	rename := func(s string) dump.Rename {
		r, err := dump.ParseRename(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		renames []string
		want    []string
	}{
		{[]string{`/blk\.(\d+)\.out/=layer_$1`}, []string{"layer_00", "layer_01", "other"}},
		{[]string{"blk.0.out=layer_5"}, []string{"layer_05", "blk.1.out", "other"}},
		{[]string{"blk.0.out=layer_5", `/blk\.(\d+)\.out/=layer_$1`}, []string{"layer_01", "layer_05", "other"}}, // the first that matches wins
		{[]string{"a=b=other"}, []string{"blk.0.out", "blk.1.out", "other"}},
	} {
		var o dump.Options
		for _, s := range c.renames {
			o.Renames = append(o.Renames, rename(s))
		}
		if got := order(t, dir, o); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.renames, got, c.want)
		}
	}
	for _, bad := range []string{"", "=", "a=", "=b", "nothing", "/(/=x"} {
		if _, err := dump.ParseRename(bad); err == nil {
			t.Errorf("%q is taken for a rename", bad)
		}
	}
	file := filepath.Join(t.TempDir(), "names.yaml")
	if err := os.WriteFile(file, []byte("# comment\n'/blk\\.(\\d+)\\.out/': layer_$1\nother: logits\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	renames, err := dump.ReadRenames(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := order(t, dir, dump.Options{Renames: renames}), []string{"layer_00", "layer_01", "logits"}; !slices.Equal(got, want) {
		t.Errorf("from a file: %v, want %v", got, want)
	}
	for _, bad := range []string{"- a\n", "a: 1\n", "1: a\n", "a: [b]\n", "'/(/': x\n", "a: {b: c}\n", "\x00"} {
		if err := os.WriteFile(file, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := dump.ReadRenames(file); err == nil || !strings.Contains(err.Error(), "names.yaml") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestManifestRules(t *testing.T) {
	tensors := func(more string) string {
		return `{"schema":"parity.dump/1","tensors":[{"name":"a","file":"a.npy"` + more + `}]}`
	}
	for _, c := range []struct{ json, want string }{ // want "": it is valid
		{`{"schema":"parity.dump/1"}`, ""},
		{tensors(""), ""},
		{tensors(`,"shard":{"axis":"hidden","index":1,"count":2,"kind":"concat"},"columns":"interleaved","calls":1,"order":0`), ""},
		{`{"schema":"parity.dump/1","future":{"x":1},"tensors":[]}`, ""},
		{`{"schema":"parity.dump/1","rank":{"index":1,"world":2,"tp":[1,2]}}`, ""},
		{`{}`, `schema is ""`},
		{`{"schema":"parity.dump/2"}`, `schema is "parity.dump/2", this version reads "parity.dump/1"`},
		{`[]`, "array"}, {`null`, `schema is ""`}, {``, "ends too early"}, {`{"schema":`, "ends too early"}, {`{"schema":1}`, `"schema" is a JSON number`},
		{`{"schema":"parity.dump/1"} x`, "data after"},
		{`{"schema":"parity.dump/1","step":-1}`, "step is -1"},
		{`{"schema":"parity.dump/1","rank":{"index":2,"world":2}}`, "rank 2 of world 2 does not exist"},
		{`{"schema":"parity.dump/1","rank":{"index":-1}}`, "rank -1"},
		{`{"schema":"parity.dump/1","rank":{"index":0,"tp":[2,2]}}`, "mesh coordinate [2 2]"},
		{`{"schema":"parity.dump/1","rank":{"index":0,"sp":[0]}}`, "mesh coordinate [0]"},
		{`{"schema":"parity.dump/1","tensors":[{"file":"a.npy"}]}`, "name is missing"},
		{`{"schema":"parity.dump/1","tensors":[{"name":"a"}]}`, `"a" has no file`},
		{`{"schema":"parity.dump/1","tensors":[{"name":"a","file":"a.npy"},{"name":"a","file":"b.npy"}]}`, `tensors[0] and tensors[1] have the same name "a"`},
		{tensors(`,"calls":-1`), "calls is -1"},
		{tensors(`,"columns":"mixed"`), `columns is "mixed"`},
		{tensors(`,"shard":{"index":0,"count":2,"kind":"half"}`), `shard.kind is "half"`},
		{tensors(`,"shard":{"index":2,"count":2,"kind":"sum"}`), "shard 2 of 2 does not exist"},
		{tensors(`,"shard":{"index":0,"count":0,"kind":"sum"}`), "shard 0 of 0"},
	} {
		_, err := dump.ReadManifest(strings.NewReader(c.json))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.json, err, c.want)
		}
	}
	for _, file := range []string{"../a.npy", "/etc/passwd", "x/../../a.npy", "", "a\x00.npy", ".."} {
		m := dump.Manifest{Schema: dump.Schema, Tensors: []dump.Tensor{{Name: "a", File: file}}}
		if err := m.Validate(); err == nil {
			t.Errorf("file %q is accepted", file)
		}
	}
}

func TestAManifestIsReadBackAsItWasWritten(t *testing.T) {
	dir := named("layer_00").Write(t, t.TempDir())
	done, step := true, 3
	m := &dump.Manifest{Schema: dump.Schema, Complete: &done, Step: &step, Mode: "prefill", Model: map[string]any{"id": "m", "num_layers": 30.0},
		Tensors: []dump.Tensor{{Name: "layer_00", File: "layer_00.npy", DType: "bfloat16", Calls: 1}}}
	if err := dump.WriteManifest(dir, m); err != nil {
		t.Fatal(err)
	}
	d, err := dump.Open(dir, dump.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run := d.Runs[0]
	if n, ok := run.Manifest.Fact("num_layers"); !ok || n != 30 || run.Manifest.Text("id") != "m" || *run.Manifest.Step != 3 || run.Records[0].Logical != "bfloat16" || run.Records[0].Meta.Calls != 1 {
		t.Errorf("%+v, %+v", run.Manifest, run.Records[0])
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%d files in the folder, want the array and the manifest", len(entries))
	}
	if err := dump.WriteManifest(dir, &dump.Manifest{Schema: "x"}); err == nil {
		t.Error("an invalid manifest is written")
	}
}

func TestFilesBesideTheManifestAreSaid(t *testing.T) {
	dir := named("layer_00", "layer_01").Write(t, t.TempDir())
	dumptest.Manifest(t, dir, map[string]any{"tensors": []any{map[string]any{"name": "layer_00", "file": "layer_00.npy"}}})
	d, err := dump.Open(dir, dump.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := d.Runs[0].Warnings; len(d.Runs[0].Records) != 2 || len(w) != 1 || !strings.Contains(w[0], "layer_01.npy") {
		t.Errorf("%d records, warnings %v", len(d.Runs[0].Records), w)
	}
}

func TestStepsAndRanksAreFoundAndChosen(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"step_0010/rank_01", "step_0010/rank_00", "step_0002/rank_00", "step_0002/rank_01", "notes"} {
		named("layer_00").Write(t, filepath.Join(dir, sub))
	}
	labels := func(o dump.Options) []string {
		d, err := dump.Open(dir, o)
		if err != nil {
			return []string{err.Error()}
		}
		var out []string
		for _, r := range d.Runs {
			out = append(out, r.Label())
		}
		return out
	}
	if got, want := labels(dump.Options{}), []string{"step_0002/rank_00", "step_0002/rank_01", "step_0010/rank_00", "step_0010/rank_01"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := labels(dump.Options{Steps: []int{10}, Ranks: []int{1}}); !slices.Equal(got, []string{"step_0010/rank_01"}) {
		t.Errorf("chosen: %v", got)
	}
	if got := labels(dump.Options{Steps: []int{9}}); !strings.Contains(got[0], "none of its runs") || !strings.Contains(got[0], "step_0010/rank_01") {
		t.Errorf("step 9: %v", got)
	}
	named("layer_00").Write(t, filepath.Join(dir, "step_2", "rank_00"))
	if got := labels(dump.Options{}); !strings.Contains(got[0], "are the same step and rank") {
		t.Errorf("step_2 beside step_0002: %v", got)
	}
}

func TestSymbolicLinks(t *testing.T) {
	dir := t.TempDir()
	real := named("layer_00").Write(t, filepath.Join(dir, "real"))
	linked := filepath.Join(dir, "linked")
	if err := os.MkdirAll(linked, 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"layer_00.npy": filepath.Join(real, "layer_00.npy"), "layer_01.npy": filepath.Join(dir, "nothing")} {
		if err := os.Symlink(to, filepath.Join(linked, from)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := dump.Open(linked, dump.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Runs[0].Records; len(r) != 2 || r[0].Err != nil || r[1].Err == nil {
		t.Errorf("a good and a dangling link: %+v", r)
	}
	steps := filepath.Join(dir, "steps")
	if err := os.MkdirAll(steps, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(steps, "step_0001")); err != nil {
		t.Fatal(err)
	}
	if d, err = dump.Open(steps, dump.Options{}); err != nil || d.Runs[0].Step != 1 {
		t.Errorf("a linked step: %v", err)
	}
}

func TestHiddenAndUnfinishedFilesAreNoArrays(t *testing.T) {
	dir := named("layer_00").Write(t, t.TempDir())
	for _, n := range []string{".layer_01.npy.tmp", ".layer_02.npy", "readme.txt"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "layer_09.npy"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := order(t, dir, dump.Options{}); !slices.Equal(got, []string{"layer_00"}) {
		t.Errorf("%v", got)
	}
}

func TestWhatVoidsAre(t *testing.T) {
	two, one := vector().As(npy.BFloat16), vector().As(npy.Float8E4M3FN)
	for _, c := range []struct {
		reason string
		a      *dumptest.Array
		logic  string
		flag   npy.DType
		want   npy.DType
		warns  bool
		fails  bool
	}{
		{"2 bytes, nothing said: bfloat16, with a warning", two, "", npy.Bool, npy.BFloat16, true, false},
		{"the manifest says bfloat16", two, "bfloat16", npy.Bool, npy.BFloat16, false, false},
		{"the manifest says float16", two, "float16", npy.Bool, npy.Float16, false, false},
		{"a flag says float16", two, "", npy.Float16, npy.Float16, false, false},
		{"the manifest stands before a flag", two, "bfloat16", npy.Float16, npy.BFloat16, false, false},
		{"1 byte, nothing said: an error", one, "", npy.Bool, npy.Void1, false, true},
		{"the manifest says e4m3", one, "float8_e4m3fn", npy.Bool, npy.Float8E4M3FN, false, false},
		{"a flag says e5m2", one, "", npy.Float8E5M2, npy.Float8E5M2, false, false},
		{"uint16 that the manifest calls bfloat16", vector().As(npy.Uint16), "bfloat16", npy.Bool, npy.BFloat16, true, false},
		{"float32 stays float32 whatever it was computed in", vector(), "bfloat16", npy.Bool, npy.Float32, false, false},
	} {
		dir := dumptest.Dump{"layer_00": c.a}.Write(t, t.TempDir())
		if c.logic != "" {
			dumptest.Manifest(t, dir, map[string]any{"tensors": []any{map[string]any{"name": "layer_00", "file": "layer_00.npy", "dtype": c.logic}}})
		}
		d, err := dump.Open(dir, dump.Options{DType: c.flag})
		if err != nil {
			t.Fatal(err)
		}
		r := d.Runs[0].Records[0]
		if (r.Err != nil) != c.fails || !c.fails && r.DType != c.want || (len(r.Warnings) > 0) != c.warns {
			t.Errorf("%s: %s, error %v, warnings %v", c.reason, r.DType, r.Err, r.Warnings)
		}
	}
}

// archive writes bytes as a file and opens it.
func archive(t *testing.T, b []byte) (*dump.Dump, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d.npz")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return dump.Open(path, dump.Options{})
}

// values reads the first record of a dump.
func values(d *dump.Dump) (v [4]float64, err error) {
	r := d.Runs[0].Records[0]
	a, err := r.Open()
	if err != nil {
		return v, err
	}
	defer a.Close()
	return v, a.Float64s(v[:], 0, 4)
}

func TestArchives(t *testing.T) {
	members := named("layer_00", "layer_01").Members()
	stored, err1 := dumptest.Archive(members, zip.Store)
	deflated, err2 := dumptest.Archive(members, zip.Deflate)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for name, b := range map[string][]byte{"stored": stored, "deflated": deflated, "Zip64": dumptest.Archive64(members)} {
		d, err := archive(t, b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v, err := values(d); err != nil || v != [4]float64{1, 2, 3, 4} || len(d.Runs[0].Records) != 2 {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

func TestHostileArchives(t *testing.T) {
	members := named("layer_00").Members()
	deflated, _ := dumptest.Archive(members, zip.Deflate)
	central := bytes.Index(deflated, []byte("PK\x01\x02"))
	patch := func(at int, v uint32) []byte {
		b := slices.Clone(deflated)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	for _, c := range []struct {
		reason string
		b      []byte
	}{
		{"a directory that understates the size", patch(central+24, 100)},
		{"one that overstates it", patch(central+24, 1<<30)},
		{"a wrong CRC", patch(central+16, 12345)},
	} {
		d, err := archive(t, c.b)
		if err == nil {
			if r := d.Runs[0].Records[0]; r.Err == nil {
				_, err = values(d)
			} else {
				err = r.Err
			}
		}
		if err == nil {
			t.Errorf("%s: read without an error", c.reason)
		}
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for range 2 {
		w, _ := z.Create("layer_00.npy")
		_, _ = w.Write(members["layer_00.npy"])
	}
	z.Close()
	if _, err := archive(t, b.Bytes()); err == nil || !strings.Contains(err.Error(), `two members named "layer_00.npy"`) {
		t.Errorf("a member twice: %v", err)
	}
	for reason, bad := range map[string][]byte{"cut short": deflated[:len(deflated)-10], "only its magic": []byte("PK\x03\x04")} {
		if _, err := archive(t, bad); err == nil {
			t.Errorf("%s: opened", reason)
		}
	}
	with := maps.Clone(members)
	with["dump.json"] = []byte(`{"schema":"parity.dump/1","tensors":[{"name":"layer_00","file":"layer_00.npy"},{"name":"layer_07","file":"layer_07.npy"}]}`)
	full, _ := dumptest.Archive(with, zip.Store)
	d, err := archive(t, full)
	if err != nil || len(d.Runs[0].Records) != 2 || d.Runs[0].Records[1].Err == nil {
		t.Errorf("a manifest that names a member which is not there: %v", err)
	}
}

func TestAFileThatChangesIsNotReadAsIfItHadNot(t *testing.T) {
	dir := named("layer_00").Write(t, t.TempDir())
	d, err := dump.Open(dir, dump.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dumptest.Floats(make([]float64, 6), 3, 2).WriteFile(t, filepath.Join(dir, "layer_00.npy"))
	if _, err := d.Runs[0].Records[0].Open(); err == nil || !strings.Contains(err.Error(), "changed while the dump was being read") {
		t.Errorf("another shape than at first: %v", err)
	}
}

func TestPrecisionNames(t *testing.T) {
	for _, c := range []struct {
		name string
		full bool
		want dump.Precision
	}{
		{"float32", true, dump.Float32}, {"float32", false, dump.TF32}, {"torch.float32", false, dump.TF32}, {"F32", true, dump.Float32}, {"float64", false, dump.Float32},
		{"bf16", false, dump.BFloat16}, {"torch.bfloat16", true, dump.BFloat16}, {"half", false, dump.Float16}, {"fp16", false, dump.Float16}, {"tf32", true, dump.TF32},
		{"int8", false, dump.EightBit}, {"q4_1", false, dump.EightBit}, {"Q8_0", false, dump.EightBit}, {"iq2_xs", false, dump.EightBit}, {"mxfp4", false, dump.EightBit},
		{"float8_e4m3fn", false, dump.EightBit}, {"fp8", false, dump.EightBit}, {"int64", false, dump.Unknown}, {"bool", false, dump.Unknown}, {"", false, dump.Unknown},
	} {
		if got := dump.PrecisionOf(c.name, c.full); got != c.want {
			t.Errorf("%q, full %t: %s, want %s", c.name, c.full, got, c.want)
		}
	}
	for _, p := range []dump.Precision{dump.Unknown, dump.Float32, dump.TF32, dump.Float16, dump.BFloat16, dump.EightBit} {
		if got, ok := dump.ParsePrecision(p.String()); !ok || got != p {
			t.Errorf("%s is read back as %s", p, got)
		}
	}
	if _, ok := dump.ParsePrecision("float31"); ok {
		t.Error("float31 is a precision")
	}
}

package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/report"
)

// schema compiles one of the published schemas.
func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "schemas", name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate decodes JSON the way the validator wants it and validates it.
func validate(t *testing.T, s *jsonschema.Schema, b []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// compareDirs compares two folders.
func compareDirs(t *testing.T, ref, port string) *compare.Comparison {
	t.Helper()
	a, err := dump.Open(ref, dump.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := dump.Open(port, dump.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := compare.DefaultOptions()
	o.Detail = strings.Contains(ref, "gate-up") // one is enough: it is large
	c, err := compare.Compare(context.Background(), a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cases lists the real dumps of testdata.
func cases(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("../testdata/fixtures/*/expected.json")
	if err != nil || len(dirs) == 0 {
		t.Fatal("no fixtures", err)
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

func TestTheReportOfEveryRealPairIsValidUnderTheSchema(t *testing.T) {
	s := schema(t, "parity.compare-1.schema.json")
	for _, dir := range cases(t) {
		c := compareDirs(t, filepath.Join(dir, "ref"), filepath.Join(dir, "port"))
		var b bytes.Buffer
		if err := report.JSON(&b, c); err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, b.Bytes()); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestTheSchemaRefusesWhatIsNoReport(t *testing.T) {
	s := schema(t, "parity.compare-1.schema.json")
	good := compareDirs(t, "../testdata/fixtures/gate-up/ref", "../testdata/fixtures/gate-up/port")
	b, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range [][2]string{
		{`"verdict":"divergence"`, `"verdict":"fine"`},
		{`"exit_status":1`, `"exit_status":9`},
		{`"schema":"parity.compare/1"`, `"schema":"parity.compare/2"`},
		{`"status":"enters"`, `"status":"maybe"`},
	} {
		broken := strings.Replace(string(b), edit[0], edit[1], 1)
		if broken == string(b) {
			t.Fatalf("%s is not in the report", edit[0])
		}
		if validate(t, s, []byte(broken)) == nil {
			t.Errorf("a report with %s is taken for valid", edit[1])
		}
	}
}

func TestEveryManifestOfTheRealDumpsIsValidUnderTheSchema(t *testing.T) {
	s := schema(t, "parity.dump-1.schema.json")
	seen := 0
	err := filepath.WalkDir("../testdata", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != dump.ManifestFile {
			return err
		}
		seen++
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := validate(t, s, b); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Fatal(seen, err)
	}
}

func TestSchemaAndReaderAgreeOnManifests(t *testing.T) {
	s := schema(t, "parity.dump-1.schema.json")
	check := func(doc string, want bool, why string) {
		t.Helper()
		_, err := dump.ReadManifest(strings.NewReader(doc))
		if (err == nil) != want {
			t.Errorf("reader on %s: %v (%s)", doc, err, why)
		}
		if err := validate(t, s, []byte(doc)); (err == nil) != want {
			t.Errorf("schema on %s: %v (%s)", doc, err, why)
		}
	}
	check(`{"schema":"parity.dump/1","tensors":[]}`, true, "the least there is")
	check(`{"schema":"parity.dump/1","tensors":[{"name":"a","file":"a.npy","shard":{"index":0,"count":2,"kind":"sum"}}],"rank":{"index":1,"world":2,"tp":[1,2]}}`, true, "a shard")
	check(`{"schema":"parity.dump/1","tensors":[],"new":{"later":1}}`, true, "unknown fields are allowed")
	check(`{"schema":"parity.dump/2","tensors":[]}`, false, "another schema")
	check(`{"schema":"parity.dump/1","tensors":[{"name":"","file":"a.npy"}]}`, false, "no name")
	check(`{"schema":"parity.dump/1","tensors":[{"name":"a","file":"../a.npy"}]}`, false, "leads outside")
	check(`{"schema":"parity.dump/1","tensors":[{"name":"a","file":"/a.npy"}]}`, false, "absolute")
	check(`{"schema":"parity.dump/1","tensors":[{"name":"a","file":"a.npy","columns":"odd"}]}`, false, "unknown column order")
	check(`{"schema":"parity.dump/1","tensors":[{"name":"a","file":"a.npy","shard":{"index":0,"count":2,"kind":"some"}}]}`, false, "unknown shard kind")
	check(`{"schema":"parity.dump/1","step":-1,"tensors":[]}`, false, "negative step")
	check(`{"schema":"parity.dump/1","complete":"yes","tensors":[]}`, false, "complete is a bool")
}

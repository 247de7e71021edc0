package dump

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/layerparity/parity/npy"
)

var updateContract = flag.Bool("update-contract", false, "write testdata/contract/go anew")

// contractTensor is an entry of expected.json: what the other language must
// read.
type contractTensor struct {
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	Values []any  `json:"values"`
}

// number reads a value that JSON may not hold as a number.
func number(t *testing.T, v any) float64 {
	t.Helper()
	switch x := v.(type) {
	case float64:
		return x
	case bool:
		if x {
			return 1
		}
		return 0
	case string:
		switch x {
		case "NaN":
			return math.NaN()
		case "Infinity":
			return math.Inf(1)
		case "-Infinity":
			return math.Inf(-1)
		}
	}
	t.Fatalf("value %v is no number", v)
	return 0
}

func TestGoReadsEveryValueThatPythonWrote(t *testing.T) {
	dir := filepath.Join("..", "testdata", "contract", "python")
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]contractTensor
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	d, err := Open(filepath.Join(dir, "dump"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkContract(t, d.Runs, want)
}

// checkContract holds what was read against what was written.
func checkContract(t *testing.T, runs []*Run, want map[string]contractTensor) {
	t.Helper()
	seen := 0
	for _, run := range runs {
		for _, r := range run.Records {
			w, ok := want[r.Written]
			if !ok {
				continue // only the first run of several is described
			}
			seen++
			if r.Err != nil {
				t.Errorf("%s: %v", r.Written, r.Err)
				continue
			}
			// A file may be wider than the dtype that the manifest states.
			if r.Logical != LogicalName(w.DType) || !slices.Equal(append([]int{}, r.Shape()...), append([]int{}, w.Shape...)) {
				t.Errorf("%s: %s %v, want %s %v", r.Written, r.Logical, r.Shape(), w.DType, w.Shape)
			}
			a, err := r.Open()
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float64, r.Header.Len())
			if err := a.Float64s(got, 0, int64(len(got))); err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if len(got) != len(w.Values) {
				t.Fatalf("%s: %d values, want %d", r.Written, len(got), len(w.Values))
			}
			for i, v := range w.Values {
				x := number(t, v)
				if math.Float64bits(got[i]) != math.Float64bits(x) && !(math.IsNaN(got[i]) && math.IsNaN(x)) {
					t.Errorf("%s[%d]: %v, want %v", r.Written, i, got[i], x)
				}
			}
		}
		break
	}
	if seen < len(want) {
		t.Errorf("%d of %d tensors were found", seen, len(want))
	}
}

// contractValues are written in every dtype; each is exact in all of them that
// have a fraction.
var contractValues = []float64{0, 1, -1.5, 0.25, 3, -2}

// writeContract writes a dump of every dtype with this package's writers.
func writeContract(t *testing.T, dir string) {
	t.Helper()
	complete := true
	m := &Manifest{Schema: Schema, Complete: &complete, Created: "2026-11-29T10:00:00Z", Dumper: NameVersion{Name: "contract", Version: "1"}, Mode: "prefill"}
	want := make(map[string]contractTensor)
	types := []npy.DType{npy.Bool, npy.Int8, npy.Int16, npy.Int32, npy.Int64, npy.Uint8, npy.Uint16, npy.Uint32, npy.Uint64,
		npy.Float16, npy.BFloat16, npy.Float32, npy.Float64, npy.Float8E4M3FN, npy.Float8E5M2}
	for i, dt := range types {
		vals := slices.Clone(contractValues)
		if dt.IsInt() {
			for j := range vals {
				vals[j] = math.Abs(math.Trunc(vals[j]))
				if dt == npy.Bool {
					vals[j] = math.Min(vals[j], 1)
				}
			}
		}
		name := "raw_" + dt.String()
		buf := make([]byte, len(vals)*dt.Size())
		npy.EncodeFloat64(buf, vals, dt)
		if err := npy.WriteFile(filepath.Join(dir, name+".npy"), dt, []int{2, 3}, buf); err != nil {
			t.Fatal(err)
		}
		order := i
		m.Tensors = append(m.Tensors, Tensor{Name: name, File: name + ".npy", Order: &order, DType: dt.String(), Calls: 1})
		w := contractTensor{DType: dt.String(), Shape: []int{2, 3}}
		for _, v := range vals {
			w.Values = append(w.Values, v)
		}
		want[name] = w
	}
	if err := WriteManifest(dir, m); err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "expected.json"), append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTheCommittedDumpIsWhatGoWrites: testdata/contract/go is read by the Python
// tests, which check every value.
func TestTheCommittedDumpIsWhatGoWrites(t *testing.T) {
	committed := filepath.Join("..", "testdata", "contract", "go")
	if *updateContract {
		if err := os.MkdirAll(committed, 0o755); err != nil {
			t.Fatal(err)
		}
		writeContract(t, committed)
	}
	fresh := t.TempDir()
	writeContract(t, fresh)
	entries, err := os.ReadDir(committed)
	if err != nil || len(entries) < 17 {
		t.Fatalf("%d files: %v", len(entries), err)
	}
	for _, e := range entries {
		a, err1 := os.ReadFile(filepath.Join(committed, e.Name()))
		b, err2 := os.ReadFile(filepath.Join(fresh, e.Name()))
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is not what is written now (%v, %v)", e.Name(), err1, err2)
		}
	}
	d, err := Open(fresh, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(filepath.Join(fresh, "expected.json"))
	var want map[string]contractTensor
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	checkContract(t, d.Runs, want)
}

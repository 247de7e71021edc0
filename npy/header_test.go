package npy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestHeadersAsNumPyTakesThem holds the tokenizer against numpy.load, over the
// header texts of make_goldens.py.
func TestHeadersAsNumPyTakesThem(t *testing.T) {
	// Here more is read than NumPy reads: nothing else can be meant.
	lenient := map[string]string{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}": "the comma of a tuple of one",
		"{'descr': '<f4', 'fortran_order': False, 'shape': 6}":   "one axis",
	}
	b, err := os.ReadFile(filepath.Join("testdata", "headers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Text  string
		NumPy *struct {
			Shape  []int
			Values []float64
		}
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	six := make([]byte, 24)
	EncodeFloat64(six, []float64{0, 1, 2, 3, 4, 5}, Float32)
	for _, c := range cases {
		file := withHeader(c.Text+"\n", six)
		a, err := New(bytes.NewReader(file), int64(len(file)), "x.npy")
		switch {
		case lenient[c.Text] != "":
			if err != nil || !slices.Equal(a.Header().Shape, []int{6}) {
				t.Errorf("%s: got %v, want 6 elements", c.Text, err)
			}
		case c.NumPy == nil:
			if err == nil {
				t.Errorf("%s: read as %v; numpy refuses it", c.Text, a.Header())
			}
		case err != nil:
			t.Errorf("%s: %v; numpy reads it", c.Text, err)
		default:
			if !slices.Equal(a.Header().Shape, c.NumPy.Shape) {
				t.Errorf("%s: got shape %v, numpy's is %v", c.Text, a.Header().Shape, c.NumPy.Shape)
			}
			checkFloats(t, floats(t, a), c.NumPy.Values)
		}
	}
	if len(cases) < 40 {
		t.Errorf("only %d headers", len(cases))
	}
}

func TestEachHeaderErrorSaysWhatAndWhere(t *testing.T) {
	const rest = "'fortran_order': False, 'shape': (2, 3)}"
	for _, c := range []struct {
		text   string
		kind   Kind
		parts  []string
		reason string // why it is a case
	}{
		{"{'descr': '<f4', 'order': 'C', " + rest, BadHeader, []string{"at byte 27", `key "order"`}, "a key of another format"},
		{"{'descr': '<f4', 'descr': '<f8', " + rest, BadHeader, []string{"at byte 27", `"descr" stands twice`}, "a dict keeps the last, a scanner the first"},
		{"{" + rest, BadHeader, []string{`"descr" is missing`}, "no type"},
		{"{'descr': '<f4', 'fortran_order': False}", BadHeader, []string{`"shape" is missing`}, "no shape"},
		{"{'descr': '<f4', 'shape': (2, 3)}", BadHeader, []string{`"fortran_order" is missing`}, "no order: half of all arrays would be wrong"},
		{"{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3)}", BadHeader, []string{"neither True nor False"}, "an int for a bool"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}", BadHeader, []string{"axis 1", "negative: -3", "at byte 64"}, "a negative axis"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (-1L, 0)}", BadHeader, []string{"axis 0", "negative: -1"}, "the product would be 0"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", BadHeader, []string{"overflows"}, "2^64 elements are 0 in 64 bits"},
		{"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693953,)}", BadHeader, []string{"overflows"}, "the bytes wrap to 8"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", BadHeader, []string{"beyond 64 bits"}, "an axis of more than an int"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}", BadHeader, []string{"overflows"}, "an empty array whose row overflows"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1000000000)}", BadHeader, []string{"absurd"}, "callers allocate by the other axes"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (" + strings.Repeat("1,", 33) + ")}", BadHeader, []string{"33 axes", "at most 32"}, "beyond every array library"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': " + strings.Repeat("(", 60000), BadHeader, []string{"nested more than 32 deep"}, "a deep stack"},
		{"{'descr': ('<f4', (2,)), " + rest, Unsupported, []string{"subarray"}, "a subarray type"},
		{"{'descr': [('a', '<f4'), ('b', [('c', '|O')])], " + rest, Unsupported, []string{"structured"}, "records within records"},
		{`{'descr': [('it\'s', "<f4"), ("\\\"", '<f4')], ` + rest, Unsupported, []string{"structured"}, "names with quotes in them"},
		{"{'descr': '<f4\\', " + rest, BadHeader, []string{`found "f"`, "at byte 29"}, "an escaped quote does not close"},
		{"{'descr': '<f4\n', " + rest, BadHeader, []string{"not closed"}, "a string over two lines"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, -)}", BadHeader, []string{"sign without digits"}, "a sign alone"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0x3)}", BadHeader, []string{"not a decimal integer"}, "hexadecimal"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': {2: 3}}", BadHeader, []string{"where a value belongs"}, "a dict in the dict"},
		{"{'descr': '|O', " + rest, Unsupported, []string{"object array"}, "an object array without pickle"},
		{"{'descr': '<f3', " + rest, Unsupported, []string{`"<f3"`, "not a type that is known"}, "no such type"},
		{"{'descr': 'complex', " + rest, Unsupported, []string{`"complex"`, "not a type that is known"}, "a word that begins like a code"},
		{"{'descr': '<f10', " + rest, Unsupported, []string{"long double"}, "80 bits"},
		{"{'descr': '|V3', " + rest, Unsupported, []string{"void"}, "void of 3 bytes"},
		{"{'descr': '\xff\x00', " + rest, Unsupported, []string{`"\xff\x00"`}, "bytes that a terminal should not see"},
		{"{'a" + strings.Repeat("a", 60000) + "': 1}", BadHeader, []string{"aaa..."}, "a message stays short"},
	} {
		file := withHeader(c.text, make([]byte, 24))
		_, err := ReadHeader(bytes.NewReader(file), int64(len(file)), "layer_03.npy")
		e := wantError(t, err, c.kind, append(c.parts, "reading header of layer_03.npy")...)
		if e.Offset < 0 || e.Offset > int64(len(file)) {
			t.Errorf("%s: offset %d is not in the file", c.reason, e.Offset)
		}
		if len(err.Error()) > 400 {
			t.Errorf("%s: a message of %d bytes", c.reason, len(err.Error()))
		}
	}
}

func TestDescrsThatAreRead(t *testing.T) {
	for descr, want := range map[string]struct {
		dtype DType
		big   bool
	}{
		"<f2": {Float16, false}, ">f2": {Float16, true}, "=f2": {Float16, false}, "<f4": {Float32, false}, "=f4": {Float32, false}, "f8": {Float64, false},
		"|b1": {Bool, false}, "?": {Bool, false}, "|i1": {Int8, false}, ">i1": {Int8, false}, "|u1": {Uint8, false}, "<i2": {Int16, false}, ">u8": {Uint64, true},
		"<V2": {Void2, false}, "|V2": {Void2, false}, ">V2": {Void2, true}, "|V1": {Void1, false}, "<V1": {Void1, false}, "<f1": {Void1, false},
		"bfloat16": {BFloat16, false}, "<bfloat16": {BFloat16, false}, "float8_e4m3fn": {Float8E4M3FN, false}, "float8_e5m2": {Float8E5M2, false},
		"float8_e8m0fnu": {Float8E8M0, false}, "float32": {Float32, false},
	} {
		file := withHeader("{'descr': '"+descr+"', 'fortran_order': False, 'shape': (3,)}", make([]byte, 24))
		h, err := ReadHeader(bytes.NewReader(file), int64(len(file)), "x.npy")
		if err != nil {
			t.Error(err)
			continue
		}
		if h.DType != want.dtype || h.BigEndian != want.big || h.Descr != descr {
			t.Errorf("descr %q: got %v, big-endian %v, want %v", descr, h.DType, h.BigEndian, want)
		}
	}
}

func TestOtherFilesAreNamed(t *testing.T) {
	for content, part := range map[string]string{
		"PK\x03\x04aaaaaaaaaaaaaaaa":    ".npz",
		"\x80\x04\x95aaaaaaaaaaaaaaaa":  "pickle",
		"\x1f\x8b\x08aaaaaaaaaaaaaaaa":  "gzip",
		"GGUFaaaaaaaaaaaaaaaaaaaaaaaa":  "GGUF",
		"version https://git-lfs.gith":  "git lfs pull",
		"hello":                         "magic",
		"\x93NUMPX\x01\x00aaaaaaaaaaaa": "magic",
	} {
		_, err := ReadHeader(strings.NewReader(content), int64(len(content)), "x.npy")
		wantError(t, err, BadHeader, part)
	}
}

func TestVersionsThatDoNotExistAreRefused(t *testing.T) {
	for _, v := range [][2]byte{{0, 0}, {0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 0}, {255, 255}} {
		file := withHeader("{}", nil)
		file[6], file[7] = v[0], v[1]
		_, err := ReadHeader(bytes.NewReader(file), int64(len(file)), "x.npy")
		wantError(t, err, BadHeader, "at byte 6", "version")
	}
}

// TestNothingIsAllocatedForABomb: a few bytes that claim much.
func TestNothingIsAllocatedForABomb(t *testing.T) {
	shape := withHeader("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}", make([]byte, 24))
	length := append([]byte(magic), 2, 0, 0xff, 0xff, 0xff, 0xff, '{', '}')
	for _, c := range []struct {
		file []byte
		kind Kind
		part string
	}{
		{shape, Truncated, "expected 8000000000077 bytes, found 101"},
		{length, BadHeader, "4294967295"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadHeader(bytes.NewReader(c.file), int64(len(c.file)), "x.npy")
		runtime.ReadMemStats(&after)
		wantError(t, err, c.kind, c.part)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 1<<20 {
			t.Errorf("%d bytes allocated", spent)
		}
	}
}

// TestCutAnywhereIsTruncated cuts sound files at every byte.
func TestCutAnywhereIsTruncated(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "arrays", "*.npy"))
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens", err)
	}
	for _, f := range files {
		whole, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for n := range whole {
			_, err := New(bytes.NewReader(whole[:n]), int64(n), f)
			e := wantError(t, err, Truncated, f, "expected")
			if e.Found != int64(n) || e.Expected <= e.Found || e.Expected > int64(len(whole)) {
				t.Fatalf("%s cut at %d of %d: expected %d, found %d", f, n, len(whole), e.Expected, e.Found)
			}
		}
	}
}

func TestTruncatedCountsBytes(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "arrays", "f4_le.npy"))
	if err != nil {
		t.Fatal(err)
	}
	cut := whole[:len(whole)-5] // 128 bytes of header, 19 of 24 bytes of elements
	_, err = New(bytes.NewReader(cut), int64(len(cut)), "x.npy")
	e := wantError(t, err, Truncated, "shape [2 3] of float32", "needs 24 bytes", "found 19", "expected 152 bytes, found 147")
	if e.Expected != 152 || e.Found != 147 {
		t.Errorf("got %d and %d", e.Expected, e.Found)
	}
}

// TestReadErrorsAreNotTheFilesFault: the system fails while the header is read.
func TestReadErrorsAreNotTheFilesFault(t *testing.T) {
	broken := errors.New("broken disk")
	_, err := ReadHeader(failing{broken}, 1000, "x.npy")
	wantError(t, err, IO, "reading header of x.npy", "broken disk")
	if !errors.Is(err, broken) {
		t.Errorf("%v does not wrap the cause", err)
	}
	_, err = ReadHeader(failing{io.EOF}, 1000, "x.npy")
	wantError(t, err, Changed, "shrank while being read")
}

// failing is a file whose reads fail.
type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

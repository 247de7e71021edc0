package npy

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withHeader makes a format 1.0 file of a header's text and data.
func withHeader(text string, data []byte) []byte {
	b := append([]byte(magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return append(append(b, text...), data...)
}

// layout is how a test file stores its elements.
type layout struct {
	descr        string // without the byte order
	size         int
	big, fortran bool
	major        byte
}

// fileOf stores elements, given in C order and little-endian, the way l says,
// by the plain definition of the two orders: one element at a time.
func fileOf(l layout, shape []int, elements []byte) []byte {
	order := "<"
	if l.big {
		order = ">"
	}
	if l.size == 1 {
		order = "|"
	}
	word := map[bool]string{false: "False", true: "True"}[l.fortran]
	var dims strings.Builder
	for _, d := range shape {
		fmt.Fprintf(&dims, "%d,", d)
	}
	text := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': %s, 'shape': (%s)}\n", order, l.descr, word, dims.String())
	b := append([]byte(magic), l.major, 0)
	if l.major == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	}
	b = append(b, text...)
	data := make([]byte, len(elements))
	for c := range len(elements) / l.size {
		at := c
		if l.fortran {
			at = fortranIndex(shape, c)
		}
		for k := range l.size {
			from := k
			if l.big {
				from = l.size - 1 - k
			}
			data[at*l.size+k] = elements[c*l.size+from]
		}
	}
	return append(b, data...)
}

// fortranIndex is the place in column-major order of the element at place c in
// row-major order.
func fortranIndex(shape []int, c int) int {
	index := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		index[i] = c % shape[i]
		c /= shape[i]
	}
	at, stride := 0, 1
	for i, d := range shape {
		at += index[i] * stride
		stride *= d
	}
	return at
}

func mustNew(t testing.TB, file []byte) *Array {
	t.Helper()
	a, err := New(bytes.NewReader(file), int64(len(file)), "x.npy")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustOpen(t testing.TB, path string) *Array {
	t.Helper()
	a, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// mustWrite writes file to a new folder and gives its path.
func mustWrite(t testing.TB, name string, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// floats reads a whole array.
func floats(t testing.TB, a *Array) []float64 {
	t.Helper()
	v := make([]float64, a.Header().Len())
	if err := a.Float64s(v, 0, int64(len(v))); err != nil {
		t.Fatal(err)
	}
	return v
}

// table reads a golden of testdata/tables.
func table(t testing.TB, name string) *Array {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "tables", name+".npy.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return mustNew(t, b)
}

// wantError checks that err is an *Error of that kind whose text holds all parts.
func wantError(t testing.TB, err error, kind Kind, parts ...string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v (%T), want an *Error", err, err)
	}
	if e.Kind != kind {
		t.Errorf("got kind %q of %v, want %q", e.Kind, err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
	return e
}

var negZero = math.Copysign(0, -1)

// same is equality of bits, so that -0 is not 0; all NaNs are the same.
func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

func checkFloats(t testing.TB, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d values, want %d", len(got), len(want))
	}
	for i := range got {
		if !same(got[i], want[i]) {
			t.Fatalf("value %d is %v, want %v", i, got[i], want[i])
		}
	}
}

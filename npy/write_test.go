package npy

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWriteAsNumPyDoes compares whole files with those of numpy.save, byte for byte.
func TestWriteAsNumPyDoes(t *testing.T) {
	for file, c := range map[string]struct {
		dt     DType
		shape  []int
		values []float64
	}{
		"f2_le":    {Float16, []int{2, 3}, []float64{0, 1, -2.5, 96, 0.125, negZero}},
		"f4_le":    {Float32, []int{2, 3}, []float64{0, 1, -2.5, 96, 0.125, negZero}},
		"f8_le":    {Float64, []int{2, 3}, []float64{0, 1, -2.5, 96, 0.125, negZero}},
		"bfloat16": {BFloat16, []int{2, 3}, []float64{0, 1, -2.5, 96, 0.125, negZero}},
		"b1":       {Bool, []int{3}, []float64{1, 0, 1}},
		"i4_le":    {Int32, []int{6}, []float64{0, 1, -2, 100, -2147483648, 2147483647}},
		"scalar":   {Float32, nil, []float64{-2.5}},
		"empty_1d": {Float32, []int{0}, nil},
		"empty_2d": {Float16, []int{0, 576}, nil},
	} {
		data := make([]byte, len(c.values)*c.dt.Size())
		EncodeFloat64(data, c.values, c.dt)
		var got bytes.Buffer
		if err := Write(&got, c.dt, c.shape, data); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("testdata", "arrays", file+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: got\n%q\nwant\n%q", file, got.Bytes(), want)
		}
	}
}

func TestWriteRefusesWhatCouldNotBeReadBack(t *testing.T) {
	for _, c := range []struct {
		shape []int
		n     int
		part  string
	}{
		{[]int{2, 3}, 23, "does not make 23 bytes"},
		{[]int{2, 3}, 0, "does not make 0 bytes"},
		{nil, 8, "does not make 8 bytes"},
		{[]int{-1, -6}, 24, "axis 0 of shape is negative"},
		{[]int{math.MaxInt, math.MaxInt}, 0, "does not make 0 bytes"},
		{make([]int, 33), 0, "33 axes"},
	} {
		var out bytes.Buffer
		err := Write(&out, Float32, c.shape, make([]byte, c.n))
		wantError(t, err, OutOfRange, "writing", c.part)
		if out.Len() != 0 {
			t.Errorf("shape %v: %d bytes written before the error", c.shape, out.Len())
		}
	}
}

func TestHeadersAreAligned(t *testing.T) {
	for rank := range maxDims + 1 {
		shape := make([]int, rank)
		for i := range shape {
			shape[i] = i * 1000003
		}
		b, err := AppendHeader([]byte("kept"), Float32, shape)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(b), "kept") || (len(b)-4)%64 != 0 || b[len(b)-1] != '\n' {
			t.Errorf("rank %d: header of %d bytes", rank, len(b)-4)
		}
	}
}

func TestWriteFileLeavesNoHalfFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npy")
	if err := WriteFile(path, Float32, []int{6}, make([]byte, 24)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, Uint8, []int{2}, []byte{7, 8}); err != nil { // over the first
		t.Fatal(err)
	}
	checkFloats(t, floats(t, mustOpen(t, path)), []float64{7, 8})

	wantError(t, WriteFile(path, Uint8, []int{3}, []byte{9}), OutOfRange, "writing "+path)
	checkFloats(t, floats(t, mustOpen(t, path)), []float64{7, 8}) // still the old one

	err := WriteFile(filepath.Join(dir, "missing", "x.npy"), Uint8, nil, []byte{1})
	wantError(t, err, IO, "writing")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	wantError(t, WriteFile(dir, Uint8, nil, []byte{1}), IO, "writing "+dir) // a folder of that name

	for _, d := range []string{dir, filepath.Dir(dir)} {
		left, err := os.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range left {
			if f.Name() != "x.npy" && !f.IsDir() {
				t.Errorf("%s was left behind", f.Name())
			}
		}
	}
}

func TestWriteErrorsAreWrapped(t *testing.T) {
	full := errors.New("disk full")
	for after := range 2 {
		err := Write(&failingWriter{full, after}, Uint8, []int{2}, []byte{1, 2})
		wantError(t, err, IO, "disk full")
		if !errors.Is(err, full) {
			t.Errorf("%v does not wrap the cause", err)
		}
	}
}

// failingWriter fails after some calls.
type failingWriter struct {
	err   error
	after int
}

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.after == 0 {
		return 0, w.err
	}
	w.after--
	return len(b), nil
}

package npy

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// fataler is what *testing.T, *testing.F and *rapid.T share.
type fataler interface {
	Fatalf(format string, args ...any)
}

// checkUntrusted holds bytes of unknown origin to what the package promises.
func checkUntrusted(t fataler, file []byte) {
	a, err := New(bytes.NewReader(file), int64(len(file)), "x.npy")
	if err != nil {
		var e *Error
		switch {
		case !errors.As(err, &e):
			t.Fatalf("error %v is a %T", err, err)
		case e.Kind == IO || e.Kind == Changed || e.Kind == OutOfRange:
			t.Fatalf("error %v is of kind %v, though nothing but the file is wrong", err, e.Kind)
		case e.File != "x.npy" || e.Op == "" || e.Reason == "" || e.Remedy == "" || e.Offset < 0 || e.Offset > int64(len(file)):
			t.Fatalf("error %v is not complete: %+v", err, e)
		case len(err.Error()) > 1200:
			t.Fatalf("error of %d bytes", len(err.Error()))
		case e.Kind == Truncated && (e.Found != int64(len(file)) || e.Expected <= e.Found):
			t.Fatalf("expected %d, found %d, of %d bytes", e.Expected, e.Found, len(file))
		}
		return
	}
	h, size := a.Header(), int64(a.Header().DType.Size())
	n := h.Len()
	if n < 0 || len(h.Shape) > maxDims || h.DataOffset+n*size+a.Trailing() != int64(len(file)) || a.Trailing() < 0 {
		t.Fatalf("header %+v does not fit a file of %d bytes", h, len(file))
	}
	all := make([]byte, n*size)
	if err := a.ReadElements(all, 0, n); err != nil {
		t.Fatalf("reading all of %+v: %v", h, err)
	}
	// The same in two parts.
	parts := make([]byte, n*size)
	half := n / 2
	if err := errors.Join(a.ReadElements(parts[half*size:], half, n-half), a.ReadElements(parts, 0, half)); err != nil {
		t.Fatalf("reading halves of %+v: %v", h, err)
	}
	if !bytes.Equal(all, parts) {
		t.Fatalf("two halves of %+v are not the whole", h)
	}
	// What is written of it reads back.
	var again bytes.Buffer
	if err := Write(&again, h.DType, h.Shape, all); err != nil {
		t.Fatalf("writing %+v: %v", h, err)
	}
	b, err := New(bytes.NewReader(again.Bytes()), int64(again.Len()), "again.npy")
	if err != nil {
		t.Fatalf("reading back %+v: %v", h, err)
	}
	if !slices.Equal(b.Header().Shape, h.Shape) || b.Header().DType.Size() != h.DType.Size() || !bytes.HasSuffix(again.Bytes(), all) {
		t.Fatalf("%+v came back as %+v", h, b.Header())
	}
	if dtypes[h.DType].class != classVoid {
		if err := a.Float64s(make([]float64, n), 0, n); err != nil {
			t.Fatalf("decoding %+v: %v", h, err)
		}
	}
}

// FuzzHeader reads anything as a .npy file. Seeds are in testdata/fuzz.
func FuzzHeader(f *testing.F) {
	f.Fuzz(func(t *testing.T, file []byte) {
		checkUntrusted(t, file)
	})
}

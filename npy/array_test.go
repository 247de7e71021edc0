package npy

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// small is a [2, 3] float32 of 1 to 6.
func small() []byte {
	data := make([]byte, 24)
	EncodeFloat64(data, []float64{1, 2, 3, 4, 5, 6}, Float32)
	return fileOf(layout{descr: "f4", size: 4, major: 1}, []int{2, 3}, data)
}

func TestOpenSaysWhatStandsInTheWay(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.npy")
	_, err := Open(missing)
	wantError(t, err, IO, "opening "+missing, "no such file")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	_, err = Open(dir)
	wantError(t, err, IO, "not a regular file")

	_, err = Open(mustWrite(t, "empty.npy", nil))
	wantError(t, err, Truncated, "empty")
}

func TestRangesOfElements(t *testing.T) {
	a := mustNew(t, small())
	got := make([]float64, 2)
	if err := a.Float64s(got, 3, 2); err != nil {
		t.Fatal(err)
	}
	checkFloats(t, got, []float64{4, 5})
	if err := a.Float64s(nil, 6, 0); err != nil {
		t.Errorf("nothing at the end: %v", err)
	}
	for _, c := range []struct {
		first, n int64
		part     string
	}{
		{0, 7, "of 6"},
		{6, 1, "of 6"},
		{7, 0, "of 6"},
		{-1, 2, "[-1, -1+2)"},
		{1, -1, "of 6"},
		{math.MaxInt64, math.MaxInt64, "room"},
		{1, math.MaxInt64, "room"},
	} {
		wantError(t, a.ReadElements(make([]byte, 64), c.first, c.n), OutOfRange, "reading x.npy", c.part)
		wantError(t, a.Float64s(make([]float64, 16), c.first, c.n), OutOfRange)
	}
	wantError(t, a.ReadElements(make([]byte, 7), 0, 2), OutOfRange, "2 elements", "room for 1")
	wantError(t, a.Float64s(make([]float64, 1), 0, 2), OutOfRange, "room for 1")
}

func TestTrailingBytesAreCounted(t *testing.T) {
	if n := mustNew(t, append(small(), "more"...)).Trailing(); n != 4 {
		t.Errorf("got %d trailing bytes, want 4", n)
	}
}

// TestAsReadsTheSameBytes: 0x3f80 is 1 in bfloat16, 1.875 in float16, 16256 in uint16.
func TestAsReadsTheSameBytes(t *testing.T) {
	a := mustNew(t, fileOf(layout{descr: "u2", size: 2, big: true, major: 1}, []int{1}, []byte{0x80, 0x3f}))
	checkFloats(t, floats(t, a), []float64{16256})
	for dt, want := range map[DType]float64{BFloat16: 1, Float16: 1.875, Int16: 16256} {
		view, err := a.As(dt)
		if err != nil {
			t.Fatal(err)
		}
		if view.Header().DType != dt || a.Header().DType != Uint16 {
			t.Errorf("got types %v and %v", view.Header().DType, a.Header().DType)
		}
		checkFloats(t, floats(t, view), []float64{want})
	}
	for _, dt := range []DType{Float32, Int8, Void1, numDTypes} {
		_, err := a.As(dt)
		wantError(t, err, Unsupported, "viewing x.npy", "uint16 (2 bytes)")
	}
}

func TestVoidHasNoValueUntilItIsNamed(t *testing.T) {
	a := mustNew(t, fileOf(layout{descr: "V2", size: 2, major: 1}, []int{1}, []byte{0x80, 0x3f}))
	got := []float64{0}
	wantError(t, a.Float64s(got, 0, 1), Unsupported, `"<V2"`, "state the type", "bfloat16")
	DecodeFloat64(got, []byte{0x80, 0x3f}, Void2)
	if !math.IsNaN(got[0]) {
		t.Errorf("got %v of a void, want NaN", got[0])
	}
}

func TestInt64sRefusesWhatItCannotHold(t *testing.T) {
	wantError(t, mustNew(t, small()).Int64s(make([]int64, 6), 0, 6), Unsupported, "not integers", "float32")

	big := make([]byte, 16)
	le.PutUint64(big, math.MaxInt64)
	le.PutUint64(big[8:], math.MaxInt64+1)
	a := mustNew(t, fileOf(layout{descr: "u8", size: 8, major: 1}, []int{2}, big))
	got := []int64{0, 0}
	wantError(t, a.Int64s(got, 1, 1), OutOfRange, "element 1 is 9223372036854775808")
	if err := a.Int64s(got, 0, 1); err != nil || got[0] != math.MaxInt64 {
		t.Errorf("got %d, %v", got[0], err)
	}
}

func TestShrinkingWhileOpenIsAnError(t *testing.T) {
	path := mustWrite(t, "layer_03.npy", small())
	a := mustOpen(t, path)
	if a.Name() != path {
		t.Errorf("got name %q", a.Name())
	}
	if err := a.Unchanged(); err != nil {
		t.Fatal(err)
	}
	size := int64(len(small()))
	if err := os.Truncate(path, size-6); err != nil { // within the last but one of the elements
		t.Fatal(err)
	}
	e := wantError(t, a.ReadElements(make([]byte, 24), 0, 6), Changed, "reading "+path, "shrank while being read")
	if e.Offset != size-6 {
		t.Errorf("got offset %d, want that of the first missing byte, %d", e.Offset, size-6)
	}
	wantError(t, a.Float64s(make([]float64, 6), 0, 6), Changed)
	wantError(t, a.Unchanged(), Changed, "bytes at first, now")
	got := make([]float64, 4)
	if err := a.Float64s(got, 0, 4); err != nil { // what is still there
		t.Fatal(err)
	}
	checkFloats(t, got, []float64{1, 2, 3, 4})
}

func TestFortranFileShrinkingIsAnError(t *testing.T) {
	file := fileOf(layout{descr: "f4", size: 4, fortran: true, major: 1}, []int{2, 3}, make([]byte, 24))
	path := mustWrite(t, "x.npy", file)
	a := mustOpen(t, path)
	if err := os.Truncate(path, int64(len(file))-1); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second must not find what the first left half-done
		wantError(t, a.Float64s(make([]float64, 6), 0, 6), Changed, "shrank while being read")
	}
}

func TestUnchangedSeesEveryChange(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		part   string
	}{
		"written over": {func(p string) error { return os.Chtimes(p, time.Time{}, time.Unix(1e9, 0)) }, "written to"},
		"grown":        {func(p string) error { return os.WriteFile(p, append(small(), 0), 0o644) }, "now"},
		"removed":      {os.Remove, "removed"},
		"replaced": {func(p string) error {
			if err := os.WriteFile(p+".new", small(), 0o644); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		}, "replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			path := mustWrite(t, "x.npy", small())
			a := mustOpen(t, path)
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			wantError(t, a.Unchanged(), Changed, path, c.part)
		})
	}
	if err := mustNew(t, small()).Unchanged(); err != nil {
		t.Errorf("an array without a file: %v", err)
	}
}

func TestCloseTwice(t *testing.T) {
	a := mustOpen(t, mustWrite(t, "x.npy", small()))
	view, err := a.As(Int32)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Close(), a.Close(), view.Close()); err != nil {
		t.Error(err)
	}
	wantError(t, view.ReadElements(make([]byte, 24), 0, 6), IO, "closed")
}

func TestHeaderIsACopy(t *testing.T) {
	a := mustNew(t, small())
	a.Header().Shape[0] = 1000
	if got := a.Header().Shape; !slices.Equal(got, []int{2, 3}) {
		t.Errorf("got shape %v", got)
	}
}

// TestManyReadersAtOnce reads one array, C and Fortran order, from eight goroutines.
func TestManyReadersAtOnce(t *testing.T) {
	const rows, dims = 64, 50
	data := make([]byte, 4*rows*dims)
	for i := range rows * dims {
		le.PutUint32(data[4*i:], uint32(i))
	}
	for _, fortran := range []bool{false, true} {
		a := mustOpen(t, mustWrite(t, "x.npy", fileOf(layout{descr: "i4", size: 4, fortran: fortran, major: 1}, []int{rows, dims}, data)))
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				row := make([]int64, dims)
				for r := w; r < rows; r += 8 {
					if err := a.Int64s(row, int64(r*dims), dims); err != nil {
						t.Error(err)
					}
					for i, v := range row {
						if v != int64(r*dims+i) {
							t.Errorf("row %d: element %d is %d", r, i, v)
						}
					}
				}
			})
		}
		wg.Wait()
	}
}

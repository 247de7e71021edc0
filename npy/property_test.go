package npy

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// genShape gives shapes of 0 to 5 axes, with axes of 0 and 1 among them.
func genShape() *rapid.Generator[[]int] {
	return rapid.Custom(func(t *rapid.T) []int {
		return rapid.SliceOfN(rapid.IntRange(0, 6), 0, 5).Draw(t, "shape")
	})
}

// genDType gives all types, void included.
func genDType() *rapid.Generator[DType] {
	return rapid.Custom(func(t *rapid.T) DType {
		return DType(rapid.IntRange(0, int(numDTypes)-1).Draw(t, "dtype"))
	})
}

func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// genElements gives the bytes of an array's elements, of all patterns: NaNs and
// infinities are as likely as numbers.
func genElements(t *rapid.T, n int) []byte {
	return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "elements")
}

// TestEveryLayoutReadsAsItsElements: any type, shape, byte order, memory order
// and format version, read as any range.
func TestEveryLayoutReadsAsItsElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt, shape := genDType().Draw(t, "dtype"), genShape().Draw(t, "shape")
		n, size := count(shape), dt.Size()
		elements := genElements(t, n*size)
		file := fileOf(layout{
			descr: dtypes[dt].code, size: size, major: byte(rapid.IntRange(1, 3).Draw(t, "major")),
			big: rapid.Bool().Draw(t, "big"), fortran: rapid.Bool().Draw(t, "fortran"),
		}, shape, elements)
		file = append(file, make([]byte, rapid.IntRange(0, 3).Draw(t, "trailing"))...)

		stored, err := New(bytes.NewReader(file), int64(len(file)), "x.npy")
		if err != nil {
			t.Fatal(err)
		}
		a, err := stored.As(dt)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Header().Shape, shape) || a.Header().Len() != int64(n) {
			t.Fatalf("got shape %v, want %v", a.Header().Shape, shape)
		}
		first := rapid.IntRange(0, n).Draw(t, "first")
		k := rapid.IntRange(0, n-first).Draw(t, "n")
		got := make([]byte, k*size+rapid.IntRange(0, 2).Draw(t, "room"))
		if err := a.ReadElements(got, int64(first), int64(k)); err != nil {
			t.Fatal(err)
		}
		want := elements[first*size : (first+k)*size]
		if !bytes.Equal(got[:k*size], want) || slices.ContainsFunc(got[k*size:], func(b byte) bool { return b != 0 }) {
			t.Fatalf("got elements %x, want %x", got, want)
		}
		if dtypes[dt].class == classVoid {
			return
		}
		decoded, direct := make([]float64, k), make([]float64, k)
		if err := a.Float64s(decoded, int64(first), int64(k)); err != nil {
			t.Fatal(err)
		}
		DecodeFloat64(direct, want, dt)
		for i := range decoded {
			if !same(decoded[i], direct[i]) {
				t.Fatalf("element %d is %v, decoded by itself %v", first+i, decoded[i], direct[i])
			}
		}
	})
}

// TestWhatIsWrittenReadsBack: Write, then New and As.
func TestWhatIsWrittenReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt, shape := genDType().Draw(t, "dtype"), genShape().Draw(t, "shape")
		elements := genElements(t, count(shape)*dt.Size())
		var file bytes.Buffer
		if err := Write(&file, dt, shape, elements); err != nil {
			t.Fatal(err)
		}
		stored, err := New(bytes.NewReader(file.Bytes()), int64(file.Len()), "x.npy")
		if err != nil {
			t.Fatal(err)
		}
		a, err := stored.As(dt)
		if err != nil {
			t.Fatal(err)
		}
		h := a.Header()
		if h.DType != dt || !slices.Equal(h.Shape, shape) || h.BigEndian || h.Fortran || h.DataOffset%64 != 0 || a.Trailing() != 0 {
			t.Fatalf("got %+v", h)
		}
		got := make([]byte, len(elements))
		if err := a.ReadElements(got, 0, h.Len()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, elements) {
			t.Fatalf("got %x, want %x", got, elements)
		}
	})
}

// TestEncodedValuesDecodeToThemselves: every pattern of every type of up to 16
// bits but NaNs, and drawn ones of the wider.
func TestEncodedValuesDecodeToThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt := genDType().Filter(func(d DType) bool { return dtypes[d].class != classVoid && d != Int64 && d != Uint64 }).Draw(t, "dtype")
		src := genElements(t, 8*dt.Size())
		if dt == Bool {
			for i := range src {
				src[i] &= 1 // any other byte is true too, but comes back as 1
			}
		}
		v, again := make([]float64, 8), make([]float64, 8)
		DecodeFloat64(v, src, dt)
		back := make([]byte, len(src))
		EncodeFloat64(back, v, dt)
		DecodeFloat64(again, back, dt)
		for i := range v {
			if !same(v[i], again[i]) {
				t.Fatalf("%v: %v came back as %v", dt, v[i], again[i])
			}
			one, its := src[i*dt.Size():(i+1)*dt.Size()], back[i*dt.Size():(i+1)*dt.Size()]
			if v[i] == v[i] && !bytes.Equal(one, its) {
				t.Fatalf("%v: %x came back as %x", dt, one, its)
			}
		}
	})
}

// TestDamagedHeadersNeverPass flips bytes of a header: either an error of this
// package, or an array that can be read to its end.
func TestDamagedHeadersNeverPass(t *testing.T) {
	whole := small()
	rapid.Check(t, func(t *rapid.T) {
		file := slices.Clone(whole)
		for range rapid.IntRange(1, 4).Draw(t, "flips") {
			file[rapid.IntRange(0, len(file)-25).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		checkUntrusted(t, file)
	})
}

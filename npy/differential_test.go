package npy

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"codeberg.org/sbinet/npyio"
	"pgregory.net/rapid"
)

// npyioTypes are the types that npyio reads and writes, with a slice of each.
var npyioTypes = map[DType]any{
	Bool: []bool(nil), Int8: []int8(nil), Int16: []int16(nil), Int32: []int32(nil), Int64: []int64(nil),
	Uint8: []uint8(nil), Uint16: []uint16(nil), Uint32: []uint32(nil), Uint64: []uint64(nil),
	Float32: []float32(nil), Float64: []float64(nil),
}

// asFloats gives a slice of any of these types as float64s.
func asFloats(slice reflect.Value) []float64 {
	v := make([]float64, slice.Len())
	for i := range v {
		switch e := slice.Index(i); {
		case e.Kind() == reflect.Bool:
			if e.Bool() {
				v[i] = 1
			}
		case e.CanInt():
			v[i] = float64(e.Int())
		case e.CanUint():
			v[i] = float64(e.Uint())
		default:
			v[i] = e.Float()
		}
	}
	return v
}

func drawNpyioType(t *rapid.T) (DType, reflect.Type) {
	dt := genDType().Filter(func(d DType) bool { _, ok := npyioTypes[d]; return ok }).Draw(t, "dtype")
	return dt, reflect.TypeOf(npyioTypes[dt])
}

func checkSame(t *rapid.T, got, want []float64) {
	if len(got) != len(want) {
		t.Fatalf("got %d values, want %d", len(got), len(want))
	}
	for i := range got {
		if !same(got[i], want[i]) {
			t.Fatalf("value %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// TestNpyioReadsWhatWeWrite: C order with a trailing comma, which it does right.
func TestNpyioReadsWhatWeWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt, slice := drawNpyioType(t)
		n := rapid.IntRange(1, 40).Draw(t, "n")
		data := genElements(t, n*dt.Size())
		if dt == Bool {
			for i := range data {
				data[i] &= 1
			}
		}
		var file bytes.Buffer
		if err := Write(&file, dt, []int{n}, data); err != nil {
			t.Fatal(err)
		}
		theirs := reflect.New(slice)
		if err := npyio.Read(bytes.NewReader(file.Bytes()), theirs.Interface()); err != nil {
			t.Fatal(err)
		}
		want := make([]float64, n)
		DecodeFloat64(want, data, dt)
		checkSame(t, asFloats(theirs.Elem()), want)
	})
}

// TestWeReadWhatNpyioWrites: slices of all its types, and a shape of two axes.
func TestWeReadWhatNpyioWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt, slice := drawNpyioType(t)
		n := rapid.IntRange(1, 40).Draw(t, "n")
		bits := rapid.SliceOfN(rapid.Uint64(), n, n).Draw(t, "bits")
		value := reflect.MakeSlice(slice, n, n)
		for i, b := range bits {
			switch e := value.Index(i); {
			case e.Kind() == reflect.Bool:
				e.SetBool(b&1 == 1)
			case e.CanInt():
				e.SetInt(int64(b) >> (64 - 8*dt.Size()))
			case e.CanUint():
				e.SetUint(b >> (64 - 8*dt.Size()))
			case dt == Float32:
				e.SetFloat(float64(math.Float32frombits(uint32(b))))
			default:
				e.SetFloat(math.Float64frombits(b))
			}
		}
		var file bytes.Buffer
		if err := npyio.Write(&file, value.Interface()); err != nil {
			t.Fatal(err)
		}
		a, err := New(bytes.NewReader(file.Bytes()), int64(file.Len()), "x.npy")
		if err != nil {
			t.Fatal(err)
		}
		if h := a.Header(); h.DType != dt || h.Len() != int64(n) || len(h.Shape) != 1 || a.Trailing() != 0 {
			t.Fatalf("got %+v of %d %v", h, n, dt)
		}
		got := make([]float64, n)
		if err := a.Float64s(got, 0, int64(n)); err != nil {
			t.Fatal(err)
		}
		checkSame(t, got, asFloats(value))
	})
}

func TestWeReadNpyioMatrices(t *testing.T) {
	var file bytes.Buffer
	if err := npyio.Write(&file, [2][3]float32{{1, 2, 3}, {4, 5, 6}}); err != nil {
		t.Fatal(err)
	}
	a := mustNew(t, file.Bytes())
	if s := a.Header().Shape; len(s) != 2 || s[0] != 2 || s[1] != 3 {
		t.Errorf("got shape %v", s)
	}
	checkFloats(t, floats(t, a), []float64{1, 2, 3, 4, 5, 6})
}

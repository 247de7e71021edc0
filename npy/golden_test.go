package npy

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFilesOfNumPy reads what numpy.save wrote; the values stand here by hand.
func TestFilesOfNumPy(t *testing.T) {
	floats23 := []float64{0, 1, -2.5, 96, 0.125, math.Copysign(0, -1)}
	signed := func(bits int) []float64 {
		return []float64{0, 1, -2, 100, -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1) - 1}
	}
	unsigned := func(bits int) []float64 {
		return []float64{0, 1, 200, math.Ldexp(1, bits) - 2, math.Ldexp(1, bits) - 1}
	}
	upTo := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(i)
		}
		return v
	}
	nan := math.NaN()
	cases := []struct {
		file  string
		dtype DType
		as    DType // what Void elements are seen as
		order string
		shape []int
		want  []float64
	}{
		{"f2_le", Float16, Float16, "", []int{2, 3}, floats23},
		{"f2_be", Float16, Float16, "big", []int{2, 3}, floats23},
		{"f4_le", Float32, Float32, "", []int{2, 3}, floats23},
		{"f4_be", Float32, Float32, "big", []int{2, 3}, floats23},
		{"f8_le", Float64, Float64, "", []int{2, 3}, floats23},
		{"f8_be", Float64, Float64, "big", []int{2, 3}, floats23},
		{"i1", Int8, Int8, "", []int{6}, signed(8)},
		{"i2_le", Int16, Int16, "", []int{6}, signed(16)},
		{"i2_be", Int16, Int16, "big", []int{6}, signed(16)},
		{"i4_le", Int32, Int32, "", []int{6}, signed(32)},
		{"i4_be", Int32, Int32, "big", []int{6}, signed(32)},
		{"i8_le", Int64, Int64, "", []int{6}, signed(64)},
		{"i8_be", Int64, Int64, "big", []int{6}, signed(64)},
		{"u1", Uint8, Uint8, "", []int{5}, unsigned(8)},
		{"u2_le", Uint16, Uint16, "", []int{5}, unsigned(16)},
		{"u2_be", Uint16, Uint16, "big", []int{5}, unsigned(16)},
		{"u4_le", Uint32, Uint32, "", []int{5}, unsigned(32)},
		{"u4_be", Uint32, Uint32, "big", []int{5}, unsigned(32)},
		{"u8_le", Uint64, Uint64, "", []int{5}, unsigned(64)},
		{"u8_be", Uint64, Uint64, "big", []int{5}, unsigned(64)},
		{"b1", Bool, Bool, "", []int{3}, []float64{1, 0, 1}},
		{"bfloat16", Void2, BFloat16, "", []int{2, 3}, floats23},
		{"float8_e4m3fn", Void1, Float8E4M3FN, "", []int{2, 3}, floats23},
		{"float8_e5m2", Void1, Float8E5M2, "", []int{2, 3}, floats23},
		{"float8_e4m3fnuz", Void1, Float8E4M3FNUZ, "", []int{2, 3}, []float64{0, 1, -2.5, 96, 0.125, 0}},
		{"float8_e5m2fnuz", Void1, Float8E5M2FNUZ, "", []int{2, 3}, []float64{0, 1, -2.5, 96, 0.125, 0}},
		{"float8_e8m0", Void1, Float8E8M0, "", []int{2, 3}, []float64{0.125, 1, 2, 64, 0x1p-127, nan}},
		{"v2_0", Float32, Float32, "", []int{2, 3}, floats23},
		{"v3_0", Float32, Float32, "", []int{2, 3}, floats23},
		{"scalar", Float32, Float32, "", []int{}, []float64{-2.5}},
		{"empty_1d", Float32, Float32, "", []int{0}, nil},
		{"empty_2d", Float16, Float16, "", []int{0, 576}, nil},
		{"fortran_2d", Float64, Float64, "fortran", []int{3, 2}, upTo(6)},
		{"fortran_3d", Float32, Float32, "fortran", []int{2, 3, 4}, upTo(24)},
		{"fortran_4d_be", Int16, Int16, "big fortran", []int{2, 3, 4, 5}, upTo(120)},
		{"fortran_bf16", Void2, BFloat16, "fortran", []int{3, 4}, upTo(12)},
	}
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.file+".npy"] = true
		t.Run(c.file, func(t *testing.T) {
			a := mustOpen(t, filepath.Join("testdata", "arrays", c.file+".npy"))
			h := a.Header()
			if h.DType != c.dtype || !slices.Equal(h.Shape, c.shape) ||
				h.BigEndian != strings.Contains(c.order, "big") || h.Fortran != strings.Contains(c.order, "fortran") {
				t.Errorf("got header %+v, want %v %v %q", h, c.dtype, c.shape, c.order)
			}
			if a.Trailing() != 0 {
				t.Errorf("got %d trailing bytes of a whole file", a.Trailing())
			}
			view, err := a.As(c.as)
			if err != nil {
				t.Fatal(err)
			}
			checkFloats(t, floats(t, view), c.want)
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "arrays"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[f.Name()] {
			t.Errorf("no case reads %s", f.Name())
		}
	}
}

// TestWholeIntegersOfNumPy: int64 keeps what float64 rounds away.
func TestWholeIntegersOfNumPy(t *testing.T) {
	for _, c := range []struct {
		file string
		want []int64
	}{
		{"b1", []int64{1, 0, 1}},
		{"i1", []int64{0, 1, -2, 100, math.MinInt8, math.MaxInt8}},
		{"i2_be", []int64{0, 1, -2, 100, math.MinInt16, math.MaxInt16}},
		{"i4_le", []int64{0, 1, -2, 100, math.MinInt32, math.MaxInt32}},
		{"i8_le", []int64{0, 1, -2, 100, math.MinInt64, math.MaxInt64}},
		{"i8_be", []int64{0, 1, -2, 100, math.MinInt64, math.MaxInt64}},
		{"u1", []int64{0, 1, 200, 254, 255}},
		{"u2_le", []int64{0, 1, 200, 65534, 65535}},
		{"u4_be", []int64{0, 1, 200, math.MaxUint32 - 1, math.MaxUint32}},
	} {
		a := mustOpen(t, filepath.Join("testdata", "arrays", c.file+".npy"))
		got := make([]int64, len(c.want))
		if err := a.Int64s(got, 0, int64(len(got))); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %d, want %d", c.file, got, c.want)
		}
	}
}

// TestRefusedByName: what numpy.save writes and no figure can be made of.
func TestRefusedByName(t *testing.T) {
	for file, parts := range map[string][]string{
		"object":      {"object array", "pickle", "never executed", "numeric array"},
		"structured":  {"structured", "each field"},
		"complex64":   {`"<c8"`, "complex", "real and imaginary"},
		"complex128":  {`">c16"`, "complex"},
		"longdouble":  {`"<f16"`, "float128", "float64"},
		"clongdouble": {`"<c32"`, "complex"},
		"unicode":     {`"<U3"`, "string"},
		"bytes":       {`"|S3"`, "string"},
		"datetime":    {`"<M8[ns]"`, "datetime", "int64"},
		"timedelta":   {`"<m8[25us]"`, "timedelta", "int64"},
		"void8":       {`"|V8"`, "void"},
	} {
		path := filepath.Join("testdata", "refused", file+".npy")
		_, err := Open(path)
		e := wantError(t, err, Unsupported, append(parts, "reading header of "+path)...)
		if e.Remedy == "" {
			t.Errorf("%s: no remedy in %v", file, err)
		}
	}
}

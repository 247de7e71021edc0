package npy

import (
	"fmt"
	"testing"
)

const benchRows, benchDims = 512, 4096

func benchFile(b *testing.B, dt DType, big, fortran bool) *Array {
	n := benchRows * benchDims * dt.Size()
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 7)
	}
	order := map[bool]string{false: "<", true: ">"}[big]
	word := map[bool]string{false: "False", true: "True"}[fortran]
	text := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': %s, 'shape': (%d, %d)}\n", order, dtypes[dt].code, word, benchRows, benchDims)
	a, err := mustOpen(b, mustWrite(b, "x.npy", withHeader(text, data))).As(dt)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// BenchmarkReadElements streams a [512, 4096] array in blocks of 16 rows.
func BenchmarkReadElements(b *testing.B) {
	for _, c := range []struct {
		name         string
		big, fortran bool
	}{{"C", false, false}, {"C-big-endian", true, false}, {"Fortran", false, true}} {
		b.Run(c.name, func(b *testing.B) {
			a := benchFile(b, Float32, c.big, c.fortran)
			const block = 16 * benchDims
			buf := make([]byte, 4*block)
			b.SetBytes(4 * benchRows * benchDims)
			b.ReportAllocs()
			for b.Loop() {
				for first := int64(0); first < benchRows*benchDims; first += block {
					if err := a.ReadElements(buf, first, block); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkDecodeFloat64 decodes one row; bytes are those of the file.
func BenchmarkDecodeFloat64(b *testing.B) {
	for _, dt := range []DType{Float16, BFloat16, Float32, Float64, Float8E4M3FN, Int64, Uint16, Bool} {
		b.Run(dt.String(), func(b *testing.B) {
			src, dst := make([]byte, benchDims*dt.Size()), make([]float64, benchDims)
			for i := range src {
				src[i] = byte(i * 7)
			}
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				DecodeFloat64(dst, src, dt)
			}
		})
	}
}

// BenchmarkEncodeFloat64 encodes one row; bytes are those of the file.
func BenchmarkEncodeFloat64(b *testing.B) {
	for _, dt := range []DType{Float16, BFloat16, Float32, Float8E4M3FN} {
		b.Run(dt.String(), func(b *testing.B) {
			src, dst := make([]float64, benchDims), make([]byte, benchDims*dt.Size())
			for i := range src {
				src[i] = float64(i-2000) / 300
			}
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				EncodeFloat64(dst, src, dt)
			}
		})
	}
}

// BenchmarkOpen opens a file and reads its header.
func BenchmarkOpen(b *testing.B) {
	path := mustWrite(b, "x.npy", small())
	b.ReportAllocs()
	for b.Loop() {
		a, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		a.Close()
	}
}

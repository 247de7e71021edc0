// Package dumptest makes small dumps for tests: arrays that are changed in
// memory and written as the .npy files of a folder.
package dumptest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/layerparity/parity/npy"
)

// Array is one tensor: its elements in C order, whatever they are stored as.
type Array struct {
	Shape []int
	Data  []float64
	DType npy.DType
}

// Clone copies an array.
func (a *Array) Clone() *Array {
	return &Array{Shape: slices.Clone(a.Shape), Data: slices.Clone(a.Data), DType: a.DType}
}

// Map returns the array with f applied to every element.
func (a *Array) Map(f func(float64) float64) *Array {
	b := a.Clone()
	for i, v := range b.Data {
		b.Data[i] = f(v)
	}
	return b
}

// As returns the array stored as another type: rounded when it is written.
func (a *Array) As(dt npy.DType) *Array {
	b := a.Clone()
	b.DType = dt
	return b
}

// Row returns the elements of row t of a [T, D] array, to be changed in place.
func (a *Array) Row(t int) []float64 {
	cols := a.Shape[len(a.Shape)-1]
	return a.Data[t*cols : (t+1)*cols]
}

// Rows returns rows [from, to) as an array of their own.
func (a *Array) Rows(from, to int) *Array {
	cols := a.Shape[len(a.Shape)-1]
	return &Array{Shape: []int{to - from, cols}, Data: slices.Clone(a.Data[from*cols : to*cols]), DType: a.DType}
}

// Floats makes a float32 array.
func Floats(data []float64, shape ...int) *Array {
	return &Array{Shape: shape, Data: data, DType: npy.Float32}
}

// Ints makes an int64 array of one axis.
func Ints(ids ...int) *Array {
	a := &Array{Shape: []int{len(ids)}, DType: npy.Int64}
	for _, id := range ids {
		a.Data = append(a.Data, float64(id))
	}
	return a
}

// Rand makes a float32 array of independent normal numbers.
func Rand(rng *rand.Rand, shape ...int) *Array {
	n := 1
	for _, s := range shape {
		n *= s
	}
	a := &Array{Shape: shape, Data: make([]float64, n), DType: npy.Float32}
	for i := range a.Data {
		a.Data[i] = float64(float32(rng.NormFloat64()))
	}
	return a
}

// Dump is the tensors of one run by file name without its extension.
type Dump map[string]*Array

// Clone copies a dump, so that one side can be changed.
func (d Dump) Clone() Dump {
	out := make(Dump, len(d))
	for n, a := range d {
		out[n] = a.Clone()
	}
	return out
}

// Map applies f to every float array.
func (d Dump) Map(f func(name string, a *Array) *Array) Dump {
	out := make(Dump, len(d))
	for n, a := range d {
		out[n] = a
		if a.DType.IsFloat() {
			out[n] = f(n, a)
		}
	}
	return out
}

// Layers makes n layers [tokens, dims] of a residual stream: independent
// increments, each as large as the embedding. Nothing but the layers is in it.
func Layers(seed uint64, n, tokens, dims int) Dump {
	rng := rand.New(rand.NewPCG(seed, 1))
	stream := Rand(rng, tokens, dims)
	d := Dump{}
	for l := range n {
		inc := Rand(rng, tokens, dims)
		stream = stream.Clone()
		for i := range stream.Data {
			stream.Data[i] = float64(float32(stream.Data[i] + inc.Data[i]))
		}
		d[fmt.Sprintf("layer_%02d", l)] = stream
	}
	return d
}

// Noise adds a relative error to every element of the float arrays: e is the
// standard deviation over the element's own row.
func (d Dump) Noise(seed uint64, e float64) Dump {
	rng := rand.New(rand.NewPCG(seed, 3))
	out := make(Dump, len(d))
	for _, n := range slices.Sorted(maps.Keys(d)) {
		out[n] = d[n]
		if d[n].DType.IsFloat() {
			out[n] = d[n].Noise(rng, e)
		}
	}
	return out
}

// Noise adds normal numbers of e times the root mean square of the row.
func (a *Array) Noise(rng *rand.Rand, e float64) *Array {
	b := a.Clone()
	if len(b.Data) == 0 {
		return b
	}
	cols := b.Shape[len(b.Shape)-1]
	for at := 0; at < len(b.Data); at += cols {
		row := b.Data[at : at+cols]
		sq := 0.0
		for _, v := range row {
			sq += v * v
		}
		rms := math.Sqrt(sq / float64(cols))
		for i := range row {
			row[i] += e * rms * rng.NormFloat64()
		}
	}
	return b
}

// Write writes the dump into dir, which is made, and returns dir.
func (d Dump) Write(t testing.TB, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, a := range d {
		a.WriteFile(t, filepath.Join(dir, name+".npy"))
	}
	return dir
}

// Bytes encodes the elements as they are stored.
func (a *Array) Bytes() []byte {
	b := make([]byte, len(a.Data)*a.DType.Size())
	npy.EncodeFloat64(b, a.Data, a.DType)
	return b
}

// NPY encodes the array as the bytes of a .npy file.
func (a *Array) NPY() []byte {
	b, err := npy.AppendHeader(nil, a.DType, a.Shape)
	if err != nil {
		panic(err) // a shape that only a test's own mistake makes
	}
	return append(b, a.Bytes()...)
}

// WriteFile writes one array.
func (a *Array) WriteFile(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, a.NPY(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// WriteOdd writes one array big-endian and in Fortran order, as NumPy may.
func (a *Array) WriteOdd(t testing.TB, path string) {
	t.Helper()
	code := map[npy.DType]string{npy.Float64: "f8", npy.Float32: "f4", npy.Float16: "f2", npy.Int64: "i8", npy.Int32: "i4"}[a.DType]
	if code == "" {
		t.Fatalf("%s has no big-endian form in these tests", a.DType)
	}
	shape := "("
	for _, s := range a.Shape {
		shape += fmt.Sprintf("%d, ", s)
	}
	header := fmt.Sprintf("{'shape': %s), 'fortran_order': True, 'descr': '>%s'}\n", shape, code)
	b := append([]byte("\x93NUMPY\x02\x00"), byte(len(header)), byte(len(header)>>8), 0, 0)
	b = append(b, header...)
	c, size := a.Bytes(), a.DType.Size()
	index := make([]int, len(a.Shape))
	for range a.Data {
		at := 0
		for i, s := range a.Shape {
			at = at*s + index[i]
		}
		for i := size - 1; i >= 0; i-- {
			b = append(b, c[at*size+i])
		}
		for i := range index { // the first axis runs fastest
			if index[i]++; index[i] < a.Shape[i] {
				break
			}
			index[i] = 0
		}
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Read reads a .npy whole; dt says what a void is, npy.Bool nothing.
func Read(t testing.TB, path string, dt npy.DType) *Array {
	t.Helper()
	a, err := npy.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if dt != npy.Bool {
		if a, err = a.As(dt); err != nil {
			t.Fatal(err)
		}
	}
	h := a.Header()
	out := &Array{Shape: h.Shape, Data: make([]float64, h.Len()), DType: h.DType}
	if h.DType.IsInt() {
		ints := make([]int64, h.Len())
		if err := a.Int64s(ints, 0, h.Len()); err != nil {
			t.Fatal(err)
		}
		for i, v := range ints {
			out.Data[i] = float64(v)
		}
		return out
	}
	if err := a.Float64s(out.Data, 0, h.Len()); err != nil {
		t.Fatal(err)
	}
	return out
}

// Manifest writes a dump.json into dir: the given fields over the least that the
// schema asks for.
func Manifest(t testing.TB, dir string, fields map[string]any) {
	t.Helper()
	m := map[string]any{"schema": "parity.dump/1", "complete": true, "tensors": []any{}}
	maps.Copy(m, fields)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "dump.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

package npy_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/layerparity/parity/npy"
)

// A file is written, then read by ranges of elements.
func Example() {
	dir, err := os.MkdirTemp("", "npy")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "layer_03.npy")

	data := make([]byte, 2*3*npy.Float16.Size())
	npy.EncodeFloat64(data, []float64{1, 2, 3, 4, 5, 65504}, npy.Float16)
	if err := npy.WriteFile(path, npy.Float16, []int{2, 3}, data); err != nil {
		fmt.Println(err)
		return
	}

	a, err := npy.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	row := make([]float64, 3)
	if err := a.Float64s(row, 3, 3); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Header().DType, a.Header().Shape, row)
	// Output: float16 [2 3] [4 5 65504]
}

// What the file calls a 2-byte void, a manifest may call bfloat16.
func ExampleArray_As() {
	a, err := npy.Open("testdata/arrays/bfloat16.npy")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	view, err := a.As(npy.BFloat16)
	if err != nil {
		fmt.Println(err)
		return
	}
	v := make([]float64, 3)
	if err := view.Float64s(v, 0, 3); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Header().DType, view.Header().DType, v)
	// Output: void2 bfloat16 [0 1 -2.5]
}

// Errors have a kind that a program can act on, and a remedy for a person.
func ExampleError() {
	_, err := npy.Open("testdata/refused/object.npy")
	var e *npy.Error
	if errors.As(err, &e) && e.Kind == npy.Unsupported {
		fmt.Println(e.Reason)
		fmt.Println(e.Remedy)
	}
	// Output:
	// descr "|O": object array: it needs pickle, which is never executed
	// save a numeric array (ragged lists: padded, with their lengths)
}

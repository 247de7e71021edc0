// Package npy reads and writes NumPy's .npy files, and nothing else.
//
// It is made for files that nobody vouches for. A header is parsed by a small
// tokenizer of Python literals (never evaluated, never unpickled), checked in
// full, and held against the real size of the file before anything is allocated.
// Every failure is an [*Error] that says which file, where in it, why, and what
// to do about it.
//
// Elements are read in C (row-major) order as little-endian bytes whatever the
// file's own order is, by ranges, in bounded memory:
//
//	a, err := npy.Open("layer_03.npy")
//	...
//	defer a.Close()
//	row := make([]float64, 576)
//	err = a.Float64s(row, 0, 576)
//
// Formats 1.0, 2.0 and 3.0 are read; 1.0 is written. A .npy header has no word
// for bfloat16 and the 8-bit floats: such files say "2-byte void" and "1-byte
// void" ([Void2], [Void1]), and [Array.As] gives the bytes the meaning that a
// manifest or a flag states.
package npy

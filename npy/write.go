package npy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// dataAlign is where the elements begin: a multiple of it, as NumPy writes.
const dataAlign = 64

// AppendHeader appends a format 1.0 header (little-endian, C order) to b. With
// at most 32 axes it never needs format 2.0. Void is what the file says of
// bfloat16 and the 8-bit floats: readers must be told their type.
func AppendHeader(b []byte, dt DType, shape []int) ([]byte, error) {
	fail := func(format string, args ...any) ([]byte, error) {
		return nil, &Error{Kind: OutOfRange, Op: "writing", File: "header", Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	if len(shape) > maxDims {
		return fail("shape has %d axes; at most %d are written", len(shape), maxDims)
	}
	order := "<"
	if dt.Size() == 1 {
		order = "|"
	}
	text := append([]byte(nil), "{'descr': '"+order+dtypes[dt].code+"', 'fortran_order': False, 'shape': ("...)
	for i, d := range shape {
		if d < 0 {
			return fail("axis %d of shape is negative: %d", i, d)
		}
		if i > 0 {
			text = append(text, ' ')
		}
		text = append(strconv.AppendInt(text, int64(d), 10), ',')
	}
	if len(shape) > 1 {
		text = text[:len(text)-1] // only a tuple of one needs it
	}
	text = append(text, "), }"...)
	const lead = len(magic) + 2 + 2
	for (lead+len(text)+1)%dataAlign != 0 {
		text = append(text, ' ')
	}
	text = append(text, '\n')
	b = append(b, magic...)
	b = append(b, 1, 0)
	b = le.AppendUint16(b, uint16(len(text)))
	return append(b, text...), nil
}

// Write writes an array: a header (see [AppendHeader]) and data, which holds
// its elements in C order, little-endian. Data of another length than shape and
// dt make is an error, before anything is written.
func Write(w io.Writer, dt DType, shape []int, data []byte) error {
	header, err := AppendHeader(nil, dt, shape)
	if err != nil {
		return err
	}
	if need, ok := byteCount(dt, shape); !ok || need != int64(len(data)) {
		return &Error{Kind: OutOfRange, Op: "writing", File: "array", Offset: -1,
			Reason: fmt.Sprintf("shape %v of %s does not make %d bytes", shape, dt, len(data))}
	}
	if _, err := w.Write(header); err != nil {
		return &Error{Kind: IO, Op: "writing", File: "array", Offset: -1, Err: err}
	}
	if _, err := w.Write(data); err != nil {
		return &Error{Kind: IO, Op: "writing", File: "array", Offset: -1, Err: err}
	}
	return nil
}

// byteCount is the size of an array's elements; not ok where it overflows.
func byteCount(dt DType, shape []int) (int64, bool) {
	n := uint64(dt.Size())
	for _, d := range shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, false
		}
		n = lo
	}
	return int64(n), true
}

// WriteFile writes an array to path as [Write] does, through a temporary file
// beside it that is renamed at the end: a reader sees the whole file or none.
func WriteFile(path string, dt DType, shape []int, data []byte) (err error) {
	fail := func(err error) error {
		return &Error{Kind: IO, Op: "writing", File: path, Offset: -1, Err: err}
	}
	// Note: os.CreateTemp would make a file that others cannot read.
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%x.tmp", filepath.Base(path), rand.Uint64()))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(temp)
		}
	}()
	if err := Write(f, dt, shape, data); err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.File = path
		}
		return err
	}
	if err := f.Close(); err != nil {
		return fail(err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fail(err)
	}
	return nil
}

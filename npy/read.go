package npy

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
)

// chunkBytes is how much Float64s and Int64s read before they decode it.
const chunkBytes = 64 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, chunkBytes); return &b }}

// ReadElements reads elements [first, first+n), counted in C (row-major) order
// whatever the order in the file, into dst as little-endian bytes. A
// little-endian file in C order is read straight into dst with one call.
//
// Note: a Fortran-order array is transposed through a slab of at most 2 MiB that
// is kept for the next call, so read it in ascending ranges; two readers far
// apart in one array take the slab from each other.
//
// Errors: Kind Changed where the file has become shorter than it was at Open,
// IO where the system fails, OutOfRange where the array has no such elements
// or dst does not hold them.
func (a *Array) ReadElements(dst []byte, first, n int64) error {
	if err := a.checkRange(first, n, int64(len(dst)/a.h.DType.Size())); err != nil {
		return err
	}
	size := int64(a.h.DType.Size())
	dst = dst[:n*size]
	if a.h.Fortran && transposes(a.h.Shape) {
		return a.readFortran(dst, first, n)
	}
	return a.readRun(dst, a.h.DataOffset+first*size)
}

func (a *Array) checkRange(first, n, room int64) error {
	have := a.h.Len()
	if first >= 0 && n >= 0 && first <= have && n <= have-first && n <= room {
		return nil
	}
	reason := fmt.Sprintf("elements [%d, %d+%d) asked for, of %d", first, first, n, have)
	if n > room {
		reason = fmt.Sprintf("%d elements asked for, with room for %d", n, room)
	}
	return &Error{Kind: OutOfRange, Op: "reading", File: a.src.name, Offset: -1, Reason: reason}
}

// readRun reads elements that stand together in the file from byte at on.
func (a *Array) readRun(dst []byte, at int64) error {
	if err := a.src.readAt(dst, at); err != nil {
		return err
	}
	if a.h.BigEndian {
		swap(dst, a.h.DType.Size())
	}
	return nil
}

// readAt fills dst from byte at of the file on.
func (s *source) readAt(dst []byte, at int64) error {
	if len(dst) == 0 {
		return nil
	}
	n, err := s.r.ReadAt(dst, at)
	if n == len(dst) {
		return nil
	}
	at += int64(n)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Kind: Changed, Op: "reading", File: s.name, Offset: at,
			Reason: fmt.Sprintf("file shrank while being read: it had %d bytes when it was opened", s.size),
			Remedy: "compare again once its writer is done"}
	}
	return &Error{Kind: IO, Op: "reading", File: s.name, Offset: at, Err: err}
}

// swap turns the bytes of each element around.
func swap(b []byte, size int) {
	switch size {
	case 2:
		for ; len(b) >= 2; b = b[2:] {
			le.PutUint16(b, bits.ReverseBytes16(le.Uint16(b)))
		}
	case 4:
		for ; len(b) >= 4; b = b[4:] {
			le.PutUint32(b, bits.ReverseBytes32(le.Uint32(b)))
		}
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			le.PutUint64(b, bits.ReverseBytes64(le.Uint64(b)))
		}
	}
}

// Float64s reads elements [first, first+n) in C order as float64s into dst;
// the values are those of [DecodeFloat64]. Void elements are an error of Kind
// Unsupported; the other errors are those of ReadElements.
func (a *Array) Float64s(dst []float64, first, n int64) error {
	if decoders[a.h.DType] == nil {
		return a.noValue("which type it is cannot be told from the file", "state the type: bfloat16, float16 or one of the 8-bit floats")
	}
	if err := a.checkRange(first, n, int64(len(dst))); err != nil {
		return err
	}
	return a.inChunks(first, n, func(src []byte, from, to int64) error {
		DecodeFloat64(dst[from:to], src, a.h.DType)
		return nil
	})
}

// Int64s reads elements [first, first+n) in C order as int64s into dst. Bool
// is 0 or 1. An array of floats or void is an error of Kind Unsupported; a uint64
// above 2^63-1 is an error of Kind OutOfRange that names the element. The other
// errors are those of ReadElements.
func (a *Array) Int64s(dst []int64, first, n int64) error {
	if !a.h.DType.IsInt() {
		return a.noValue("its elements are not integers", "")
	}
	if err := a.checkRange(first, n, int64(len(dst))); err != nil {
		return err
	}
	return a.inChunks(first, n, func(src []byte, from, to int64) error {
		if i := decodeInt64(dst[from:to], src, a.h.DType); i >= 0 {
			return &Error{Kind: OutOfRange, Op: "reading", File: a.src.name, Offset: -1,
				Reason: fmt.Sprintf("element %d is %d, above the largest int64", first+from+int64(i), le.Uint64(src[8*i:]))}
		}
		return nil
	})
}

func (a *Array) noValue(reason, remedy string) error {
	return &Error{Kind: Unsupported, Op: "reading", File: a.src.name, Offset: -1,
		Reason: fmt.Sprintf("descr %q (%s): %s", a.h.Descr, a.h.DType, reason), Remedy: remedy}
}

// inChunks reads [first, first+n) a chunk at a time; do gets the bytes of
// elements [from, to), counted from first.
func (a *Array) inChunks(first, n int64, do func(src []byte, from, to int64) error) error {
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	size := int64(a.h.DType.Size())
	for from := int64(0); from < n; {
		to := min(from+chunkBytes/size, n)
		src := (*buf)[:(to-from)*size]
		if err := a.ReadElements(src, first+from, to-from); err != nil {
			return err
		}
		if err := do(src, from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

const (
	magic = "\x93NUMPY"

	// maxHeader caps the header's text: the most that format 1.0 can hold.
	maxHeader = 1<<16 - 1
	// maxDims caps the number of axes; NumPy's cap was 32 until version 2.
	maxDims = 32
	// maxEmpty caps the product of the other axes of an array with an axis of
	// 0, which the size of the file cannot bound: a caller may allocate by them.
	maxEmpty = 1 << 26
)

// Header is what a .npy file says of its array.
type Header struct {
	Major, Minor uint8 // format version
	DType        DType
	BigEndian    bool  // the elements' bytes stand most significant first; false for 1-byte types
	Fortran      bool  // the elements stand in column-major order
	Shape        []int // the axes; empty for a scalar
	DataOffset   int64 // byte where the elements begin
	Descr        string
}

// Len is the number of elements: the product of the axes, 1 for a scalar, 0 if any axis is 0.
func (h Header) Len() int64 {
	n := int64(1)
	for _, d := range h.Shape {
		n *= int64(d)
	}
	return n
}

// ReadHeader reads and checks the header of a .npy file of size bytes; name is
// for the errors. When it returns no error, the axes are not negative, their
// product times the element's size does not overflow, and that many bytes are
// in the file. Errors are of Kind IO, Truncated, BadHeader or Unsupported.
func ReadHeader(r io.ReaderAt, size int64, name string) (Header, error) {
	p := headerReader{r: r, size: size, name: name}
	text, err := p.text()
	if err != nil {
		return Header{}, err
	}
	if err := p.fields(text); err != nil {
		return Header{}, err
	}
	if err := p.fits(); err != nil {
		return Header{}, err
	}
	return p.h, nil
}

type headerReader struct {
	r    io.ReaderAt
	size int64
	name string
	h    Header

	textAt int64 // byte of the file where the dict's text begins
}

const saveAgain = "save the array again with numpy.save"

func (p *headerReader) fail(kind Kind, at int64, remedy, format string, args ...any) *Error {
	return &Error{Kind: kind, Op: "reading header of", File: p.name, Offset: at, Reason: fmt.Sprintf(format, args...), Remedy: remedy}
}

func (p *headerReader) truncated(expected int64, where string) *Error {
	e := p.fail(Truncated, p.size, "the writer was interrupted or the copy is not whole: dump or copy it again",
		"file ends inside %s: expected at least %d bytes, found %d", where, expected, p.size)
	e.Expected, e.Found = expected, p.size
	return e
}

// readAt fills buf from byte at on; the caller has checked that the file is that long.
func (p *headerReader) readAt(buf []byte, at int64) error {
	n, err := p.r.ReadAt(buf, at)
	if n == len(buf) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return p.fail(Changed, at+int64(n), "wait until the writer is done", "file shrank while being read")
	}
	e := p.fail(IO, at+int64(n), "", "")
	e.Err = err
	return e
}

// strangers are other files' beginnings, for a message that helps.
var strangers = []struct{ magic, what, remedy string }{
	{"PK\x03\x04", "a zip archive, perhaps .npz or .pt", "name it .npz if numpy.savez wrote it"},
	{"\x80\x02", "a pickle, which is never executed", "save the array with numpy.save"},
	{"\x80\x03", "a pickle, which is never executed", "save the array with numpy.save"},
	{"\x80\x04", "a pickle, which is never executed", "save the array with numpy.save"},
	{"\x80\x05", "a pickle, which is never executed", "save the array with numpy.save"},
	{"\x1f\x8b", "gzip data", "decompress it first"},
	{"GGUF", "a GGUF file", "dump tensors as .npy"},
	{"\x89HDF", "an HDF5 file", "dump tensors as .npy"},
	{"version https://git-lfs", "a Git LFS pointer", "run git lfs pull"},
}

// text reads magic, version and length, and gives the dict's text.
func (p *headerReader) text() (string, error) {
	if p.size == 0 {
		return "", p.truncated(10, "the magic: it is empty")
	}
	var lead [32]byte
	n := min(p.size, int64(len(lead)))
	if err := p.readAt(lead[:n], 0); err != nil {
		return "", err
	}
	have := string(lead[:n])
	if !strings.HasPrefix(have, magic[:min(len(magic), len(have))]) {
		for _, s := range strangers {
			if strings.HasPrefix(have, s.magic) {
				return "", p.fail(BadHeader, 0, s.remedy, "not a .npy file but %s", s.what)
			}
		}
		return "", p.fail(BadHeader, 0, saveAgain, "not a .npy file: it begins with %q, not with the magic %q", have[:min(len(have), 8)], magic)
	}
	if n < 8 {
		return "", p.truncated(10, "magic and version")
	}
	p.h.Major, p.h.Minor = lead[6], lead[7]
	var length int64
	switch {
	case p.h.Minor == 0 && p.h.Major == 1:
		if n < 10 {
			return "", p.truncated(10, "the header's length")
		}
		length, p.textAt = int64(binary.LittleEndian.Uint16(lead[8:])), 10
	case p.h.Minor == 0 && (p.h.Major == 2 || p.h.Major == 3):
		if n < 12 {
			return "", p.truncated(12, "the header's length")
		}
		length, p.textAt = int64(binary.LittleEndian.Uint32(lead[8:])), 12
	default:
		return "", p.fail(BadHeader, 6, saveAgain, "format version %d.%d is not known; 1.0, 2.0 and 3.0 are", p.h.Major, p.h.Minor)
	}
	if length > maxHeader {
		return "", p.fail(BadHeader, 8, saveAgain, "header of %d bytes; at most %d are read", length, maxHeader)
	}
	p.h.DataOffset = p.textAt + length
	if p.size < p.h.DataOffset {
		return "", p.truncated(p.h.DataOffset, "the header")
	}
	text := make([]byte, length)
	if err := p.readAt(text, p.textAt); err != nil {
		return "", err
	}
	return string(text), nil
}

// fields takes descr, fortran_order and shape out of the dict.
func (p *headerReader) fields(text string) error {
	dict, err := parseDict(text)
	if err != nil {
		var syn *syntaxError
		errors.As(err, &syn)
		return p.fail(BadHeader, p.textAt+int64(syn.pos), saveAgain, "%s", syn.reason)
	}
	fields := []struct {
		key  string
		read func(literal) error
		seen bool
	}{
		{key: "descr", read: p.descr},
		{key: "fortran_order", read: p.fortran},
		{key: "shape", read: p.shape},
	}
	// All keys are looked at before any value: a strange key says more about the
	// file than what it makes of a value.
	order := make([]int, 0, len(fields))
next:
	for _, e := range dict {
		for i := range fields {
			if fields[i].key != e.key {
				continue
			}
			if fields[i].seen {
				return p.fail(BadHeader, p.textAt+int64(e.pos), saveAgain, "key %q stands twice", e.key)
			}
			fields[i].seen = true
			order = append(order, i)
			continue next
		}
		return p.fail(BadHeader, p.textAt+int64(e.pos), saveAgain, "key %q is not one of descr, fortran_order and shape", clip(e.key))
	}
	for _, f := range fields {
		if !f.seen {
			return p.fail(BadHeader, p.textAt, saveAgain, "key %q is missing", f.key)
		}
	}
	for i, e := range dict {
		if err := fields[order[i]].read(e.value); err != nil {
			return err
		}
	}
	return nil
}

func (p *headerReader) descr(v literal) error {
	at := p.textAt + int64(v.pos)
	switch v.kind {
	case litString:
	case litList:
		return p.fail(Unsupported, at, "save each field as an array of its own", "descr is a structured (record) array's")
	case litTuple:
		return p.fail(Unsupported, at, "save the base type with the axes in the shape", "descr is a subarray's")
	default:
		return p.fail(BadHeader, at, saveAgain, "descr is not a string")
	}
	d, big, reason, remedy := parseDescr(v.text)
	if reason != "" {
		return p.fail(Unsupported, at, remedy, "%s", reason)
	}
	p.h.DType, p.h.BigEndian, p.h.Descr = d, big, v.text
	return nil
}

func (p *headerReader) fortran(v literal) error {
	if v.kind != litBool {
		return p.fail(BadHeader, p.textAt+int64(v.pos), saveAgain, "fortran_order is neither True nor False")
	}
	p.h.Fortran = v.truth
	return nil
}

func (p *headerReader) shape(v literal) error {
	items := v.items
	switch v.kind {
	case litTuple:
	case litInt: // "(3)": a tuple of one whose comma the writer forgot
		items = []literal{v}
	default:
		return p.fail(BadHeader, p.textAt+int64(v.pos), saveAgain, "shape is not a tuple of integers")
	}
	if len(items) > maxDims {
		return p.fail(BadHeader, p.textAt+int64(v.pos), "merge axes before saving", "shape has %d axes; at most %d are read", len(items), maxDims)
	}
	p.h.Shape = make([]int, 0, len(items))
	for i, item := range items {
		at := p.textAt + int64(item.pos)
		if item.kind != litInt {
			return p.fail(BadHeader, at, saveAgain, "axis %d of shape is not an integer", i)
		}
		n, err := strconv.ParseInt(item.text, 10, strconv.IntSize)
		if err != nil {
			return p.fail(BadHeader, at, saveAgain, "axis %d of shape, %s, is beyond %d bits", i, clip(item.text), strconv.IntSize)
		}
		if n < 0 {
			return p.fail(BadHeader, at, saveAgain, "axis %d of shape is negative: %d", i, n)
		}
		p.h.Shape = append(p.h.Shape, int(n))
	}
	return nil
}

// fits holds the declared shape against the size of the file.
func (p *headerReader) fits() error {
	product, empty := uint64(1), false
	for _, d := range p.h.Shape {
		if d == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(product, uint64(d))
		if hi != 0 || lo > math.MaxInt64/16 {
			return p.fail(BadHeader, p.textAt, saveAgain, "shape %v overflows: more elements than 64 bits can count", p.h.Shape)
		}
		product = lo
	}
	if empty {
		if product > maxEmpty {
			return p.fail(BadHeader, p.textAt, saveAgain, "shape %v is absurd: no elements, but axes of %d in all", p.h.Shape, product)
		}
		return nil
	}
	need := product * uint64(p.h.DType.Size())
	if have := p.size - p.h.DataOffset; need > uint64(have) {
		e := p.truncated(p.h.DataOffset+int64(need), "the elements")
		e.Reason = fmt.Sprintf("file ends inside the elements: shape %v of %s needs %d bytes after the header, found %d (file: expected %d bytes, found %d)",
			p.h.Shape, p.h.DType, need, have, e.Expected, e.Found)
		return e
	}
	return nil
}

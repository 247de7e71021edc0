package npy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Array is an open .npy: its header, checked, and a way to its elements. All
// methods but Close may be called at the same time.
type Array struct {
	h   Header
	src *source
}

// source is the file under an array and under its views.
type source struct {
	r    io.ReaderAt
	size int64
	name string

	file  *os.File    // nil where the caller gave the reader
	stat  fs.FileInfo // at the time of Open
	close sync.Once
	slab  slab
}

// Open opens the .npy file at path, reads its header and checks it against the
// size of the file. The file stays open until Close. Errors are *[Error]; a file
// that does not exist is errors.Is(err, fs.ErrNotExist).
func Open(path string) (*Array, error) {
	fail := func(err error) (*Array, error) {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path is in File already
		}
		return nil, &Error{Kind: IO, Op: "opening", File: path, Offset: -1, Err: err}
	}
	// Asked before opening: opening a named pipe would wait for its writer.
	stat, err := os.Stat(path)
	if err != nil {
		return fail(err)
	}
	if !stat.Mode().IsRegular() {
		return fail(fmt.Errorf("not a regular file (%s)", stat.Mode().Type()))
	}
	f, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	if stat, err = f.Stat(); err != nil {
		f.Close()
		return fail(err)
	}
	a, err := New(f, stat.Size(), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	a.src.file, a.src.stat = f, stat
	return a, nil
}

// New reads and checks the header of a .npy of size bytes that r gives, such as
// a member of a zip archive. name is for the errors. The caller keeps r open.
func New(r io.ReaderAt, size int64, name string) (*Array, error) {
	h, err := ReadHeader(r, size, name)
	if err != nil {
		return nil, err
	}
	return &Array{h: h, src: &source{r: r, size: size, name: name}}, nil
}

// Header is what the file says of the array; DType is the one that As gave.
func (a *Array) Header() Header {
	h := a.h
	h.Shape = append([]int(nil), h.Shape...)
	return h
}

// Name is the path that Open was given, or the name that New was given.
func (a *Array) Name() string { return a.src.name }

// Close closes the file that Open opened, for all views of it. Closing twice
// is no error.
func (a *Array) Close() error {
	var err error
	a.src.close.Do(func() {
		a.src.slab.drop()
		if a.src.file != nil {
			if e := a.src.file.Close(); e != nil {
				err = &Error{Kind: IO, Op: "closing", File: a.src.name, Offset: -1, Err: e}
			}
		}
	})
	return err
}

// Trailing is the number of bytes after the elements: 0 in a sound file. More
// is worth a warning: the file may have been written over a longer one.
func (a *Array) Trailing() int64 {
	return a.src.size - a.h.DataOffset - a.h.Len()*int64(a.h.DType.Size())
}

// As gives the same bytes as elements of another type of the same size: what
// the file calls void2 or uint16 as bfloat16, void1 as an 8-bit float. The view
// shares the file with a. A type of another size is an error of Kind Unsupported.
func (a *Array) As(dt DType) (*Array, error) {
	if dt >= numDTypes || dt.Size() != a.h.DType.Size() {
		return nil, &Error{Kind: Unsupported, Op: "viewing", File: a.src.name, Offset: -1,
			Reason: fmt.Sprintf("elements of %s (%d bytes) cannot be seen as %s", a.h.DType, a.h.DType.Size(), dt),
			Remedy: "name a type of the same size"}
	}
	view := *a
	view.h.DType = dt
	return &view, nil
}

// Unchanged reports whether the file at the path is still the one that Open
// opened, with the same size and time of change; else the error is of Kind
// Changed. An array made by New has nothing to ask and gives nil.
func (a *Array) Unchanged() error {
	was := a.src.stat
	if was == nil {
		return nil
	}
	changed := func(err error, format string, args ...any) error {
		return &Error{Kind: Changed, Op: "reading", File: a.src.name, Offset: -1, Err: err,
			Reason: fmt.Sprintf(format, args...), Remedy: "compare again once its writer is done"}
	}
	now, err := os.Stat(a.src.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return changed(nil, "file was removed while it was open")
	case err != nil:
		return changed(err, "file cannot be looked at any more")
	case !os.SameFile(was, now):
		return changed(nil, "file was replaced while it was open")
	case now.Size() != was.Size():
		return changed(nil, "file changed while it was open: %d bytes at first, now %d", was.Size(), now.Size())
	case !now.ModTime().Equal(was.ModTime()):
		return changed(nil, "file was written to while it was open")
	}
	return nil
}

package npy

import (
	"fmt"
	"strings"
)

// Kind tells the kinds of trouble apart, for callers that act on them.
type Kind uint8

// The kinds of [Error].
const (
	IO          Kind = iota // the system could not open, read or write the file
	Truncated               // fewer bytes than the header declares
	BadHeader               // not a .npy file, or its header breaks the format
	Unsupported             // a valid file of elements that are not compared: objects, records, complex, text, ...
	Changed                 // the file is no longer what it was when it was opened
	OutOfRange              // elements asked for that the array does not have, or a value that the result cannot hold
)

var kindNames = [...]string{"io", "truncated", "bad header", "unsupported", "changed", "out of range"}

// String is the kind in words.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return "unknown kind"
	}
	return kindNames[k]
}

// Error is every error of this package.
type Error struct {
	Kind   Kind
	Op     string // what was being done, as a gerund: "reading header of"
	File   string
	Offset int64  // byte of the file where the trouble is, -1 if it has no place
	Reason string // the cause, with the figures
	Remedy string // what to do about it; may be empty
	Err    error  // the error underneath, if any

	// Expected and Found are byte counts, set where Kind is Truncated: of the
	// whole file, header included.
	Expected, Found int64
}

// Error gives all of it in one line:
// "reading header of layer_03.npy: at byte 10: negative axis -3 in shape; save the array again".
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.Op, e.File)
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "at byte %d: ", e.Offset)
	}
	b.WriteString(e.Reason)
	if e.Err != nil {
		if e.Reason != "" {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	if e.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(e.Remedy)
	}
	return b.String()
}

// Unwrap gives the error underneath, so that errors.Is(err, fs.ErrNotExist) works.
func (e *Error) Unwrap() error { return e.Err }

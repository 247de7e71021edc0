package npy

import (
	"errors"
	"testing"
)

func TestErrorsReadAsOneLine(t *testing.T) {
	cause := errors.New("input/output error")
	for want, e := range map[string]*Error{
		"reading x.npy: at byte 140: file shrank; compare again": {Op: "reading", File: "x.npy", Offset: 140, Reason: "file shrank", Remedy: "compare again"},
		"opening x.npy: input/output error":                      {Op: "opening", File: "x.npy", Offset: -1, Err: cause},
		"reading x.npy: at byte 0: lost it: input/output error":  {Op: "reading", File: "x.npy", Reason: "lost it", Err: cause},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if !errors.Is(e, cause) && e.Err != nil {
			t.Errorf("%v does not wrap its cause", e)
		}
	}
}

func TestEveryKindHasAName(t *testing.T) {
	for k, want := range map[Kind]string{IO: "io", Truncated: "truncated", BadHeader: "bad header", Unsupported: "unsupported",
		Changed: "changed", OutOfRange: "out of range", OutOfRange + 1: "unknown kind"} {
		if k.String() != want {
			t.Errorf("got %q, want %q", k, want)
		}
	}
}

// Package lazy keeps what few runs need out of the start of every run.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that gives expr, compiled at the first call. A
// process that never asks pays nothing: compiling all expressions of the house
// takes several milliseconds. A wrong expression panics at the first call, so
// every one needs a test that reaches it.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

package diagnose

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/layerparity/parity/compare"
)

// Hypothesis is one idea of what could be wrong, with the test that proves or
// refuses it on the dumped tensors. Each lives in a file of its own and is a row
// of the table in hypotheses.go.
type Hypothesis struct {
	// ID names the hypothesis, for example "rope".
	ID string
	// Causes are the ids of docs/causes.md that Test can report.
	Causes []string
	// Taps are the taps at which it can be tested ("q_rope", "attn_probs");
	// "layer" stands for a layer's output and "*" for every checkpoint.
	Taps []string
	// Needs says in words which tensors the test reads, so that a reader
	// without them knows what to dump.
	Needs string
	// Silent says when the test must not speak.
	Silent string
	// Source is where the formula or the bug pattern comes from.
	Source string
	// Test tries the idea at c.At. It returns nothing when the idea does not
	// hold or cannot be tested; c.Note then says why.
	Test func(c *Context) []compare.Finding
}

// Context is what one test sees: the tensors, and the place where the error
// enters.
type Context struct {
	Source
	// At is the checkpoint without step or rank prefix, for example
	// "layer_07.q_rope"; Layer is 7, or -1 outside the layers; Tap is "q_rope",
	// "layer" for a layer's output, else the whole name ("post_embed").
	At    string
	Layer int
	Tap   string
	// FloorOf returns the rel_l2 that rounding alone may cause at a checkpoint,
	// from the coarser logical dtype of both sides or a calibrated floor.
	FloorOf func(name string) float64
	// memo keeps what is costly to find out and asked for at many places, for
	// as long as the source lives.
	memo map[string]any
	// Note records what was tried and why it was refused; printed with an
	// unknown cause.
	Note func(format string, args ...any)
}

// NewContext places a context at a checkpoint.
func NewContext(s Source, at string, floorOf func(string) float64, note func(string, ...any)) *Context {
	c := &Context{Source: s, FloorOf: floorOf, Note: note, memo: map[string]any{}}
	if m, ok := s.(interface{ memory() map[string]any }); ok {
		c.memo = m.memory()
	}
	return c.Move(at)
}

// once returns what find found under a key before, else finds it now. What find
// notes is noted each time.
func once[T any](c *Context, key string, find func(c *Context) T) T {
	type found struct {
		value T
		notes []string
	}
	f, ok := c.memo[key].(found)
	if !ok {
		d := *c
		d.Note = func(format string, args ...any) { f.notes = append(f.notes, fmt.Sprintf(format, args...)) }
		f.value = find(&d)
		c.memo[key] = f
	}
	for _, n := range f.notes {
		c.Note("%s", n)
	}
	return f.value
}

// Move returns the same context at another checkpoint.
func (c *Context) Move(at string) *Context {
	d := *c
	d.At = at
	d.Layer, d.Tap = SplitName(at)
	return &d
}

// Pair reads a checkpoint of both sides; ok is false where either lacks it or
// their sizes differ.
func (c *Context) Pair(name string) (ref, port *Tensor, ok bool) {
	ref, ok = c.Tensor(Ref, name)
	if !ok {
		return nil, nil, false
	}
	port, ok = c.Tensor(Port, name)
	return ref, port, ok && ref.Rows == port.Rows && ref.Cols == port.Cols
}

// TapName returns the name of a tap of this context's layer.
func (c *Context) TapName(tap string) string { return LayerName(c.Layer, tap) }

// SplitName parses a canonical checkpoint name: "layer_07.q" is (7, "q"),
// "layer_07" is (7, "layer"), any other name is (-1, name).
func SplitName(name string) (layer int, tap string) {
	rest, ok := strings.CutPrefix(name, "layer_")
	if !ok {
		return -1, name
	}
	num, tap, dotted := strings.Cut(rest, ".")
	n, err := strconv.Atoi(num)
	if err != nil {
		return -1, name
	}
	if !dotted {
		tap = "layer"
	}
	return n, tap
}

// LayerName is the inverse of SplitName for layers.
func LayerName(layer int, tap string) string {
	if tap == "layer" || tap == "" {
		return fmt.Sprintf("layer_%02d", layer)
	}
	return fmt.Sprintf("layer_%02d.%s", layer, tap)
}

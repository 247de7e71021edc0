package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// recurrentHypothesis: a convolution or state-space block starts a chunk or a
// decode step from the wrong state.
var recurrentHypothesis = Hypothesis{
	ID:     "state_recurrent",
	Causes: []string{"state.conv", "state.chunk"},
	Taps:   []string{"conv_out", "ssm_out"},
	Needs:  "conv_out or ssm_out of all tokens, and of the steps before where the error is at a later step",
	Silent: "tokens in the middle of a chunk are wrong too",
	Source: "a causal convolution of width w forgets its state after w-1 tokens, a recurrence keeps the error and lets it decay; pattern P21",
	Test:   testRecurrent,
}

func testRecurrent(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() || ref.Rows == 0 {
		return nil
	}
	floor := c.localFloor(c.At)
	var bad []int
	for t := 0; t < ref.Rows; t++ {
		d2, r2 := rowDistance(ref.Row(t), port.Row(t))
		if relative(d2, r2) > 10*floor {
			bad = append(bad, t)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	first := c.firstPosition(Ref, ref.Rows)
	runs := runsOf(bad)
	t := trial{before: distance(ref, port), after: distance(ref, port), floor: floor}
	switch {
	case first == 0 && runs[0][0] == 0:
		return nil // wrong from the first token on: not a matter of state
	case c.Step() > 0 && ref.Rows <= 2 && len(bad) == ref.Rows:
		return stepState(c, t)
	case first > 0 && runs[0][0] == 0 && len(runs) == 1, first == 0 && edgeOf(runs, ref.Rows) > 0:
		return []compare.Finding{chunkState(c, t, runs, first, ref.Rows)}
	}
	return nil
}

// edgeOf is the chunk size where all runs begin at its multiples and every
// multiple begins a run, else 0.
func edgeOf(runs [][2]int, rows int) int {
	n := runs[0][0]
	if n == 0 {
		return 0
	}
	if len(runs) == 1 {
		return n
	}
	for i, r := range runs {
		if r[0] != (i+1)*n {
			return 0
		}
	}
	if (len(runs)+1)*n < rows {
		return 0
	}
	return n
}

// chunkState reports an error that begins at chunk edges.
func chunkState(c *Context, t trial, runs [][2]int, first, rows int) compare.Finding {
	length := runs[0][1] - runs[0][0] + 1
	edge := first + runs[0][0]
	same := true
	for _, r := range runs {
		// The last run may be cut by the end of the prompt.
		if l := r[1] - r[0] + 1; l != length && r[1] != rows-1 {
			same = false
		}
	}
	toEnd := runs[len(runs)-1][1] == rows-1 && length > 8
	cause := "state.conv"
	if c.Tap == "ssm_out" || !same || toEnd {
		cause = "state.chunk"
	}
	f := c.signature(cause, t)
	f.Values["edge"], f.Values["length"] = edge, length
	f.Claim = fmt.Sprintf("port goes wrong at token %d, for %s, and is right before", edge, plural(length, "token"))
	if cause == "state.conv" {
		f.Claim = fmt.Sprintf("after token %d exactly %s are wrong and the rest is right: a convolution of width %d whose state was lost (or saved elsewhere) at the edge of the chunk", edge, plural(length, "token"), length+1)
		f.Values["width"] = length + 1
	} else {
		f.Claim = fmt.Sprintf("port goes wrong at token %d and only slowly right again: the recurrent state was lost (or saved elsewhere) at the edge of the chunk", edge)
	}
	if len(runs) > 1 {
		f.Claim += fmt.Sprintf("; the same at every multiple of %d", runs[0][0])
		f.Values["chunk"] = runs[0][0]
	}
	f.For = []string{fmt.Sprintf("tokens above ten floors: %s of %d (counted from this step's first, which is token %d)", rangesOf(flatten(runs)), rows, first)}
	f.Against = []string{"the state was not dumped, so that only the place of the error speaks"}
	f.Verify = "dump the convolution and recurrent state at the end of a chunk in both codes, and see what the next chunk starts from"
	f.Fix = "carry the last width-1 inputs of the convolution (inputs, not outputs) and the recurrent state into the next chunk"
	return f
}

func flatten(runs [][2]int) []int {
	var out []int
	for _, r := range runs {
		for i := r[0]; i <= r[1]; i++ {
			out = append(out, i)
		}
	}
	return out
}

// stepState reports decode steps that are wrong although the prefill is right.
func stepState(c *Context, t trial) []compare.Finding {
	var wrong, right []int
	for _, s := range c.Steps() {
		part, ok := c.Part(s, c.Rank())
		if !ok {
			continue
		}
		d := *c
		d.Source = part
		ref, port, ok := d.Pair(d.At)
		if !ok {
			continue
		}
		if e := distance(ref, port).Token; e > 10*math.Max(t.floor, d.FloorOf(d.At)) {
			wrong = append(wrong, s)
		} else {
			right = append(right, s)
		}
	}
	if len(right) == 0 || len(wrong) == 0 || right[0] >= wrong[0] {
		return nil
	}
	cause := "state.conv"
	if c.Tap == "ssm_out" {
		cause = "state.chunk"
	}
	f := c.signature(cause, t)
	f.Values["wrong_steps"], f.Values["right_steps"] = wrong, right
	f.Claim = fmt.Sprintf("step %s agrees, step %s does not, on equal inputs: the state that the prefill leaves behind is not what the decode step needs", rangesOf(right), rangesOf(wrong))
	f.For = []string{fmt.Sprintf("%s at this step: rel_l2 %s, its input agrees", c.At, g2(t.before.Whole))}
	f.Against = []string{"the state was not dumped, so that only the place of the error speaks"}
	f.Verify = "compare the saved convolution state with the last inputs of the convolution: one that holds its outputs gives exactly width-1 wrong steps"
	f.Fix = "save the convolution's inputs (before it), and the recurrent state after the last token of each request"
	return []compare.Finding{f}
}

package diagnose

import (
	"fmt"
	"math"
	"strings"

	"github.com/layerparity/parity/compare"
)

const (
	// exactFloors is "at most a few floors" of an exact proof.
	exactFloors = 4
	// exactShare is the share of the error's energy that an exact transform has
	// to explain besides: where the error is hardly above its floor, being below
	// four floors afterwards proves nothing.
	exactShare = 0.9
	// fitShare is the share that makes a fit (docs/causes.md).
	fitShare = 0.99
	// localGain is how much more than its inputs' error and one rounding a right
	// module adds: docs/metrics.md measured at most 3.5 on right 16-bit runs.
	localGain = 4
	// valuesPerParam and minTokens are the least data of a fit.
	valuesPerParam = 4
	minTokens      = 4
)

// rounding maps a logical dtype to its unit roundoff.
var rounding = map[string]float64{
	"float64": 0x1p-24, "float32": 0x1p-24, // dumps hold float32 at best
	"tf32": 0x1p-11, "float16": 0x1p-11, "bfloat16": 0x1p-8,
}

// unitOf returns the unit roundoff of the coarser dtype of both tensors. An
// unknown dtype counts as float32 and any other named one as 8-bit.
func unitOf(ref, port *Tensor) float64 {
	u := 0x1p-24
	for _, t := range []*Tensor{ref, port} {
		switch r, ok := rounding[t.DType]; {
		case ok:
			u = max(u, r)
		case t.DType != "":
			u = max(u, 0x1p-5)
		}
	}
	return u
}

// localFloor is the rel_l2 that a right module may add at a checkpoint on top of
// what it was given: localGain·√(Σ rel(inputs)² + u²), never more than the floor
// of the whole run up to there.
func (c *Context) localFloor(name string) float64 {
	floor := c.FloorOf(name)
	ref, port, ok := c.Pair(name)
	if !ok {
		return floor
	}
	u := unitOf(ref, port)
	s := u * u
	inputs := c.inputs(name)
	if len(inputs) == 0 {
		return floor
	}
	for _, in := range inputs {
		e, ok := c.apart(in)
		if !ok {
			return floor
		}
		s += e.Token * e.Token
	}
	// A product over a few hundred terms in float32 loses more than one rounding.
	local := localGain * max(math.Sqrt(s), 8*0x1p-24)
	if !(local < floor) {
		return floor
	}
	return local
}

// trial is a transform that was tried: what it left, and on how much data.
type trial struct {
	before, after errorOf
	floor         float64
	// params were fitted on values numbers.
	params, values int
}

// tryOn measures got (a transform of the port) against want at this context's
// checkpoint; before is the distance without the transform.
func (c *Context) tryOn(want, port, got *Tensor, params int) trial {
	return trial{before: distance(want, port), after: distance(want, got), floor: c.localFloor(c.At), params: params, values: len(want.Data)}
}

// ruleFloor is the rel_l2 that a right module may differ by from its rule worked
// out in float64 on its own dumped inputs: localGain roundings of the storage
// dtype, never more than the floor of the whole run up to there.
func (c *Context) ruleFloor(t *Tensor) float64 {
	return min(c.FloorOf(c.At), localGain*max(unitOf(t, t), 8*0x1p-24))
}

// ruleTrial weighs two rules on the port's own inputs: byRef is what the
// reference's rule makes of them, byPort what the port's does. Where the inputs
// of both runs agree, the port's tensor is replaced by byRef and compared with
// the reference's; where an earlier fault is in the inputs, byPort is compared
// with the port's own tensor instead (try: target(port)), and before is how far
// the port is from byRef. ok is false where byPort does not describe the port.
func (c *Context) ruleTrial(ref, port, byRef, byPort *Tensor, params int) (t trial, ownTarget, ok bool) {
	floor := c.ruleFloor(port)
	described := distance(port, byPort)
	own := trial{before: distance(port, byRef), after: described, floor: floor, params: params, values: len(port.Data)}
	if !described.below(exactFloors*floor) && own.explained() < fitShare {
		return t, false, false
	}
	if c.inherited() {
		return own, true, true
	}
	return c.tryOn(ref, port, byRef, params), false, true
}

// explained is the share of the error's energy that the transform removed, of
// the whole tensor and of the token-normalised error, whichever is less.
func (t trial) explained() float64 {
	return min(share(t.before.Whole, t.after.Whole), share(t.before.Token, t.after.Token))
}

func share(before, after float64) float64 {
	switch {
	case math.IsNaN(before) || math.IsNaN(after):
		return 0
	case math.IsInf(before, 0):
		return 1
	case before == 0:
		return 0
	}
	return 1 - (after/before)*(after/before)
}

// proof grades a trial; ok is false where it proves nothing: too few values, or
// less than a fit explained.
func (t trial) proof() (p compare.Proof, ok bool) {
	if t.values < valuesPerParam*t.params {
		return "", false
	}
	e := t.explained()
	switch {
	case t.after.below(exactFloors*t.floor) && e >= exactShare && !t.before.below(t.floor):
		return compare.ProofExact, true
	case e >= fitShare:
		return compare.ProofFit, true
	}
	return "", false
}

// finding starts a finding at this context's checkpoint from a trial. ok is
// false where the trial proves nothing.
func (c *Context) finding(cause string, t trial) (f compare.Finding, ok bool) {
	p, ok := t.proof()
	if !ok {
		return f, false
	}
	f = c.signature(cause, t)
	f.Proof = p
	return f, true
}

// signature starts a finding that only the error's shape speaks for.
func (c *Context) signature(cause string, t trial) compare.Finding {
	f := compare.Finding{
		Cause: cause, Checkpoint: place(c, c.At), Proof: compare.ProofSignature,
		Before: compare.Num(t.before.Whole), After: compare.Num(t.after.Whole), Floor: compare.Num(t.floor),
		Params: t.params, Values: map[string]any{},
	}
	if ref, ok := c.Tensor(Ref, c.At); ok {
		f.Rows = ref.Rows
	}
	// A trial on the port's own inputs is graded against what the reference's rule
	// makes of them; what is reported, and what try prints, is the checkpoint's error.
	if ref, port, ok := c.Pair(c.At); ok {
		f.Before = compare.Num(distance(ref, port).Whole)
	}
	if c.Layer >= 0 {
		l := c.Layer
		f.Layer = &l
	}
	return f
}

// tryLine is the command that repeats a proof at this context's checkpoint.
func (c *Context) tryLine(format string, args ...any) string {
	return fmt.Sprintf("parity try REF PORT --at %s --apply '%s'", place(c, c.At), fmt.Sprintf(format, args...))
}

// sides fills a finding's values for both runs.
func sides(f *compare.Finding, ref, port any) {
	f.Values["reference"], f.Values["port"] = number(ref), number(port)
}

// number makes a float safe for JSON; other values pass.
func number(v any) any {
	if x, ok := v.(float64); ok {
		return compare.Num(x)
	}
	return v
}

// g6 prints a number with six significant digits.
func g6(x float64) string { return fmt.Sprintf("%.6g", x) }

// g2 prints an error with two significant digits.
func g2(x float64) string { return fmt.Sprintf("%.2g", x) }

// plural is "1 token", "3 tokens".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// join lists items, with "…" after the first limit.
func join[T any](items []T, limit int) string {
	var b strings.Builder
	for i, v := range items {
		if i == limit {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, v)
	}
	return b.String()
}

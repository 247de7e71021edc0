package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/layerparity/parity/dump"
)

// layoutRatio is how many times smaller the error of a consumer must be than
// that of a checkpoint whose difference it is said not to see.
const layoutRatio = 100

// settle decides which bad pairs are differences of layout or capture: those
// that everything computed from them contradicts by agreeing. It runs from the
// outputs to the inputs, so that a chain (q, q_rope) is settled whole.
func (p *part) settle() {
	consumers := make(map[*Pair][]*Pair)
	for _, pr := range p.Pairs {
		for _, in := range pr.inputs {
			consumers[in] = append(consumers[in], pr)
		}
	}
	for _, name := range conditions {
		if in := p.lookup(name); in != nil {
			consumers[in] = append(consumers[in], p.layerPairs()...)
		}
	}
	for _, pr := range slices.Backward(p.Pairs) {
		if !pr.state.bad || pr.state.by == "nonfinite" || pr.state.by == "threshold" {
			continue
		}
		agree, all := 0, true
		for _, c := range consumers[pr] {
			switch {
			case c.aside != "":
				// says nothing
			case c.state.benign:
				agree++ // what is computed from it agrees
			case c.state.bad || c.rel == nil || 2*len(c.judged()) < len(c.rel):
				// one whose tokens were mostly set aside contradicts nothing
				all = false
			case pr.Out.Ints == nil && !(c.state.e < pr.state.e/layoutRatio):
				all = false
			default:
				agree++
			}
		}
		pr.state.benign = all && agree > 0
	}
}

// conditions are inputs that any layer may read, as the modulation of a diffusion
// model's norms does, and not the embedding alone.
var conditions = []string{"pixel_values", "time_embed", "tower_out"}

// entry finds the earliest checkpoint that is bad while all its inputs are
// good. A bad one whose gain is under minGain passed on what it was given:
// nothing entered there.
func (p *part) entry() *Pair {
	for _, pr := range p.Pairs {
		if pr.enters() {
			return pr
		}
	}
	return nil
}

// enters tells whether the error enters at the pair.
func (p *Pair) enters() bool {
	// Ids and masks have guards of their own.
	if !p.state.bad || p.state.benign || p.Name == "prompt_tokens" || p.Name == "attention_mask" {
		return false
	}
	for _, in := range p.inputs {
		if in.state.bad && !in.state.benign {
			return false
		}
	}
	return !p.accumulated()
}

// accumulated tells whether a bad pair's error is explained by its inputs'
// errors, each below its floor, and by rounding.
func (p *Pair) accumulated() bool {
	switch p.state.by {
	case "floor":
		if p.precision == dump.Unknown {
			// No unit rounding is known: only errors of the inputs count.
			var in2 float64
			for _, in := range p.inputs {
				if in.rel != nil {
					in2 += sq(median(in.judged()))
				}
			}
			return math.Sqrt(2*p.state.e) < minGain*math.Sqrt(in2)
		}
		return len(p.inputs) > 0 && p.state.gain < minGain
	case "tokens":
		return len(p.inputs) > 0 && p.state.tailGain < minGain
	}
	return false
}

// describe builds the report's Entry.
func (p *Pair) describe() *Entry {
	e := &Entry{
		Checkpoint: p.Out.Name, Layer: p.Out.Layer, By: p.state.by,
		Error: Num(p.state.e), Floor: Num(p.floor()), Gain: Num(p.state.gain), Inputs: []Input{},
	}
	var names []string
	for _, in := range p.inputs {
		e.Inputs = append(e.Inputs, Input{in.Out.Name, Num(in.state.e), Num(in.floor())})
		names = append(names, fmt.Sprintf("%s %s", in.Name, errorWord(in)))
	}
	with := "it has no dumped input"
	if len(names) > 0 {
		with = "its inputs are good: " + strings.Join(names, ", ")
	}
	e.Text = fmt.Sprintf("%s; %s", p.state.reason, with)
	return e
}

// errorWord says how an input stands.
func errorWord(p *Pair) string {
	switch {
	case p.Out.Ints != nil && p.Out.Ints.Equal:
		return "(equal)"
	case p.sums != nil && p.sums.Whole.D2 == 0 && p.sums.NonFinite.Mismatched == 0:
		return "(bit-equal)"
	case math.IsNaN(p.state.e):
		return ""
	}
	return fmt.Sprintf("(%.1g)", p.state.e)
}

package compare

import (
	"fmt"

	"github.com/layerparity/parity/dump"
)

// stage tells when a guard runs.
type stage int

const (
	// metadata guards look at names, manifests, shapes and ids, before the sums.
	metadata stage = iota
	// numeric guards use the sums of the first pass and may repair pairs.
	numeric
	// final guards look at the judged comparison.
	final
)

// A guard is one false spike that the dump could have made: one file each. check
// returns its results; more than one where it finds several places.
type guard struct {
	id    string
	stage stage
	check func(*part) []Guard
}

// guards is the table, in the order of work: inputs first, then captures.
var guards = []guard{
	{"input.tokens", metadata, guardTokens},
	{"capture.incomplete", metadata, guardIncomplete},
	{"capture.stale", metadata, guardStale},
	{"capture.chunked", metadata, guardCalls},
	{"capture.wrong_tensor", metadata, guardIntegers},
	{"input.attention_mask", numeric, guardMask},
	{"capture.dtype_view", numeric, guardDTypeView},
	{"capture.extra_rows", numeric, guardExtraRows},
	{"capture.row_shift", numeric, guardRowShift},
	{"capture.index_shift", numeric, guardIndexShift},
	{"capture.post_final_norm", numeric, guardFinalNorm},
	{"capture.split_residual", numeric, guardSplit},
	{"capture.scaled_residual", numeric, guardScaled},
	{"capture.duplicate", numeric, guardDuplicate},
	{"capture.reused_buffer", numeric, guardReused},
	{"capture.overflow_on_save", numeric, guardOverflow},
	{"capture.partial_copy", numeric, guardPartial},
	{"input.embedding", final, guardEmbedding},
	{"capture.wrong_tensor", final, guardSpike},
	{"capture.missing", final, guardMissing},
}

// runGuards runs the guards of a stage.
func (p *part) runGuards(s stage) {
	for _, g := range guards {
		if g.stage != s {
			continue
		}
		for _, r := range g.check(p) {
			if r.ID == "" {
				r.ID = g.id
			}
			r.Part = p.label
			if r.Checkpoint != "" {
				r.Checkpoint = p.name(r.Checkpoint)
			}
			if r.Status == Fail {
				p.broken = true
			}
			p.guards = append(p.guards, r)
		}
	}
}

// one makes a guard's single result.
func one(s GuardStatus, remedy, format string, args ...any) []Guard {
	return []Guard{{Status: s, Evidence: fmt.Sprintf(format, args...), Remedy: remedy}}
}

// layerPairs returns the pairs of layer outputs that have figures or could have.
func (p *part) layerPairs() []*Pair {
	var out []*Pair
	for _, pr := range p.Pairs {
		if pr.Kind == dump.KindLayer {
			out = append(out, pr)
		}
	}
	return out
}

// layerRecords returns one run's layer outputs by number.
func layerRecords(r *dump.Run) map[int]*dump.Record {
	out := make(map[int]*dump.Record)
	for _, rec := range r.Records {
		if rec.Kind == dump.KindLayer && rec.Err == nil {
			out[rec.Layer] = rec
		}
	}
	return out
}

// guardTolerance is the median token error under which a guard takes two
// tensors for the same one whatever their precision: the bfloat16 floor.
const guardTolerance = 5e-4

// same tells whether an error e says "the same tensor", where the alternative
// that is to be explained away has error was.
func same(e, was float64) bool { return e <= guardTolerance && (e <= was/20 || was != was) }

// meanToken sums two views and returns the median token's error; NaN where they
// cannot be summed.
func (p *part) tokenError(ref, port *View, g Geometry) (float64, error) {
	s, err := p.sum(ref, port, g)
	if err != nil {
		return 0, err
	}
	return energy(median(tokenErrors(s, g))), nil
}

// keepRaw remembers a pair's figures before a repair.
func (p *Pair) keepRaw() {
	if p.sums != nil && p.Out.Raw == nil {
		p.Out.Raw = figures(p)
		p.rawMedianCos = p.tokensOf().medianCos
		p.hasRaw = true
	}
}

// repaired records what was done to a pair.
func (p *Pair) repaired(format string, args ...any) {
	p.Out.Repairs = append(p.Out.Repairs, fmt.Sprintf(format, args...))
}

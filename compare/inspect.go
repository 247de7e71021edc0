package compare

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/layerparity/parity/dump"
)

// Inspection is what one dump says of itself.
type Inspection struct {
	Schema     string            `json:"schema"`
	Dump       DumpInfo          `json:"dump"`
	Verdict    Verdict           `json:"verdict"`
	ExitStatus int               `json:"exit_status"`
	Reason     string            `json:"reason"`
	Guards     []Guard           `json:"guards"`
	Tensors    []InspectedTensor `json:"tensors"`
	Warnings   []string          `json:"warnings"`
}

// InspectedTensor is one checkpoint of a dump. Norm and MaxAbs are over finite
// values, nil for integers and for what cannot be read.
type InspectedTensor struct {
	Name      string     `json:"name"`
	File      string     `json:"file"`
	DType     string     `json:"dtype,omitempty"`
	Logical   string     `json:"logical_dtype,omitempty"`
	Shape     []int      `json:"shape"`
	Norm      *Num       `json:"norm,omitempty"`
	MaxAbs    *Num       `json:"max_abs,omitempty"`
	NonFinite *NonFinite `json:"non_finite,omitempty"`
	Dominant  *Dominant  `json:"dominant,omitempty"`
	Error     string     `json:"error,omitempty"`
	Note      string     `json:"note,omitempty"`
}

// InspectSchema is the version of the JSON that inspect prints.
const InspectSchema = "parity.inspect/1"

// inspectGuards are those that one dump alone can fail.
var inspectGuards = []guard{
	{"capture.incomplete", metadata, guardIncomplete},
	{"capture.chunked", metadata, guardCalls},
	{"capture.wrong_tensor", metadata, guardIntegers},
	{"capture.duplicate", numeric, guardDuplicate},
}

// Inspect reads one dump by comparing it with itself: the sums of both sides are
// then those of the one, and the guards on one run apply as they stand.
func Inspect(ctx context.Context, d *dump.Dump, o Options) (*Inspection, error) {
	in := &Inspection{Schema: InspectSchema, Dump: info(d), Guards: []Guard{}, Tensors: []InspectedTensor{}, Warnings: []string{}}
	unreadable, nonFinite, read := "", "", 0
	for _, run := range d.Runs {
		p := newPart(ctx, run, run, o, len(d.Runs) > 1)
		p.match()
		if err := p.sumPairs(p.Pairs); err != nil {
			return nil, err
		}
		for _, g := range inspectGuards {
			in.Guards = append(in.Guards, p.inspectGuard(g)...)
		}
		in.Warnings = append(in.Warnings, run.Warnings...)
		for _, pr := range p.Pairs {
			t := pr.inspect()
			in.Tensors = append(in.Tensors, t)
			switch {
			case t.Error != "" && unreadable == "":
				unreadable = fmt.Sprintf("%s cannot be read: %s", t.Name, t.Error)
			case t.NonFinite != nil && nonFinite == "":
				nonFinite = t.Name
			}
			if t.Error == "" {
				read++
			}
		}
	}
	in.judge(unreadable, nonFinite, read)
	in.ExitStatus = in.Verdict.Info().Exit
	return in, nil
}

// inspectGuard runs one guard on a run held against itself: what it finds on
// both sides is one thing.
func (p *part) inspectGuard(g guard) []Guard {
	results := g.check(p)
	for i := range results {
		if results[i].ID == "" {
			results[i].ID = g.id
		}
		results[i].Part = p.label
		results[i].Evidence = strings.ReplaceAll(results[i].Evidence, " of the reference", "")
	}
	return results[:min(1, len(results))]
}

// inspect describes one tensor.
func (p *Pair) inspect() InspectedTensor {
	r := p.Ref.Record
	t := InspectedTensor{Name: p.Out.Name, File: r.File, Logical: r.Logical, Shape: p.Out.Ref.Shape, DType: p.Out.Ref.DType}
	for _, w := range r.Warnings {
		t.Note = w
	}
	if p.err != nil {
		t.Error = p.err.Error()
		return t
	}
	if p.sums == nil {
		return t
	}
	m := p.sums.Whole
	norm, top := Num(math.Ldexp(math.Sqrt(m.A2), m.Exp)), Num(m.MaxA)
	t.Norm, t.MaxAbs = &norm, &top
	switch {
	case p.sums.NonFinite.FirstAt >= 0:
		t.NonFinite = nonFinite(p.sums.NonFinite, p.Geo)
		t.Note = fmt.Sprintf("%d values are NaN or Inf, first at %v", p.sums.NonFinite.Matched, p.Geo.index(p.sums.NonFinite.FirstAt))
	case m.N == 0:
		t.Note = "empty"
	case m.A2 == 0:
		t.Note = "all zero"
	}
	if d, err := p.dominant(); err == nil && d != nil {
		t.Dominant = d
		if t.Note == "" {
			t.Note = d.words()
		}
	}
	return t
}

// judge sets the verdict of one dump.
func (in *Inspection) judge(unreadable, nonFinite string, read int) {
	switch {
	case unreadable != "":
		in.Verdict, in.Reason = Trouble, unreadable
		return
	case read == 0:
		in.Verdict, in.Reason = Trouble, "nothing in it could be read"
		return
	}
	for _, g := range in.Guards {
		if g.Status == Fail {
			in.Verdict, in.Reason = Untrusted, g.ID+": "+g.Evidence
			return
		}
	}
	in.Verdict, in.Reason = Parity, fmt.Sprintf("%d tensors were read, and no guard that one dump can fail failed", read)
	if nonFinite != "" {
		in.Reason += "; values that are not finite begin at " + nonFinite
	}
}

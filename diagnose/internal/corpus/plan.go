package corpus

import (
	"github.com/layerparity/parity/diagnose"
	"github.com/layerparity/parity/dump"
)

// Place is where a tap fires.
type Place struct {
	Step, Rank int
	Layer      int // -1 outside the layers
	Tap        string
}

// Plan is one side of a case before it runs: rules, weights, arithmetic, and
// what happens to values on the way.
type Plan struct {
	Spec    Spec
	Weights *Weights
	Arith   Arith
	// Hook may change the value of a checkpoint in place, before it is dumped
	// and handed on.
	Hook func(at Place, x *Mat)
	// Edit changes the finished dump alone.
	Edit func(r *Run)
	// tokens, where set, changes a step's token ids.
	tokens func(ids []int64) []int64
}

// hook adds a change to those there are.
func (p *Plan) hook(f func(at Place, x *Mat)) {
	before := p.Hook
	p.Hook = func(at Place, x *Mat) {
		if before != nil {
			before(at, x)
		}
		f(at, x)
	}
}

// edit adds a change of the dump to those there are.
func (p *Plan) edit(f func(r *Run)) {
	before := p.Edit
	p.Edit = func(r *Run) {
		if before != nil {
			before(r)
		}
		f(r)
	}
}

// layer returns the port's own copy of a layer's table of weights.
func (p *Plan) layer(l int) *LayerWeights { return &p.Weights.Layers[l] }

// eachLayer edits every layer's table of weights.
func (p *Plan) eachLayer(f func(w *LayerWeights)) {
	for l := range p.Weights.Layers {
		f(p.layer(l))
	}
}

// run computes every step and rank.
func (p *Plan) run() *Run {
	r := &Run{
		Parts: map[[2]int]*Part{},
		Manifest: map[string]any{
			"framework": p.framework(),
			"mode":      "prefill",
		},
		Facts: p.facts(),
	}
	if p.Spec.Decode > 0 {
		r.Manifest["mode"] = "incremental"
	}
	e := newEngine(p, r)
	for step, in := range p.Spec.inputs() {
		if p.tokens != nil {
			in.tokens = p.tokens(in.tokens)
		}
		e.step(step, in)
	}
	if p.Edit != nil {
		p.Edit(r)
	}
	return r
}

// framework says how products were computed; those with the noise of reduced
// precision make no claim.
func (p *Plan) framework() dump.Framework {
	if p.Arith.noise > 1e-5 {
		return dump.Framework{Name: "toy", Version: "1", Device: "cuda:0"}
	}
	return dump.Framework{Name: "toy", Version: "1", Device: "cpu", MatmulPrecision: "highest"}
}

// facts are the model's sizes, which every dumper knows.
func (p *Plan) facts() diagnose.Facts {
	s := p.Spec
	f := diagnose.Facts{
		NumLayers: s.Layers, HiddenSize: s.Dim, NumHeads: s.Heads, NumKVHeads: s.KVHeads,
		HeadDim: s.HeadDim, IntermediateSize: s.FFN, VocabSize: s.Vocab,
	}
	if m := s.Block[0].MoE; m.Experts > 0 {
		f.NumExperts, f.NumExpertsPerTok = m.Experts, m.TopK
	}
	return f
}

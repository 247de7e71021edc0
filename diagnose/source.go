package diagnose

import (
	"math"
	"slices"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/dump"
)

// dumpSource gives hypotheses the tensors of a compared part, read when asked
// for and kept for the last few.
type dumpSource struct {
	c    *compare.Comparison
	part *compare.Part
	// cache holds the tensors of the layer that is being looked at.
	cache map[cacheKey]*Tensor
	order []cacheKey
	size  int
	memo  map[string]any
}

// memory gives contexts on this source a place for what they found out.
func (s *dumpSource) memory() map[string]any { return s.memo }

type cacheKey struct {
	side Side
	name string
}

// cacheElements bounds what is kept, 64 MiB of float64.
const cacheElements = 8 << 20

// NewSource stands at one step and rank of a comparison.
func NewSource(c *compare.Comparison, part *compare.Part) Source {
	return &dumpSource{c: c, part: part, cache: map[cacheKey]*Tensor{}, memo: map[string]any{}}
}

// run returns a side's run.
func (s *dumpSource) run(side Side) *dump.Run {
	if side == Port {
		return s.part.Port
	}
	return s.part.Ref
}

// Tensor implements Source.
func (s *dumpSource) Tensor(side Side, name string) (*Tensor, bool) {
	key := cacheKey{side, name}
	if t, ok := s.cache[key]; ok {
		return t, t != nil
	}
	t := s.read(side, name)
	s.cache[key] = t
	s.order = append(s.order, key)
	if t != nil {
		s.size += len(t.Data)
	}
	for s.size > cacheElements && len(s.order) > 1 {
		old := s.order[0]
		s.order = s.order[1:]
		if o := s.cache[old]; o != nil {
			s.size -= len(o.Data)
		}
		delete(s.cache, old)
	}
	return t, t != nil
}

// read decodes a tensor; nil where it was not dumped or cannot be read.
func (s *dumpSource) read(side Side, name string) *Tensor {
	var v *compare.Values
	var err error
	if p := s.part.Find(name); p != nil {
		v, err = p.Read(side == Port)
	} else if r := s.run(side).Lookup(name); r != nil && r.Err == nil {
		v, err = compare.ReadRecord(r)
	}
	if err != nil || v == nil {
		return nil
	}
	t := &Tensor{Name: name, Shape: slices.Clone(v.Shape), Rows: v.Rows, Cols: v.Cols, Data: v.Data, DType: v.Record.Logical}
	if t.DType == "" {
		t.DType = s.dtype(side, name)
	}
	if t.DType == "" && !v.Record.DType.IsInt() {
		t.DType = shownDType(t.Data)
	}
	if m := v.Record.Meta; m != nil {
		t.Columns = m.Columns
	}
	if v.Record.DType.IsInt() && t.Rows == 1 && len(t.Shape) == 1 { // ids: one a row
		t.Rows, t.Cols = t.Cols, 1
	}
	return t
}

// shownDType reads a narrow dtype from the values where nothing states one: all
// of at least 64 values that are not round in four bits are bfloat16s, or float16s.
// "" where they are neither, or where too few tell.
func shownDType(x []float64) string {
	narrow := map[string]bool{"bfloat16": true, "float16": true}
	telling := 0
	for _, v := range x {
		if frac, _ := math.Frexp(v); frac*16 != math.Trunc(frac*16) {
			telling++
		}
		for _, d := range []string{"bfloat16", "float16"} {
			if narrow[d] && roundFloat(d, v) != v && !math.IsNaN(v) {
				delete(narrow, d)
			}
		}
		if len(narrow) == 0 {
			return ""
		}
	}
	switch {
	case telling < 64:
		return ""
	case narrow["bfloat16"]:
		return "bfloat16"
	}
	return "float16"
}

// dtype falls back to the manifest's model dtype, then to the class that the
// comparison found.
func (s *dumpSource) dtype(side Side, name string) string {
	if m := s.run(side).Manifest; m.Text("dtype") != "" {
		return dump.LogicalName(m.Text("dtype"))
	}
	if p := s.part.Find(name); p != nil && p.Class() != dump.Unknown {
		return p.Class().String()
	}
	return ""
}

// Has implements Source.
func (s *dumpSource) Has(side Side, name string) bool {
	if p := s.part.Find(name); p != nil {
		return true
	}
	r := s.run(side).Lookup(name)
	return r != nil && r.Err == nil
}

// Names implements Source.
func (s *dumpSource) Names(side Side) []string {
	var names []string
	for _, r := range s.run(side).Records {
		if r.Err == nil {
			names = append(names, r.Name)
		}
	}
	return names
}

// Facts implements Source.
func (s *dumpSource) Facts(side Side) Facts { return factsOf(s.run(side).Manifest) }

// factsOf reads what a manifest states of its model.
func factsOf(m *dump.Manifest) Facts {
	if m == nil {
		return Facts{}
	}
	f := Facts{Raw: m.Model, ScoringFunc: m.Text("scoring_func")}
	for name, to := range map[string]*int{
		"num_layers": &f.NumLayers, "hidden_size": &f.HiddenSize, "num_heads": &f.NumHeads, "num_kv_heads": &f.NumKVHeads,
		"head_dim": &f.HeadDim, "intermediate_size": &f.IntermediateSize, "vocab_size": &f.VocabSize,
		"sliding_window": &f.SlidingWindow, "num_experts": &f.NumExperts, "num_experts_per_tok": &f.NumExpertsPerTok,
	} {
		if v, ok := m.Fact(name); ok {
			*to = int(v)
		}
	}
	for name, to := range map[string]*float64{
		"rope_theta": &f.RopeTheta, "rms_eps": &f.RMSEps, "partial_rotary_factor": &f.PartialRotaryFactor,
		"residual_multiplier": &f.ResidualMultiplier, "attn_logit_softcapping": &f.AttnSoftcap,
		"final_logit_softcapping": &f.FinalSoftcap, "routed_scaling_factor": &f.RoutedScalingFactor,
	} {
		if v, ok := m.Fact(name); ok {
			*to = v
		}
	}
	if b, ok := m.Model["norm_topk_prob"].(bool); ok {
		f.NormTopkProb = &b
	}
	return f
}

// Part implements Source.
func (s *dumpSource) Part(step, rank int) (Source, bool) {
	for _, p := range s.c.Parts {
		if max(p.Step, 0) == step && max(p.Rank, 0) == rank {
			if p == s.part {
				return s, true
			}
			return NewSource(s.c, p), true
		}
	}
	return nil, false
}

// Steps implements Source.
func (s *dumpSource) Steps() []int {
	return s.distinct(func(p *compare.Part) int { return p.Step })
}

// Ranks implements Source.
func (s *dumpSource) Ranks() []int {
	return s.distinct(func(p *compare.Part) int { return p.Rank })
}

// distinct lists the values of a coordinate over the compared parts; a dump
// without such folders stands at 0.
func (s *dumpSource) distinct(of func(*compare.Part) int) []int {
	var out []int
	for _, p := range s.c.Parts {
		if v := max(of(p), 0); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// Step implements Source.
func (s *dumpSource) Step() int { return max(s.part.Step, 0) }

// Rank implements Source.
func (s *dumpSource) Rank() int { return max(s.part.Rank, 0) }

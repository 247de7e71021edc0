package corpus

import (
	"slices"

	"github.com/layerparity/parity/diagnose"
)

// Memory is a diagnose.Source over a pair in memory, at one step and rank.
type Memory struct {
	ref, port  *Run
	step, rank int
}

// NewMemory stands at a step and rank of the pair.
func NewMemory(ref, port *Run, step, rank int) *Memory { return &Memory{ref, port, step, rank} }

func (m *Memory) run(side diagnose.Side) *Run {
	if side == diagnose.Port {
		return m.port
	}
	return m.ref
}

func (m *Memory) part(side diagnose.Side) *Part { return m.run(side).Parts[[2]int{m.step, m.rank}] }

// Tensor decodes a checkpoint to float64: probabilities [H, T, S] have H*T
// rows, other shapes keep their first axis as rows; a vector of numbers is one
// row, one of integers one column, as token ids are.
func (m *Memory) Tensor(side diagnose.Side, name string) (*diagnose.Tensor, bool) {
	p := m.part(side)
	if p == nil || p.Tensors[name] == nil {
		return nil, false
	}
	a := p.Tensors[name]
	t := &diagnose.Tensor{Name: name, Shape: slices.Clone(a.Shape), DType: a.DType}
	for _, v := range a.Data {
		t.Data = append(t.Data, float64(v))
	}
	for _, v := range a.Ints {
		t.Data = append(t.Data, float64(v))
	}
	n := len(t.Data)
	_, tap := diagnose.SplitName(name)
	switch {
	case tap == "attn_probs" && len(a.Shape) == 3:
		t.Rows, t.Cols = a.Shape[0]*a.Shape[1], a.Shape[2]
	case len(a.Shape) == 1 && a.Ints == nil:
		t.Rows, t.Cols = 1, n
	case len(a.Shape) == 0:
		t.Rows, t.Cols = 1, 1
	case a.Shape[0] > 0:
		t.Rows, t.Cols = a.Shape[0], n/a.Shape[0]
	}
	return t, true
}

// Has tells whether the side dumped the checkpoint.
func (m *Memory) Has(side diagnose.Side, name string) bool {
	p := m.part(side)
	return p != nil && p.Tensors[name] != nil
}

// Names lists the side's checkpoints in execution order.
func (m *Memory) Names(side diagnose.Side) []string {
	if p := m.part(side); p != nil {
		return slices.Clone(p.Names)
	}
	return nil
}

// Facts returns what the side's manifest says of its model.
func (m *Memory) Facts(side diagnose.Side) diagnose.Facts { return m.run(side).Facts }

// Part returns the pair at another step or rank that both sides have.
func (m *Memory) Part(step, rank int) (diagnose.Source, bool) {
	k := [2]int{step, rank}
	if m.ref.Parts[k] == nil || m.port.Parts[k] == nil {
		return nil, false
	}
	return NewMemory(m.ref, m.port, step, rank), true
}

// Steps lists the steps that both sides have.
func (m *Memory) Steps() []int { return common(m.ref.Steps(), m.port.Steps()) }

// Ranks lists the ranks that both sides have.
func (m *Memory) Ranks() []int { return common(m.ref.Ranks(), m.port.Ranks()) }

// Step tells where this Source stands.
func (m *Memory) Step() int { return m.step }

// Rank tells where this Source stands.
func (m *Memory) Rank() int { return m.rank }

func common(a, b []int) []int {
	return slices.DeleteFunc(a, func(x int) bool { return !slices.Contains(b, x) })
}

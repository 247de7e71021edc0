package corpus

import (
	"slices"

	"github.com/layerparity/parity/diagnose"
)

// Array is one dumped tensor. Exactly one of Data and Ints is set.
type Array struct {
	Shape []int
	Data  []float32
	Ints  []int64
	DType string // logical: "float32", "bfloat16", "float16", "int64"
}

// cut keeps the first n rows, of each head for probabilities.
func (a *Array) cut(n int) *Array {
	c := *a
	axis := 0
	if len(a.Shape) == 3 {
		axis = 1
	}
	if a.Shape[axis] <= n {
		return &c
	}
	c.Shape = slices.Clone(a.Shape)
	c.Shape[axis] = n
	if a.Ints != nil {
		c.Ints = a.Ints[:n]
		return &c
	}
	c.Data = nil
	width := a.Shape[len(a.Shape)-1]
	rows := a.Shape[axis]
	for at := 0; at < len(a.Data); at += rows * width {
		c.Data = append(c.Data, a.Data[at:at+n*width]...)
	}
	return &c
}

// Part is what one rank wrote at one step, in execution order.
type Part struct {
	Names   []string
	Tensors map[string]*Array
}

func (p *Part) add(name string, a *Array) {
	if _, again := p.Tensors[name]; !again {
		p.Names = append(p.Names, name)
	}
	p.Tensors[name] = a
}

// drop removes the checkpoints for which f holds.
func (p *Part) drop(f func(name string) bool) {
	p.Names = slices.DeleteFunc(p.Names, func(n string) bool {
		if f(n) {
			delete(p.Tensors, n)
			return true
		}
		return false
	})
}

func (p *Part) clone() *Part {
	c := &Part{Names: slices.Clone(p.Names), Tensors: make(map[string]*Array, len(p.Tensors))}
	for n, a := range p.Tensors {
		c.Tensors[n] = a
	}
	return c
}

// Run is one side's dump.
type Run struct {
	// Parts is keyed by (step, rank).
	Parts map[[2]int]*Part
	// Facts is what the manifest says of the model, Manifest the rest of it:
	// "framework" (dump.Framework) and "mode"; nil without a manifest.
	Facts    diagnose.Facts
	Manifest map[string]any
}

func (r *Run) clone() *Run {
	c := *r
	c.Parts = make(map[[2]int]*Part, len(r.Parts))
	for k, p := range r.Parts {
		c.Parts[k] = p.clone()
	}
	return &c
}

func (r *Run) part(step, rank int) *Part {
	k := [2]int{step, rank}
	if r.Parts[k] == nil {
		r.Parts[k] = &Part{Tensors: map[string]*Array{}}
	}
	return r.Parts[k]
}

// Steps and Ranks list the parts' keys in ascending order.
func (r *Run) Steps() []int { return r.axis(0) }

// Ranks lists the ranks in ascending order.
func (r *Run) Ranks() []int { return r.axis(1) }

func (r *Run) axis(i int) []int {
	var out []int
	for k := range r.Parts {
		out = append(out, k[i])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

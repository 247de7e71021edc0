package corpus

import (
	"fmt"
	"math"
	"sync"

	"github.com/layerparity/parity/diagnose"
)

// Want is the explanation that a case deserves.
type Want struct {
	// Verdict is "parity", "divergence" or "untrusted" (docs/metrics.md);
	// empty where more than one is right.
	Verdict string `json:"verdict,omitempty"`
	// Causes are the accepted ids, the best first. Empty with Clean.
	Causes []string `json:"causes,omitempty"`
	// Enters are the accepted checkpoints, without step or rank prefix.
	Enters []string `json:"enters,omitempty"`
	// Values are the figures that the finding must hold within 1 %, by the
	// name of compare.Finding.Values.
	Values map[string]float64 `json:"values,omitempty"`
	// Exact says that a stated transform turns one side into the other to
	// rounding, so that the finding's proof can be exact.
	Exact bool `json:"exact,omitempty"`
	// MustNot are ids that no finding may have.
	MustNot []string `json:"must_not,omitempty"`
	// Clean says that nothing is wrong: only benign.* findings are allowed.
	Clean bool `json:"clean,omitempty"`
	// Silent says that the fault is near or below the floor of the dtype, or
	// that the taps cannot tell: no finding is right too, a wrong one is not.
	Silent bool `json:"silent,omitempty"`
	// Second is the cause of an independent second fault, SecondEnters where
	// it enters.
	Second       []string `json:"second,omitempty"`
	SecondEnters []string `json:"second_enters,omitempty"`
}

// Case is a pair of runs and its right explanation.
type Case struct {
	// ID is "D1", "D1/bf16" (the same with a bfloat16 port), "X-rope-linear",
	// "clean-identical".
	ID, Title string
	// Row is the row of docs/faults.md part A that it stands for, or empty.
	Row  string
	Want Want

	base Spec
	// both edits the two sides' model (weights, hooks), ref and port one side.
	both, ref, port func(p *Plan)
	arith           *Arith // of the port; nil is float32
	step, rank      int    // where the fault shows
	family          string // cases with equal base and both/ref share a reference
	bare            bool   // no manifest
}

// Build runs both sides. The reference is kept for the next case with the same
// model; the arrays of both runs must not be changed.
func (c Case) Build() (ref, port *Run) {
	ref, port = c.reference().clone(), c.portRun()
	if c.bare {
		ref.Facts, port.Facts = diagnose.Facts{}, diagnose.Facts{}
		ref.Manifest, port.Manifest = nil, nil
	}
	return ref, port
}

// Source is the part of the pair where the fault shows.
func (c Case) Source() diagnose.Source {
	ref, port := c.Build()
	return NewMemory(ref, port, c.step, c.rank)
}

// DType is the logical dtype of the coarser side: "float32", "tf32" where the
// products are not known to be full precision, "bfloat16", "float16".
func (c Case) DType() string {
	switch a := c.portArith(); {
	case a.noise > 1e-5:
		return "tf32"
	default:
		return a.DType
	}
}

// Floor is the rel_l2 that rounding alone may cause at a checkpoint: sqrt(2e)
// with e of docs/metrics.md.
func (c Case) Floor(checkpoint string) float64 {
	e := map[string][2]float64{
		"float32": {1e-10, 1e-9}, "tf32": {1e-6, 1e-5}, "float16": {1e-5, 1e-4}, "bfloat16": {5e-4, 5e-3},
	}[c.DType()]
	if checkpoint == "logits" {
		return math.Sqrt(2 * e[1])
	}
	return math.Sqrt(2 * e[0])
}

func (c Case) portArith() Arith {
	if c.arith != nil {
		return *c.arith
	}
	return arithF32
}

func (c Case) plan(a Arith) *Plan {
	p := &Plan{Spec: c.base.clone(), Weights: weightsOf(c.base).clone(), Arith: a}
	if c.both != nil {
		c.both(p)
	}
	return p
}

func (c Case) portRun() *Run {
	p := c.plan(c.portArith())
	if p.Arith.noise > 0 {
		p.Arith = p.Arith.withNoise(p.Arith.noise, c.base.Seed)
	}
	if c.port != nil {
		c.port(p)
	}
	return p.run()
}

func (c Case) reference() *Run {
	key := fmt.Sprintf("%+v %s", c.base, c.family)
	return references.get(key, func() *Run {
		p := c.plan(arithRef)
		if c.ref != nil {
			c.ref(p)
		}
		r := p.run()
		r.Facts = p.fullFacts()
		return r
	})
}

func weightsOf(s Spec) *Weights {
	return weightTables.get(fmt.Sprintf("%+v", s), func() *Weights { return newWeights(s) })
}

var (
	references   = cache[*Run]{limit: 24}
	weightTables = cache[*Weights]{limit: 24}
)

// cache keeps the last few values, and computes each once however many ask.
type cache[V any] struct {
	limit int
	mu    sync.Mutex
	made  map[string]func() V
	order []string
}

func (c *cache[V]) get(key string, make_ func() V) V {
	c.mu.Lock()
	f, ok := c.made[key]
	if !ok {
		f = sync.OnceValue(make_)
		if c.made == nil {
			c.made = map[string]func() V{}
		}
		c.made[key] = f
		c.order = append(c.order, key)
		if len(c.order) > c.limit {
			delete(c.made, c.order[0])
			c.order = c.order[1:]
		}
	}
	c.mu.Unlock()
	return f()
}

package diagnose

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/layerparity/parity/compare"
)

// TryMetrics are the figures of one comparison inside a what-if. Ref is the
// denominator everywhere; a NaN or Inf anywhere makes the figures NaN or Inf,
// never zero.
type TryMetrics struct {
	// RelL2 is ‖x-r‖ / ‖r‖; 0 where both are all zero, +Inf where only r is.
	RelL2 compare.Num `json:"rel_l2"`
	// Cos is <x,r> / (‖x‖·‖r‖); 1 where both are all zero, 0 where one is.
	Cos compare.Num `json:"cos"`
	// OneMinusCos is 1-cos by the difference formula of docs/metrics.md, which
	// keeps its digits near zero.
	OneMinusCos compare.Num `json:"one_minus_cos"`
	// MaxDiff is the largest |x-r|: a disagreement, not a magnitude.
	MaxDiff compare.Num `json:"max_diff"`
	// NormRatio is ‖x‖ / ‖r‖.
	NormRatio compare.Num `json:"norm_ratio"`
}

// TryStep is one transform of a chain with what it did.
type TryStep struct {
	// Apply is the transform as written, with its defaults left out.
	Apply string `json:"apply"`
	// Shape is the result's shape.
	Shape []int `json:"shape"`
	// Metrics compare the result with the target; nil while their shapes differ.
	Metrics *TryMetrics `json:"metrics,omitempty"`
}

// TryResult is the outcome of a what-if on the dumped tensors.
type TryResult struct {
	At string `json:"at"`
	// Target names what the result was compared with: "ref:<checkpoint>" unless
	// the chain ends in target(TAP).
	Target string     `json:"target"`
	Before TryMetrics `json:"before"`
	After  TryMetrics `json:"after"`
	// Floor is the rel_l2 that rounding alone may cause at the checkpoint.
	Floor compare.Num `json:"floor"`
	Steps []TryStep   `json:"steps"`
}

// Try applies transforms to the port's tensor at c.At and compares the result
// with the reference's. The expressions are chained in order, as if joined by
// "|". Before compares the untouched tensors of the checkpoint.
//
// It fails on an expression that does not parse, a tensor that was not dumped, a
// transform that the shape does not allow, and a result whose size is not the
// target's.
func Try(c *Context, exprs []string) (TryResult, error) {
	var chain []Transform
	for _, e := range exprs {
		ts, err := ParseTransforms(e)
		if err != nil {
			return TryResult{}, err
		}
		chain = append(chain, ts...)
	}
	if len(chain) == 0 {
		return TryResult{}, fmt.Errorf("trying at %s: no transform given; see 'parity try --help' for the list", c.At)
	}
	return runTry(c, chain)
}

// runTry evaluates a parsed chain.
func runTry(c *Context, chain []Transform) (TryResult, error) {
	res, _, _, err := evaluateTry(c, chain)
	return res, err
}

// evaluateTry also returns the result's tensor and what it was compared with.
func evaluateTry(c *Context, chain []Transform) (res TryResult, got, target *Tensor, err error) {
	at := place(c, c.At)
	ref, ok := c.Tensor(Ref, c.At)
	if !ok {
		return res, nil, nil, fmt.Errorf("trying at %s: the reference has no such checkpoint; its names: %s", at, fewNames(c.Names(Ref)))
	}
	env := &tryEnv{c: c, target: ref, targetName: "ref:" + c.At}
	v := &tryValue{}
	if port, ok := c.Tensor(Port, c.At); ok {
		v.Tensor = *port
	} else if chain[0].Spec.Name != "from" && chain[0].Spec.Name != "scores" && chain[0].Spec.Name != "sum" {
		return res, nil, nil, fmt.Errorf("trying at %s: the port has no such checkpoint; start from another with from(TAP)", at)
	}
	res = TryResult{At: at, Floor: compare.Num(c.FloorOf(c.At))}
	if v.Data != nil && len(v.Data) == len(ref.Data) {
		res.Before = measureTry(&v.Tensor, ref)
	} else {
		nan := compare.Num(math.NaN())
		res.Before = TryMetrics{RelL2: nan, Cos: nan, OneMinusCos: nan, MaxDiff: nan, NormRatio: nan}
	}
	for _, t := range chain {
		next, err := t.Spec.apply(env, v, t.args)
		if err == nil {
			next, err = limit(v, next, t.args)
		}
		if err != nil {
			return res, nil, nil, fmt.Errorf("applying %s at %s: %w", t, at, err)
		}
		v = next
		step := TryStep{Apply: t.String(), Shape: append([]int(nil), v.Shape...)}
		if len(v.Data) == len(env.target.Data) {
			m := measureTry(&v.Tensor, env.target)
			step.Metrics = &m
		}
		res.Steps = append(res.Steps, step)
	}
	if len(v.Data) != len(env.target.Data) {
		return res, nil, nil, fmt.Errorf("trying at %s: the result has shape %v, %s has %v", at, v.Shape, env.targetName, env.target.Shape)
	}
	res.Target = env.targetName
	res.After = measureTry(&v.Tensor, env.target)
	return res, &v.Tensor, env.target, nil
}

// limitParams are understood by every transform.
var limitParams = []TransformParam{
	{Name: "rows", Kind: argRanges, Doc: "apply to these tokens only: 0-3+7"},
	{Name: "cols", Kind: argRanges, Doc: "apply to these dims only: 0-63"},
}

// limit keeps a transform's result in the rows and cols that it was limited to
// and the old values elsewhere.
func limit(old, next *tryValue, a tryArgs) (*tryValue, error) {
	if !a.has("rows") && !a.has("cols") {
		return next, nil
	}
	if next.Rows != old.Rows || next.Cols != old.Cols {
		return nil, fmt.Errorf("rows= and cols= need a result of the same size, %v became %v", old.Shape, next.Shape)
	}
	rows, err := chosen(a, "rows", old.Rows)
	if err != nil {
		return nil, err
	}
	cols, err := chosen(a, "cols", old.Cols)
	if err != nil {
		return nil, err
	}
	data := append([]float64(nil), old.Data...)
	for r, in := range rows {
		for c := range cols {
			if in && cols[c] {
				data[r*old.Cols+c] = next.Data[r*old.Cols+c]
			}
		}
	}
	return next.like(data), nil
}

// chosen marks the indices of a range argument, all of them without one.
func chosen(a tryArgs, name string, n int) ([]bool, error) {
	in := make([]bool, n)
	for i := range in {
		in[i] = !a.has(name)
	}
	for _, i := range a.ints(name) {
		if i >= n {
			return nil, fmt.Errorf("%s=%d is outside 0 to %d", name, i, n-1)
		}
		in[i] = true
	}
	return in, nil
}

// tryValue is the tensor that flows through a chain. logits tells masks to write
// -Inf (before a softmax) and not 0 (after one).
type tryValue struct {
	Tensor
	logits bool
}

// like returns a value with new data and the shape of v.
func (v *tryValue) like(data []float64) *tryValue {
	w := *v
	w.Data = data
	return &w
}

// sized returns a value with new data and a new 2-D shape.
func (v *tryValue) sized(rows, cols int, data []float64) *tryValue {
	w := *v
	w.Rows, w.Cols, w.Shape, w.Data = rows, cols, []int{rows, cols}, data
	return &w
}

// tryEnv is what a transform may look at besides the value.
type tryEnv struct {
	c          *Context
	target     *Tensor
	targetName string
	// side is the run whose positions and facts a rope transform takes; set by
	// from(ref:...).
	side Side
	set  bool
}

// owner is the run that the value came from: the port's unless from(ref:TAP).
func (e *tryEnv) owner() Side {
	if e.set {
		return e.side
	}
	return Port
}

// tensor finds a tap written as [ref:|port:][step_0001/][rank_00/]name, where
// name is a tap of the layer at hand ("q_rope") or a whole name.
func (e *tryEnv) tensor(word string) (*Tensor, Side, error) {
	side := Port
	if strings.HasPrefix(word, "ref:") {
		side = Ref
	}
	step, rank, name := ParsePlace(trimSide(word))
	src := Source(e.c.Source)
	if step >= 0 || rank >= 0 {
		if step < 0 {
			step = e.c.Step()
		}
		if rank < 0 {
			rank = e.c.Rank()
		}
		part, ok := e.c.Part(step, rank)
		if !ok {
			return nil, side, fmt.Errorf("reading %s: no such step or rank in both runs", word)
		}
		src = part
	}
	names := []string{name}
	if e.c.Layer >= 0 {
		names = []string{LayerName(e.c.Layer, name), name}
	}
	for _, n := range names {
		if t, ok := src.Tensor(side, n); ok {
			return t, side, nil
		}
	}
	return nil, side, fmt.Errorf("reading %s: the %s did not dump it; its names: %s", word, side, fewNames(src.Names(side)))
}

// trimSide takes the side off a tap's name.
func trimSide(word string) string {
	if rest, ok := strings.CutPrefix(word, "ref:"); ok {
		return rest
	}
	return strings.TrimPrefix(word, "port:")
}

// place prefixes a checkpoint's name with its step and rank where the runs have
// several: "step_0001/layer_00.q_rope".
func place(c *Context, name string) string {
	var b strings.Builder
	if len(c.Steps()) > 1 {
		fmt.Fprintf(&b, "step_%04d/", c.Step())
	}
	if len(c.Ranks()) > 1 {
		fmt.Fprintf(&b, "rank_%02d/", c.Rank())
	}
	return b.String() + name
}

// ParsePlace splits "step_0001/rank_02/layer_00.q" into 1, 2 and the name; a part
// that is not written is -1.
func ParsePlace(at string) (step, rank int, name string) {
	step, rank = -1, -1
	for {
		head, rest, ok := strings.Cut(at, "/")
		if !ok {
			return step, rank, at
		}
		kind, num, _ := strings.Cut(head, "_")
		n, err := strconv.Atoi(num)
		switch {
		case err == nil && kind == "step" && step < 0:
			step = n
		case err == nil && kind == "rank" && rank < 0:
			rank = n
		default:
			return step, rank, at
		}
		at = rest
	}
}

// fewNames joins the first names of a run for an error message.
func fewNames(names []string) string {
	const most = 12
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return fmt.Sprintf("%s, ... (%d in all)", strings.Join(names[:most], ", "), len(names))
	}
	return strings.Join(names, ", ")
}

// measureTry compares two tensors of one size.
func measureTry(x, r *Tensor) TryMetrics {
	var dot, a2, b2, d2, most float64
	for i, v := range x.Data {
		w := r.Data[i]
		d := v - w
		if v == w {
			d = 0 // equal infinities
		}
		dot += v * w
		a2 += w * w
		b2 += v * v
		d2 += float64(d * d)
		if ad := math.Abs(d); ad > most || ad != ad {
			most = ad
		}
	}
	na, nb := math.Sqrt(a2), math.Sqrt(b2)
	same := *x
	same.Rows, same.Cols = r.Rows, r.Cols
	m := TryMetrics{MaxDiff: compare.Num(most), RelL2: compare.Num(distance(r, &same).Whole)}
	switch {
	case a2 == 0 && b2 == 0:
		m.Cos, m.NormRatio = 1, 1
		return m
	case a2 == 0 || b2 == 0:
		m.OneMinusCos = 1
	default:
		cos := dot / (na * nb)
		omc := 1 - cos
		if cos >= 0.5 {
			dn := (a2 - b2) / (na + nb)
			omc = math.Max(0, (d2-dn*dn)/(2*na*nb))
			cos = 1 - omc
		}
		m.Cos, m.OneMinusCos = compare.Num(cos), compare.Num(omc)
	}
	m.NormRatio = compare.Num(nb / na)
	return m
}

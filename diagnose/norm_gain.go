package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare"
)

// gainRelation is one way in which a gain can be made of the other side's.
type gainRelation struct {
	claim string
	// of predicts the port's gain of a dim from the reference's; near is the
	// port's own, for a prediction that is one of two neighbours.
	of  func(ref, near float64) float64
	fix string
}

// gainRelations are tried in order.
var gainRelations = []gainRelation{
	{"the port's gain is the reference's plus one: the one of a zero-centred weight is added twice, or only here", func(g, _ float64) float64 { return g + 1 }, "do not add one: the reference's weight holds it, or adds it once"},
	{"the port's gain is the reference's minus one: the one of a zero-centred weight is not added", func(g, _ float64) float64 { return g - 1 }, "add one to the weight, as the reference does"},
	{"the port's gain is one in every dim: the weight is not applied, or was never loaded", func(float64, float64) float64 { return 1 }, "apply the norm's weight"},
	{"the port's gain is the square of the reference's: the weight is applied twice", func(g, _ float64) float64 { return g * g }, "apply the weight once"},
	{"the port's gain is zero-centred where the reference's is not: 1 - the reference's", func(g, _ float64) float64 { return 1 - g }, "load the weight with the reference's sign"},
	{"the port's gain is the reciprocal of the reference's", func(g, _ float64) float64 { return 1 / g }, "multiply by the weight, do not divide"},
	{"the port's gain is one plus the weight rounded to bfloat16, the reference's is not rounded", bfloat16Near, "add the one, and keep the sum, in float32"},
}

// bfloat16Near is g rounded to bfloat16; the recovered gain may lie just off a
// tie, so the neighbour that the port has is taken where both are as near.
func bfloat16Near(g, near float64) float64 {
	r, n := roundFloat("bfloat16", g), roundFloat("bfloat16", near)
	if math.Abs(math.Abs(n-g)-math.Abs(r-g)) < 1e-5*math.Abs(g) {
		return n
	}
	return r
}

// normGain: another gain per dim under the same normalisation.
func normGain(p normPair) (compare.Finding, bool) {
	r, q := p.rule[Ref], p.rule[Port]
	tol := p.gainTolerance()
	if sameGain(r.Gain, q.Gain, tol) {
		return compare.Finding{}, false
	}
	if len(testRanks(p.c)) > 0 {
		return compare.Finding{}, false // the weight of one rank alone
	}
	if f, ok := swappedGain(p); ok {
		return f, true
	}
	ratio := make([]float64, len(r.Gain))
	for d, g := range r.Gain {
		ratio[d] = q.Gain[d] / g
	}
	if m := medianOf(ratio); spreadOf(ratio, m) < tol && medianOf(r.Gain) != 0 && !flat(r.Gain, 1) && !near(m, 1, tol) && sameGain(scaleAll(r.Gain, m), q.Gain, tol) {
		return compare.Finding{}, false // one number for all dims: scale.constant says it with one parameter
	}
	// The whole of the reference's rule: its eps may be another too.
	f, ok := p.judge("norm.gain", r, q, p.here(Ref), p.here(Port), p.ref.Cols)
	if !ok {
		return f, false
	}
	f.Claim = fmt.Sprintf("the norm at %s multiplies by another weight per dim", p.c.At)
	f.Verify = "print the norm's weight on both sides, as loaded and as applied"
	f.Fix = "load and apply the reference's weight"
	f.Values["reference"], f.Values["port"] = gainText(r.Gain), gainText(q.Gain)
	for _, rel := range gainRelations {
		worst := 0.0
		rms, scale := 0.0, 0.0
		for d, g := range r.Gain {
			e := rel.of(g, q.Gain[d]) - q.Gain[d]
			worst = max(worst, math.Abs(e))
			rms += e * e
			scale += q.Gain[d] * q.Gain[d]
		}
		if rms = math.Sqrt(rms / scale); !(rms <= tol) {
			continue
		}
		f.Claim = fmt.Sprintf("at the norm %s %s", p.c.At, rel.claim)
		f.Fix = rel.fix
		f.Params = 0
		f.Values["relation"] = rel.claim
		f.For = append(f.For, fmt.Sprintf("recovered from both outputs, the relation holds to %s over %d dims (worst %s)", g2(rms), len(r.Gain), g2(worst)))
		break
	}
	f.For = append(f.For,
		fmt.Sprintf("port/reference is one number per dim, the same at every token (median %s, from %s to %s)", g6(medianOf(ratio)), g6(least(ratio)), g6(greatest(ratio))),
		"the normalisation is the same")
	if sigma := math.Hypot(r.EpsErr, q.EpsErr); math.Abs(r.Eps-q.Eps) > 8*sigma {
		f.For = append(f.For, fmt.Sprintf("eps differs as well: %s in the port, %s in the reference", q.epsText(), r.epsText()))
	}
	return f, true
}

// swappedGain looks for the port's gain among the reference's other norms: a
// layer that runs with another layer's weights shows it here first.
func swappedGain(p normPair) (compare.Finding, bool) {
	q := p.rule[Port]
	if flat(q.Gain, q.Gain[0]) {
		return compare.Finding{}, false // an untrained gain is like any other
	}
	for _, name := range p.c.Names(Ref) {
		_, tap := SplitName(name)
		if name == p.c.At || !slices.Contains(normTaps, tap) {
			continue
		}
		t, ok := p.c.Tensor(Ref, name)
		if !ok || t.Cols != p.ref.Cols {
			continue
		}
		other, _, ok := p.c.readNorm(Ref, name)
		if !ok || !sameGain(other.Gain, q.Gain, p.gainTolerance()) || sameGain(other.Gain, p.rule[Ref].Gain, p.gainTolerance()) {
			continue
		}
		x := p.in[Port]
		byPort := q.withGain(other)
		tr := trial{
			before: distance(p.port, q.withGain(p.rule[Ref]).apply(x.Tensor)), after: distance(p.port, byPort.apply(x.Tensor)),
			floor: p.c.ruleFloor(p.port), values: len(p.port.Data),
		}
		f, ok := p.c.finding("weights.swapped", tr)
		if !ok {
			continue
		}
		layer, _ := SplitName(name)
		sides(&f, p.c.At, name)
		f.Values["weights_of"] = name
		f.Claim = fmt.Sprintf("the port's %s runs with the weight that the reference has at %s", p.c.At, name)
		if layer >= 0 && layer != p.c.Layer {
			f.Claim = fmt.Sprintf("layer %d of the port runs with the norm weight of the reference's layer %d (%s)", p.c.Layer, layer, name)
			f.Values["layer"] = layer
		}
		f.For = append(f.For,
			fmt.Sprintf("the gain of each of %d dims, recovered from input and output, equals the reference's at %s; no parameter is fitted to the port", len(q.Gain), name),
			fmt.Sprintf("with it the port's own input gives the port's output to %s (with the weight of %s: %s)", g2(tr.after.Whole), p.c.At, g2(tr.before.Whole)))
		f.Against = append(f.Against, "the linear maps of the layer need more tokens than dims to be read off a dump, so only the norm is proven")
		f.Try = p.c.tryLine("%s | %s | gain(%s) | target(port)", x.Expr, q.call(p.ref.Cols), tapOf(Ref, name))
		f.Verify = "compare the checkpoint's keys with the layers they were loaded into, this layer and the other; look at the other layer too (exchanged, or loaded twice)"
		f.Fix = fmt.Sprintf("load the weights of %s", p.c.At)
		return f, true
	}
	return compare.Finding{}, false
}

func scaleAll(x []float64, by float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * by
	}
	return out
}

// gainText sums up a gain.
func gainText(g []float64) string {
	return fmt.Sprintf("median %s, from %s to %s", g3(medianOf(g)), g3(least(g)), g3(greatest(g)))
}

func least(x []float64) float64 {
	m := math.Inf(1)
	for _, v := range x {
		m = min(m, v)
	}
	return m
}

func greatest(x []float64) float64 {
	m := math.Inf(-1)
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare"
)

// ropeDiff is one property that the two sides' rules do not share.
type ropeDiff struct {
	cause     string
	ref, port any
	claim     string
	more      map[string]any
	verify    string
	fix       string
}

// compareRopes lists what differs, the most telling first.
func compareRopes(c *Context, r, p ropeFound) []ropeDiff {
	a, b := r.rule, p.rule
	d := r.turns.headDim
	if a.None != b.None {
		return []ropeDiff{appliedDiff(a, b)}
	}
	if a.None {
		return nil
	}
	var out []ropeDiff
	add := func(x ropeDiff, differs bool) {
		if differs {
			out = append(out, x)
		}
	}
	if twice, ok := twiceDiff(a, b); ok {
		return []ropeDiff{twice}
	}
	add(layoutDiff(a, b))
	add(widthDiff(a, b, d))
	add(sectionDiff(a, b, p.turns.n))
	if a.Sections == nil || slices.Equal(a.Sections, b.Sections) {
		add(positionDiff(c, r, p))
	}
	add(scalingDiff(a, b))
	add(thetaDiff(a, b))
	add(frequencyDiff(r, p))
	add(precisionDiff(a, b))
	return out
}

func appliedDiff(a, b ropeRule) ropeDiff {
	word := func(r ropeRule) string {
		if r.None {
			return "not rotated"
		}
		return "rotated"
	}
	who := "port rotates, reference does not"
	if b.None {
		who = "reference rotates, port does not"
	}
	return ropeDiff{
		cause: "rope.applied", ref: word(a), port: word(b),
		claim:  who + ": its tensor after the rotation is the one before it",
		verify: "see whether the model marks this layer as one without positions (NoPE: no_rope_layers, layer types), and which of the two codes reads that",
		fix:    "rotate in exactly the layers that the model's config names",
	}
}

// twiceDiff: the same rotation done twice is the rotation by twice the angle.
func twiceDiff(a, b ropeRule) (ropeDiff, bool) {
	double := func(x, y ropeRule) bool {
		return y.Scaling == "linear" && y.Factor == 0.5 && x.Scaling == "" && x.Theta == y.Theta && x.Layout == y.Layout && x.Dims == y.Dims
	}
	d := ropeDiff{
		cause:  "rope.applied",
		verify: "look for a second call: in the attention module and again in the kernel or the cache write",
		fix:    "rotate once",
	}
	switch {
	case double(a, b):
		d.ref, d.port, d.claim = 1, 2, "port rotates twice, reference once: every angle is doubled"
	case double(b, a):
		d.ref, d.port, d.claim = 2, 1, "reference rotates twice, port once: every angle is halved"
	default:
		return d, false
	}
	return d, true
}

func layoutDiff(a, b ropeRule) (ropeDiff, bool) {
	d := ropeDiff{
		cause: "rope.layout", ref: a.Layout, port: b.Layout,
		claim:  fmt.Sprintf("port rotates %s, reference %s", layoutText(b.Layout), layoutText(a.Layout)),
		verify: "read the indexing, not the function's name: x[..., :d/2] with x[..., d/2:] is half-split, x[..., 0::2] with x[..., 1::2] is interleaved; and see whether the converter permuted the rows of the q and k weights",
		fix:    "rotate the pairs that the weights were stored for, or permute the rows of the q and k weights (never both)",
	}
	if a.Negative != b.Negative && a.Layout == b.Layout {
		sign := func(n bool) string {
			if n {
				return "negative"
			}
			return "positive"
		}
		d.ref, d.port = sign(a.Negative), sign(b.Negative)
		d.claim = "port turns the pairs in the opposite direction of the reference: the sign of sin differs"
		d.verify = "compare the sign in rotate_half: (-x2, x1) against (x2, -x1), and the order of sin and cos in the table"
		d.fix = "use the reference's sign"
		return d, true
	}
	return d, a.Layout != b.Layout
}

func layoutText(l string) string {
	if l == "interleaved" {
		return "interleaved pairs (2i, 2i+1)"
	}
	return "half-split pairs (i, i+d/2)"
}

// narrowed writes adjacent pairs of which the first few turn as what they are: a
// rotation of those dims alone.
func (r ropeRule) narrowed() ropeRule {
	if r.Layout == "interleaved" && r.Pairs > 0 && r.Den == 2*r.Pairs {
		r.Dims, r.Pairs, r.Den = 2*r.Pairs, 0, 0
	}
	return r
}

func widthDiff(a, b ropeRule, headDim int) (ropeDiff, bool) {
	a, b = a.narrowed(), b.narrowed()
	wa, wb := a.width(headDim), b.width(headDim)
	turn := func(r ropeRule, w int) int {
		if r.Pairs > 0 {
			return min(2*r.Pairs, w)
		}
		return w
	}
	ta, tb := turn(a, wa), turn(b, wb)
	da, db := orInt(a.Den, wa), orInt(b.Den, wb)
	d := ropeDiff{
		cause: "rope.width", ref: tb, port: tb,
		verify: "compare partial_rotary_factor, rotary_dim or rope_head_dim as each code reads it",
		fix:    "rotate the same leading dims of each head, with exponents over the same width",
	}
	d.ref = ta
	switch {
	case ta == tb && a.Start != b.Start:
		d.ref, d.port = fmt.Sprintf("dims %d to %d", a.Start, a.Start+wa-1), fmt.Sprintf("dims %d to %d", b.Start, b.Start+wb-1)
		d.claim = fmt.Sprintf("port rotates dims %d to %d of each head, reference dims %d to %d", b.Start, b.Start+wb-1, a.Start, a.Start+wa-1)
		d.verify = "see which part of each head carries positions: heads with a part without positions in front (qk_nope_head_dim) rotate the rest"
		d.fix = "rotate the dims that the reference rotates"
	case ta != tb:
		d.claim = fmt.Sprintf("port rotates %d of %d dims of a head, reference %d", tb, headDim, ta)
	case wa != wb:
		d.claim = fmt.Sprintf("both turn %d dims of a head, but port pairs dims %d apart and reference %d apart", ta, wb/2, wa/2)
		d.more = map[string]any{"partner_ref": wa / 2, "partner_port": wb / 2}
	case da != db:
		d.claim = fmt.Sprintf("port's exponents are 2i/%d, reference's 2i/%d", db, da)
		d.more = map[string]any{"denominator_ref": da, "denominator_port": db}
	default:
		return d, false
	}
	return d, true
}

func sectionDiff(a, b ropeRule, n int) (ropeDiff, bool) {
	ta, tb := a.sectionText(n), b.sectionText(n)
	return ropeDiff{
		cause: "rope.sections", ref: ta, port: tb,
		claim:  fmt.Sprintf("position axis of each pair: port %s, reference %s", tb, ta),
		verify: "compare mrope_section and mrope_interleaved as each code reads them; text tokens have the same position on every axis and cannot show it",
		fix:    "give the pairs to the axes in the reference's order",
	}, ta != tb && (a.Sections != nil || b.Sections != nil)
}

func scalingDiff(a, b ropeRule) (ropeDiff, bool) {
	if a.Freqs != nil || b.Freqs != nil {
		return ropeDiff{}, false
	}
	d := ropeDiff{
		cause: "rope.scaling", ref: a.scalingText(), port: b.scalingText(),
		claim:  fmt.Sprintf("context extension: port %s; reference %s", b.scalingText(), a.scalingText()),
		more:   map[string]any{},
		verify: "compare rope_scaling (rope_parameters in newer configs) as each code reads it: type, factor, original length, attention_factor",
		fix:    "apply the reference's scaling to inv_freq, and its attention factor to cos and sin",
	}
	for _, r := range []ropeRule{b, a} {
		if r.Scaling != "" {
			d.more["scaling"], d.more["factor"] = r.Scaling, compare.Num(r.Factor)
		}
		if r.Mscale != 0 && orDefault(a.Mscale, 1) != orDefault(b.Mscale, 1) {
			d.more["attention_factor"] = compare.Num(r.Mscale)
		}
	}
	same := a.Scaling == b.Scaling && (a.Scaling == "" || near(a.Factor, b.Factor, 1e-6) && a.Orig == b.Orig && a.Low == b.Low && a.High == b.High) &&
		orDefault(a.Mscale, 1) == orDefault(b.Mscale, 1)
	return d, !same
}

func thetaDiff(a, b ropeRule) (ropeDiff, bool) {
	d := ropeDiff{
		cause: "rope.theta", ref: a.Theta, port: b.Theta,
		claim:  fmt.Sprintf("port rotates with theta = %s, reference with %s", shortNum(b.Theta), shortNum(a.Theta)),
		verify: "print rope_theta as each code reads it: newer configs keep it in rope_parameters, and a class default of 10000 is the usual stale value; local and global layers may have one each",
		fix:    "read theta from where this model's config keeps it",
	}
	if a.Freqs != nil || b.Freqs != nil {
		return d, false
	}
	return d, math.Abs(math.Log(a.Theta/b.Theta)) > 1e-6
}

// frequencyDiff reports frequencies that follow no law that is tried.
func frequencyDiff(r, p ropeFound) (ropeDiff, bool) {
	if r.rule.Freqs == nil && p.rule.Freqs == nil {
		return ropeDiff{}, false
	}
	a, b := r.rule.frequencies(r.turns.headDim), p.rule.frequencies(p.turns.headDim)
	n := min(len(a), len(b))
	ratio := make([]string, 0, n)
	moved := 0
	for i := 0; i < n; i++ {
		q := b[i] / a[i]
		ratio = append(ratio, g2(q))
		if math.Abs(q-1) > 1e-2 {
			moved++
		}
	}
	d := ropeDiff{
		cause: "rope.scaling", ref: "measured", port: "measured",
		claim:  fmt.Sprintf("port turns %d of %d pairs at another speed; the ratio to the reference follows no scaling that is known here: %s", moved, n, join(ratio, 12)),
		verify: "print inv_freq of both codes and compare it pair by pair",
		fix:    "build inv_freq by the reference's rule",
	}
	return d, moved > 0
}

func precisionDiff(a, b ropeRule) (ropeDiff, bool) {
	parts := func(r ropeRule) (s []string) {
		for _, p := range []struct{ what, dtype string }{
			{"positions", r.RoundPos}, {"inv_freq", r.RoundFreq}, {"angles", r.RoundAngle}, {"cos and sin", r.RoundTable},
		} {
			if p.dtype != "" && p.dtype != "float32" {
				s = append(s, p.what+" in "+p.dtype)
			}
		}
		return s
	}
	text := func(s []string) string {
		if len(s) == 0 {
			return "full precision"
		}
		return join(s, 4)
	}
	pa, pb := text(parts(a)), text(parts(b))
	return ropeDiff{
		cause: "rope.precision", ref: pa, port: pb,
		claim:  fmt.Sprintf("precision of the rotation: port %s; reference %s", pb, pa),
		verify: "print the dtype of position_ids, inv_freq, their product and the cos/sin table where each is made; autocast and .to(dtype) on the whole module are the usual ways in",
		fix:    "keep positions, inv_freq and the angles in float32, and cast cos and sin at the end only",
	}, pa != pb
}

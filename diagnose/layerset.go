package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/layerparity/parity/compare"
)

// layerSetHypothesis: a property that only some layers of the model have sits on
// other layers in the port.
var layerSetHypothesis = Hypothesis{
	ID:     "layer_set",
	Causes: []string{"layers.set"},
	Taps:   []string{"q_rope", "k_rope", "attn_probs"},
	Needs:  "the tap at this layer and at the other layers of the pattern (q beside q_rope)",
	Silent: "every layer of the reference that was dumped has the property, or none has",
	Source: "sets of layers with a property, reference against port: complement, shift, all; pattern P17 (sliding on odd layers for even ones, RoPE on NoPE layers)",
	Test:   testLayerSet,
}

// layerProperty is what one layer does on each side, in words.
type layerProperty struct {
	layer     int
	ref, port string
}

func testLayerSet(c *Context) []compare.Finding {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return nil
	}
	read, test := rotationOf, testRope
	if c.Tap == "attn_probs" {
		read, test = maskOf, testAttention
	}
	here, ok := read(c)
	if !ok || here.ref == here.port {
		return nil
	}
	var all []layerProperty
	for _, l := range c.layersWith(c.Tap) {
		d := c.Move(LayerName(l, c.Tap))
		d.Note = func(string, ...any) {}
		if p, ok := read(d); ok {
			p.layer = l
			all = append(all, p)
		}
	}
	set, what, ok := layerSets(all, here)
	if !ok {
		return nil
	}
	quiet := *c
	quiet.Note = func(string, ...any) {}
	for _, f := range test(&quiet) {
		if f.Proof == compare.ProofSignature {
			continue
		}
		f.Cause = "layers.set"
		f.Values = map[string]any{"reference": set.ref, "port": set.port, "property": what}
		f.For = append([]string{
			fmt.Sprintf("of the %d layers dumped, the reference's %s: layers %s; the port's: layers %s", len(all), what, rangesOf(set.ref), rangesOf(set.port)),
			"here: " + f.Claim,
		}, f.For...)
		f.Claim = fmt.Sprintf("%s sits on other layers: port %s, reference %s%s", what, setText(set.port), setText(set.ref), relation(set, len(all)))
		f.Verify = "print what decides it per layer in both codes (layer_types, sliding_window_pattern, no_rope_layers, interleave): 0-based against 1-based counting and a flag read as its opposite are the usual reasons"
		f.Fix = "give the property to the layers that the reference gives it to"
		return []compare.Finding{f}
	}
	return nil
}

// layersWith lists the layers at which both sides dumped a tap.
func (c *Context) layersWith(tap string) []int {
	var out []int
	for _, n := range c.Names(Ref) {
		if l, t := SplitName(n); t == tap && l >= 0 && c.Has(Port, n) {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return out
}

// rotationOf tells whether and how a layer rotates.
func rotationOf(c *Context) (p layerProperty, ok bool) {
	ref, port, ok := c.Pair(c.At)
	if !ok || !ref.finite() || !port.finite() {
		return p, false
	}
	r, q, ok := ropeRules(c, ref, port)
	if !ok {
		return p, false
	}
	return layerProperty{ref: r.rule.describe(), port: q.rule.describe()}, true
}

// maskOf tells how far a layer sees.
func maskOf(c *Context) (p layerProperty, ok bool) {
	ref, port, ok := c.Pair(c.At)
	if !ok || len(ref.Data) != len(port.Data) || !ref.finite() || !port.finite() {
		return p, false
	}
	g, err := gridOf(ref)
	if err != nil {
		return p, false
	}
	a, b := supports(ref.Data, port.Data, g)
	text := func(s support) string {
		w, m := ownWindow(s), ownAhead(s)
		if w.kind == "window" {
			return w.text
		}
		if m.kind == "causal" {
			return "the whole causal past"
		}
		return m.text
	}
	return layerProperty{ref: text(a), port: text(b)}, true
}

// twoSets are the layers that have a property on each side.
type twoSets struct{ ref, port []int }

// layerSets finds the property of this layer (the port's or the reference's rule
// here) that another layer of the reference has too, so that it is a matter of
// which layers. ok is false where the reference treats all layers alike.
func layerSets(all []layerProperty, here layerProperty) (s twoSets, what string, ok bool) {
	uniform := true
	for _, p := range all {
		uniform = uniform && p.ref == all[0].ref
	}
	if uniform || len(all) < 2 {
		return s, "", false
	}
	known := func(rule string) bool {
		return slices.ContainsFunc(all, func(p layerProperty) bool { return p.ref == rule })
	}
	if !known(here.port) {
		return s, "", false // a rule that the reference has nowhere
	}
	what = here.port
	if here.port == "not rotated" || strings.HasPrefix(here.ref, "a window") {
		what = here.ref
	}
	for _, p := range all {
		if p.ref == what {
			s.ref = append(s.ref, p.layer)
		}
		if p.port == what {
			s.port = append(s.port, p.layer)
		}
	}
	return s, what, true
}

func setText(l []int) string {
	if len(l) == 0 {
		return "on none"
	}
	return "on " + rangesOf(l)
}

// relation names how two sets of n layers are related.
func relation(s twoSets, n int) string {
	both := 0
	for _, l := range s.ref {
		if slices.Contains(s.port, l) {
			both++
		}
	}
	shift := func(d int) bool {
		if len(s.ref) == 0 || both == len(s.ref) {
			return false
		}
		for _, l := range s.port {
			if !slices.Contains(s.ref, l-d) {
				return false
			}
		}
		return len(s.port) > 0 && abs(len(s.port)-len(s.ref)) <= 1
	}
	switch {
	case len(s.port) == 0 || len(s.ref) == 0:
		return ""
	case both == 0 && len(s.ref)+len(s.port) == n && len(s.port) > 0:
		return " (exactly the other layers)"
	case shift(1):
		return " (shifted by one: 0-based against 1-based)"
	case shift(-1):
		return " (shifted by one the other way)"
	case len(s.port) == n:
		return " (all layers)"
	case both == len(s.port) && both < len(s.ref):
		return " (some of the reference's)"
	case both == len(s.ref) && both < len(s.port):
		return " (all of the reference's and more)"
	}
	return ""
}

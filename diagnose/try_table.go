package diagnose

import (
	"slices"
	"strings"
)

// TransformSpec is one row of the table of what-if transforms.
type TransformSpec struct {
	Name string
	// Params in positional order. A Variadic transform takes any number of taps
	// before its named parameters.
	Params   []TransformParam
	Variadic bool
	// Doc says what it does, Formula how; x is the value that flows through.
	Doc, Formula string
	apply        func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error)
}

// Usage writes the call with its parameters: "roll(n, axis=cols|rows)".
func (s TransformSpec) Usage() string {
	var parts []string
	if s.Variadic {
		parts = append(parts, "TAP, ...")
	}
	for _, p := range s.Params {
		w := p.Name
		switch {
		case len(p.Words) > 0 && p.Kind == argOrder:
			w += "=" + strings.Join(p.Words, "|") + "|[list]"
		case len(p.Words) > 0:
			w += "=" + strings.Join(p.Words, "|")
		case p.Kind == argTap:
			w += "=TAP"
		case p.Kind == argList:
			w += "=[...]"
		}
		if !p.Required {
			w = "[" + w + "]"
		}
		parts = append(parts, w)
	}
	return s.Name + "(" + strings.Join(parts, ", ") + ")"
}

// transformTable holds every transform; a new one is a row in the file of its
// family and nothing else.
var transformTable = slices.Concat(
	sourceTransforms, arithmeticTransforms, orderTransforms, normTransforms,
	activationTransforms, ropeTransforms, attentionTransforms, algebraicTransforms, axisTransforms,
)

// Transforms returns the table for help texts and documentation.
func Transforms() []TransformSpec { return slices.Clone(transformTable) }

func findTransform(name string) (TransformSpec, bool) {
	for _, s := range transformTable {
		if s.Name == name {
			return s, true
		}
	}
	return TransformSpec{}, false
}

func transformNames() []string {
	var out []string
	for _, s := range transformTable {
		out = append(out, s.Name)
	}
	return out
}

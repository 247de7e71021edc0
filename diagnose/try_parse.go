package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Transform is one parsed step of a what-if: a row of the transform table with
// its arguments.
type Transform struct {
	Spec TransformSpec
	args tryArgs
	text string
}

// String returns the transform as it was written.
func (t Transform) String() string { return t.text }

// argKind is what a transform's parameter takes.
type argKind int

const (
	argNumber argKind = iota
	argInt
	argFlag
	argWord
	argTap
	argList
	// argOrder is a list of numbers or one of the transform's words.
	argOrder
	// argRanges is a set of indices: "0-3+7+9-12".
	argRanges
)

// String names the kind for usage texts and errors.
func (k argKind) String() string {
	return [...]string{"number", "whole number", "true or false", "word", "TAP", "[list]", "word or [list]", "range such as 0-3+7"}[k]
}

// TransformParam is one parameter of a transform. Positional arguments fill the
// parameters in order; any can be given by name.
type TransformParam struct {
	Name string
	Kind argKind
	// Words are the legal values of a word.
	Words []string
	// Required refuses a call without it.
	Required bool
	Doc      string
}

// tryArg is one argument's value; which field holds it follows from the kind.
type tryArg struct {
	num  float64
	word string
	list []float64
}

// tryArgs are the arguments of one call by parameter name, and the taps of a
// variadic transform.
type tryArgs struct {
	byName map[string]tryArg
	taps   []string
}

func (a tryArgs) has(name string) bool { _, ok := a.byName[name]; return ok }

func (a tryArgs) num(name string, def float64) float64 {
	if v, ok := a.byName[name]; ok {
		return v.num
	}
	return def
}

func (a tryArgs) int(name string, def int) int { return int(a.num(name, float64(def))) }

func (a tryArgs) flag(name string) bool { return a.num(name, 0) != 0 }

func (a tryArgs) word(name, def string) string {
	if v, ok := a.byName[name]; ok {
		return v.word
	}
	return def
}

func (a tryArgs) list(name string) []float64 { return a.byName[name].list }

func (a tryArgs) ints(name string) []int {
	l := a.list(name)
	if l == nil {
		return nil
	}
	out := make([]int, len(l))
	for i, v := range l {
		out[i] = int(v)
	}
	return out
}

// ParseTransforms parses a chain such as
//
//	unrope(theta=10000) | rope(theta=500000, layout=half)
//
// A transform is a name of the table with arguments in parentheses, which may be
// left out where none is needed. An argument is a value or name=value; a value is
// a number, a [list, of, numbers], a word, or a tap ("q_rope", "layer_03.v",
// "ref:post_embed", "step_0001/layer_00.k"). Errors name the place, and what
// would be legal there.
func ParseTransforms(expr string) ([]Transform, error) {
	p := &tryParser{src: expr}
	var out []Transform
	for {
		t, err := p.transform()
		if err != nil {
			return nil, fmt.Errorf("parsing %q at offset %d: %w", expr, p.pos, err)
		}
		out = append(out, t)
		p.space()
		if p.pos == len(p.src) {
			return out, nil
		}
		if !p.eat('|') {
			return nil, fmt.Errorf("parsing %q at offset %d: expected '|' between transforms, found %q", expr, p.pos, p.src[p.pos:])
		}
	}
}

type tryParser struct {
	src string
	pos int
}

func (p *tryParser) space() {
	for p.pos < len(p.src) && (p.src[p.pos] == ' ' || p.src[p.pos] == '\t' || p.src[p.pos] == '\n') {
		p.pos++
	}
}

func (p *tryParser) eat(c byte) bool {
	p.space()
	if p.pos < len(p.src) && p.src[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

// token reads a run of characters that can be part of a name, tap or number.
func (p *tryParser) token() string {
	p.space()
	start := p.pos
	for p.pos < len(p.src) && !strings.ContainsRune(" \t\n|(),=[]", rune(p.src[p.pos])) {
		p.pos++
	}
	return p.src[start:p.pos]
}

func (p *tryParser) transform() (Transform, error) {
	p.space()
	start := p.pos
	name := p.token()
	if name == "" {
		return Transform{}, fmt.Errorf("expected a transform's name; known: %s", strings.Join(transformNames(), ", "))
	}
	spec, ok := findTransform(name)
	if !ok {
		return Transform{}, fmt.Errorf("unknown transform %q; known: %s", name, strings.Join(transformNames(), ", "))
	}
	args := tryArgs{byName: map[string]tryArg{}}
	if p.eat('(') {
		if err := p.arguments(spec, &args); err != nil {
			return Transform{}, fmt.Errorf("%s: %w; usage: %s", name, err, spec.Usage())
		}
	}
	for _, prm := range spec.Params {
		if prm.Required && !args.has(prm.Name) {
			return Transform{}, fmt.Errorf("%s needs %s (%s); usage: %s", name, prm.Name, prm.Kind, spec.Usage())
		}
	}
	if spec.Variadic && len(args.taps) == 0 {
		return Transform{}, fmt.Errorf("%s needs at least one TAP; usage: %s", name, spec.Usage())
	}
	return Transform{Spec: spec, args: args, text: strings.TrimSpace(p.src[start:p.pos])}, nil
}

func (p *tryParser) arguments(spec TransformSpec, args *tryArgs) error {
	if p.eat(')') {
		return nil
	}
	next := 0
	for {
		if p.eat('[') {
			if err := p.positional(spec, args, &next, "", true); err != nil {
				return err
			}
		} else {
			tok := p.token()
			if tok == "" {
				return fmt.Errorf("expected an argument")
			}
			if p.eat('=') {
				if err := p.named(spec, args, tok); err != nil {
					return err
				}
			} else if err := p.positional(spec, args, &next, tok, false); err != nil {
				return err
			}
		}
		switch {
		case p.eat(')'):
			return nil
		case p.eat(','):
		default:
			return fmt.Errorf("expected ',' or ')'")
		}
	}
}

func (p *tryParser) positional(spec TransformSpec, args *tryArgs, next *int, tok string, list bool) error {
	if spec.Variadic && !list {
		args.taps = append(args.taps, tok)
		return nil
	}
	if *next >= len(spec.Params) {
		return fmt.Errorf("too many arguments")
	}
	prm := spec.Params[*next]
	*next++
	return p.value(args, prm, tok, list)
}

func (p *tryParser) named(spec TransformSpec, args *tryArgs, name string) error {
	for _, prm := range append(slices.Clone(spec.Params), limitParams...) {
		if prm.Name != name {
			continue
		}
		if p.eat('[') {
			return p.value(args, prm, "", true)
		}
		return p.value(args, prm, p.token(), false)
	}
	return fmt.Errorf("unknown parameter %q", name)
}

func (p *tryParser) value(args *tryArgs, prm TransformParam, tok string, list bool) error {
	if args.has(prm.Name) {
		return fmt.Errorf("%s given twice", prm.Name)
	}
	if list {
		return p.listValue(args, prm)
	}
	a := tryArg{word: tok}
	switch prm.Kind {
	case argFlag:
		switch tok {
		case "true":
			a.num = 1
		case "false":
		default:
			return fmt.Errorf("%s takes true or false, not %q", prm.Name, tok)
		}
	case argNumber, argInt:
		n, err := strconv.ParseFloat(tok, 64)
		if err != nil || math.IsNaN(n) {
			return fmt.Errorf("%s takes a %s, not %q", prm.Name, prm.Kind, tok)
		}
		if prm.Kind == argInt && (n != math.Trunc(n) || math.Abs(n) > 1<<31) {
			return fmt.Errorf("%s takes a whole number, not %q", prm.Name, tok)
		}
		a.num = n
	case argTap:
		if tok == "" {
			return fmt.Errorf("%s takes a tap's name", prm.Name)
		}
	case argWord, argOrder:
		if !slices.Contains(prm.Words, tok) {
			return fmt.Errorf("%s is one of %s, not %q", prm.Name, strings.Join(prm.Words, ", "), tok)
		}
	case argRanges:
		l, err := parseRanges(tok)
		if err != nil {
			return fmt.Errorf("%s: %w", prm.Name, err)
		}
		a.list = l
	case argList:
		return fmt.Errorf("%s takes a [list], not %q", prm.Name, tok)
	}
	args.byName[prm.Name] = a
	return nil
}

func (p *tryParser) listValue(args *tryArgs, prm TransformParam) error {
	if prm.Kind != argList && prm.Kind != argOrder {
		return fmt.Errorf("%s takes a %s, not a list", prm.Name, prm.Kind)
	}
	list := []float64{}
	for !p.eat(']') {
		tok := p.token()
		n, err := strconv.ParseFloat(tok, 64)
		if err != nil || math.IsNaN(n) {
			return fmt.Errorf("%s: %q is no number", prm.Name, tok)
		}
		list = append(list, n)
		if p.eat(']') {
			break
		}
		if !p.eat(',') {
			return fmt.Errorf("%s: expected ',' or ']'", prm.Name)
		}
	}
	args.byName[prm.Name] = tryArg{list: list}
	return nil
}

// mostIndices bounds what a range may expand to.
const mostIndices = 1 << 24

// parseRanges expands "0-3+7" to 0, 1, 2, 3, 7.
func parseRanges(s string) ([]float64, error) {
	var out []float64
	for _, part := range strings.Split(s, "+") {
		lo, hi, dashed := strings.Cut(part, "-")
		a, err := strconv.Atoi(lo)
		b := a
		if err == nil && dashed {
			b, err = strconv.Atoi(hi)
		}
		if err != nil || a < 0 || b < a || b-a+len(out) > mostIndices {
			return nil, fmt.Errorf("%q is no range such as 0-3+7", s)
		}
		for i := a; i <= b; i++ {
			out = append(out, float64(i))
		}
	}
	return out, nil
}

package npy

import (
	"fmt"
	"strconv"
	"strings"
)

// maxDepth bounds how deep tuples and lists may nest; NumPy itself never
// writes more than a few levels (records within records).
const maxDepth = 32

type literalKind uint8

const (
	litString literalKind = iota
	litInt
	litBool
	litNone
	litTuple
	litList
)

// literal is one value of the Python subset that headers are written in.
type literal struct {
	kind  literalKind
	pos   int    // where it begins in the header text
	text  string // a string's content; an integer's digits with their sign
	truth bool
	items []literal
}

// entry is one key and value of the header's dict, in the file's order.
type entry struct {
	key   string
	pos   int
	value literal
}

// syntaxError is a header that does not parse, at a byte of its text.
type syntaxError struct {
	pos    int
	reason string
}

func (e *syntaxError) Error() string { return e.reason }

// literalParser reads Python literals: strings of either quote, decimal
// integers (with Python 2's L), True, False, None, tuples, lists, and one dict
// at the top. It evaluates nothing.
type literalParser struct {
	src string
	pos int
}

// parseDict reads a whole header: one dict, white space around it.
func parseDict(src string) ([]entry, error) {
	p := &literalParser{src: src}
	p.space()
	if !p.take('{') {
		return nil, p.fail("no dict: found %s where '{' belongs", p.here())
	}
	var dict []entry
	for {
		p.space()
		if p.take('}') {
			break
		}
		pos := p.pos
		key, err := p.value(0)
		if err != nil {
			return nil, err
		}
		if key.kind != litString {
			return nil, &syntaxError{pos, "a key that is not a string"}
		}
		p.space()
		if !p.take(':') {
			return nil, p.fail("found %s where ':' belongs after key %q", p.here(), key.text)
		}
		value, err := p.value(0)
		if err != nil {
			return nil, err
		}
		dict = append(dict, entry{key.text, pos, value})
		p.space()
		if p.take(',') {
			continue
		}
		p.space()
		if !p.take('}') {
			return nil, p.fail("found %s where ',' or '}' belongs", p.here())
		}
		break
	}
	p.space()
	if p.pos < len(p.src) {
		return nil, p.fail("found %s after the end of the dict", p.here())
	}
	return dict, nil
}

func (p *literalParser) fail(format string, args ...any) error {
	return &syntaxError{p.pos, fmt.Sprintf(format, args...)}
}

// here names what stands at the parser's place, for error messages.
func (p *literalParser) here() string {
	if p.pos >= len(p.src) {
		return "the end of the header"
	}
	return strconv.QuoteToASCII(p.src[p.pos : p.pos+1])
}

func (p *literalParser) space() {
	for p.pos < len(p.src) && strings.IndexByte(" \t\r\n\f\v", p.src[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *literalParser) take(c byte) bool {
	if p.pos < len(p.src) && p.src[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *literalParser) value(depth int) (literal, error) {
	p.space()
	if depth > maxDepth {
		return literal{}, p.fail("nested more than %d deep", maxDepth)
	}
	if p.pos >= len(p.src) {
		return literal{}, p.fail("the header ends where a value belongs")
	}
	switch c := p.src[p.pos]; {
	case c == '\'' || c == '"':
		return p.str()
	case c == '(':
		return p.sequence(litTuple, ')', depth)
	case c == '[':
		return p.sequence(litList, ']', depth)
	case c == '-' || c == '+' || isDigit(c):
		return p.integer()
	case isLetter(c):
		return p.word()
	}
	return literal{}, p.fail("found %s where a value belongs", p.here())
}

// str reads a string. Escapes other than those of quotes and backslash are kept
// as they are written: none occurs in a header that is accepted.
func (p *literalParser) str() (literal, error) {
	start, quote := p.pos, p.src[p.pos]
	var b strings.Builder
	for p.pos++; p.pos < len(p.src); p.pos++ {
		switch c := p.src[p.pos]; {
		case c == quote:
			p.pos++
			return literal{kind: litString, pos: start, text: b.String()}, nil
		case c == '\n':
			return literal{}, &syntaxError{start, "a string that is not closed"}
		case c == '\\' && p.pos+1 < len(p.src) && strings.IndexByte(`'"\`, p.src[p.pos+1]) >= 0:
			p.pos++
			b.WriteByte(p.src[p.pos])
		default:
			b.WriteByte(c)
		}
	}
	return literal{}, &syntaxError{start, "a string that is not closed"}
}

// sequence reads a tuple or list. As in Python, a single value in parentheses
// without a comma is that value; the caller sees it in parens.
func (p *literalParser) sequence(kind literalKind, end byte, depth int) (literal, error) {
	seq := literal{kind: kind, pos: p.pos}
	comma := false
	for p.pos++; ; {
		p.space()
		if p.take(end) {
			break
		}
		item, err := p.value(depth + 1)
		if err != nil {
			return literal{}, err
		}
		seq.items = append(seq.items, item)
		p.space()
		if p.take(',') {
			comma = true
			continue
		}
		if !p.take(end) {
			return literal{}, p.fail("found %s where ',' or %q belongs", p.here(), end)
		}
		break
	}
	if kind == litTuple && len(seq.items) == 1 && !comma {
		return seq.items[0], nil
	}
	return seq, nil
}

func (p *literalParser) integer() (literal, error) {
	start := p.pos
	if !p.take('-') {
		p.take('+')
	}
	digits := p.pos
	for p.pos < len(p.src) && isDigit(p.src[p.pos]) {
		p.pos++
	}
	text := p.src[start:p.pos]
	if p.pos == digits {
		return literal{}, &syntaxError{start, "a sign without digits"}
	}
	if p.pos < len(p.src) && (p.src[p.pos] == 'L' || p.src[p.pos] == 'l') {
		p.pos++
	}
	if p.pos < len(p.src) && (isLetter(p.src[p.pos]) || p.src[p.pos] == '.') {
		return literal{}, &syntaxError{start, "a number that is not a decimal integer"}
	}
	return literal{kind: litInt, pos: start, text: text}, nil
}

func (p *literalParser) word() (literal, error) {
	start := p.pos
	for p.pos < len(p.src) && (isLetter(p.src[p.pos]) || isDigit(p.src[p.pos])) {
		p.pos++
	}
	switch w := p.src[start:p.pos]; w {
	case "True", "False":
		return literal{kind: litBool, pos: start, truth: w == "True"}, nil
	case "None":
		return literal{kind: litNone, pos: start}, nil
	case "u", "U", "b", "B": // Python 2's unicode strings and byte strings
		if p.pos < len(p.src) && (p.src[p.pos] == '\'' || p.src[p.pos] == '"') {
			s, err := p.str()
			s.pos = start
			return s, err
		}
	}
	return literal{}, &syntaxError{start, fmt.Sprintf("unknown word %q", clip(p.src[start:p.pos]))}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

// clip shortens what is quoted from a file in an error message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

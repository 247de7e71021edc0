package report

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/layerparity/parity/compare"
)

// clean makes a string that came from a file safe to print: control characters,
// terminal escapes, line breaks and direction marks become U+FFFD.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return '\uFFFD'
		}
		return r
	}, s)
}

// shorten cuts the middle out of a string that is wider than n.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n || n < 5 {
		return s
	}
	head := (n - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}

// small prints an error-like figure with two digits: "0", "4e-14", "0.023".
func small(v compare.Num) string {
	f := float64(v)
	switch {
	case f == 0:
		return "0"
	case math.IsNaN(f) || math.IsInf(f, 0):
		return strings.ReplaceAll(fmt.Sprint(f), "+Inf", "inf")
	case math.Abs(f) >= 0.001 && math.Abs(f) < 1000:
		return fmt.Sprintf("%.2g", f)
	}
	return fmt.Sprintf("%.1e", f)
}

// optional prints a figure that may be missing.
func optional(v *compare.Num) string {
	if v == nil {
		return ""
	}
	return small(*v)
}

// value prints a tensor's value with six digits.
func value(v compare.Num) string { return fmt.Sprintf("%.6g", float64(v)) }

// wrap breaks text into lines of at most n columns; later lines begin with
// indent.
func wrap(text string, n int, indent string) string {
	var b strings.Builder
	col := 0
	for i, w := range strings.Fields(text) {
		width := utf8.RuneCountInString(w)
		switch {
		case i == 0:
		case col+1+width > n:
			b.WriteString("\n" + indent)
			col = 0
		default:
			b.WriteByte(' ')
			col++
		}
		// A word longer than a line is broken: paths can be.
		for width > n {
			r := []rune(w)
			b.WriteString(string(r[:n]) + "\n" + indent)
			w = string(r[n:])
			width = utf8.RuneCountInString(w)
			col = 0
		}
		b.WriteString(w)
		col += width
	}
	return b.String()
}

// bar draws an error e on a logarithmic scale, one cell a decade from 1e-16 to
// 1, with a mark where the floor is.
func bar(e, floor *compare.Num) string {
	if e == nil {
		return ""
	}
	const cells = 16
	fill := decade(float64(*e), cells)
	mark := -1
	if floor != nil {
		mark = decade(float64(*floor), cells)
	}
	var b strings.Builder
	for i := range cells + 1 {
		switch {
		case i == mark:
			b.WriteRune('|')
		case i < fill:
			b.WriteRune('#')
		case i < cells:
			b.WriteRune('.')
		}
	}
	return b.String()
}

// decade maps 1e-16..1 to 0..cells; what is not a number fills the bar.
func decade(e float64, cells int) int {
	if e <= 0 {
		return 0
	}
	if math.IsNaN(e) || math.IsInf(e, 1) {
		return cells
	}
	return int(math.Max(0, math.Min(float64(cells), math.Round(float64(cells)+math.Log10(e)))))
}

// mark is the word for a status; it carries the meaning without colour.
var mark = map[compare.Status]string{
	compare.Equal: "=", compare.Agrees: "ok", compare.Noted: "note", compare.Inherited: "above", compare.Enters: "ENTERS",
	compare.Fails: "FAIL", compare.Incomparable: "SHAPE", compare.Unreadable: "UNREAD",
}

// agrees tells whether a checkpoint needs no attention.
func agrees(c *compare.Checkpoint) bool {
	return c.Status == compare.Equal || c.Status == compare.Agrees
}

// headline is the verdict in capitals.
func headline(c *compare.Comparison) string { return strings.ToUpper(string(c.Verdict)) }

// countGuards counts guards by status.
func countGuards(c *compare.Comparison) map[compare.GuardStatus]int {
	n := make(map[compare.GuardStatus]int)
	for _, g := range c.Guards {
		n[g.Status]++
	}
	return n
}

// notable tells whether a guard is shown although not everything is.
func notable(g compare.Guard) bool {
	return g.Status == compare.Fail || g.Status == compare.Repaired || g.Status == compare.NotChecked
}

// guardName puts a guard's part before its id.
func guardName(g compare.Guard) string {
	if g.Part != "" {
		return g.Part + ": " + g.ID
	}
	return g.ID
}

package triage

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/layerparity/parity/internal/lazy"
)

// Matcher recognises one message in a log.
type Matcher struct {
	// ID names the message.
	ID string
	// Says is what the message means, in a few words.
	Says string
	// Patterns are ids of the catalogue, the most likely first.
	Patterns []string
	// Weight tells a cause from a symptom or a hint.
	Weight int
	// hints are lower-case strings, all of which (within one inner list: any of
	// which) a line must hold. They keep most lines from the regular expression.
	hints [][]string
	expr  func() *regexp.Regexp
	// read looks at the numbers; it may note what they mean, choose other
	// patterns, or refuse the line. nil takes every match.
	read func(*reading) bool
}

// reading is one match while it is being understood.
type reading struct {
	past     *history
	text     string
	loc      []int
	note     string
	patterns []string
	watchdog *watchdog
}

// group returns submatch i, "" where it did not take part.
func (r *reading) group(i int) string {
	if 2*i+1 >= len(r.loc) || r.loc[2*i] < 0 {
		return ""
	}
	return r.text[r.loc[2*i]:r.loc[2*i+1]]
}

// number returns submatch i as a whole number; ok is false where it is none or
// does not fit.
func (r *reading) number(i int) (n int64, ok bool) {
	n, err := strconv.ParseInt(r.group(i), 10, 64)
	return n, err == nil
}

// matchers is the table: a new message is a row in the file of its family.
var matchers = slices.Concat(ncclMatchers, distributedMatchers, shapeMatchers, numericMatchers, deviceMatchers, loadMatchers)

// Matchers returns the table, for help texts and documentation.
func Matchers() []Matcher { return slices.Clone(matchers) }

// holding is a list of hints that a line must hold together; each may offer
// alternatives, separated by a bar.
func holding(hints ...string) [][]string {
	var out [][]string
	for _, h := range hints {
		out = append(out, strings.Split(h, "|"))
	}
	return out
}

// expr is an expression that ignores case.
func expr(s string) func() *regexp.Regexp { return lazy.Regexp("(?i)" + s) }

// saveHint is the hint of lines that may announce a save.
const saveHint = "sav"

// filter finds the hints of all matchers in a line.
type filter struct {
	*automaton
	// lists has, for each matcher, the lists of hints of which a line must hold
	// one each, as numbers of the automaton's words.
	lists [][][]int
	// save is the number of saveHint.
	save int
}

// hintFilter builds the filter for the first log that is read.
var hintFilter = sync.OnceValue(func() filter {
	number := map[string]int{}
	var words []string
	add := func(w string) int {
		if _, ok := number[w]; !ok {
			number[w] = len(words)
			words = append(words, w)
		}
		return number[w]
	}
	var f filter
	for _, m := range matchers {
		var lists [][]int
		for _, alternatives := range m.hints {
			var list []int
			for _, h := range alternatives {
				list = append(list, add(h))
			}
			lists = append(lists, list)
		}
		f.lists = append(f.lists, lists)
	}
	f.save = add(saveHint)
	f.automaton = newAutomaton(words)
	return f
})

// holds tells whether seen has one of each list.
func holds(seen []bool, lists [][]int) bool {
	for _, list := range lists {
		if !slices.ContainsFunc(list, func(i int) bool { return seen[i] }) {
			return false
		}
	}
	return true
}

// sharedBy explains two sizes that should be equal: a whole ratio of at most 64
// is what a rank's share against the whole looks like. ok is false where the
// ratio is not whole, or the sizes are equal or not positive.
func sharedBy(x, y int64) (ratio int64, ok bool) {
	if x < y {
		x, y = y, x
	}
	if y <= 0 || x == y || x%y != 0 || x/y > 64 {
		return 0, false
	}
	return x / y, true
}

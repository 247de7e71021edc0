// Package catalog is the list of known ways in which a ported, quantised or
// parallel model goes wrong, each told in four parts: what it looks like, the
// root cause in one sentence, how to verify it before any code is changed, and
// the fix.
//
// Every cause id that a finding can carry has its pattern here. Beside them are
// patterns that no pair of dumps can prove: hangs, training faults, messages of
// a loader, faults after the model. The text is data: one file a family, one
// row of the table families for each file.
package catalog

import (
	"slices"
	"strings"
	"sync"
)

// Pattern is one known way to go wrong.
type Pattern struct {
	// ID is stable once released: "family.kind". A cause id and its pattern have
	// the same id.
	ID string `json:"id"`
	// Title is a short name, one line, without a full stop.
	Title string `json:"title"`
	// Family is the part of ID before the dot; set by the table.
	Family string `json:"family"`
	// Finding tells whether parity explain can report ID as a finding's cause; a
	// pattern that cannot be seen in dumps is false here. Set by the table.
	Finding bool `json:"finding"`

	// Match is what it looks like: the numeric signature in a comparison, the
	// line in a log.
	Match string `json:"match"`
	// Cause is the root cause in one sentence.
	Cause string `json:"cause"`
	// Verify tells how to be sure before changing code. Commands, if there are
	// any, are lines for a shell that do part of it: ref/ and port/ stand for
	// the dumps.
	Verify   string   `json:"verify"`
	Commands []string `json:"commands,omitempty"`
	// Fix is the suggested change.
	Fix string `json:"fix"`

	// Sources are public threads that show it, as "owner/repo#number".
	Sources []string `json:"sources,omitempty"`
	// Related are ids that look alike or often come together with it.
	Related []string `json:"related,omitempty"`
	// Keywords are words that a person in trouble would type and that the text
	// may not hold.
	Keywords []string `json:"keywords,omitempty"`
}

// Family is a group of patterns that share a prefix.
type Family struct {
	// ID is the prefix of the patterns' ids: "rope".
	ID string `json:"id"`
	// Title says what the family is about.
	Title string `json:"title"`
	// Finding tells whether ids of the family are causes of findings.
	Finding bool `json:"finding"`

	patterns []Pattern
}

// Patterns returns the family's patterns in the order of the table.
func (f Family) Patterns() []Pattern { return slices.Clone(f.patterns) }

// all returns every pattern in table order, with the text's line breaks undone;
// the work is done for the first who asks.
var all = sync.OnceValue(flatten)

// flatten completes the rows of families and returns them in one list.
func flatten() []Pattern {
	var out []Pattern
	for i, f := range families {
		for j := range f.patterns {
			p := &families[i].patterns[j]
			p.Family, p.Finding = f.ID, f.Finding
			for _, text := range []*string{&p.Title, &p.Match, &p.Cause, &p.Verify, &p.Fix} {
				*text = strings.Join(strings.Fields(*text), " ")
			}
			out = append(out, *p)
		}
	}
	return out
}

// Families returns the families in reading order.
func Families() []Family {
	all() // completes the rows
	return slices.Clone(families)
}

// All returns every pattern, family by family.
func All() []Pattern { return slices.Clone(all()) }

// Get returns the pattern with that id. Case and surrounding blanks do not
// matter; ok is false where there is none.
func Get(id string) (p Pattern, ok bool) {
	id = strings.ToLower(strings.TrimSpace(id))
	i := slices.IndexFunc(all(), func(p Pattern) bool { return p.ID == id })
	if i < 0 {
		return Pattern{}, false
	}
	return all()[i], true
}

package catalog

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Hit is a pattern that a search found, with its score.
type Hit struct {
	Pattern Pattern
	// Score is the sum over the words of weight(field) * ln(1 + N / df): a word
	// that few of the N patterns hold counts more. Only its order means anything.
	Score float64
}

// field is a part of a pattern's text and what a word found there is worth.
type field struct {
	text   string
	weight float64
}

func fields(p Pattern) []field {
	return []field{
		{p.ID, 8},
		{p.Title, 5},
		{strings.Join(p.Keywords, " "), 4},
		{p.Match + " " + p.Cause, 2},
		{p.Verify + " " + p.Fix, 1},
	}
}

// Search ranks the patterns by how well they match the words of the query, best
// first; equal scores keep the order of the table. A word counts in the best
// field that holds it, in full, or at half weight as the beginning of a longer
// word. Patterns that hold none of the words are left out; a query without a
// letter or digit finds nothing.
func Search(query string) []Hit {
	index := index()
	words := slices.Compact(slices.Sorted(slices.Values(tokens(query))))
	scores := make([]float64, len(index))
	for _, word := range words {
		var df int
		found := make([]float64, len(index))
		for i, fields := range index {
			for _, f := range fields {
				found[i] = max(found[i], f.weight*f.holds(word))
			}
			if found[i] > 0 {
				df++
			}
		}
		for i, weight := range found {
			if weight > 0 {
				scores[i] += weight * math.Log(1+float64(len(index))/float64(df))
			}
		}
	}
	var hits []Hit
	for i, score := range scores {
		if score > 0 {
			hits = append(hits, Hit{Pattern: all()[i], Score: score})
		}
	}
	slices.SortStableFunc(hits, func(x, y Hit) int { return cmp.Compare(y.Score, x.Score) })
	return hits
}

// indexed is a field's words, ready to be searched.
type indexed struct {
	words  []string
	weight float64
}

// index holds the fields of each pattern of all.
var index = sync.OnceValue(func() [][]indexed {
	out := make([][]indexed, len(all()))
	for i, p := range all() {
		for _, f := range fields(p) {
			out[i] = append(out[i], indexed{tokens(f.text), f.weight})
		}
	}
	return out
})

// holds is 1 where the word occurs, 1/2 where one of at least three letters
// begins a word, else 0.
func (f indexed) holds(word string) float64 {
	best := 0.0
	for _, w := range f.words {
		switch {
		case w == word:
			return 1
		case len(word) >= 3 && strings.HasPrefix(w, word):
			best = 0.5
		}
	}
	return best
}

// tokens are the lower-case runs of letters and digits: "NumelIn=1" is
// "numelin" and "1", "all_reduce" is "all" and "reduce".
func tokens(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

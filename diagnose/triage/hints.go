package triage

// automaton finds which of a set of lower-case ASCII words occur in a text, in
// one pass over its bytes, however many words there are (Aho and Corasick, 1975).
// Letters of the text match in either case.
type automaton struct {
	// class maps a byte to a column of next; all bytes that no word holds share
	// column 0.
	class [256]uint8
	// width is the number of columns; next[s*width+class] is the state after s.
	width int
	next  []int32
	// ends are the words that end in a state, those inside longer ones included.
	ends [][]int
	// words is their number.
	words int
}

// newAutomaton builds the automaton of some words. An empty word is never found.
func newAutomaton(words []string) *automaton {
	a := &automaton{width: 1, words: len(words)}
	for _, w := range words {
		for _, c := range []byte(w) {
			if a.class[c] == 0 {
				a.class[c] = uint8(a.width)
				a.width++
			}
		}
	}
	// The trie; 0 is the root and, as a child, means that there is none.
	state := func() int32 {
		a.next = append(a.next, make([]int32, a.width)...)
		a.ends = append(a.ends, nil)
		return int32(len(a.ends) - 1)
	}
	state()
	for i, w := range words {
		at := int32(0)
		for _, c := range []byte(w) {
			to := int(at)*a.width + int(a.class[c])
			if a.next[to] == 0 {
				n := state()
				a.next[to] = n
			}
			at = a.next[to]
		}
		if at > 0 {
			a.ends[at] = append(a.ends[at], i)
		}
	}
	// Breadth first, so that the state of a shorter suffix is complete before it
	// is needed: missing children become those of the longest proper suffix.
	suffix := make([]int32, len(a.ends))
	var queue []int32
	for c := range a.width {
		if child := a.next[c]; child != 0 {
			queue = append(queue, child)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		a.ends[at] = append(a.ends[at], a.ends[suffix[at]]...)
		for c := range a.width {
			to := &a.next[int(at)*a.width+c]
			fallback := a.next[int(suffix[at])*a.width+c]
			if *to == 0 {
				*to = fallback
				continue
			}
			suffix[*to] = fallback
			queue = append(queue, *to)
		}
	}
	for c := byte('a'); c <= 'z'; c++ {
		a.class[c-'a'+'A'] = a.class[c]
	}
	return a
}

// find sets seen[i] for each word i in the text and tells whether there is any;
// seen must have room for all words and is cleared first.
func (a *automaton) find(text []byte, seen []bool) bool {
	clear(seen)
	any := false
	at := int32(0)
	for _, c := range text {
		at = a.next[int(at)*a.width+int(a.class[c])]
		if ends := a.ends[at]; ends != nil {
			any = true
			for _, i := range ends {
				seen[i] = true
			}
		}
	}
	return any
}

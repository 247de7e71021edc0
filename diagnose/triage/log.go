package triage

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Log is what was recognised in one log.
type Log struct {
	// Name is the file's name as given, "-" for standard input.
	Name  string
	Lines int
	Bytes int64
	// Hits are in the order of each matcher's first line.
	Hits []Hit

	watchdogs []watchdog
}

// Hit is a matcher that found something in a log.
type Hit struct {
	// Matcher is the id of the matcher.
	Matcher string
	// Patterns are ids of the catalogue, the most likely first.
	Patterns []string
	// Weight tells a cause from a symptom; see the constants.
	Weight int
	// Count is the number of lines that it matched. Found holds the first few.
	Count int
	Found []Found
}

// Found is a matched line.
type Found struct {
	Line int
	// Text is the line, cut and made safe for a terminal.
	Text string
	// Note says what the numbers in the line mean, "" if nothing.
	Note string
}

// maxFound is how many lines of each matcher are kept.
const maxFound = 4

// ReadLog recognises known messages in a log. It reads r once, as a stream;
// memory does not grow with the log. Gzip is unpacked. An empty log is an error:
// nothing was looked at.
func ReadLog(name string, r io.Reader) (Log, error) {
	text, err := openText(r)
	if err != nil {
		return Log{}, fmt.Errorf("reading log %s: %w", name, err)
	}
	s := scanner{log: Log{Name: name}, at: map[string]int{}}
	s.log.Lines, s.log.Bytes, err = eachLine(text, s.line)
	if err != nil {
		return s.log, fmt.Errorf("reading log %s: after line %d: %w", name, s.log.Lines, err)
	}
	if s.log.Bytes == 0 {
		return s.log, fmt.Errorf("reading log %s: it is empty; was the output redirected, stderr too (2>&1)?", name)
	}
	return s.log, nil
}

// scanner matches the lines of one log.
type scanner struct {
	log  Log
	at   map[string]int // matcher id -> index in log.Hits
	past history
	seen []bool // which hints the line holds
}

// history is what earlier lines say about the present one.
type history struct {
	n int
	// saving is the line that announced a save that has not been reported as
	// done, 0 if there is none.
	saving int
}

// savingFor is how many lines after its announcement a save is still thought to
// be under way.
const savingFor = 400

func (s *scanner) line(n int, raw []byte) {
	hints := hintFilter()
	if s.seen == nil {
		s.seen = make([]bool, hints.words)
	}
	if bytes.IndexByte(raw, 0x1b) >= 0 {
		raw = []byte(plain(string(raw)))
	}
	if !hints.find(raw, s.seen) {
		return // most lines end here
	}
	line := strings.ToValidUTF8(string(raw), "\uFFFD")
	s.past.n = n
	if s.seen[hints.save] {
		s.past.saves(strings.ToLower(line))
	}
	for i := range matchers {
		m := &matchers[i]
		if !holds(s.seen, hints.lists[i]) {
			continue
		}
		loc := m.expr().FindStringSubmatchIndex(line)
		if loc == nil {
			continue
		}
		r := reading{past: &s.past, text: line, loc: loc, patterns: m.Patterns}
		if m.read == nil || m.read(&r) {
			s.add(m, n, r)
		}
	}
}

func (s *scanner) add(m *Matcher, n int, f reading) {
	i, ok := s.at[m.ID]
	if !ok {
		i = len(s.log.Hits)
		s.at[m.ID] = i
		s.log.Hits = append(s.log.Hits, Hit{Matcher: m.ID, Patterns: f.patterns, Weight: m.Weight})
	}
	h := &s.log.Hits[i]
	if len(h.Found) > 0 && h.Found[len(h.Found)-1].Line == n {
		return // the same line again: a piece that overlaps, or a progress bar
	}
	h.Count++
	if len(h.Found) < maxFound {
		h.Found = append(h.Found, Found{Line: n, Text: printable(f.text, f.loc[0], f.loc[1]), Note: f.note})
	}
	if f.watchdog != nil && len(s.log.watchdogs) < maxRanks {
		s.log.watchdogs = append(s.log.watchdogs, *f.watchdog)
	}
}

// evidence turns the hits of a log into reasons.
func (l Log) evidence() []evidence {
	var out []evidence
	for _, h := range l.Hits {
		for i, id := range h.Patterns {
			// Later patterns of a matcher are the less likely ones.
			out = append(out, evidence{id, max(h.Weight-2*i, 1), fmt.Sprintf("%s:%d: %s", plain(l.Name), h.Found[0].Line, h.Matcher), h.Matcher})
		}
	}
	return out
}

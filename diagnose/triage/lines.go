package triage

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sizes of the window in which a log is read. A line longer than window is seen
// in pieces that share overlap bytes, so that a message of up to overlap bytes
// is never cut.
const (
	window  = 64 << 10
	overlap = 8 << 10
)

// eachLine calls f with each line of r, or each piece of a long line, and its
// 1-based number. A carriage return ends a piece too, since progress bars
// overwrite their line with it, but does not count as a line. It returns the
// number of lines and bytes read. The slice is valid during the call only.
func eachLine(r io.Reader, f func(n int, line []byte)) (lines int, size int64, err error) {
	buf := make([]byte, 0, window)
	n := 1
	pending := false // anything on line n yet
	emit := func(p []byte) {
		if len(p) > 0 {
			f(n, p)
		}
	}
	chunk := make([]byte, 32<<10)
	for {
		k, rerr := r.Read(chunk)
		size += int64(k)
		for rest := chunk[:k]; len(rest) > 0; {
			end := bytes.IndexAny(rest, "\r\n")
			part := rest
			if end >= 0 {
				part = rest[:end]
			}
			pending = pending || len(part) > 0
			for len(part) > 0 {
				take := min(len(part), window-len(buf))
				buf = append(buf, part[:take]...)
				part = part[take:]
				if len(buf) == window {
					emit(buf)
					buf = buf[:copy(buf, buf[window-overlap:])]
				}
			}
			if end < 0 {
				break
			}
			emit(buf)
			buf = buf[:0]
			if rest[end] == '\n' {
				n++
				pending = false
			}
			rest = rest[end+1:]
		}
		if rerr != nil {
			emit(buf)
			lines = n - 1
			if pending {
				lines = n
			}
			if errors.Is(rerr, io.EOF) {
				return lines, size, nil
			}
			return lines, size, rerr
		}
	}
}

// openText looks at the first bytes of a log: gzip is unpacked, UTF-16 refused
// with the remedy, anything else read as it is.
func openText(r io.Reader) (io.Reader, error) {
	br := bufio.NewReaderSize(r, 4<<10)
	head, err := br.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(br)
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return nil, fmt.Errorf("text is UTF-16: convert it with `iconv -f utf-16 -t utf-8`")
	}
	return br, nil
}

// maxText is how much of a matched line is kept and printed, in runes.
const maxText = 400

// printable makes a piece of a foreign line safe for a terminal: escape
// sequences are dropped, other control and invisible characters become blanks,
// and what is longer than maxText is cut around the match at [from, to).
func printable(line string, from, to int) string {
	cut := func(s string, n int, end bool) string { // n runes of one end of s
		if utf8.RuneCountInString(s) <= n {
			return s
		}
		r := []rune(s)
		if end {
			return "... " + string(r[len(r)-n:])
		}
		return string(r[:n]) + " ..."
	}
	before, hit, after := plain(line[:from]), plain(line[from:to]), plain(line[to:])
	hit = cut(hit, maxText, false)
	left := max(maxText-utf8.RuneCountInString(hit), 0)
	// What comes before gets the room that what comes after leaves, at least a third.
	before = cut(before, max(left-utf8.RuneCountInString(after), left/3), true)
	after = cut(after, max(left-utf8.RuneCountInString(before), 0), false)
	return strings.TrimSpace(before + hit + after)
}

// plain drops terminal escape sequences (ESC [ ... letter, ESC ] ... BEL) and
// turns what cannot be printed into a blank.
func plain(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			i = skipEscape(s, i)
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, !unicode.IsPrint(r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// skipEscape returns the index behind the escape sequence that starts at i.
func skipEscape(s string, i int) int {
	i++
	if i == len(s) {
		return i
	}
	switch s[i] {
	case '[': // parameters, then a final byte in @ to ~
		for i++; i < len(s); i++ {
			if s[i] >= '@' && s[i] <= '~' {
				return i + 1
			}
			if s[i] < ' ' || s[i] > '~' {
				return i
			}
		}
		return i
	case ']': // text up to BEL or ESC
		for i++; i < len(s); i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b {
				return i
			}
		}
		return i
	}
	return i + 1
}

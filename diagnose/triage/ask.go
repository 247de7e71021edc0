package triage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Ask puts the questions that answers does not hold yet, in order, on w, and
// reads replies from r, one a line. Enter means "I do not know"; a reply that is
// no answer is asked again; "q" or the end of input ends the questions with what
// is known. At the end it takes the last lines of a traceback, up to an empty
// line, and reads them like a log; tail is nil where none were given.
func Ask(r io.Reader, w io.Writer, answers map[string]string) (tail *Log, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	p := printer{w: w}
	p.printf("Answer with a number or a word; Enter if you do not know, q to stop asking.\n")
	for _, q := range Questions {
		if _, known := answers[q.ID]; known || (q.asked != nil && !q.asked(answers)) {
			continue
		}
		p.printf("\n%s\n", q.Text)
		for i, c := range q.Choices {
			p.printf("  %d  %-10s  %s\n", i+1, c.ID, c.Text)
		}
		for {
			p.printf("> ")
			line, err := readReply(in)
			if errors.Is(err, io.EOF) && line == "" || strings.TrimSpace(line) == "q" {
				return nil, p.err
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("reading answer: %w", err)
			}
			choice, bad := q.Parse(line)
			if bad == nil {
				answers[q.ID] = choice
				break
			}
			p.printf("%v\n", bad)
			if p.err != nil {
				return nil, p.err
			}
		}
	}
	p.printf("\nPaste the last lines of the traceback or log, then an empty line:\n")
	var text strings.Builder
	for text.Len() < 1<<20 {
		line, err := readReply(in)
		if strings.TrimSpace(line) == "" {
			break
		}
		text.WriteString(line)
		text.WriteByte('\n')
		if err != nil {
			break
		}
	}
	if text.Len() == 0 {
		return nil, p.err
	}
	log, err := ReadLog("traceback", strings.NewReader(text.String()))
	if err != nil {
		return nil, err
	}
	return &log, p.err
}

// maxReply bounds a line of a reply; the rest of a longer one is dropped.
const maxReply = 64 << 10

func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if len(line) > maxReply {
		line = line[:maxReply]
	}
	return strings.TrimRight(line, "\r\n"), err
}

// Help tells how to answer the questions by flags, where nobody can be asked.
func Help(w io.Writer) error {
	p := printer{w: w}
	p.printf("The triage questions, and the flags that answer them:\n")
	for i, q := range Questions {
		p.printf("\n%d. %s  --%s %s\n", i+1, q.Text, q.ID, words(q.ids()))
		for _, c := range q.Choices {
			p.printf("     %-10s  %s\n", c.ID, c.Text)
		}
	}
	p.printf("\n%d. What do the last lines of the traceback or log say?  --log FILE (- for standard input; may be repeated)\n", len(Questions)+1)
	p.printf("%d. Do the sources hold a collective, a draw or a save that ranks do not share?  --source DIR\n", len(Questions)+2)
	return p.err
}

// printer keeps the first error of a writer.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress says on stderr what is being read, once work takes over a second:
// a line that is rewritten on a terminal, a line every ten seconds elsewhere.
type progress struct {
	w     io.Writer
	tty   bool
	mu    sync.Mutex
	start time.Time
	last  time.Time
	bytes int64
	shown bool
}

func newProgress(w io.Writer) *progress {
	_, tty := isTerminal(w)
	return &progress{w: w, tty: tty && os.Getenv("TERM") != "dumb", start: time.Now()}
}

// add counts bytes that were read for what.
func (p *progress) add(what string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += bytes
	p.say(func(elapsed time.Duration) string {
		return fmt.Sprintf("reading %s: %s, %s/s", what, size(p.bytes), size(int64(float64(p.bytes)/elapsed.Seconds())))
	})
}

// stage says what is being worked on where nothing is read for long.
func (p *progress) stage(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(func(time.Duration) string { return what })
}

// say prints a line if it is time for one.
func (p *progress) say(line func(elapsed time.Duration) string) {
	now := time.Now()
	elapsed := now.Sub(p.start)
	every := 10 * time.Second
	if p.tty {
		every = 200 * time.Millisecond
	}
	if elapsed < time.Second || now.Sub(p.last) < every {
		return
	}
	p.last, p.shown = now, true
	if p.tty {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line(elapsed))
		return
	}
	fmt.Fprintln(p.w, line(elapsed))
}

// done wipes the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown && p.tty {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// size prints bytes in the unit that reads best.
func size(n int64) string {
	f := float64(n)
	for _, u := range []string{"B", "KB", "MB", "GB"} {
		if f < 1000 {
			return fmt.Sprintf("%.3g %s", f, u)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.3g TB", f)
}

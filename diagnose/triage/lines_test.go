package triage

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
)

const oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."

func TestLineNumbersAreThoseOfAnEditor(t *testing.T) {
	type seen struct {
		n    int
		text string
	}
	for _, c := range []struct {
		in    string
		want  []seen
		lines int
	}{
		{"a\nb\n", []seen{{1, "a"}, {2, "b"}}, 2},
		{"a\nb", []seen{{1, "a"}, {2, "b"}}, 2},
		{"\n\na\n", []seen{{3, "a"}}, 3},
		{"a\r\nb\r\n", []seen{{1, "a"}, {2, "b"}}, 2},
		{"5%\r10%\rdone\nb\n", []seen{{1, "5%"}, {1, "10%"}, {1, "done"}, {2, "b"}}, 2},
		{"", nil, 0},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
			var got []seen
			n, size, err := eachLine(r, func(n int, line []byte) { got = append(got, seen{n, string(line)}) })
			if err != nil || n != c.lines || size != int64(len(c.in)) {
				t.Errorf("%q %s: %d lines, %d bytes, %v", c.in, name, n, size, err)
			}
			if len(got) != len(c.want) {
				t.Errorf("%q %s: %v", c.in, name, got)
				continue
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("%q %s: %v, want %v", c.in, name, got[i], c.want[i])
				}
			}
		}
	}
}

// A message anywhere in a line of many windows is found, whole, wherever the
// windows are cut.
func TestAMessageInAVeryLongLineIsFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		at := rng.IntN(5 * window)
		text := strings.Repeat("x", at) + " " + oom + strings.Repeat("y", rng.IntN(2*window)) + "\n"
		log := read(t, "first\n"+text)
		if ids(log.Hits) != "out-of-memory" || log.Hits[0].Count != 1 || log.Hits[0].Found[0].Line != 2 {
			t.Fatalf("at %d: %+v", at, log.Hits)
		}
		if got := log.Hits[0].Found[0].Text; len(got) > 4*maxText || !strings.Contains(got, "CUDA out of memory") {
			t.Fatalf("at %d: text of %d bytes: %.80s", at, len(got), got)
		}
	}
}

// What is kept of a log does not depend on its size, nor on how much of it
// matches: 16 MB of matching lines leave a few KB.
func TestMemoryDoesNotGrowWithTheLog(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	log, err := ReadLog("x", io.LimitReader(&repeat{line: []byte(oom + "\n")}, 16<<20))
	if err != nil {
		t.Fatal(err)
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d bytes are kept", after-before)
	}
	if h := log.Hits[0]; len(h.Found) != maxFound || h.Count < 200_000 {
		t.Errorf("%d of %d lines kept", len(h.Found), h.Count)
	}
}

// BenchmarkReadLog reads lines as they come from a training run, of which none
// matches.
func BenchmarkReadLog(b *testing.B) {
	line := []byte("[2026-11-29 10:00:00,123][INFO] step: 1200  loss: 2.3126  grad_norm: 0.5123  memory: 40.12GiB(50.61%)  tps: 8,123\n")
	b.SetBytes(1 << 20)
	for b.Loop() {
		if _, err := ReadLog("x", io.LimitReader(&repeat{line: line}, 1<<20)); err != nil {
			b.Fatal(err)
		}
	}
}

// repeat is an endless reader of one line.
type repeat struct {
	line []byte
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], r.line[r.at:])
		r.at = (r.at + k) % len(r.line)
		n += k
	}
	return n, nil
}

func TestManyMatchesKeepTheFirstAndAreCounted(t *testing.T) {
	log := read(t, strings.Repeat(oom+"\nnext\n", 1000))
	h := log.Hits[0]
	if h.Count != 1000 || len(h.Found) != maxFound || h.Found[1].Line != 3 || log.Lines != 2000 {
		t.Errorf("count %d, %d kept, second at line %d, %d lines", h.Count, len(h.Found), h.Found[1].Line, log.Lines)
	}
}

func TestALineIsCutAroundTheMatch(t *testing.T) {
	whole := "some words before " + oom + " and some after"
	if got := printable(whole, 18, 18+len(oom)); got != whole {
		t.Errorf("a line that fits was cut: %q", got)
	}
	long := strings.Repeat("b", 1000) + oom + strings.Repeat("a", 1000)
	got := printable(long, 1000, 1000+len(oom))
	if n := len([]rune(got)); n > maxText+8 || !strings.HasPrefix(got, "... b") || !strings.HasSuffix(got, "a ...") || !strings.Contains(got, oom) {
		t.Errorf("%d runes: %q", n, got)
	}
	end := strings.Repeat("b", 1000) + oom
	if got := printable(end, 1000, len(end)); len([]rune(got)) != maxText+4 || !strings.HasSuffix(got, oom) {
		t.Errorf("%d runes: %q", len([]rune(got)), got)
	}
}

func TestForeignTextCannotReachTheTerminal(t *testing.T) {
	text := "\x1b[31m" + oom + "\x1b]0;title\x07\x08\x00 \xff\xfe \u202e" + "\x1b[2J\n"
	got := read(t, text).Hits[0].Found[0].Text
	for _, r := range got {
		if !unicode.IsPrint(r) || r == '\u202e' {
			t.Errorf("%q holds %U", got, r)
		}
	}
	if !strings.Contains(got, "CUDA out of memory. Tried to allocate 2.00 GiB.") || strings.Contains(got, "31m") || strings.Contains(got, "title") {
		t.Errorf("text %q", got)
	}
}

func TestColoursInsideAMessageDoNotHideIt(t *testing.T) {
	if got := ids(read(t, "\x1b[1mCUDA\x1b[0m out of \x1b[31mmemory\x1b[0m\n").Hits); got != "out-of-memory" {
		t.Errorf("recognised %q", got)
	}
}

func TestGzipIsUnpacked(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, "a\n"+oom+"\n")
	z.Close()
	log, err := ReadLog("log.gz", &b)
	if err != nil || ids(log.Hits) != "out-of-memory" || log.Hits[0].Found[0].Line != 2 {
		t.Errorf("%v %+v", err, log)
	}
}

func TestLogsThatCannotBeReadAreErrors(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	io.WriteString(w, strings.Repeat(oom+"\n", 100))
	w.Close()
	for _, c := range []struct {
		name string
		r    io.Reader
		want string
	}{
		{"empty", strings.NewReader(""), "empty"},
		{"UTF-16", strings.NewReader("\xff\xfeC\x00U\x00"), "iconv"},
		{"half a gzip", bytes.NewReader(z.Bytes()[:z.Len()/2]), "unexpected EOF"},
		{"no gzip after its first bytes", strings.NewReader("\x1f\x8bnonsense"), "gzip"},
		{"a read error", io.MultiReader(strings.NewReader("line\n"), iotest.ErrReader(errors.New("disk on fire"))), "disk on fire"},
	} {
		_, err := ReadLog("x.log", c.r)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.log") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzReadLog(f *testing.F) {
	for _, c := range lines {
		f.Add([]byte(c.text))
	}
	f.Add([]byte("\x1b["))
	f.Add([]byte("\x1b]\r\xff\x1b"))
	f.Add([]byte("İNFLATED loss: nan"))
	f.Fuzz(func(t *testing.T, data []byte) {
		log, err := ReadLog("fuzz", bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, h := range log.Hits {
			if h.Count < len(h.Found) || len(h.Found) == 0 || len(h.Patterns) == 0 {
				t.Errorf("%+v", h)
			}
			for _, found := range h.Found {
				if found.Line < 1 || found.Line > log.Lines {
					t.Errorf("line %d of %d", found.Line, log.Lines)
				}
				for _, r := range found.Text {
					if !unicode.IsPrint(r) {
						t.Errorf("%q holds %U", found.Text, r)
					}
				}
			}
		}
	})
}

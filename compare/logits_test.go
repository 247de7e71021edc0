package compare

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

// Worked out by hand: softmax of (0, ln 3) is (1/4, 3/4), of (0, 0) is (1/2, 1/2);
// KL = 1/4·ln(1/2) + 3/4·ln(3/2).
func TestKLByHand(t *testing.T) {
	want := 0.25*math.Log(0.5) + 0.75*math.Log(1.5)
	for _, c := range []struct {
		reason    string
		ref, port []float64
		want      float64
	}{
		{"two values", []float64{0, math.Log(3)}, []float64{0, 0}, want},
		{"a constant added to all changes nothing", []float64{7, 7 + math.Log(3)}, []float64{-900, -900}, want},
		{"large numbers do not overflow", []float64{1e4, 1e4 + math.Log(3)}, []float64{2e4, 2e4}, want},
		{"equal", []float64{1, 2, 3}, []float64{1, 2, 3}, 0},
		{"masked on both sides", []float64{0, math.Log(3), math.Inf(-1)}, []float64{0, 0, math.Inf(-1)}, want},
		{"a token that the port excludes", []float64{0, 0}, []float64{0, math.Inf(-1)}, math.Inf(1)},
	} {
		got := divergence(c.ref, c.port)
		if !(math.Abs(got-c.want) <= 1e-10) && got != c.want {
			t.Errorf("%s: KL %v, want %v", c.reason, got, c.want)
		}
	}
	if got := divergence([]float64{0, math.NaN()}, []float64{0, 0}); !math.IsNaN(got) {
		t.Errorf("KL of NaN is %v", got)
	}
}

func TestArgmaxAndTopIndices(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		x    []float64
		best int
		top  []int // of 3
	}{
		{[]float64{1, 5, 3, 4}, 1, []int{1, 3, 2}},
		{[]float64{5, 5, 5, 5}, 0, []int{0, 1, 2}},
		{[]float64{1, 2, 2, 1}, 1, []int{1, 2, 0}},
		{[]float64{-1, -2, -3, math.Inf(-1)}, 0, []int{0, 1, 2}},
		{[]float64{nan, 1, nan, 2}, 3, nil},
		{[]float64{nan, nan}, 1, nil},
	} {
		if got := argmax(c.x); got != c.best && c.top != nil {
			t.Errorf("argmax of %v is %d, want %d", c.x, got, c.best)
		}
		if got := topIndices(c.x, 3); c.top != nil && !slices.Equal(got, c.top) {
			t.Errorf("top 3 of %v are %v, want %v", c.x, got, c.top)
		}
	}
	if got := second([]float64{1, 5, 3, 4}, 1); got != 4 {
		t.Errorf("the second best is %v", got)
	}
}

// logitsOf compares two rows of logits through files.
func logitsOf(t *testing.T, ref, port []float64) (*Logits, *Comparison) {
	t.Helper()
	dir := t.TempDir()
	r := dumptest.Dump{"last_logits": dumptest.Floats(ref, len(ref))}.Write(t, filepath.Join(dir, "ref"))
	p := dumptest.Dump{"last_logits": dumptest.Floats(port, len(port))}.Write(t, filepath.Join(dir, "port"))
	c := compareFolders(t, r, p)
	return c.Checkpoints[0].Logits, c
}

func TestMarginAgainstError(t *testing.T) {
	ref := make([]float64, 64)
	for i := range ref {
		ref[i] = float64(i%13) / 4
	}
	ref[10], ref[20] = 20, 19.9 // a margin of 0.1 (in float32: near it)
	flip := slices.Clone(ref)
	for i := range flip { // an error of 0.08 RMS everywhere, and the flip
		flip[i] += 0.08 * float64(1-2*(i%2))
	}
	flip[10], flip[20] = 19.92, 19.98
	l, c := logitsOf(t, ref, flip)
	if l.ArgmaxRef != 10 || l.ArgmaxPort != 20 || l.ArgmaxEqual || l.Flips != 1 || l.Ties != 1 {
		t.Errorf("%+v: want a flip from 10 to 20, a tie", l)
	}
	if math.Abs(float64(l.Margin)-0.1) > 1e-5 || math.Abs(float64(l.RMSError)-0.08) > 1e-3 {
		t.Errorf("margin %v and RMS error %v, want 0.1 and 0.08", l.Margin, l.RMSError)
	}
	if !strings.Contains(l.Note, "a flip inside the noise") || !strings.Contains(l.Note, "0.1") || !strings.Contains(l.Note, "0.08") {
		t.Errorf("note %q does not say so with both numbers", l.Note)
	}
	if c.Verdict != Parity {
		t.Errorf("a flip inside the noise: %s (%s)", c.Verdict, c.Reason)
	}
	// 9 of the 10 best are shared where one good logit is lost.
	lost := slices.Clone(ref)
	lost[20] = 0
	l, _ = logitsOf(t, ref, lost)
	if l.TopK != 0.9 || l.K != 10 || l.ArgmaxRef != l.ArgmaxPort || l.Note != "" {
		t.Errorf("%+v: want an overlap of 0.9 and no note", l)
	}
	// A flip far beyond the error is no tie.
	far := slices.Clone(ref)
	far[30] = 40
	l, _ = logitsOf(t, ref, far)
	if l.Ties != 0 || l.Flips != 1 || !strings.Contains(l.Note, "larger than") {
		t.Errorf("%+v: want a flip and no tie", l)
	}
}

// Entries of the vocabulary that are masked with -Inf on both sides say nothing.
func TestMaskedVocabulary(t *testing.T) {
	ref := []float64{1, 2, 3, 4, math.Inf(-1), math.Inf(-1)}
	l, c := logitsOf(t, ref, slices.Clone(ref))
	if l.KL != 0 || l.RMSError != 0 || !l.ArgmaxEqual || c.Verdict != Parity {
		t.Errorf("%+v, %s (%s)", l, c.Verdict, c.Reason)
	}
}

// Over [T, V] flips are counted at every row.
func TestLogitsOfAllPositions(t *testing.T) {
	d := net().Run()
	port := d.Clone()
	for _, row := range []int{3, 7} {
		port["logits"].Row(row)[5] = 1e3
	}
	c := runCase(t, guardCase{ref: d, port: port})
	var l *Logits
	for _, ck := range c.Checkpoints {
		if ck.Logits != nil {
			l = ck.Logits
		}
	}
	if l == nil || l.Rows != 16 || l.Flips != 2 || l.Ties != 0 || l.ArgmaxEqual || l.ArgmaxRef != l.ArgmaxPort {
		t.Errorf("%+v: want 2 flips in 16 rows, none in the last", l)
	}
}

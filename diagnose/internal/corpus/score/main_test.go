package main

import (
	"strings"
	"testing"

	"github.com/layerparity/parity/diagnose/internal/corpus"
)

// The faults of the field and the right pairs, in float32, through the whole
// tool: what the corpus's own tests show of the hypotheses has to reach the user.
// `make corpus` scores all cases.
func TestTheWholeToolIsRightOnTheFaultsOfTheField(t *testing.T) {
	n := 0
	for _, c := range corpus.Cases() {
		if strings.Contains(c.ID, "/") || !strings.HasPrefix(c.ID, "D") && !strings.HasPrefix(c.ID, "clean-") {
			continue
		}
		n++
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			if r := score(c); !r.right() {
				t.Error(r.line())
			}
		})
	}
	if n < 40 {
		t.Errorf("only %d cases", n)
	}
}

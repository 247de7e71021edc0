package catalog_test

import (
	"regexp"
	"testing"

	"github.com/layerparity/parity/diagnose"
	"github.com/layerparity/parity/diagnose/catalog"
)

// A `parity try` line in the catalogue must be one that `parity try` takes.
func TestTryLinesParse(t *testing.T) {
	line := regexp.MustCompile(`^parity try ref/ port/ --at [a-z0-9_.]+ --apply '([^']+)'$`)
	n := 0
	for _, p := range catalog.All() {
		for _, c := range p.Commands {
			if !regexp.MustCompile(`^parity try `).MatchString(c) {
				continue
			}
			n++
			m := line.FindStringSubmatch(c)
			if m == nil {
				t.Errorf("%s: %q has not the form of a try line", p.ID, c)
				continue
			}
			if _, err := diagnose.ParseTransforms(m[1]); err != nil {
				t.Errorf("%s: %s: %v", p.ID, m[1], err)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d try lines found", n)
	}
}

package diagnose

import (
	"fmt"
	"strings"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/dump"
)

// At stands at a checkpoint of a comparison, for a what-if. The name may carry
// the label of a step and rank; without one the first part that has it counts.
func At(c *compare.Comparison, name string) (*Context, error) {
	for _, part := range c.Parts {
		// A chosen part has no label, and its full name is understood all the same.
		base := strings.TrimPrefix(name, dump.Label(part.Step, part.Rank)+"/")
		src := NewSource(c, part)
		if src.Has(Ref, base) {
			return NewContext(src, base, floorOf(part), func(string, ...any) {}), nil
		}
	}
	return nil, fmt.Errorf("the reference has no checkpoint %q", name)
}

package diagnose

import (
	"fmt"
	"strings"

	"github.com/layerparity/parity/compare"
)

// nextStep says what to do after the findings of a divergence; "" leaves the
// comparison's own advice.
func nextStep(c *compare.Comparison) string {
	if c.Verdict != compare.Divergence {
		return ""
	}
	var proven []string
	for i, f := range c.Findings {
		if f.Proof != compare.ProofSignature && !strings.HasPrefix(f.Cause, "benign.") && !strings.HasPrefix(f.Cause, "capture.") {
			proven = append(proven, fmt.Sprint(i+1))
		}
	}
	again := fmt.Sprintf("dump the port again and run `parity compare %s %s`", quote(c.Ref.Path), quote(c.Port.Path))
	switch {
	case len(proven) == 1:
		return fmt.Sprintf("Finding %s is proven on these tensors: mend it in the port, %s.", proven[0], again)
	case len(proven) > 1:
		last := len(proven) - 1
		return fmt.Sprintf("Findings %s and %s are proven on these tensors: mend them in the port, %s.", strings.Join(proven[:last], ", "), proven[last], again)
	}
	for i, f := range c.Findings {
		switch {
		case strings.HasPrefix(f.Cause, "benign.") || strings.HasPrefix(f.Cause, "capture.") || f.Verify == "":
		case f.Cause == "unknown":
			return "Nothing that was tested fits, so no cause is named: " + f.Verify + "."
		default:
			return fmt.Sprintf("Finding %d is a signature and no proof, so check before changing code: %s.", i+1, strings.TrimRight(f.Verify, "."))
		}
	}
	return ""
}

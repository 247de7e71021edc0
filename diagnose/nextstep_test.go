package diagnose

import (
	"strings"
	"testing"

	"github.com/layerparity/parity/compare"
)

func TestTheNextStepFollowsTheProof(t *testing.T) {
	exact := compare.Finding{Cause: "rope.theta", Proof: compare.ProofExact, Verify: "print theta"}
	signature := compare.Finding{Cause: "weights.swapped", Proof: compare.ProofSignature, Verify: "print both weights."}
	unknown := compare.Finding{Cause: "unknown", Proof: compare.ProofSignature, Verify: "dump layer_03.q"}
	benign := compare.Finding{Cause: "benign.layout", Proof: compare.ProofExact, Verify: "nothing"}
	for _, c := range []struct {
		reason   string
		findings []compare.Finding
		want     string
	}{
		{"one proof", []compare.Finding{benign, exact, signature}, "Finding 2 is proven on these tensors: mend it in the port, dump the port again and run `parity compare ref port`."},
		{"two proofs", []compare.Finding{exact, exact}, "Findings 1 and 2 are proven"},
		{"a signature", []compare.Finding{benign, signature}, "Finding 2 is a signature and no proof, so check before changing code: print both weights."},
		{"nothing fits", []compare.Finding{unknown}, "no cause is named: dump layer_03.q."},
		{"only what is right", []compare.Finding{benign}, ""},
	} {
		got := nextStep(&compare.Comparison{Verdict: compare.Divergence, Findings: c.findings, Ref: compare.DumpInfo{Path: "ref"}, Port: compare.DumpInfo{Path: "port"}})
		if got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", c.reason, got, c.want)
		}
	}
	if got := nextStep(&compare.Comparison{Verdict: compare.Untrusted, Findings: []compare.Finding{exact}}); got != "" {
		t.Errorf("untrusted dumps are mended first, not the port: %q", got)
	}
}

package diagnose

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// An error that no other order of sums reaches is not called rerun noise, whatever
// the dumps leave unsaid.
func TestRoundingIsNamedByItsSize(t *testing.T) {
	for _, tc := range []struct {
		size  float64
		cause string
		claim string
	}{
		{1e-6, "benign.rerun_noise", "another order of sums"},
		{2e-3, "benign.precision", "coarser products, weights or storage than the dumps state"},
	} {
		var refs, ports []*Tensor
		for l := range 4 {
			var x, y []float64
			for i := range 16 * 8 {
				v := 1 + math.Sin(float64(i*(l+3)))
				x, y = append(x, v), append(y, v*(1+tc.size*math.Cos(float64(i*i+l))))
			}
			name := fmt.Sprintf("layer_%02d", l)
			refs, ports = append(refs, rows(name, 8, x...)), append(ports, rows(name, 8, y...))
		}
		b := bench{ref: map[string]*Tensor{}, port: map[string]*Tensor{}}
		for i := range refs {
			b.ref[refs[i].Name], b.port[ports[i].Name] = refs[i], ports[i]
		}
		unknown := func(string) float64 { return math.Sqrt(2 * 1e-2) } // the floor of a precision that nothing tells
		c := NewContext(b, "layer_03", unknown, func(string, ...any) {})
		r, p, _ := c.Pair("layer_03")
		f, ok := onlyRounding(c, r, p)
		if !ok || f.Cause != tc.cause || !strings.Contains(f.Claim, tc.claim) {
			t.Errorf("errors of %g: %v %s %q, want %s: %s", tc.size, ok, f.Cause, f.Claim, tc.cause, tc.claim)
		}
	}
}

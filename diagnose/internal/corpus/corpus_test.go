package corpus

import (
	"math"
	"testing"
)

// relative is ‖p-r‖ / ‖r‖ over a whole tensor.
func relative(r, p []float32) float64 {
	var d, n float64
	for i := range r {
		d += (float64(p[i]) - float64(r[i])) * (float64(p[i]) - float64(r[i]))
		n += float64(r[i]) * float64(r[i])
	}
	return math.Sqrt(d / n)
}

func TestARightPairStaysBelowTheFloorOfItsDType(t *testing.T) {
	for _, id := range []string{"clean-float32", "clean-identical", "clean-bf16"} {
		c, ok := Lookup(id)
		if !ok {
			t.Fatalf("no case %s", id)
		}
		ref, port := c.Build()
		for key, r := range ref.Parts {
			for _, name := range r.Names {
				a, b := r.Tensors[name], port.Parts[key].Tensors[name]
				if a.Ints != nil {
					continue
				}
				if rel := relative(a.Data, b.Data); !(rel <= c.Floor(name)) {
					t.Errorf("%s %s: rel_l2 %.3g above the floor %.3g", id, name, rel, c.Floor(name))
				}
			}
		}
	}
}

package diagnose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/layerparity/parity/compare"
)

// rotatedPair is a dump of q and q_rope whose sides follow two rules.
func rotatedPair(tokens, heads, d int, ref, port ropeRule, dtype string) *Context {
	r := rand.New(rand.NewPCG(7, uint64(tokens)))
	q := make([]float64, tokens*heads*d)
	for i := range q {
		q[i] = float64(float32(r.NormFloat64()))
	}
	pos := make([]float64, tokens)
	for t := range pos {
		pos[t] = float64(t)
	}
	make_ := func(name string, data []float64, dt string) *Tensor {
		out := rows(name, heads*d, data...)
		out.DType = dt
		for i, v := range data {
			out.Data[i] = roundFloat(dt, v)
		}
		return out
	}
	side := func(rule ropeRule, dt string) []*Tensor {
		in := make_("layer_00.q", append([]float64(nil), q...), dt)
		return []*Tensor{in, make_("layer_00.q_rope", rule.rotate(in.Data, tokens, heads*d, d, [][]float64{pos}, false), dt)}
	}
	c := benchContext("layer_00.q_rope", side(ref, "float32"), side(port, dtype))
	b := c.Source.(bench)
	b.facts[Ref], b.facts[Port] = Facts{HeadDim: d}, Facts{HeadDim: d}
	c.Source = b
	if dtype != "float32" {
		c.FloorOf = func(string) float64 { return 3e-2 }
	}
	return c
}

// Rules that no manifest states: everything has to come from the tensors.
func TestRotationsAreIdentifiedFromTheTensorsAlone(t *testing.T) {
	half := func(theta float64) ropeRule { return ropeRule{Layout: "half", Theta: theta} }
	for _, tc := range []struct {
		name      string
		ref, port ropeRule
		tokens, d int
		cause     string
		values    map[string]float64
	}{
		{"an odd theta", half(123456), half(10000), 64, 64, "rope.theta", map[string]float64{"reference": 123456, "port": 10000}},
		{"theta on interleaved pairs", ropeRule{Layout: "interleaved", Theta: 1e6}, ropeRule{Layout: "interleaved", Theta: 5e6}, 64, 64, "rope.theta", map[string]float64{"reference": 1e6, "port": 5e6}},
		{"NTK scaling", half(10000), half(10000 * math.Pow(4, 64./62)), 64, 64, "rope.theta", map[string]float64{"reference": 10000, "port": 10000 * math.Pow(4, 64./62)}},
		{"linear scaling by an odd factor", ropeRule{Layout: "half", Theta: 10000, Scaling: "linear", Factor: 2.5}, half(10000), 64, 64, "rope.scaling", map[string]float64{"factor": 2.5}},
		{"llama3 by 16", ropeRule{Layout: "half", Theta: 5e5, Scaling: "llama3", Factor: 16, Orig: 8192}, half(5e5), 400, 128, "rope.scaling", map[string]float64{"factor": 16}},
		{"yarn by 40 with its attention factor", ropeRule{Layout: "interleaved", Theta: 1e4, Scaling: "yarn", Factor: 40, Orig: 4096, Mscale: 1.3689}, ropeRule{Layout: "interleaved", Theta: 1e4}, 400, 64, "rope.scaling", map[string]float64{"factor": 40, "attention_factor": 1.3689}},
		{"three quarters of the dims", ropeRule{Layout: "half", Theta: 1e4, Dims: 48}, half(1e4), 64, 64, "rope.width", map[string]float64{"reference": 48, "port": 64}},
		{"the trailing dims", ropeRule{Layout: "half", Theta: 1e4, Dims: 32, Start: 32}, ropeRule{Layout: "half", Theta: 1e4, Dims: 32}, 64, 64, "rope.width", nil},
		{"half an offset", half(1e4), ropeRule{Layout: "half", Theta: 1e4, Offset: 17}, 64, 64, "rope.position", map[string]float64{"offset": 17}},
		{"positions in float16", half(1e4), ropeRule{Layout: "half", Theta: 1e4, RoundPos: "float16"}, 2200, 16, "rope.precision", nil},
		{"everything in bfloat16", half(1e4), ropeRule{Layout: "half", Theta: 1e4, RoundPos: "bfloat16", RoundFreq: "bfloat16", RoundAngle: "bfloat16", RoundTable: "bfloat16"}, 64, 64, "rope.precision", nil},
		{"the other pairs and another theta", half(1e4), ropeRule{Layout: "interleaved", Theta: 1e6}, 64, 64, "rope.layout", nil},
	} {
		for _, dtype := range []string{"float32", "bfloat16"} {
			if dtype == "bfloat16" && tc.cause == "rope.precision" {
				continue // not above the rounding of the tensors themselves
			}
			t.Run(tc.name+", "+dtype, func(t *testing.T) {
				t.Parallel()
				c := rotatedPair(tc.tokens, 4, tc.d, tc.ref, tc.port, dtype)
				fs := testRope(c)
				if len(fs) == 0 || fs[0].Cause != tc.cause || fs[0].Proof != compare.ProofExact {
					t.Fatalf("found %+v", fs)
				}
				for k, want := range tc.values {
					var got float64
					if _, err := fmt.Sscan(fmt.Sprint(fs[0].Values[k]), &got); err != nil {
						t.Errorf("%s holds %v", k, fs[0].Values[k])
					}
					wantClose(t, k, got, want, 0.01)
				}
			})
		}
	}
}

func TestOneRuleOnBothSidesIsNoFinding(t *testing.T) {
	for _, dtype := range []string{"float32", "bfloat16"} {
		for _, r := range []ropeRule{
			{Layout: "half", Theta: 1e4}, {Layout: "interleaved", Theta: 5e5, Dims: 16}, {None: true},
			{Layout: "half", Theta: 5e5, Scaling: "llama3", Factor: 8, Orig: 8192}, {Layout: "half", Theta: 1e4, Positions: []float64{7}},
		} {
			c := rotatedPair(48, 2, 32, r, r, dtype)
			for _, f := range testRope(c) {
				t.Errorf("%+v in %s: %s: %s", r, dtype, f.Cause, f.Claim)
			}
		}
	}
}

func TestATensorThatIsNoRotationIsLeftAlone(t *testing.T) {
	r := ropeRule{Layout: "half", Theta: 1e4}
	c := rotatedPair(48, 2, 32, r, r, "float32")
	said := ""
	c.Note = func(f string, args ...any) { said += fmt.Sprintf(f, args...) }
	port := c.Source.(bench).port["layer_00.q_rope"]
	for i := range port.Data {
		port.Data[i] = math.Sin(float64(i))
	}
	if fs := testRope(c); fs != nil {
		t.Errorf("found %+v", fs)
	}
	if said == "" {
		t.Error("nothing is said about what was tried")
	}
}

package kernel

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// halves are all finite binary16 values as float32, by their definition.
func halves() []float32 {
	var v []float32
	for man := range 1024 {
		v = append(v, float32(man)/(1<<24), -float32(man)/(1<<24))
		for exp := -14; exp <= 15; exp++ {
			x := float32(math.Ldexp(1+float64(man)/1024, exp))
			v = append(v, x, -x)
		}
	}
	return v
}

func TestEveryHalfIsRecognisedAndNoNeighbour(t *testing.T) {
	for _, lp := range implementations() {
		all := halves()
		if _, f16 := lp.narrow(all); !f16 {
			t.Fatalf("%s: a binary16 is taken for more", lp.name)
		}
		for _, v := range all {
			for _, up := range []float32{math.MaxFloat32, -math.MaxFloat32} {
				near := math.Nextafter32(v, up)
				x := make([]float32, 8)
				x[3] = near
				if _, f16 := lp.narrow(x); f16 {
					t.Fatalf("%s: %v, beside %v, is taken for a binary16", lp.name, near, v)
				}
			}
		}
		for _, v := range []float32{65536, -65536, 0x1p-25, 65520, math.MaxFloat32} {
			if _, f16 := lp.narrow([]float32{v, 0, 0, 0, 0, 0, 0, 0, 0}); f16 {
				t.Errorf("%s: %v is taken for a binary16", lp.name, v)
			}
		}
		special := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)), 1, 2, 3, 4}
		if bf16, f16 := lp.narrow(special); !bf16 || !f16 {
			t.Errorf("%s: NaN, infinities and zeros are bf16 %v, f16 %v", lp.name, bf16, f16)
		}
	}
}

func TestOneWideValueIsFoundWhereverItStands(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	for _, lp := range implementations() {
		for _, n := range []int{1, 7, 8, 9, 63, 64, 1000} {
			for range 20 {
				x := make([]float32, n)
				for i := range x { // eight bits of mantissa: both types hold them
					x[i] = float32(rng.IntN(255) - 127)
				}
				if bf16, f16 := lp.narrow(x); !bf16 || !f16 {
					t.Fatalf("%s: small integers are bf16 %v, f16 %v", lp.name, bf16, f16)
				}
				at := rng.IntN(n)
				x[at] = 1 + 0x1p-9 // a binary16, no bfloat16
				if bf16, f16 := lp.narrow(x); bf16 || !f16 {
					t.Fatalf("%s: 1+2^-9 at %d of %d: bf16 %v, f16 %v", lp.name, at, n, bf16, f16)
				}
				x[at] = 0x1p30 // the reverse
				if bf16, f16 := lp.narrow(x); !bf16 || f16 {
					t.Fatalf("%s: 2^30 at %d of %d: bf16 %v, f16 %v", lp.name, at, n, bf16, f16)
				}
			}
		}
	}
}

func TestNarrowReadsWholeTensorsAndStopsEarly(t *testing.T) {
	const n = 300000
	v := make([]float64, 5+n)
	run := func() (bool, bool, int64) {
		o := operand(F32, v)
		o.First = 5
		read := int64(0)
		bf16, f16, err := Narrow(context.Background(), o, n, Options{Workers: 1, Progress: func(b int64) { read += b }})
		if err != nil {
			t.Fatal(err)
		}
		return bf16, f16, read
	}
	v[4] = math.Pi // before the first element
	if bf16, f16, read := run(); !bf16 || !f16 || read != 4*n {
		t.Errorf("zeros: bf16 %v, f16 %v, %d bytes read", bf16, f16, read)
	}
	v[5+n-1] = 1 + 0x1p-9
	if bf16, f16, _ := run(); bf16 || !f16 {
		t.Errorf("a binary16 at the end: bf16 %v, f16 %v", bf16, f16)
	}
	v[5] = math.Pi
	if bf16, f16, read := run(); bf16 || f16 || read >= 4*n {
		t.Errorf("a float32 at the start: bf16 %v, f16 %v, %d bytes read", bf16, f16, read)
	}
	var e *brokenError
	p := brokenPair(400000)
	if _, _, err := Narrow(context.Background(), p.Port, 600000, Options{}); !errors.As(err, &e) {
		t.Errorf("a read that fails: %v", err)
	}
	if _, _, err := Narrow(context.Background(), operand(F16, v), n, Options{}); !errors.Is(err, errNotF32) {
		t.Errorf("elements that are not f32: %v", err)
	}
	if bf16, f16, err := Narrow(context.Background(), operand(F32, nil), 0, Options{}); !bf16 || !f16 || err != nil {
		t.Errorf("nothing: %v, %v, %v", bf16, f16, err)
	}
}

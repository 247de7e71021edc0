package compare

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/internal/dumptest"
)

func TestDominants(t *testing.T) {
	same := func(n int, e float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = e
		}
		return x
	}
	with := func(x []float64, at int, e float64) []float64 {
		x = slices.Clone(x)
		x[at] = e
		return x
	}
	for _, c := range []struct {
		reason   string
		energies []float64
		want     []int
		share    float64
	}{
		{"all alike", same(16, 1), nil, 0},
		{"more than half of the energy", with(same(8, 1), 3, 7.01), []int{3}, 7.01 / 14.01},
		{"half, not more", with(same(8, 1), 3, 7), nil, 0},
		{"over 20 times the median norm", with(same(1000, 1), 5, 400.1), []int{5}, 400.1 / 1399.1},
		{"20 times, not over", with(same(1000, 1), 5, 400), nil, 0},
		{"two of them", with(with(same(1000, 1), 5, 500), 9, 600), []int{5, 9}, 1100.0 / 2098},
		{"nine are a wide spread", func() []float64 {
			x := same(1000, 1)
			for i := range 9 {
				x[i] = 500
			}
			return x
		}(), nil, 0},
		{"a median of zero: only the share counts", with(same(16, 0), 2, 1), []int{2}, 1},
		{"three values are too few", []float64{1, 1, 1e9}, nil, 0},
		{"all zero", same(16, 0), nil, 0},
	} {
		got, share := dominants(c.energies)
		if !slices.Equal(got, c.want) || math.Abs(share-c.share) > 1e-12 {
			t.Errorf("%s: %v with %v, want %v with %v", c.reason, got, share, c.want, c.share)
		}
	}
}

// The cosine without a massive token and a massive dim, against sums over what
// is left.
func TestCosineWithoutTheDominant(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	a := dumptest.Rand(rng, 16, 32)
	b := a.Noise(rng, 0.3)
	for _, x := range []*dumptest.Array{a, b} {
		for row := range 16 { // a dim that is massive at every token
			x.Row(row)[7] = 3000 + float64(row)
		}
		for i := range 32 { // and a token that is
			x.Row(2)[i] += 1e5
		}
	}
	dir := t.TempDir()
	c := compareFolders(t, dumptest.Dump{"layer_00": a}.Write(t, filepath.Join(dir, "ref")), dumptest.Dump{"layer_00": b}.Write(t, filepath.Join(dir, "port")))
	d := c.Checkpoints[0].Dominant
	if d == nil || !slices.Equal(d.Tokens, []int{2}) {
		t.Fatalf("dominant is %+v, want token 2", d)
	}
	var x, y []float64
	for row := range 16 {
		for i := range 32 {
			if !slices.Contains(d.Tokens, row) && !slices.Contains(d.Dims, i) {
				x, y = append(x, float64(float32(a.Row(row)[i]))), append(y, float64(float32(b.Row(row)[i])))
			}
		}
	}
	if want := exactly(x, y).oneMinusCos(); math.Abs(float64(d.OneMinusCosWithout)-want) > 1e-9*want {
		t.Errorf("1-cos without %v and %v is %v, exactly %v", d.Tokens, d.Dims, d.OneMinusCosWithout, want)
	}
	if whole := c.Checkpoints[0].Cos; !(whole > 0.9999) {
		t.Errorf("the whole cosine %v sees more than the massive values", whole)
	}
}

// The sums of the columns that are left, less a few tokens, are what reading
// everything again gives.
func TestLeavingOutBySumsIsLeavingOut(t *testing.T) {
	ref := dumptest.Layers(3, 1, 24, 40)
	a := ref["layer_00"]
	for i := range a.Row(0) {
		a.Row(0)[i] *= 50
	}
	for r := range 24 {
		a.Row(r)[7] *= 300
	}
	port := ref.Noise(4, 1e-4)
	p := runCase(t, guardCase{ref: ref, port: port}).Parts[0].Find("layer_00")
	tokens, dims := []int{0}, []int{7}
	got, ok, err := p.withoutBySums(tokens, dims)
	if err != nil || !ok {
		t.Fatalf("not possible: %v", err)
	}
	want := kernel.Moments{MaxAt: -1}
	if err := p.eachRow(func(r int, x, y []float64) {
		if r != 0 {
			addWithout(&want, x, y, dims)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if e := math.Abs(got.OneMinusCos()/want.OneMinusCos() - 1); !(e < 1e-9) {
		t.Errorf("1-cos %g by sums, %g by reading: %g apart", got.OneMinusCos(), want.OneMinusCos(), e)
	}
}

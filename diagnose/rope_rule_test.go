package diagnose

import (
	"math"
	"testing"
)

func wantClose(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*math.Max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestFrequenciesFollowThePublishedLaws(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    ropeRule
		d    int
		want []float64
	}{
		{"theta^(-2i/d)", ropeRule{Theta: 10000}, 4, []float64{1, 0.01}},
		{"partial width", ropeRule{Theta: 10000, Dims: 2}, 4, []float64{1}},
		{"exponents over the whole head", ropeRule{Theta: 10000, Dims: 4, Den: 8}, 8, []float64{1, 0.1}},
		{"only some pairs turn", ropeRule{Theta: 10000, Pairs: 1}, 4, []float64{1, 0}},
		{"linear scaling", ropeRule{Theta: 10000, Scaling: "linear", Factor: 4}, 4, []float64{0.25, 0.0025}},
		// Wavelengths are 2π·theta^(2i/d) = 6.28 and 628.3; original 8192 over
		// high 4 is 2048, over low 1 is 8192: both are short and kept.
		{"llama3 keeps short waves", ropeRule{Theta: 10000, Scaling: "llama3", Factor: 8}, 4, []float64{1, 0.01}},
		// With original 512: 512/4 = 128 < 628.3 > 512: divided by 8.
		{"llama3 divides long waves", ropeRule{Theta: 10000, Scaling: "llama3", Factor: 8, Orig: 512}, 4, []float64{1, 0.00125}},
		// With original 1024: s = (1024/628.3185 - 1)/3 = 0.2099155; (1-s)·0.01/8 + s·0.01.
		{"llama3 blends between", ropeRule{Theta: 10000, Scaling: "llama3", Factor: 8, Orig: 1024}, 4, []float64{1, 0.00308676097}},
		{"given frequencies", ropeRule{Freqs: []float64{0.5, 0.25}}, 4, []float64{0.5, 0.25}},
		{"no rotation", ropeRule{None: true}, 4, []float64{0, 0}},
		{"rounded", ropeRule{Theta: 10000, RoundFreq: "bfloat16"}, 4, []float64{1, 0.010009765625}},
	} {
		got := tc.r.frequencies(tc.d)
		if len(got) != len(tc.want) {
			t.Fatalf("%s: %v", tc.name, got)
		}
		for i, w := range tc.want {
			wantClose(t, tc.name, got[i], w, 1e-8)
		}
	}
}

func TestYarnKeepsFastPairsAndDividesSlowOnes(t *testing.T) {
	r := ropeRule{Theta: 10000, Scaling: "yarn", Factor: 4, Orig: 4096, BetaFast: 32, BetaSlow: 1}
	w := r.frequencies(128)
	// i = 128·ln(4096/(2π·beta)) / (2 ln 10000): 20.9 for beta 32, 45.03 for 1.
	for i := range w {
		plain := math.Pow(10000, -float64(i)/64)
		switch {
		case i <= 20:
			wantClose(t, "a fast pair", w[i], plain, 1e-12)
		case i >= 46:
			wantClose(t, "a slow pair", w[i], plain/4, 1e-12)
		case i == 33: // halfway between 20 and 46: ramp 0.5
			wantClose(t, "the middle pair", w[i], plain*(0.5+0.5/4), 1e-9)
		}
	}
}

func TestRotationOfOnePairByARightAngle(t *testing.T) {
	// Frequency 1, position π/2: (1, 0) turns to (0, 1), (0, 1) to (-1, 0).
	for _, tc := range []struct {
		layout  string
		in, out []float64
	}{
		{"half", []float64{1, 2, 0, 0}, []float64{0, 2, 1, 0}},
		{"interleaved", []float64{1, 0, 2, 0}, []float64{0, 1, 2, 0}},
		{"half", []float64{0, 0, 1, 0}, []float64{-1, 0, 0, 0}},
	} {
		r := ropeRule{Layout: tc.layout, Freqs: []float64{1, 0}}
		pos := [][]float64{{math.Pi / 2}}
		got := r.rotate(tc.in, 1, 4, 4, pos, false)
		back := r.rotate(got, 1, 4, 4, pos, true)
		for i := range got {
			wantClose(t, tc.layout, got[i], tc.out[i], 1e-15)
			wantClose(t, tc.layout+" undone", back[i], tc.in[i], 1e-15)
		}
	}
}

func TestUnropeUndoesEveryRule(t *testing.T) {
	x := make([]float64, 3*16)
	for i := range x {
		x[i] = math.Sin(float64(7 * i))
	}
	pos := [][]float64{{0, 5, 700}}
	three := [][]float64{{0, 5, 700}, {1, 2, 3}, {9, 8, 7}}
	for name, r := range map[string]ropeRule{
		"plain":      {Theta: 1e4},
		"partial":    {Theta: 1e4, Dims: 4, Layout: "interleaved"},
		"attention":  {Theta: 1e4, Mscale: 1.416},
		"negative":   {Theta: 1e4, Negative: true},
		"offset":     {Theta: 1e4, Offset: 3},
		"positions":  {Theta: 1e4, Positions: []float64{4, 4, 4}},
		"table":      {Theta: 1e4, RoundTable: "bfloat16"},
		"all rounds": {Theta: 1e4, RoundPos: "bfloat16", RoundFreq: "bfloat16", RoundAngle: "bfloat16", RoundTable: "bfloat16"},
		"sections":   {Theta: 1e4, Sections: []int{2, 1, 1}},
		"turns":      {Theta: 1e4, Sections: []int{2, 1, 1}, SectionOrder: "interleaved"},
		"not at all": {None: true},
	} {
		p := pos
		if r.Sections != nil {
			p = three
		}
		got := r.rotate(r.rotate(x, 3, 16, 8, p, false), 3, 16, 8, p, true)
		for i := range x {
			wantClose(t, name, got[i], x[i], 1e-14)
		}
	}
}

func TestSectionsGivePairsToAxes(t *testing.T) {
	for _, tc := range []struct {
		r    ropeRule
		want string
	}{
		{ropeRule{Sections: []int{3, 3, 2}, SectionOrder: "chunked"}, "ttthhhww"},
		{ropeRule{Sections: []int{3, 3, 2}, SectionOrder: "interleaved"}, "thwthwth"},
		{ropeRule{Sections: []int{6, 1, 1}, SectionOrder: "interleaved"}, "thwttttt"},
		{ropeRule{}, "every pair by the first axis"},
	} {
		if got := tc.r.sectionText(8); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.r.Sections, got, tc.want)
		}
	}
}

func TestRoundingToNarrowFloats(t *testing.T) {
	inf := math.Inf(1)
	for _, tc := range []struct {
		dtype   string
		x, want float64
		reason  string
	}{
		{"bfloat16", 257, 256, "a tie goes to even"},
		{"bfloat16", 259, 260, "the other tie goes up to even"},
		{"bfloat16", 1.00390625, 1, "half of the last place, even is below"},
		{"bfloat16", 1.01171875, 1.015625, "half of the last place, even is above"},
		{"bfloat16", -257.5, -258, "negative numbers likewise"},
		{"bfloat16", 3.4e38, inf, "beyond the largest"},
		{"bfloat16", 0x1p-133, 0x1p-133, "the smallest subnormal"},
		{"bfloat16", 0x1p-135, 0, "under half of it"},
		{"float16", 2049, 2048, "a tie goes to even"},
		{"float16", 65504, 65504, "the largest"},
		{"float16", 65519, 65504, "still rounds down"},
		{"float16", 65520, inf, "half a place over the largest"},
		{"float16", 0x1p-24, 0x1p-24, "the smallest subnormal"},
		{"float16", 0x1p-26, 0, "under half of it"},
		{"float32", 16777217, 16777216, "a tie goes to even"},
		{"", 0.1, 0.1, "no rounding"},
		{"float16", 0, 0, "zero"},
		{"float16", -inf, -inf, "infinity stays"},
	} {
		if got := roundFloat(tc.dtype, tc.x); got != tc.want {
			t.Errorf("%s(%v) is %v, want %v: %s", tc.dtype, tc.x, got, tc.want, tc.reason)
		}
	}
	if !math.IsNaN(roundFloat("bfloat16", math.NaN())) {
		t.Error("NaN does not stay NaN")
	}
}

func TestTokensToSeeALongContextScaling(t *testing.T) {
	r := ropeRule{Layout: "half", Theta: 500000, Scaling: "llama3", Factor: 8, Low: 1, High: 4, Orig: 8192}
	short, long := tokensToSee(r, 128, 1e-5), tokensToSee(r, 128, 1e-2)
	if !(short < long) || long < 100 {
		t.Errorf("%d tokens at 1e-5, %d at 1e-2", short, long)
	}
	if n := tokensToSee(ropeRule{Theta: 1e4}, 128, 1e-2); n != 0 {
		t.Errorf("a rule without scaling needs %d tokens", n)
	}
}

func TestPositionsAreReadOffRowByRow(t *testing.T) {
	const d, rows = 16, 12
	pre := &Tensor{Rows: rows, Cols: 2 * d, Shape: []int{rows, 2 * d}, Data: make([]float64, rows*2*d)}
	for i := range pre.Data {
		pre.Data[i] = math.Sin(float64(13*i)) + 0.3
	}
	want := []float64{0, 1, 2, 3, 0, 1, 250, 3, -4, 9, 10, 11}
	r := ropeRule{Layout: "half", Theta: 10000}
	post := pre.like(r.rotate(pre.Data, rows, 2*d, d, [][]float64{want}, false))
	stated := [][]float64{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}
	m := measureTurns(pre, post, d, geometry{layout: "half"}, stated)
	at, ok := m.rowPlaces(r)
	if !ok {
		t.Fatal("no positions were found")
	}
	for i, w := range want {
		if at[i] != w {
			t.Errorf("row %d stands at %v, found %v", i, w, at[i])
		}
	}
}

func TestWindowStartsAndRestartsAreToldFromPositions(t *testing.T) {
	ref := []float64{0, 1, 2, 3, 4, 5, 6, 7}
	if n := windowStart(ref, []float64{0, 0, 2, 2, 4, 4, 6, 6}); n != 2 {
		t.Errorf("window of %d", n)
	}
	if n := windowStart(ref, []float64{0, 1, 2, 3, 0, 1, 2, 3}); n != 0 {
		t.Errorf("a restart is no window (%d)", n)
	}
	if at := restarts(ref, []float64{0, 1, 2, 3, 0, 1, 2, 3}); at != 4 {
		t.Errorf("restart at %d", at)
	}
	if at := restarts(ref, []float64{0, 1, 2, 3, 5, 6, 7, 8}); at != 0 {
		t.Errorf("a shift is no restart (%d)", at)
	}
}

package corpus

import (
	"fmt"
	"math"
	"testing"
)

func layerOutput(l int) string { return fmt.Sprintf("layer_%02d", l) }

func abs(x float64) float64 { return math.Abs(x) }

func TestD1RotatesTheSameVectorsInOtherPairs(t *testing.T) {
	p := build(t, "D1")
	for _, tap := range []string{"q", "k", "v"} {
		r, q := p.get("layer_00." + tap)
		p.same(tap, r.Data, q.Data)
	}
	r, q := p.get(qRope0)
	p.same("token 0", rows(r, 0, 1), rows(q, 0, 1))
	p.differs("token 1", rows(r, 1, 2), rows(q, 1, 2))
	// By hand: pair (2, 3) of head 0 at position 5 turns by 5 * 5e5^(-2/16).
	_, q0 := p.get("layer_00.q")
	s, c := math.Sincos(5 * math.Pow(5e5, -2.0/16))
	a, b := float64(q0.Row(5)[2]), float64(q0.Row(5)[3])
	p.near("dim 2 at position 5", float64(q.Row(5)[2]), a*c-b*s, 1e-5)
	p.near("dim 3 at position 5", float64(q.Row(5)[3]), b*c+a*s, 1e-5)
}

func TestD2TurnsEachPairByTheOtherTheta(t *testing.T) {
	p := build(t, "D2")
	r, q := p.get(qRope0)
	for i := range 8 {
		e := -2 * float64(i) / 16
		want := math.Pow(1e4, e) - math.Pow(5e5, e)
		if got := turn(r, q, 16, 1, i, i+8); abs(got-want) > 1e-5 {
			t.Errorf("pair %d turns by %v at position 1, want %v", i, got, want)
		}
	}
}

func TestD3DividesOnlyTheLongWavesBy8(t *testing.T) {
	p := build(t, "D3-long")
	q0, _ := p.get("layer_00.q")
	r, q := p.get(qRope0)
	slope := func(m *Mat, i int) float64 {
		// Wavelengths of pairs 4 and up are beyond 4,000: no wrap in 500.
		return turn(q0, m, 16, 500, i, i+8) / 500
	}
	p.near("ratio of pair 7", slope(q, 7)/slope(r, 7), 8, 1e-3)
	p.near("ratio of pair 6", slope(q, 6)/slope(r, 6), 8, 1e-3)
	for t0 := range 600 {
		if a := turn(r, q, 16, t0, 0, 8); abs(a) > 1e-5 {
			t.Fatalf("pair 0 turns by %v at position %d, want 0", a, t0)
		}
	}
}

func TestD4DecodesAtPosition0(t *testing.T) {
	p := build(t, "D4")
	r, q := p.at(0, 0, "layer_05")
	p.same("the prefill", r.Data, q.Data)
	for step := 1; step <= 4; step++ {
		_, k := p.at(step, 0, "layer_00.k")
		r, q = p.at(step, 0, kRope0)
		p.same("k_rope against k", k.Data, q.Data)
		p.differs("k_rope", r.Data, q.Data)
	}
}

func TestD5IsExactUpTo256AndThenSteps(t *testing.T) {
	p := build(t, "D5")
	r, q := p.get(qRope0)
	p.same("positions 0 to 256", rows(r, 0, 257), rows(q, 0, 257))
	// bfloat16 has even integers between 256 and 512, fours up to 1024.
	for at, off := range map[int]float64{257: -1, 258: 0, 259: 1, 513: -1, 514: -2, 515: 1, 516: 0} {
		if got := turn(r, q, 16, at, 0, 8); abs(got-off) > 1e-4 {
			t.Errorf("pair 0 at position %d turns by %v, want %v", at, got, off)
		}
	}
}

// logOdds is ln(p_j / p_0) of head 0's last row.
func logOdds(m *Mat, j int) float64 {
	row := m.Row(47)
	return math.Log(float64(row[j]) / float64(row[0]))
}

func TestD6ScalesLogOddsByOneSlope(t *testing.T) {
	for id, want := range map[string]float64{"D6": math.Sqrt(16.0 / 128), "D6-1.146": 1.146} {
		p := build(t, id)
		r, q := p.get(probs0)
		p.same("token 0", rows(r, 0, 1), rows(q, 0, 1))
		for j := 1; j < 48; j += 5 {
			if abs(logOdds(r, j)) > 0.1 {
				p.near("slope", logOdds(q, j)/logOdds(r, j), want, 1e-4)
			}
		}
	}
}

func TestD7CapsTheReferencesScoresAt5(t *testing.T) {
	p := build(t, "D7")
	r, q := p.get(probs0)
	query, _ := p.get(qRope0)
	key, _ := p.get(kRope0)
	score := func(j int) float64 {
		var s float64
		for d := range 16 {
			s += float64(query.Row(47)[d]) * float64(key.Row(j)[d])
		}
		return s
	}
	cap5 := func(x float64) float64 { return 5 * math.Tanh(x/5) }
	for j := 1; j < 48; j += 6 {
		if want := cap5(score(j)) - cap5(score(0)); abs(logOdds(r, j)-want) > 1e-4 {
			t.Errorf("reference's log-odds of key %d are %v, want %v", j, logOdds(r, j), want)
		}
		if want := score(j) - score(0); abs(logOdds(q, j)-want) > 1e-4 {
			t.Errorf("port's log-odds of key %d are %v, want %v", j, logOdds(q, j), want)
		}
	}
}

func TestD8SeesOneKeyMore(t *testing.T) {
	p := build(t, "D8")
	r, q := p.get(probs0)
	seen := func(m *Mat, row int) (n int) {
		for _, v := range m.Row(row) {
			if v > 0 {
				n++
			}
		}
		return n
	}
	if seen(r, 47) != 16 || seen(q, 47) != 17 || seen(q, 10) != 11 {
		t.Errorf("keys seen: ref %d, port %d at token 47, port %d at token 10", seen(r, 47), seen(q, 47), seen(q, 10))
	}
	r, q = p.get("layer_00")
	p.same("tokens 0 to 15", rows(r, 0, 16), rows(q, 0, 16))
	p.differs("token 16", rows(r, 16, 17), rows(q, 16, 17))
}

func TestD9LeavesOnlyTheLastToken(t *testing.T) {
	p := build(t, "D9")
	r, q := p.get(ctx0)
	p.same("token 47", rows(r, 47, 48), rows(q, 47, 48))
	for tok := range 47 {
		p.differs(fmt.Sprint("token ", tok), rows(r, tok, tok+1), rows(q, tok, tok+1))
	}
	_, q = p.get(probs0)
	var above float64
	for _, v := range q.Row(0)[1:] {
		above += float64(v)
	}
	if above < 0.5 {
		t.Errorf("mass above the diagonal at token 0 is %v", above)
	}
}

func TestD10TurnsOnlyTheSecondRequestBy4Positions(t *testing.T) {
	p := build(t, "D10")
	r, q := p.get(kRope0)
	p.same("request 0", rows(r, 0, 48), rows(q, 0, 48))
	for tok := 48 + 4; tok < 96; tok++ {
		if got := turn(r, q, 16, tok, 1, 9); abs(got-4*math.Pow(5e5, -2.0/16)) > 1e-5 {
			t.Fatalf("pair 1 at row %d turns by %v, want four positions", tok, got)
		}
	}
	// Both turn alike: the scores of real tokens stay.
	r, q = p.get(probs0)
	for h := range 8 {
		p.same("scores", rows(r, h*96+52, h*96+96), rows(q, h*96+52, h*96+96))
	}
}

func TestD11LeavesTheHeadsWhoseKeyValueHeadIsTheSame(t *testing.T) {
	p := build(t, "D11")
	r, q := p.get(ctx0)
	for h := range 8 {
		a, b := columns(r, h*16, h*16+16), columns(q, h*16, h*16+16)
		if h == 0 || h == 2 || h == 5 || h == 7 {
			p.same(fmt.Sprint("head ", h), a, b)
		} else {
			p.differs(fmt.Sprint("head ", h), a, b)
		}
	}
}

func TestD12HoldsTheReferencesColumnsInSixRuns(t *testing.T) {
	p := build(t, "D12")
	rq, pq := p.get("layer_00.q")
	rk, pk := p.get("layer_00.k")
	rv, pv := p.get("layer_00.v")
	ref, port := concat(rq, rk, rv), concat(pq, pk, pv)
	// Where [q0 k0 v0 q1 k1 v1] has what [q k v] should: start, source, length.
	for _, run := range [][3]int{{0, 0, 64}, {64, 128, 16}, {80, 160, 16}, {96, 64, 64}, {160, 144, 16}, {176, 176, 16}} {
		p.same(fmt.Sprint("run at ", run[0]), columns(ref, run[1], run[1]+run[2]), columns(port, run[0], run[0]+run[2]))
	}
}

func TestD13MultipliesTheWrongWayRound(t *testing.T) {
	p := build(t, "D13")
	_, gate := p.get("layer_00.mlp_gate")
	_, up := p.get("layer_00.mlp_up")
	_, act := p.get(act0)
	want := make([]float32, len(act.Data))
	for i := range want {
		u := float64(up.Data[i])
		want[i] = float32(u / (1 + math.Exp(-u)) * float64(gate.Data[i]))
	}
	p.same("silu(up)*gate", want, act.Data)
}

func TestD14IsASmallEffect(t *testing.T) {
	p := build(t, "D14")
	r, q := p.get(act0)
	p.near("rel_l2 of the activation", relative(r.Data, q.Data), 2e-4, 0.1)
	up, _ := p.get("layer_00.mlp_up")
	for i := range r.Data {
		// The two GELUs differ by 4.7e-4 at most; 1e-6 is rounding.
		if d := abs(float64(q.Data[i]) - float64(r.Data[i])); d > 4.8e-4*abs(float64(up.Data[i]))+1e-6 {
			t.Fatalf("element %d differs by %v with up %v", i, d, up.Data[i])
		}
	}
}

func TestD15AddsOneToTheGain(t *testing.T) {
	p := build(t, "D15")
	x, _ := p.get("post_embed")
	r, q := p.get(norm0)
	rms := math.Sqrt(meanSquare(x.Row(7)) + 1e-6)
	for d := range 128 {
		w := float64(r.Row(7)[d]) / float64(x.Row(7)[d]) * rms
		g := float64(q.Row(7)[d]) / float64(r.Row(7)[d])
		if abs(g*w-w-1) > 1e-4 {
			t.Errorf("dim %d: g*w - w = %v, want 1", d, g*w-w)
		}
	}
}

func TestD16ScalesEachTokenByItsMeanSquare(t *testing.T) {
	p := build(t, "D16")
	x, _ := p.get("post_embed")
	r, q := p.get(norm0)
	for tok := range 48 {
		ms := meanSquare(x.Row(tok))
		want := math.Sqrt((ms + 1e-6) / (ms + 1e-5))
		var dot, n float64
		for d, v := range r.Row(tok) {
			dot += float64(v) * float64(q.Row(tok)[d])
			n += float64(v) * float64(v)
		}
		p.near("scale of a token", dot/n, want, 1e-6)
		if ms > 1e-3 {
			t.Errorf("token %d has mean square %v: too large for eps to show", tok, ms)
		}
	}
}

func TestD17IsInvisibleAfterTheFirstNorm(t *testing.T) {
	p := build(t, "D17")
	r, q := p.get("post_embed")
	p.near("ratio", float64(r.Data[0])/float64(q.Data[0]), math.Sqrt(128), 1e-6)
	r, q = p.get(norm0)
	if rel := relative(r.Data, q.Data); !(rel < 1e-4) {
		t.Errorf("first norm differs by %v, want the eps alone", rel)
	}
	r, q = p.get(layer0)
	p.differs("layer_00", r.Data, q.Data)
}

func TestD18StartsTheResidualAtTheNorm(t *testing.T) {
	p := build(t, "D18")
	_, n1 := p.get(norm0)
	_, o := p.get(attnOut0)
	_, m := p.get(mlpOut0)
	_, h := p.get(layer0)
	got := make([]float32, len(h.Data))
	for i := range got {
		got[i] = h.Data[i] - o.Data[i] - m.Data[i]
	}
	p.same("h - o - mlp against the normed input", n1.Data, got)
}

func TestD19WeightsSumToTheChosenProbabilities(t *testing.T) {
	p := build(t, "D19")
	logits, _ := p.get("layer_00.router_logits")
	_, w := p.get(weights0)
	rOut, pOut := p.get(routed0)
	ids := p.Ref.Parts[[2]int{0, 0}].Tensors[ids0].Ints
	for tok := range 48 {
		var all, chosen float64
		for e, v := range logits.Row(tok) {
			x := math.Exp(float64(v))
			all += x
			if int64(e) == ids[2*tok] || int64(e) == ids[2*tok+1] {
				chosen += x
			}
		}
		p.near("sum of weights", float64(w.Row(tok)[0]+w.Row(tok)[1]), chosen/all, 1e-5)
		p.near("routed output", float64(pOut.Row(tok)[3])/float64(rOut.Row(tok)[3]), chosen/all, 1e-3)
	}
}

func TestD20ScalesOnlyTheRoutedPart(t *testing.T) {
	p := build(t, "D20")
	r, q := p.get(routed0)
	p.near("ratio", float64(q.Data[100])/float64(r.Data[100]), 2.5, 1e-4)
	r, q = p.get("layer_00.moe_shared")
	p.same("shared", r.Data, q.Data)
	r, q = p.get(weights0)
	p.same("weights", r.Data, q.Data)
}

func TestD21SumsToTheReferenceOverItsRanks(t *testing.T) {
	p := build(t, "D21")
	r, one := p.at(0, 0, attnOut0)
	_, two := p.at(0, 1, attnOut0)
	sum := make([]float32, len(r.Data))
	var dot, n, m float64
	for i, v := range r.Data {
		sum[i] = one.Data[i] + two.Data[i]
		dot += float64(v) * float64(one.Data[i])
		n += float64(v) * float64(v)
		m += float64(one.Data[i]) * float64(one.Data[i])
	}
	p.same("sum of ranks", r.Data, sum)
	p.near("best scalar", dot/n, 0.506, 0.1)
	p.near("norm ratio", math.Sqrt(m/n), 1/math.Sqrt2, 0.1)
	if resid := math.Sqrt(1 - dot*dot/n/m); !(resid > 0.5) {
		t.Errorf("residual of the scalar is %v: it must not look like 1/tp", resid)
	}
}

func TestD22DiffersByOneBias(t *testing.T) {
	p := build(t, "D22")
	r, q := p.get(attnOut0)
	w := weightsOf(p.Case.base)
	for tok := range 48 {
		for d, v := range r.Row(tok) {
			if got := float64(q.Row(tok)[d]) - float64(v); abs(got-float64(w.Layers[0].O.B[d])) > 1e-5 {
				t.Fatalf("token %d dim %d differs by %v, want the bias %v", tok, d, got, w.Layers[0].O.B[d])
			}
		}
	}
}

func TestD23KeepsTheFirstHalfAndKnowsNothingOfTheSecond(t *testing.T) {
	p := build(t, "D23")
	r, q := p.get("post_embed")
	p.same("tokens 0 to 23", rows(r, 0, 24), rows(q, 0, 24))
	var dot, n, m float64
	for i, v := range rows(r, 24, 48) {
		x := float64(rows(q, 24, 48)[i])
		dot, n, m = dot+float64(v)*x, n+float64(v)*float64(v), m+x*x
	}
	if c := dot / math.Sqrt(n*m); abs(c) > 0.06 { // 3 sigma of 3,072 numbers
		t.Errorf("cosine of tokens 24 to 47 is %v, want noise", c)
	}
}

func TestD24ExchangesTheHalves(t *testing.T) {
	p := build(t, "D24")
	r, q := p.get("time_embed")
	p.same("first half", columns(r, 0, 64), columns(q, 64, 128))
	p.same("second half", columns(r, 64, 128), columns(q, 0, 64))
}

func TestD25OverflowsAtOneNumberAndSpreads(t *testing.T) {
	p := build(t, "D25")
	r, q := p.get("layer_04.mlp_out")
	var inf []int
	for i, v := range q.Data {
		if v-v != 0 {
			inf = append(inf, i)
		}
	}
	at := 9*128 + 77
	if len(inf) != 1 || inf[0] != at || !(r.Data[at] > 65504) {
		t.Fatalf("non-finite at %v, want %d alone where the reference is beyond 65504", inf, at)
	}
	_, n := p.get("layer_05.input_norm")
	if n.Row(9)[77] == n.Row(9)[77] || n.Row(8)[77] != n.Row(8)[77] {
		t.Error("the next norm must be NaN in token 9 and finite in token 8")
	}
	_, last := p.get("layer_05")
	if last.Row(47)[0] == last.Row(47)[0] {
		t.Error("NaN has not reached the last token")
	}
}

package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// calmScore is the size of attention scores up to which a softmax is taken to
// pass errors on as a product does. An error of the queries and keys changes the
// scores by itself times their size, and the probabilities by as much: of right
// runs whose scores are of size 25 to 35 the gain reaches 5.5 (bfloat16), over
// scores of size s at most s/5.
const calmScore = 12

// usualScores stands for the size of scores where queries and keys were not
// dumped: what trained models reach.
const usualScores = 30

// usualHeadDim is assumed where neither the probabilities nor a manifest tell.
const usualHeadDim = 64

// A softmax stands between a checkpoint and its inputs where these are queries
// and keys. scoreSizes returns how large the scores are that went into it:
// ‖q‖·‖k‖/√head_dim, root mean square over heads, for the median token and for
// each query against the largest key up to it; nil where the tokens do not
// match. It is 0 where no softmax stands there.
func (p *Pair) scoreSizes() (typical float64, each []float64) {
	q, k := p.inputTap("q_rope", "q_norm", "q"), p.inputTap("k_rope", "k_norm", "k")
	if q == nil || k == nil {
		if p.Tap == "attn_probs" {
			return usualScores, nil
		}
		return 0, nil
	}
	dim := float64(usualHeadDim)
	if heads := p.Geo.Rows / max(1, p.Geo.Tokens); p.Tap == "attn_probs" && p.Geo.Grouped && q.width()%max(1, heads) == 0 {
		dim = float64(q.width() / heads)
	}
	scale := math.Sqrt(dim) / math.Sqrt(float64(q.width())*float64(k.width()))
	nq, nk := q.norms(), k.norms()
	typical = median(nq) * median(nk) * scale
	if len(nq) != len(nk) || len(nq) != len(p.rel) {
		return typical, nil
	}
	each = make([]float64, len(nq))
	largest := 0.0
	for t := range nq {
		largest = math.Max(largest, nk[t])
		each[t] = nq[t] * largest * scale
	}
	return typical, each
}

// inputTap returns the first input of the pair's own layer that is one of taps.
func (p *Pair) inputTap(taps ...string) *Pair {
	for _, in := range p.inputs {
		if in.sums != nil && in.Layer == p.Layer && slices.Contains(taps, in.Tap) {
			return in
		}
	}
	return nil
}

// width is the number of values a token has.
func (p *Pair) width() int { return p.Geo.Rows * p.Geo.Cols / max(1, p.Geo.Tokens) }

// norms are the reference's norms per token.
func (p *Pair) norms() []float64 {
	ms := p.tokensOf().moments
	out := make([]float64, len(ms))
	for t, m := range ms {
		out[t] = math.Sqrt(m.A2)
	}
	return out
}

// amplified is the factor by which a softmax over scores of a size enlarges what
// its inputs' errors account for; 1 without one.
func amplified(size float64) float64 { return math.Max(1, size/calmScore) }

// rowFacts is what a second pass over probabilities counts: facts that no
// rounding makes, however coarse.
type rowFacts struct {
	// hidden is the number of tokens with a key that one side gives exactly 0
	// and the other more than seenShare; at is the first such value.
	hidden int
	at     int64
	// lost is the number of tokens one of whose rows sums to another total.
	lost int
	// most is the largest difference of two sums.
	most float64
}

const (
	// seenShare is the probability that no dtype rounds to 0.
	seenShare = 1e-2
	// lostShare is the difference of two rows' sums that no rounding makes, next
	// to twice the unit rounding.
	lostShare = 0.05
)

// countRows reads probabilities again and counts their facts.
func (p *Pair) countRows() (f rowFacts, err error) {
	f.at = -1
	a, err := p.Ref.open()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := p.Port.open()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	cols := p.Geo.Cols
	x, y, more := make([]float64, cols), make([]float64, cols), make([]float64, cols)
	hidden, lost := make(map[int]bool), make(map[int]bool)
	for r := range p.Geo.Rows {
		if err := a.float64s(x, more, int64((r+p.Ref.Row0)*cols)); err != nil {
			return f, err
		}
		if err := b.float64s(y, more, int64((r+p.Port.Row0)*cols)); err != nil {
			return f, err
		}
		var sx, sy float64
		token, _ := p.Geo.token(r)
		for i, v := range x {
			sx, sy = sx+v, sy+y[i]
			if v == 0 && y[i] > seenShare || y[i] == 0 && v > seenShare {
				hidden[token] = true
				if f.at < 0 {
					f.at = int64(r*cols + i)
				}
			}
		}
		f.most = math.Max(f.most, math.Abs(sx-sy))
		if math.Abs(sx-sy) > lostShare {
			lost[token] = true
		}
	}
	f.hidden, f.lost = len(hidden), len(lost)
	return f, nil
}

// maskRule: one side hides a key from a query that the other gives a share of its
// attention, or its rows sum to another total: another mask, or a sink. That is
// so in any precision.
func maskRule(_ *part, p *Pair) (string, bool) {
	few := 0.02 * float64(p.Geo.Tokens)
	switch f := p.probs; {
	case float64(f.hidden) > few:
		return fmt.Sprintf("%d of %d queries have a key that one side hides (exactly 0) and the other gives more than %g, first at %v", f.hidden, p.Geo.Tokens, seenShare, p.Geo.index(f.at)), true
	case float64(f.lost) > few && f.most > lostShare+2*floors[p.precision].unit:
		return fmt.Sprintf("the rows of %d of %d queries sum to another total, by up to %.2g", f.lost, p.Geo.Tokens, f.most), true
	}
	return "", false
}

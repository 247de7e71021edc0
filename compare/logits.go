package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

const (
	// topK is how many of the best logits are held against each other.
	topK = 10
	// logitRows is how many positions are looked at, evenly spread, the last
	// always among them.
	logitRows = 256
)

// compareLogits compares the distributions of a pair of logits.
func (p *Pair) compareLogits() (out *Logits, err error) {
	a, err := p.Ref.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := p.Port.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	cols := p.Geo.Cols
	if cols < 2 || p.Geo.Rows == 0 {
		return nil, nil
	}
	x, y, more := make([]float64, cols), make([]float64, cols), make([]float64, cols)
	out = &Logits{ArgmaxEqual: true, K: min(topK, cols)}
	step := max(1, p.Geo.Rows/logitRows)
	for r := (p.Geo.Rows - 1) % step; r < p.Geo.Rows; r += step {
		if err := a.float64s(x, more, int64((r+p.Ref.Row0)*cols)); err != nil {
			return nil, err
		}
		if err := b.float64s(y, more, int64((r+p.Port.Row0)*cols)); err != nil {
			return nil, err
		}
		out.add(x, y, r == p.Geo.Rows-1)
	}
	if out.Rows > 0 {
		out.KL /= Num(out.Rows)
	}
	out.Note = out.explain()
	return out, nil
}

// add takes one position in.
func (l *Logits) add(ref, port []float64, last bool) {
	l.Rows++
	i, j := argmax(ref), argmax(port)
	rms, n := 0.0, 0.0
	for k := range ref {
		// Masked entries of the vocabulary are -Inf on both sides.
		if d := port[k] - ref[k]; !math.IsNaN(d) && !math.IsInf(d, 0) {
			rms, n = rms+sq(d), n+1
		}
	}
	rms = math.Sqrt(rms / n)
	noise := typical(ref, port)
	margin := ref[i] - second(ref, i)
	if i != j {
		l.ArgmaxEqual = false
		l.Flips++
		// The port's choice must be as close to the best, in the reference, as
		// errors usually are: not as one outlier is.
		if ref[i]-ref[j] <= 2*noise {
			l.Ties++
		}
	}
	kl := divergence(ref, port)
	l.KL += Num(kl)
	l.MaxKL = max(l.MaxKL, Num(kl))
	if !last {
		return
	}
	l.ArgmaxRef, l.ArgmaxPort = i, j
	l.Margin, l.RMSError, l.noise = Num(margin), Num(rms), min(rms, noise)
	best := topIndices(ref, l.K)
	shared := 0
	for _, k := range topIndices(port, l.K) {
		if slices.Contains(best, k) {
			shared++
		}
	}
	l.TopK = Num(float64(shared) / float64(l.K))
}

// explain says what a differing argmax of the last position means.
func (l *Logits) explain() string {
	if l.ArgmaxRef == l.ArgmaxPort {
		return ""
	}
	margin, rms := float64(l.Margin), float64(l.RMSError)
	text := fmt.Sprintf("argmax %d in the reference, %d in the port: the reference's margin is %.2g, ", l.ArgmaxRef, l.ArgmaxPort, margin)
	switch {
	case margin <= 2*l.noise:
		return text + fmt.Sprintf("within twice the RMS error of %.2g: a flip inside the noise, no model bug by itself", rms)
	case margin <= 2*rms:
		return text + fmt.Sprintf("larger than the typical error of %.2g; a few logits alone make the RMS error %.2g", l.noise, rms)
	}
	return text + fmt.Sprintf("larger than the RMS error of %.2g", rms)
}

// typical is the standard deviation that the median difference speaks for,
// 1.4826 times its size: a few wrong logits do not raise it. NaN where nothing
// is finite.
func typical(ref, port []float64) float64 {
	d := make([]float64, 0, len(ref))
	for k := range ref {
		if x := math.Abs(port[k] - ref[k]); !math.IsNaN(x) && !math.IsInf(x, 0) {
			d = append(d, x)
		}
	}
	return 1.4826 * median(d)
}

// argmax returns the lowest index of the largest number; NaN never wins.
func argmax(x []float64) int {
	best := 0
	for i, v := range x {
		if v > x[best] || x[best] != x[best] {
			best = i
		}
	}
	return best
}

// second returns the largest value beside x[first].
func second(x []float64, first int) float64 {
	s := math.Inf(-1)
	for i, v := range x {
		if i != first && v > s {
			s = v
		}
	}
	return s
}

// topIndices returns the indices of the k largest values, best first; ties take
// the lower index.
func topIndices(x []float64, k int) []int {
	top := make([]int, 0, k+1)
	for i, v := range x {
		if len(top) == k && !(v > x[top[k-1]]) {
			continue
		}
		at := len(top)
		for at > 0 && v > x[top[at-1]] {
			at--
		}
		top = slices.Insert(top, at, i)
		top = top[:min(len(top), k)]
	}
	return top
}

// divergence is KL(ref‖port) = Σ p·(log p - log q) in nats over both softmaxes;
// NaN where a logit is NaN.
func divergence(ref, port []float64) float64 {
	zr, zp := logSumExp(ref), logSumExp(port)
	kl := 0.0
	for i := range ref {
		lp, lq := ref[i]-zr, port[i]-zp
		if p := math.Exp(lp); p > 0 || p != p {
			kl += float64(p * (lp - lq))
		}
	}
	if kl < 0 { // rounding of a sum that is never negative
		return 0
	}
	return kl
}

// logSumExp is log Σ exp(x), without overflow.
func logSumExp(x []float64) float64 {
	m := x[argmax(x)]
	s := 0.0
	for _, v := range x {
		s += math.Exp(v - m)
	}
	return m + math.Log(s)
}

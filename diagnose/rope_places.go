package diagnose

import (
	"math"
	"math/cmplx"
)

const (
	// placeReach is how far around the stated positions a row is looked for.
	placeReach = 300
	// placeWork bounds rows × places × pairs of one search.
	placeWork = 1 << 28
)

// places offers each base rule with the positions that the rows themselves show:
// one integer a row, found by matching all pairs at once. Constant differences
// and constant positions are written as such.
func (s *ropeSearch) places(base []ropeRule) {
	for _, r := range base {
		if s.settled() {
			return
		}
		at, ok := s.m.rowPlaces(r)
		if !ok {
			continue
		}
		q := r
		q.Positions, q.Offset = nil, 0
		params := 1
		switch off, same := constantShift(at, s.m.pos[0]); {
		case same:
			q.Offset = off
		case allEqual(at):
			q.Positions = at[:1]
		default:
			q.Positions = at
			params = len(at)
		}
		if s.m.rows == 1 {
			q.Positions, q.Offset = at[:1], 0
		}
		s.offer(q, params)
	}
}

// rowPlaces finds the integer position of every row under a rule's frequencies.
// ok is false where the search would be too long or no frequency is known.
func (m *turns) rowPlaces(r ropeRule) (at []float64, ok bool) {
	w := r.frequencies(m.headDim)
	if len(w) != m.n || m.n == 0 || w[0] == 0 {
		return nil, false
	}
	most := 0.0
	for _, p := range m.pos[0] {
		most = math.Max(most, p)
	}
	whole := int(most) + placeReach
	cand := func(t int) (lo, hi int) { return -placeReach, whole }
	if m.rows*(whole+placeReach)*m.n > placeWork {
		cand = func(t int) (lo, hi int) { p := int(m.pos[0][t]); return p - placeReach, p + placeReach }
	}
	if m.rows*2*placeReach*m.n > placeWork {
		return nil, false
	}
	lowest, highest := -placeReach, whole
	// table[p-lowest] holds the conjugate factor of position p for every pair.
	table := make([]complex128, (highest-lowest+1)*m.n)
	for p := lowest; p <= highest; p++ {
		for i, f := range w {
			phi := float64(p) * f
			if r.Negative {
				phi = -phi
			}
			table[(p-lowest)*m.n+i] = cmplx.Exp(complex(0, -phi))
		}
	}
	at = make([]float64, m.rows)
	for t := range at {
		c := m.c[t*m.n : (t+1)*m.n]
		lo, hi := cand(t)
		best, bestAt := math.Inf(-1), 0
		stated := int(math.Round(m.pos[0][t]))
		for p := max(lo, lowest); p <= min(hi, highest); p++ {
			f := table[(p-lowest)*m.n : (p-lowest+1)*m.n]
			sum := 0.0
			for i, z := range c {
				sum += real(z)*real(f[i]) - imag(z)*imag(f[i])
			}
			// Ties go to the stated position, then to the one nearest to it.
			if sum > best || sum == best && abs(p-stated) < abs(bestAt-stated) {
				best, bestAt = sum, p
			}
		}
		at[t] = float64(bestAt)
	}
	return at, true
}

func abs(x int) int {
	if x < 0 {
		return -x
	}
	return x
}

// constantShift is the common difference of two lists of positions.
func constantShift(at, from []float64) (shift float64, same bool) {
	for t := range at {
		d := at[t] - from[t]
		if t > 0 && d != shift {
			return 0, false
		}
		shift = d
	}
	return shift, len(at) > 0
}

func allEqual(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return false
		}
	}
	return len(x) > 0
}

// effective returns the positions that a rule rotates the rows at, where it needs
// only one axis.
func (f ropeFound) effective() []float64 {
	out := make([]float64, f.turns.rows)
	for t := range out {
		p := 0.0
		switch {
		case f.rule.Positions != nil:
			p = f.rule.Positions[t%len(f.rule.Positions)]
		case len(f.turns.pos) > 0:
			p = f.turns.pos[0][t]
		}
		out[t] = p + f.rule.Offset
	}
	return out
}

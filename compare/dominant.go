package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/layerparity/parity/compare/internal/kernel"
)

const (
	// dominantShare of the tensor's energy makes a token or dim dominant.
	dominantShare = 0.5
	// dominantNorm times the median norm of its kind does too.
	dominantNorm = 20
	// maxDominant is how many are named; where more are, the tensor has no
	// massive activation but a wide spread.
	maxDominant = 8
)

// dominants returns the indices whose energy stands out, and their share.
func dominants(energies []float64) (idx []int, share float64) {
	if len(energies) < 4 {
		return nil, 0
	}
	total := 0.0
	for _, e := range energies {
		total += e
	}
	limit := dominantNorm * dominantNorm * median(energies)
	for i, e := range energies {
		if e > dominantShare*total || (limit > 0 && e > limit) {
			idx = append(idx, i)
			share += e / total
		}
	}
	if len(idx) > maxDominant {
		return nil, 0
	}
	return idx, share
}

// words names what dominates: "token 0 and dims [3 17] dominate".
func (d *Dominant) words() string {
	var parts []string
	for _, p := range []struct {
		kind string
		idx  []int
	}{{"token", d.Tokens}, {"dim", d.Dims}} {
		switch len(p.idx) {
		case 0:
		case 1:
			parts = append(parts, fmt.Sprintf("%s %d", p.kind, p.idx[0]))
		default:
			parts = append(parts, fmt.Sprintf("%ss %v", p.kind, p.idx))
		}
	}
	verb := " dominate"
	if len(d.Tokens)+len(d.Dims) == 1 {
		verb = " dominates"
	}
	return strings.Join(parts, " and ") + verb
}

// dominant names the massive tokens and dims of a pair and computes the cosine
// without them; nil where nothing dominates.
func (p *Pair) dominant() (*Dominant, error) {
	if p.Geo.Grouped || p.sums.Whole.N == 0 {
		return nil, nil
	}
	rows, cols := make([]float64, len(p.sums.Row)), make([]float64, len(p.sums.Col))
	for i, m := range p.sums.Row {
		rows[i] = m.A2
	}
	for i, m := range p.sums.Col {
		cols[i] = m.A2
	}
	d := &Dominant{Tokens: []int{}, Dims: []int{}}
	tokens, ts := dominants(rows)
	dims, ds := dominants(cols)
	if len(tokens)+len(dims) == 0 {
		return nil, nil
	}
	d.Tokens, d.Dims = append(d.Tokens, tokens...), append(d.Dims, dims...)
	d.TokenShare, d.DimShare = Num(ts), Num(ds)
	m, err := p.without(d.Tokens, d.Dims)
	if err != nil {
		return nil, err
	}
	d.OneMinusCosWithout = Num(m.OneMinusCos())
	d.CosWithout = Num(m.Cos())
	return d, nil
}

// without sums a pair again, leaving tokens and dims out.
func (p *Pair) without(tokens, dims []int) (m kernel.Moments, err error) {
	m.MaxAt = -1
	skip := make(map[int]bool, len(tokens))
	for _, t := range tokens {
		skip[t] = true
	}
	if len(dims) == 0 { // the row sums are known
		for r, row := range p.sums.Row {
			if !skip[r] {
				m = m.Add(row)
			}
		}
		return m, nil
	}
	if m, ok, err := p.withoutBySums(tokens, dims); ok || err != nil {
		return m, err
	}
	err = p.eachRow(func(r int, x, y []float64) {
		if !skip[r] {
			addWithout(&m, x, y, dims)
		}
	})
	return m, err
}

// withoutBySums takes the sums of the columns that are left and subtracts the few
// tokens; ok is false where too little would be left of them to be precise.
func (p *Pair) withoutBySums(tokens, dims []int) (m kernel.Moments, ok bool, err error) {
	m.MaxAt = -1
	for i, c := range p.sums.Col {
		if c.Exp != 0 {
			return m, false, nil
		}
		if !slices.Contains(dims, i) {
			m.A2 += c.A2
			m.B2 += c.B2
			m.D2 += c.D2
		}
	}
	all, few := m, kernel.Moments{MaxAt: -1}
	if len(tokens) > 0 {
		err = p.eachRow(func(_ int, x, y []float64) { addWithout(&few, x, y, dims) }, tokens...)
		if err != nil {
			return m, false, err
		}
		m.A2 -= few.A2
		m.B2 -= few.B2
		m.D2 -= few.D2
	}
	// Subtraction loses as many digits as the remainder is smaller.
	const least = 1e-6
	if m.A2 < least*all.A2 || m.B2 < least*all.B2 || m.D2 < least*all.D2 {
		return m, false, nil
	}
	m.N = p.sums.Whole.N
	m.Dot = (m.A2 + m.B2 - m.D2) / 2
	return m, true, nil
}

// addWithout adds the positions of one row that are finite on both sides, except
// some dims.
func addWithout(m *kernel.Moments, x, y []float64, dims []int) {
	for _, d := range dims {
		x[d], y[d] = 0, 0
	}
	for i, v := range x {
		w := y[i]
		if s := v + w; math.IsNaN(s) || math.IsInf(s, 0) {
			continue
		}
		m.N++
		m.Dot += float64(v * w)
		m.A2 += float64(v * v)
		m.B2 += float64(w * w)
		m.D2 += float64((v - w) * (v - w))
	}
}

// eachRow decodes rows of both sides, all where none is named, and calls f with
// each; x and y are used again for the next.
func (p *Pair) eachRow(f func(r int, x, y []float64), rows ...int) (err error) {
	a, err := p.Ref.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := p.Port.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	cols := p.Geo.Cols
	x, y, more := make([]float64, cols), make([]float64, cols), make([]float64, cols)
	all := len(rows) == 0
	n := len(rows)
	if all {
		n = p.Geo.Rows
	}
	for r := range n {
		if !all {
			r = rows[r]
		}
		if err := a.float64s(x, more, int64((r+p.Ref.Row0)*cols)); err != nil {
			return err
		}
		if err := b.float64s(y, more, int64((r+p.Port.Row0)*cols)); err != nil {
			return err
		}
		f(r, x, y)
	}
	return nil
}

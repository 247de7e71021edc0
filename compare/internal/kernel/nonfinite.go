package kernel

import (
	"math"
)

// kind is what a value is: one bit of its own for each, 0 for finite.
type kind uint8

const (
	isNaN kind = 1 << iota
	isPosInf
	isNegInf
)

func kindOf(x float64) kind {
	switch {
	case x-x == 0:
		return 0
	case x != x:
		return isNaN
	case x > 0:
		return isPosInf
	}
	return isNegInf
}

// count adds one value to the counters of its side.
func count(k kind, nan, pos, neg *int64) {
	switch k {
	case isNaN:
		*nan++
	case isPosInf:
		*pos++
	case isNegInf:
		*neg++
	}
}

// divert counts the values of a row segment that are not finite, sets both sides
// to zero there, and returns how many positions that were. It is 0 for a float64
// row whose sums overflowed.
func (j *job) divert(row, col int, a, b tile) int {
	var f NonFinite
	f.FirstMismatch, f.FirstAt = -1, -1
	flat := int64(row)*int64(j.Cols) + int64(col)
	n := len(a.f32) + len(a.f64)
	for i := range n {
		x, y := kindOf(at(a, i)), kindOf(at(b, i))
		if x|y == 0 {
			continue
		}
		count(x, &f.RefNaN, &f.RefPosInf, &f.RefNegInf)
		count(y, &f.PortNaN, &f.PortPosInf, &f.PortNegInf)
		here := flat + int64(i)
		if f.FirstAt < 0 {
			f.FirstAt = here
		}
		if x == y {
			f.Matched++
		} else {
			f.Mismatched++
			if f.FirstMismatch < 0 {
				f.FirstMismatch = here
			}
		}
		a.zero(i)
		b.zero(i)
	}
	if f.FirstAt < 0 {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.sums
	s.NonFinite.add(f)
	if s.RowNonFinite == nil {
		s.RowNonFinite = make([]int32, j.Rows)
	}
	addCount(&s.RowNonFinite[row], f.Matched+f.Mismatched)
	if f.Mismatched > 0 {
		if s.RowMismatched == nil {
			s.RowMismatched = make([]int32, j.Rows)
		}
		addCount(&s.RowMismatched[row], f.Mismatched)
	}
	return int(f.Matched + f.Mismatched)
}

// addCount stops at the largest int32, for rows of more than 2^31 columns.
func addCount(c *int32, n int64) { *c = int32(min(int64(*c)+n, math.MaxInt32)) }

func (t tile) zero(i int) {
	if t.f64 != nil {
		t.f64[i] = 0
	} else {
		t.f32[i] = 0
	}
}

func (f *NonFinite) add(o NonFinite) {
	f.RefNaN += o.RefNaN
	f.RefPosInf += o.RefPosInf
	f.RefNegInf += o.RefNegInf
	f.PortNaN += o.PortNaN
	f.PortPosInf += o.PortPosInf
	f.PortNegInf += o.PortNegInf
	f.Matched += o.Matched
	f.Mismatched += o.Mismatched
	f.FirstMismatch = firstOf(f.FirstMismatch, o.FirstMismatch)
	f.FirstAt = firstOf(f.FirstAt, o.FirstAt)
}

func firstOf(a, b int64) int64 {
	if a < 0 || (b >= 0 && b < a) {
		return b
	}
	return a
}

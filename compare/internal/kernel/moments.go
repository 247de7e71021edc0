package kernel

import "math"

// Moments are the sums of one row or of the whole pair, over the positions
// where both sides are finite (a = ref, b = port).
type Moments struct {
	N   int64   // positions where both sides are finite
	Dot float64 // Σab
	A2  float64 // Σa²
	B2  float64 // Σb²
	D2  float64 // Σ(a-b)²
	S1  float64 // Σ|a-b|
	Max float64 // max |a-b|; +Inf where the difference of two float64 leaves float64

	// MaxAt is where Max was found: row*Cols+col for the whole pair, the column
	// for a row. Ties take the lowest index; -1 if N is 0.
	MaxAt int64

	MaxA, MaxB float64 // max |a|, max |b|

	// Exp scales the sums of squares: the true Σa² is A2·2^(2·Exp), and the same
	// for Dot, B2 and D2. S1 and the maxima are never scaled. Exp is 0 unless a
	// float64 row held values whose squares leave float64's range.
	Exp int
}

// ColMoments are the sums of one column over the rows where both sides are
// finite. Σab follows: (A2+B2-D2)/2.
type ColMoments struct {
	A2, B2, D2 float64 // Σa², Σb², Σ(a-b)²
	Max        float64 // max |a-b|
	Exp        int     // as Moments.Exp
}

// NonFinite counts the values that are NaN or infinite.
type NonFinite struct {
	RefNaN, RefPosInf, RefNegInf    int64
	PortNaN, PortPosInf, PortNegInf int64

	Matched       int64 // positions with the same kind on both sides
	Mismatched    int64 // positions with NaN or Inf on one side only, or of another kind
	FirstMismatch int64 // lowest flat index that is mismatched, -1 if none
	FirstAt       int64 // lowest flat index that is not finite on either side, -1 if none
}

// Sums is what one pass over a pair yields.
type Sums struct {
	Rows, Cols int
	Whole      Moments
	Row        []Moments    // len Rows
	Col        []ColMoments // len Cols
	NonFinite  NonFinite

	RowNonFinite  []int32 // positions that are not finite on either side, per row; nil if there is none
	RowMismatched []int32 // mismatched positions per row; nil if there is none
}

// noMoments is the neutral element of add.
var noMoments = Moments{MaxAt: -1}

// add returns the sums over both parts. The order of the arguments decides ties
// of the maximum: m comes first.
func (m Moments) add(o Moments) Moments {
	if m.N == 0 {
		return o
	}
	if o.N == 0 {
		return m
	}
	if m.Exp != o.Exp {
		e := commonExp(m, o)
		m, o = m.rescale(e), o.rescale(e)
	}
	r := Moments{
		N:    m.N + o.N,
		Dot:  m.Dot + o.Dot,
		A2:   m.A2 + o.A2,
		B2:   m.B2 + o.B2,
		D2:   m.D2 + o.D2,
		S1:   m.S1 + o.S1,
		Max:  m.Max,
		MaxA: max(m.MaxA, o.MaxA),
		MaxB: max(m.MaxB, o.MaxB),
		Exp:  m.Exp,
	}
	r.MaxAt = m.MaxAt
	if o.Max > m.Max {
		r.Max, r.MaxAt = o.Max, o.MaxAt
	}
	if m.finite() && o.finite() && !r.finite() {
		// The parts fit into float64 and their sum does not: scale both further.
		return m.rescale(m.Exp + overflowStep).add(o.rescale(m.Exp + overflowStep))
	}
	return r
}

// overflowStep is by how much sums that leave float64 are scaled down.
const overflowStep = 64

func (m Moments) finite() bool { return finite(m.A2+m.B2) && finite(m.D2) && finite(m.Dot) }

// commonExp is the scale of the part with the larger sums: what is lost of the
// other is below the precision of the result.
func commonExp(m, o Moments) int {
	if o.log2() > m.log2() {
		return o.Exp
	}
	return m.Exp
}

// log2 is the exponent of the larger sum of squares, unscaled; very small for zero sums.
func (m Moments) log2() int {
	s := max(m.A2, m.B2)
	if s == 0 {
		return math.MinInt32
	}
	_, e := math.Frexp(s)
	return e + 2*m.Exp
}

// rescale returns m with its sums of squares held at exponent e.
func (m Moments) rescale(e int) Moments {
	k := 2 * (m.Exp - e)
	m.Dot, m.A2, m.B2, m.D2 = math.Ldexp(m.Dot, k), math.Ldexp(m.A2, k), math.Ldexp(m.B2, k), math.Ldexp(m.D2, k)
	m.Exp = e
	return m
}

func finite(x float64) bool { return x-x == 0 }

// fold combines n parts in a fixed binary tree: the left subtree of n parts
// holds the largest power of two below n. So a run of 2^k parts that starts at a
// multiple of 2^k is always one subtree, and may be summed elsewhere.
func fold(n int, part func(i int) Moments) Moments {
	var stack [64]Moments
	depth := 0
	for i := range n {
		m := part(i)
		for k := i; k&1 == 1; k >>= 1 {
			depth--
			m = stack[depth].add(m)
		}
		stack[depth] = m
		depth++
	}
	if depth == 0 {
		return noMoments
	}
	m := stack[depth-1]
	for depth--; depth > 0; depth-- {
		m = stack[depth-1].add(m)
	}
	return m
}

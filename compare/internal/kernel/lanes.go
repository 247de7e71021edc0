package kernel

import "math"

// Lanes is the number of partial sums of a row segment.
const Lanes = 8

// lanes holds the partial sums of one row segment; the assembly knows the order of
// the fields.
type lanes struct {
	dot, a2, b2, d2, s1, max [Lanes]float64

	_  [Lanes]float64 // what max was after the stretch before; for the assembly of amd64
	at [Lanes]float64 // for each lane of max, the stretch in which it was first reached
}

// stretch is how many elements of a row lie between two looks at whether the
// maximum has grown; only one stretch is then searched for its position.
const stretch = 256

// chunk is how many columns of a tile are looked through for values that are not
// finite and then summed, while they are in the first-level cache: whole stretches.
const chunk = 512

// add adds one position to lane j. Where a product is exact this is what a fused
// multiply-add gives, else nothing is fused.
func (l *lanes) add(j int, x, y float64, at int) {
	d := x - y
	e := math.Abs(d)
	l.dot[j] += float64(x * y)
	l.a2[j] += float64(x * x)
	l.b2[j] += float64(y * y)
	l.d2[j] += float64(d * d)
	l.s1[j] += e
	if e > l.max[j] {
		l.max[j], l.at[j] = e, float64(at)
	}
}

// top returns the maximum and the first stretch that holds it.
func (l *lanes) top() (m float64, at int) {
	m, s := max8(&l.max), math.Inf(1)
	for j, v := range l.max {
		if v == m {
			s = min(s, l.at[j])
		}
	}
	return m, int(s)
}

func sum8(l *[Lanes]float64) float64 {
	return ((l[0] + l[4]) + (l[1] + l[5])) + ((l[2] + l[6]) + (l[3] + l[7]))
}

func max8(l *[Lanes]float64) float64 {
	return max(l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7])
}

// columns are the sums of a block of rows, by column: four planes of one store at
// equal distances, as the assembly expects.
type columns struct {
	store           []float64
	pitch           int // from plane to plane
	a2, b2, d2, max []float64
}

// columnPad keeps the planes from lying at the same offset of a page, where a cache
// would hold few of them at once beside four rows of either side.
const columnPad = 128

// storeLen is the length of a store for n columns.
func storeLen(n int) int { return 4 * (n + columnPad) }

// newColumns divides a store of zeros into planes of n columns.
func newColumns(store []float64, n int) columns {
	p := len(store) / 4
	return columns{store, p, store[:n:n], store[p : p+n : p+n], store[2*p : 2*p+n : 2*p+n], store[3*p : 3*p+n : 3*p+n]}
}

// add adds one position to column i, unfused like lanes.add.
func (c *columns) add(i int, x, y float64) {
	d := x - y
	c.a2[i] += float64(x * x)
	c.b2[i] += float64(y * y)
	c.d2[i] += float64(d * d)
	if d = math.Abs(d); d > c.max[i] {
		c.max[i] = d
	}
}

// incLanes holds the partial sums of one row segment of increments; the assembly
// knows the order of the fields.
type incLanes struct {
	d2, a2, b2, dot [Lanes]float64
}

// add adds one position to lane j.
func (l *incLanes) add(j int, x, y float64) {
	d := y - x
	l.d2[j] += float64(d * d)
	l.a2[j] += float64(x * x)
	l.b2[j] += float64(y * y)
	l.dot[j] += float64(x * y)
}

// loops is one implementation of the inner loops. All give the same bits; the
// comments in portable.go say which.
type loops struct {
	name string

	// peak32 and peak64 set p[r] to max |x| of columns from to to-1 of row r of a
	// tile of cols columns: NaN or infinite if a value is.
	peak32 func(p, x []float32, cols, from, to int)
	peak64 func(p, x []float64, cols, from, to int)

	// tile32 and tile64 add columns from to to-1 of len(l) rows to their lanes and
	// to the columns. They are finite, and from is a multiple of stretch.
	tile32 func(l []lanes, c *columns, a, b []float32, from, to int)
	tile64 func(l []lanes, c *columns, a, b []float64, from, to int)

	// inc32 and inc64 add a row of increments to its lanes.
	inc32 func(l *incLanes, a0, a, b0, b []float32)
	inc64 func(l *incLanes, a0, a, b0, b []float64)

	// f16 and bf16 widen little-endian 16-bit elements.
	f16  func(dst []float32, src []byte)
	bf16 func(dst []float32, src []byte)

	// narrow tells whether all values are bfloat16, and whether all are binary16.
	narrow func(x []float32) (bf16, f16 bool)

	// add and max fold src into dst.
	add func(dst, src []float64)
	max func(dst, src []float64)
}

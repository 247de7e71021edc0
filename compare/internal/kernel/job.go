package kernel

import (
	"sync"
	"sync/atomic"
)

// job is one pair on its way: a grid of blocks of rows by segments of columns.
// Each cell of the grid is summed by one worker; what cells leave behind is put
// together in an order that does not depend on which finished first.
type job struct {
	Pair
	sums      *Sums
	blockRows int
	blocks    int
	segments  int
	wide      bool // float64 on either side: sums without fused products

	parts []Moments // per row and segment; the rows themselves if there is one segment
	left  atomic.Int64
	fail  atomic.Bool

	mu      sync.Mutex
	err     error
	errCell int
	waiting map[node]*block // column sums whose neighbour in the tree is not there yet
}

// node is a place in the tree of column blocks of one segment: on level 0 the
// blocks, above them pairs of neighbours.
type node struct{ segment, level, index int }

func newJob(p Pair) *job {
	j := &job{Pair: p, wide: p.Ref.Type == F64 || p.Port.Type == F64}
	j.blockRows = BlockRows(p.Cols)
	j.blocks = (p.Rows + j.blockRows - 1) / j.blockRows
	j.segments = (p.Cols + SegmentCols - 1) / SegmentCols
	j.left.Store(int64(j.cells()))
	return j
}

func (j *job) cells() int { return j.blocks * j.segments }

// bytes is the size of both sides.
func (j *job) bytes() int64 {
	return int64(j.Rows) * int64(j.Cols) * int64(j.Ref.Type.Size()+j.Port.Type.Size())
}

// begin allocates the result, when the first worker comes to the pair.
func (j *job) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.sums != nil {
		return
	}
	j.waiting = map[node]*block{}
	s := &Sums{
		Rows: j.Rows, Cols: j.Cols,
		Whole:     noMoments,
		Row:       make([]Moments, j.Rows),
		Col:       make([]ColMoments, j.Cols),
		NonFinite: NonFinite{FirstMismatch: -1, FirstAt: -1},
	}
	j.parts = s.Row
	if j.segments > 1 {
		j.parts = make([]Moments, j.Rows*j.segments)
	}
	if j.segments == 0 {
		for i := range s.Row {
			s.Row[i] = noMoments
		}
	}
	j.sums = s
}

// stop records a failure; of several, that of the first cell is kept.
func (j *job) stop(cell int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil || cell < j.errCell {
		j.err, j.errCell = err, cell
	}
	j.fail.Store(true)
}

// finish combines the segments of each row and the rows of the pair.
func (j *job) finish() {
	s := j.sums
	if j.segments > 1 {
		for r := range s.Row {
			s.Row[r] = fold(j.segments, func(i int) Moments { return j.parts[r*j.segments+i] })
		}
		j.parts = nil
	}
	s.Whole = fold(j.Rows, func(r int) Moments {
		m := s.Row[r]
		if m.MaxAt >= 0 {
			m.MaxAt += int64(r) * int64(j.Cols)
		}
		return m
	})
}

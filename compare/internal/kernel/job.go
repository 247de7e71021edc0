package kernel

import (
	"context"
	"sort"
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

// place hands over the column sums of a block. Where the neighbour is there, both
// are added, the upper rows first, and take the place above.
func (j *job) place(b *block, at node, lp *loops, free *blockPool) {
	for count := nodesAt(j.blocks, at.level); count > 1; count = (count + 1) / 2 {
		if at.index^1 < count {
			j.mu.Lock()
			other := j.waiting[node{at.segment, at.level, at.index ^ 1}]
			if other == nil {
				j.waiting[at] = b
				j.mu.Unlock()
				return
			}
			delete(j.waiting, node{at.segment, at.level, at.index ^ 1})
			j.mu.Unlock()
			if at.index&1 == 1 {
				b, other = other, b
			}
			b.add(other, lp)
			free.put(other)
		}
		at.level++
		at.index /= 2
	}
	first := at.segment * SegmentCols
	for i := range b.a2 {
		j.sums.Col[first+i] = ColMoments{A2: b.a2[i], B2: b.b2[i], D2: b.d2[i], Max: b.max[i]}
	}
	free.put(b)
}

func nodesAt(n, level int) int {
	for range level {
		n = (n + 1) / 2
	}
	return n
}

// block is the column sums of one block and segment.
type block struct{ columns }

// add adds o, whose rows lie below those of b.
func (b *block) add(o *block, lp *loops) {
	sums := 3 * b.pitch // a2, b2 and d2 lie one after the other
	lp.add(b.store[:sums], o.store[:sums])
	lp.max(b.max, o.max)
}

// blockPool keeps blocks for reuse within one run.
type blockPool struct {
	mu   sync.Mutex
	free []*block
}

// get returns a zeroed block of n columns.
func (p *blockPool) get(n int) *block {
	var b *block
	p.mu.Lock()
	if k := len(p.free) - 1; k >= 0 {
		b, p.free = p.free[k], p.free[:k]
	}
	p.mu.Unlock()
	if b == nil || cap(b.store) < storeLen(n) {
		b = &block{columns{store: make([]float64, storeLen(n))}}
	}
	s := b.store[:storeLen(n)]
	clear(s)
	b.columns = newColumns(s, n)
	return b
}

func (p *blockPool) put(b *block) {
	p.mu.Lock()
	p.free = append(p.free, b)
	p.mu.Unlock()
}

// runAll is RunAll with the given tuning.
func runAll(ctx context.Context, pairs []Pair, o Options, u tuning) ([]*Sums, []error) {
	jobs := make([]*job, len(pairs))
	errs := make([]error, len(pairs))
	ends := make([]int, len(pairs)) // the items of pair i end before ends[i]
	items := 0
	for i, p := range pairs {
		if err := p.check(); err != nil {
			errs[i] = err
			ends[i] = items
			continue
		}
		j := newJob(p)
		jobs[i] = j
		switch {
		case j.cells() == 0:
			j.begin()
			j.finish()
		case j.bytes() < u.smallPair:
			items++
		default:
			items += j.cells()
		}
		ends[i] = items
	}

	free := &blockPool{}
	var next atomic.Int64
	work := func() {
		w := getWorker(u, free, o.Progress)
		defer putWorker(w)
		for {
			item := int(next.Add(1)) - 1
			if item >= items {
				return
			}
			i := sort.SearchInts(ends, item+1)
			j := jobs[i]
			lo, hi := 0, j.cells()
			if j.bytes() >= u.smallPair {
				lo = hi - (ends[i] - item)
				hi = lo + 1
			}
			for cell := lo; cell < hi && !j.fail.Load(); cell++ {
				err := ctx.Err()
				if err == nil {
					j.begin()
					err = w.sum(ctx, j, cell)
				}
				if err != nil {
					j.stop(cell, err)
				} else if j.left.Add(-1) == 0 {
					if err := w.scaleColumns(ctx, j); err != nil {
						j.stop(cell, err)
					}
					j.finish()
				}
			}
		}
	}
	n := o.Workers
	if n <= 0 {
		n = Workers()
	}
	parallel(min(n, items), work)

	sums := make([]*Sums, len(pairs))
	for i, j := range jobs {
		switch {
		case j == nil:
		case j.err != nil:
			errs[i] = j.err
		default:
			sums[i] = j.sums
		}
	}
	return sums, errs
}

// parallel runs work n times at once; one of them on the caller's goroutine.
func parallel(n int, work func()) {
	var wg sync.WaitGroup
	for range n - 1 {
		wg.Go(work)
	}
	if n > 0 {
		work()
	}
	wg.Wait()
}

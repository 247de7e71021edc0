package kernel

import "sync"

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

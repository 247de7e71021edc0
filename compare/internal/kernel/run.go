package kernel

import (
	"context"
	"sort"
	"sync"
	"sync/atomic"
)

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

// Each calls f with 0 to n-1, on up to workers goroutines (0: Workers()), in no
// particular order.
func Each(n, workers int, f func(i int)) {
	if workers <= 0 {
		workers = Workers()
	}
	var next atomic.Int64
	parallel(min(n, workers), func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			f(i)
		}
	})
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

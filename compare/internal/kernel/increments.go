package kernel

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Chain is the residual stream on both sides: checkpoints in order of execution, all
// [Rows, Cols], as many of the port as of the reference.
type Chain struct {
	Ref, Port  []Operand
	Rows, Cols int
}

// IncPair is a chain of two.
type IncPair struct {
	RefPrev, Ref, PortPrev, Port Operand
	Rows, Cols                   int
}

// IncMoments are the sums of one row over its increments x = ref - refPrev and
// y = port - portPrev. A row with a value that is not finite, or whose sums leave
// float64, has NaN in all four; a row without columns has zeros.
type IncMoments struct {
	D2  float64 // Σ(y-x)²
	A2  float64 // Σx²
	B2  float64 // Σy²
	Dot float64 // Σxy
}

// RunChain is the second pass over the residual stream: element i of its result
// holds, for each row, the sums of the increment from checkpoint i to i+1. Each
// checkpoint is read once. Its bits depend on the values only, like Run's; its errors
// are Run's.
func RunChain(ctx context.Context, c Chain, o Options) ([][]IncMoments, error) {
	return runChain(ctx, c, o, standard)
}

// RunIncrements is RunChain for two neighbouring checkpoints.
func RunIncrements(ctx context.Context, p IncPair, o Options) ([]IncMoments, error) {
	m, err := RunChain(ctx, Chain{
		Ref:  []Operand{p.RefPrev, p.Ref},
		Port: []Operand{p.PortPrev, p.Port},
		Rows: p.Rows, Cols: p.Cols,
	}, o)
	if err != nil {
		return nil, err
	}
	return m[0], nil
}

func runChain(ctx context.Context, c Chain, o Options, u tuning) ([][]IncMoments, error) {
	if len(c.Ref) != len(c.Port) {
		return nil, fmt.Errorf("summing increments: %d checkpoints of ref, %d of port", len(c.Ref), len(c.Port))
	}
	size := 1
	for i := range c.Ref {
		p := Pair{Ref: c.Ref[i], Port: c.Port[i], Rows: c.Rows, Cols: c.Cols}
		if err := p.check(); err != nil {
			return nil, err
		}
		size = max(size, p.Ref.Type.Size(), p.Port.Type.Size())
	}
	out := make([][]IncMoments, max(len(c.Ref)-1, 0))
	for i := range out {
		out[i] = make([]IncMoments, c.Rows)
	}
	if c.Rows == 0 || c.Cols == 0 || len(out) == 0 {
		return out, nil
	}

	n := o.Workers
	if n <= 0 {
		n = Workers()
	}
	// A group is what one worker reads at once; its rows depend on no other group,
	// so that few rows are divided among all workers.
	group := min(u.groupRows(min(c.Cols, SegmentCols), size), (c.Rows+n-1)/n)
	groups := (c.Rows + group - 1) / group
	var (
		next  atomic.Int64
		mu    sync.Mutex
		first error
		where = groups
	)
	work := func() {
		w := getWorker(u, nil, o.Progress)
		defer putWorker(w)
		for {
			g := int(next.Add(1)) - 1
			if g >= groups {
				return
			}
			if err := w.chain(ctx, &c, out, g*group, min((g+1)*group, c.Rows)); err != nil {
				mu.Lock()
				if g < where {
					first, where = err, g
				}
				mu.Unlock()
				next.Store(int64(groups))
				return
			}
		}
	}
	parallel(min(n, groups), work)
	if first != nil {
		return nil, first
	}
	return out, nil
}

// chain sums rows from to to-1 of every checkpoint, segment by segment; the segments
// of a row are added from the left.
func (w *worker) chain(ctx context.Context, c *Chain, out [][]IncMoments, from, to int) error {
	for col := 0; col < c.Cols; col += SegmentCols {
		at := cell{col: col, cols: min(SegmentCols, c.Cols-col)}
		var raw [4][]byte // ref and port of the checkpoints with an even number, then of the odd
		for i := range c.Ref {
			if err := ctx.Err(); err != nil {
				return err
			}
			here := i % 2 * 2
			for k, o := range []*Operand{&c.Ref[i], &c.Port[i]} {
				b, err := w.read(here+k, o, c.Cols, at, from, to-from)
				if err != nil {
					return err
				}
				raw[here+k] = b
			}
			if w.progress != nil {
				w.progress(int64(len(raw[here]) + len(raw[here+1])))
			}
			if i == 0 {
				continue
			}
			ops := [4]*Operand{&c.Ref[i-1], &c.Ref[i], &c.Port[i-1], &c.Port[i]}
			slots := [4]int{2 - here, here, 3 - here, here + 1}
			w.increments(ops, slots, raw, at.cols, out[i-1][from:to])
		}
	}
	for _, m := range out {
		for r := from; r < to; r++ {
			if !finite(m[r].A2 + m[r].B2 + m[r].D2) {
				nan := math.NaN()
				m[r] = IncMoments{nan, nan, nan, nan}
			}
		}
	}
	return nil
}

// increments adds one segment of the rows of two neighbouring checkpoints.
func (w *worker) increments(ops [4]*Operand, slots [4]int, raw [4][]byte, cols int, out []IncMoments) {
	wide := false
	for _, o := range ops {
		wide = wide || o.Type == F64
	}
	for r := range out {
		var t [4]tile
		for k, o := range ops {
			t[k] = w.decode(slots[k], o, raw[slots[k]], cols, r, 1, wide)
		}
		w.inc = incLanes{}
		if wide {
			w.loops.inc64(&w.inc, t[0].f64, t[1].f64, t[2].f64, t[3].f64)
		} else {
			w.loops.inc32(&w.inc, t[0].f32, t[1].f32, t[2].f32, t[3].f32)
		}
		m := &out[r]
		m.D2 += sum8(&w.inc.d2)
		m.A2 += sum8(&w.inc.a2)
		m.B2 += sum8(&w.inc.b2)
		m.Dot += sum8(&w.inc.dot)
	}
}

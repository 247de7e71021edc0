package kernel

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
)

// IncPair is two neighbours of the residual stream on both sides, all [Rows, Cols].
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

// RunIncrements is the second pass over a pair of neighbouring checkpoints: the
// sums of their increments for each row. Its bits depend on the values only, like
// Run's; its errors are Run's.
func RunIncrements(ctx context.Context, p IncPair, o Options) ([]IncMoments, error) {
	return runIncrements(ctx, p, o, standard)
}

func runIncrements(ctx context.Context, p IncPair, o Options, u tuning) ([]IncMoments, error) {
	ops := [4]*Operand{&p.RefPrev, &p.Ref, &p.PortPrev, &p.Port}
	wide, size := false, 1
	for i := 0; i < 4; i += 2 {
		q := Pair{Ref: *ops[i], Port: *ops[i+1], Rows: p.Rows, Cols: p.Cols}
		if err := q.check(); err != nil {
			return nil, err
		}
		wide = wide || q.Ref.Type == F64 || q.Port.Type == F64
		size = max(size, q.Ref.Type.Size(), q.Port.Type.Size())
	}
	out := make([]IncMoments, p.Rows)
	if p.Rows == 0 || p.Cols == 0 {
		return out, nil
	}

	// A group is what one worker reads at once; its rows depend on no other group.
	group := u.groupRows(min(p.Cols, SegmentCols), size)
	groups := (p.Rows + group - 1) / group
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
			row := g * group
			if err := w.increments(ctx, ops, p.Cols, row, out[row:min(row+group, p.Rows)], wide); err != nil {
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
	n := o.Workers
	if n <= 0 {
		n = Workers()
	}
	parallel(min(n, groups), work)
	if first != nil {
		return nil, first
	}
	return out, nil
}

// increments sums the rows from row on into out, segment by segment; the segments
// of a row are added from the left.
func (w *worker) increments(ctx context.Context, ops [4]*Operand, cols, row int, out []IncMoments, wide bool) error {
	for col := 0; col < cols; col += SegmentCols {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := cell{col: col, cols: min(SegmentCols, cols-col)}
		var raw [4][]byte
		total := 0
		for k, o := range ops {
			b, err := w.read(k, o, cols, c, row, len(out))
			if err != nil {
				return err
			}
			raw[k] = b
			total += len(b)
		}
		if w.progress != nil {
			w.progress(int64(total))
		}
		for r := range out {
			var t [4]tile
			for k, o := range ops {
				t[k] = w.decode(k, o, raw[k], c.cols, r, 1, wide)
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
	for r, m := range out {
		if !finite(m.A2 + m.B2 + m.D2) {
			nan := math.NaN()
			out[r] = IncMoments{nan, nan, nan, nan}
		}
	}
	return nil
}

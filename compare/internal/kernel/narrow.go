package kernel

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
)

// Narrow tells whether every one of the n float32 values of o is exactly a bfloat16
// (its low 16 bits are zero), and whether every one is exactly a binary16, where any
// NaN passes. It reads in parallel and stops as soon as both
// answers are no; for real float32 values that is after the first read. Its errors
// are those of Run.
func Narrow(ctx context.Context, o Operand, n int64, opt Options) (bf16, f16 bool, err error) {
	return narrow(ctx, o, n, opt, standard)
}

var errNotF32 = errors.New("looking for narrow values: the elements are not f32")

func narrow(ctx context.Context, o Operand, n int64, opt Options, u tuning) (bf16, f16 bool, err error) {
	if err := o.check("operand"); err != nil {
		return false, false, err
	}
	if o.Type != F32 {
		return false, false, errNotF32
	}
	step := int64(max(u.readBytes/4, 1))
	groups := (n + step - 1) / step
	var (
		next      atomic.Int64
		wide, big atomic.Bool // a value that is no bfloat16, and one that is no binary16
		mu        sync.Mutex
		where     = groups
	)
	work := func() {
		w := getWorker(u, nil, opt.Progress)
		defer putWorker(w)
		for {
			g := next.Add(1) - 1
			if g >= groups || (wide.Load() && big.Load()) {
				return
			}
			b, h, e := w.narrow(ctx, &o, g*step, min(step, n-g*step))
			if e != nil {
				mu.Lock()
				if g < where {
					err, where = e, g
				}
				mu.Unlock()
				next.Store(groups)
				return
			}
			if !b {
				wide.Store(true)
			}
			if !h {
				big.Store(true)
			}
		}
	}
	workers := opt.Workers
	if workers <= 0 {
		workers = Workers()
	}
	parallel(int(min(int64(workers), groups)), work)
	if err != nil {
		return false, false, err
	}
	return !wide.Load(), !big.Load(), nil
}

// narrow looks at n values from the first on.
func (w *worker) narrow(ctx context.Context, o *Operand, first, n int64) (bf16, f16 bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, false, err
	}
	c := cell{col: int(first), cols: int(n)}
	raw, err := w.read(0, o, int(n), c, 0, 1)
	if err != nil {
		return false, false, err
	}
	if w.progress != nil {
		w.progress(int64(len(raw)))
	}
	bf16, f16 = w.loops.narrow(view32(raw))
	return bf16, f16, nil
}

// isHalf tells whether the float32 with these bits is exactly a binary16. A binary16
// has ten bits of mantissa and exponents from -14 to 15, and multiples of 2^-24 below.
func isHalf(bits uint32) bool {
	u := bits &^ (1 << 31)
	exp := int(u>>23) - 127
	switch {
	case u == 0 || u >= 0x7f800000:
		return true
	case exp > 15 || exp < -24:
		return false
	case exp >= -14:
		return u&(1<<13-1) == 0
	}
	return u&(1<<(13-14-exp)-1) == 0
}

// narrowGo tells whether all values are bfloat16, and whether all are binary16:
//
//	for _, v := range x {
//		bits := math.Float32bits(v)
//		bf16 = bf16 && bits&0xffff == 0
//		f16 = f16 && isHalf(bits)
//	}
func narrowGo(x []float32) (bf16, f16 bool) {
	bf16, f16 = true, true
	for _, v := range x {
		bits := math.Float32bits(v)
		bf16 = bf16 && bits&0xffff == 0
		f16 = f16 && isHalf(bits)
		if !bf16 && !f16 {
			break
		}
	}
	return bf16, f16
}

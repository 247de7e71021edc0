package compare

import (
	"errors"

	"github.com/layerparity/parity/dump"
)

// intChunk is how many integers are read at a time.
const intChunk = 1 << 14

// compareInts compares integers and bools of any width for equality.
func compareInts(p *Pair) (out *Ints, err error) {
	a, err := openAs(p.Ref.Record, p.Ref.DType)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Unchanged(), a.Close()) }()
	b, err := openAs(p.Port.Record, p.Port.DType)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Unchanged(), b.Close()) }()
	out = &Ints{Equal: true}
	n := int64(p.Geo.Rows) * int64(p.Geo.Cols)
	x, y := make([]int64, min(n, intChunk)), make([]int64, min(n, intChunk))
	for at := int64(0); at < n; at += intChunk {
		k := min(intChunk, n-at)
		if err := a.Int64s(x[:k], at+int64(p.Ref.Row0*p.Geo.Cols), k); err != nil {
			return nil, err
		}
		if err := b.Int64s(y[:k], at+int64(p.Port.Row0*p.Geo.Cols), k); err != nil {
			return nil, err
		}
		for i := range k {
			if x[i] == y[i] {
				continue
			}
			if out.Equal {
				out.Equal = false
				out.FirstAt, out.FirstRef, out.FirstPort = p.Geo.index(at+i), x[i], y[i]
			}
			out.Different++
		}
	}
	return out, nil
}

// readInts reads an integer record whole, at most limit elements.
func readInts(r *dump.Record, limit int64) (vals []int64, err error) {
	n := min(r.Header.Len(), limit)
	a, err := r.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	vals = make([]int64, n)
	return vals, a.Int64s(vals, 0, n)
}

package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/npy"
)

// View is one side's tensor as it is compared: the stored array after repairs.
// The zero values of the repair fields change nothing.
type View struct {
	Record *dump.Record
	// DType is what the bytes are read as; it differs from the record's where a
	// 16-bit view was repaired.
	DType npy.DType
	// Row0 skips rows that only this side has.
	Row0 int
	// Plus is added element by element: the other half of a split residual.
	Plus *dump.Record
	// Times multiplies every element where it is not 0: the inverse of a
	// constant multiplier.
	Times float64
}

// newView looks at a record as it is stored.
func newView(r *dump.Record) *View { return &View{Record: r, DType: r.DType} }

// plain tells whether the kernel can read the stored bytes without a transform.
func (v *View) plain() bool { return v.Plus == nil && v.Times == 0 }

// kernelTypes are the dtypes that the kernel reads by itself; the others are
// decoded to float64.
var kernelTypes = map[npy.DType]kernel.Type{
	npy.Float32: kernel.F32, npy.Float16: kernel.F16, npy.BFloat16: kernel.BF16, npy.Float64: kernel.F64,
	npy.Float8E4M3FN: kernel.F8, npy.Float8E5M2: kernel.F8, npy.Float8E4M3FNUZ: kernel.F8, npy.Float8E5M2FNUZ: kernel.F8, npy.Float8E8M0: kernel.F8,
}

// array is an open view.
type array struct {
	main, plus *dump.Array
	view       *View
}

// open opens the files of a view. The caller closes it.
func (v *View) open() (*array, error) {
	a, err := openAs(v.Record, v.DType)
	if err != nil {
		return nil, err
	}
	o := &array{main: a, view: v}
	if v.Plus != nil {
		if o.plus, err = v.Plus.Open(); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return o, nil
}

// openAs opens a record, reinterpreting 16-bit elements where a repair says so.
func openAs(r *dump.Record, dt npy.DType) (*dump.Array, error) {
	a, err := r.Open()
	if err != nil || a.Header().DType == dt {
		return a, err
	}
	v, err := a.As(dt)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	b := *a
	b.Array = v
	return &b, nil
}

// Close closes the files, and says so where one changed while it was read.
func (a *array) Close() error {
	err := errors.Join(a.main.Unchanged(), a.main.Close())
	if a.plus != nil {
		err = errors.Join(err, a.plus.Unchanged(), a.plus.Close())
	}
	return err
}

// operand describes the view for the kernel; cols is the row length that Row0
// counts in.
func (a *array) operand(cols int) kernel.Operand {
	first := int64(a.view.Row0) * int64(cols)
	t, ok := kernelTypes[a.view.DType]
	if !ok || !a.view.plain() {
		return kernel.Operand{Src: decoder{a}, Type: kernel.F64, First: first}
	}
	op := kernel.Operand{Src: a.main, Type: t, First: first}
	if t == kernel.F8 {
		op.Table = npy.Table8(a.view.DType)
	}
	return op
}

// decoder gives a view's elements as float64, with its repairs applied. It
// implements kernel.Source.
type decoder struct{ a *array }

// decodeChunk is how many elements are decoded at a time.
const decodeChunk = 8192

// ReadElements fills dst with the little-endian float64 of elements
// [first, first+n).
func (d decoder) ReadElements(dst []byte, first, n int64) error {
	size := min(n, decodeChunk)
	vals := make([]float64, size)
	var more []float64
	if d.a.plus != nil {
		more = make([]float64, size)
	}
	for done := int64(0); done < n; {
		k := min(decodeChunk, n-done)
		if err := d.a.float64s(vals[:k], more, first+done); err != nil {
			return err
		}
		for i, v := range vals[:k] {
			putFloat64(dst[8*(done+int64(i)):], v)
		}
		done += k
	}
	return nil
}

// float64s decodes len(dst) elements from first on; more is scratch for Plus.
func (a *array) float64s(dst, more []float64, first int64) error {
	if err := a.main.Float64s(dst, first, int64(len(dst))); err != nil {
		return err
	}
	if a.plus != nil {
		more = more[:len(dst)]
		if err := a.plus.Float64s(more, first, int64(len(dst))); err != nil {
			return err
		}
		for i, v := range more {
			dst[i] += v
		}
	}
	if t := a.view.Times; t != 0 {
		for i := range dst {
			dst[i] *= t
		}
	}
	return nil
}

// putFloat64 writes v little-endian.
func putFloat64(b []byte, v float64) {
	bits := math.Float64bits(v)
	_ = b[7]
	for i := range 8 {
		b[i] = byte(bits >> (8 * i))
	}
}

// maxMatrix bounds what is decoded whole into memory, 1 GiB of float64: guards
// and hypotheses look at single layers, never at a whole dump.
const maxMatrix = 1 << 27

// Float64s decodes the view whole, row-major, with its repairs applied. It is an
// error beyond 2^27 elements.
func (v *View) Float64s() (data []float64, err error) {
	n := v.Record.Header.Len()
	if n > maxMatrix {
		return nil, fmt.Errorf("reading %s: %d elements are more than the %d that are read whole", v.Record.File, n, maxMatrix)
	}
	a, err := v.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	data = make([]float64, n)
	var more []float64
	if v.Plus != nil {
		more = make([]float64, n)
	}
	return data, a.float64s(data, more, 0)
}

// stored describes the record for reports.
func stored(r *dump.Record) *Stored {
	if r == nil {
		return nil
	}
	s := &Stored{File: r.File, Logical: r.Logical, Shape: slices.Clone(r.Header.Shape)}
	if s.Shape == nil {
		s.Shape = []int{}
	}
	if r.Err == nil {
		s.DType = r.DType.String()
	}
	return s
}

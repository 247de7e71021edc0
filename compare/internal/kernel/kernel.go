package kernel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
)

// Source gives the elements of a tensor in C order as raw little-endian bytes.
// ReadElements fills dst, which has the size of n elements, from element first
// on, or returns an error that names file and offset. It is called from many
// goroutines at once.
type Source interface {
	ReadElements(dst []byte, first, n int64) error
}

// Operand is one side of a pair.
type Operand struct {
	Src   Source
	Type  Type
	Table *[256]float32 // the values of an F8; nil for the other types
	First int64         // element offset of row 0
}

// Pair is two tensors of the same shape, each contiguous from its First.
type Pair struct {
	Ref, Port  Operand
	Rows, Cols int
}

// Options say how a run uses the machine. They cannot change its result.
type Options struct {
	Workers int // 0: Workers()

	// Progress, if not nil, is called by the workers with the bytes just read,
	// from many goroutines at once.
	Progress func(bytes int64)
}

// The geometry of a run. SegmentCols and blockRows fix the order of additions
// and so the bits; tileRows only the speed.
const (
	// SegmentCols is how many columns of a row are summed at once: a tile of
	// four segments fits into a second-level cache, and any row that is shorter
	// is one segment.
	SegmentCols = 16384

	minBlockRows = 64
	maxBlockRows = 8192
	blockCells   = 1 << 16

	tileRows = 4 // rows that the column loop adds while they are in cache
)

// tuning is what may change the speed of a run and nothing else.
type tuning struct {
	loops     *loops
	readBytes int   // per operand and read; both should fit into a second-level cache
	smallPair int64 // bytes of both sides under which a pair is not split
}

// standard is the tuning for this machine.
var standard = tuning{loops: choose(), readBytes: 128 << 10, smallPair: 4 << 20}

// BlockRows returns how many rows of a pair with cols columns are summed from
// the first down before blocks are combined: the power of two that brings a block
// to 65,536 elements, at least 64 and at most 8,192.
func BlockRows(cols int) int {
	n := minBlockRows
	for n < maxBlockRows && n*cols < blockCells {
		n *= 2
	}
	return n
}

// Workers returns the default number of workers: the CPUs this process may use,
// by its affinity and its cgroup's quota (the runtime follows both).
func Workers() int { return runtime.GOMAXPROCS(0) }

// Run sums one pair, its rows split over the workers. It returns the Source's
// error as it is, ctx's error on cancellation, and its own for a pair that makes
// no sense. A pair without elements gives sums with N 0.
func Run(ctx context.Context, p Pair, o Options) (*Sums, error) {
	sums, errs := RunAll(ctx, []Pair{p}, o)
	return sums[0], errs[0]
}

// RunAll sums many pairs: small ones whole and in parallel, large ones split by
// rows. Sums and errors stand at the index of their pair; a pair has one or the
// other. A pair that fails does not stop the others.
func RunAll(ctx context.Context, pairs []Pair, o Options) ([]*Sums, []error) {
	return runAll(ctx, pairs, o, standard)
}

// Implementation names the inner loops in use: "avx512", "avx2", "neon" or
// "portable".
func Implementation() string { return standard.loops.name }

func (p *Pair) check() error {
	if p.Rows < 0 || p.Cols < 0 {
		return fmt.Errorf("summing pair: shape [%d, %d] is negative", p.Rows, p.Cols)
	}
	hi, n := bits.Mul64(uint64(p.Rows), uint64(p.Cols))
	if hi != 0 || n > math.MaxInt64/8 {
		return fmt.Errorf("summing pair: shape [%d, %d] holds too many elements", p.Rows, p.Cols)
	}
	return errors.Join(p.Ref.check("ref"), p.Port.check("port"))
}

func (o *Operand) check(side string) error {
	switch {
	case !o.Type.valid():
		return fmt.Errorf("summing pair: %s has unknown element %v", side, o.Type)
	case o.Src == nil:
		return fmt.Errorf("summing pair: %s has no source", side)
	case o.Type == F8 && o.Table == nil:
		return fmt.Errorf("summing pair: %s is f8 without a table of values", side)
	case o.First < 0:
		return fmt.Errorf("summing pair: %s begins at element %d", side, o.First)
	}
	return nil
}

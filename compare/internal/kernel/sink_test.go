package kernel

import "sync/atomic"

// Where benchmarks leave their results, so that no loop is optimised away.
var (
	sink    atomic.Uint64
	sinkInt int
)

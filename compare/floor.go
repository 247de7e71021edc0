package compare

import (
	"math"

	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/npy"
)

// A noiseFloor is what rounding alone may cause between two right runs, by the
// coarser precision of the pair: measured on real engines, with a margin of 3 to
// 10 (docs/metrics.md has the measurements).
type noiseFloor struct {
	// e bounds rel_l2²/2 of a token; increment bounds the increment error;
	// logits bounds e of logits; embed bounds e of post_embed, one rounding.
	e, increment, logits, embed float64
	// unit is the unit rounding that a gain is measured against; stream the one
	// that the residual stream is kept in, which is finer where only products
	// are reduced.
	unit, stream float64
}

// protocolError is e where the cosine of a change of direction is the
// protocol's 0.99.
const protocolError = 1e-2

// floors has a row for every precision class.
var floors = map[dump.Precision]noiseFloor{
	dump.Float32:  {1e-10, 1e-4, 1e-9, 1e-12, 0x1p-24, 0x1p-24},
	dump.TF32:     {1e-6, 1e-2, 1e-5, 1e-12, 0x1p-11, 0x1p-24},
	dump.Float16:  {1e-5, 1e-2, 1e-4, 1e-6, 0x1p-11, 0x1p-11},
	dump.BFloat16: {5e-4, 6e-2, 5e-3, 2e-5, 0x1p-8, 0x1p-8},
	dump.EightBit: {5e-3, 1.5e-1, 5e-2, 5e-3, 0x1p-6, 0x1p-8},
	// Nothing is known of the precision: only the protocol's threshold holds. Its
	// unit rounding is that of the coarsest class, so that a gain still tells an
	// error made here from one passed on.
	dump.Unknown: {protocolError, math.Inf(1), protocolError, protocolError, 0x1p-6, 0x1p-8},
}

// narrowStream holds the stored types whose rounding is coarser than the
// stream of their class.
var narrowStream = map[npy.DType]float64{
	npy.Float8E4M3FN: 0x1p-4, npy.Float8E4M3FNUZ: 0x1p-4, npy.Float8E5M2: 0x1p-3, npy.Float8E5M2FNUZ: 0x1p-3, npy.Float8E8M0: 0x1p-1,
}

// streamUnit is the unit rounding of the stream as both sides hold it.
func (p *Pair) streamUnit() float64 {
	return max(floors[p.precision].stream, narrowStream[p.Ref.DType], narrowStream[p.Port.DType])
}

// of picks the floor of e for a kind of checkpoint.
func (f noiseFloor) of(k dump.Kind) float64 {
	switch k {
	case dump.KindEmbedding:
		return f.embed
	case dump.KindLogits:
		return f.logits
	}
	return f.e
}

// coarser returns the precision whose floor is higher; Unknown is coarser than
// everything, since it may be anything.
func coarser(a, b dump.Precision) dump.Precision {
	if floors[a].e >= floors[b].e {
		return a
	}
	return b
}

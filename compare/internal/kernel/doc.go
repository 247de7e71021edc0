// Package kernel reads two tensors once and returns the sums from which every
// printed figure follows: for the whole pair, for each row (token) and for each
// column (dim).
//
// # Same bits everywhere
//
// The result of a pair is a function of its values only. The number of workers,
// the size of a read, the split of rows and the instruction set cannot change a
// bit, because the order of every addition is fixed:
//
//   - A row is cut into segments of SegmentCols columns. Element i of a segment
//     is added to lane i mod Lanes, in order of i. The eight lanes are added as
//     ((l0+l4)+(l1+l5)) + ((l2+l6)+(l3+l7)).
//   - The segments of a row, and then the rows of the pair, are combined in the
//     tree of fold.
//   - A column is summed from the first row down within a block of BlockRows
//     rows; the blocks are combined in the same tree.
//
// A product of two values of float32 or narrower is exact in float64, so fused
// and unfused multiply-adds agree on Σab, Σa² and Σb². (a-b)² is not exact and
// is never fused. For float64 inputs nothing is exact and nothing is fused.
//
// # Values that are not finite
//
// The largest absolute value of a row is found before anything is summed. Where it
// is NaN or an infinity the row is looked at again: a position where either side
// is not finite is counted in NonFinite and left out of every sum, those of the
// columns too (it adds zeros on both sides). A float64
// row whose squares leave the range of float64 though its values are finite is
// summed again scaled by a power of two; see Moments.Exp.
//
// # Memory
//
// Each worker owns two read buffers of 128 KiB (more where four
// rows need it), two tiles of four rows for types
// that need decoding, and the columns of the block at hand; each pair owns its
// rows, its columns and a few column blocks that wait for their neighbour:
// O(workers·tile + columns·log(blocks) + rows), whatever the file's size.
//
// # Processors
//
// On amd64 with AVX2, FMA and F16C the loops are generated assembly
// (_generate); with AVX-512 four rows are summed in registers at once. On arm64 they
// are generated NEON assembly (_generate/neon), which every such processor can run.
// Elsewhere, and with PARITY_KERNEL=portable in the environment, they are the Go
// loops of portable*.go.
//
// The NEON loops were shown right under emulation, by _generate/emulate.sh: the tests
// of this package, with the golden file, guard pages and a comparison with the Go loops
// bit by bit, pass on qemu's Cortex-A53. No real processor has run them, and nothing is
// known of their speed. The Go loops give the bits of the golden file on arm64 the
// same way, and on s390x, whose byte order is the other.
package kernel

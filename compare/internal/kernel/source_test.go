package kernel

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// memory is a tensor in memory, its first elements before Operand.First included.
type memory struct {
	size int
	data []byte
}

func (m memory) ReadElements(dst []byte, first, n int64) error {
	lo, hi := first*int64(m.size), (first+n)*int64(m.size)
	if hi > int64(len(m.data)) || len(dst) != int(hi-lo) {
		return fmt.Errorf("reading elements %d to %d of %d bytes into %d", first, first+n, len(m.data), len(dst))
	}
	copy(dst, m.data[lo:hi])
	return nil
}

// encode stores values as t; the narrow types cut off what they cannot hold.
// For F8 the value is the byte.
func encode(t Type, v []float64) []byte {
	b := make([]byte, 0, len(v)*t.Size())
	for _, x := range v {
		switch t {
		case F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		case F64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		case BF16:
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(x))>>16))
		case F16:
			b = binary.LittleEndian.AppendUint16(b, halfBits(float32(x)))
		case F8:
			b = append(b, byte(int8(x)))
		}
	}
	return b
}

// halfBits cuts a binary32 down to a binary16.
func halfBits(f float32) uint16 {
	b := math.Float32bits(f)
	sign, exp, man := uint16(b>>16)&0x8000, int(b>>23&255)-127, b&0x7fffff
	switch {
	case f != f:
		return sign | 0x7e00
	case exp > 15:
		return sign | 0x7c00
	case exp < -24:
		return sign
	case exp < -14:
		return sign | uint16((man|0x800000)>>(-exp-1))
	}
	return sign | uint16(exp+15)<<10 | uint16(man>>13)
}

// int8Table is an F8 whose bytes are their own values.
var int8Table = func() *[256]float32 {
	t := new([256]float32)
	for i := range t {
		t[i] = float32(int8(i))
	}
	return t
}()

func operand(t Type, v []float64) Operand {
	return Operand{Src: memory{t.Size(), encode(t, v)}, Type: t, Table: int8Table}
}

// implementations are the inner loops that this processor can run.
func implementations() []*loops { return possible() }

// with is the standard tuning with other loops.
func with(lp *loops) tuning {
	u := standard
	u.loops = lp
	return u
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

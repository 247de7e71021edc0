package kernel

import (
	"encoding/binary"
	"math"
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// f16Table holds the value of every binary16, for processors without a
// conversion instruction (256 KiB, made on first use).
var f16Table = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = f16Value(uint16(i))
	}
	return t
})

// f16Value is the value of one binary16: sign, five bits of exponent (bias 15),
// ten of mantissa. A NaN keeps its payload and is made quiet, as VCVTPH2PS does.
func f16Value(h uint16) float32 {
	sign, exp, man := uint32(h>>15)<<31, h>>10&31, uint32(h&0x3ff)
	switch exp {
	case 0:
		f := float32(man) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		if man != 0 {
			man |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | uint32(exp+112)<<23 | man<<13)
}

// view32 and view64 see the bytes as floats; the buffer was allocated as float64s and
// is therefore aligned, and native has been called.

func view32(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func view64(b []byte) []float64 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(&b[0])), len(b)/8)
}

// native brings what was just read into the machine's order, where that is not the
// file's and the elements are viewed rather than decoded.
func native(t Type, b []byte) {
	if !cpu.IsBigEndian {
		return
	}
	switch t {
	case F32:
		for ; len(b) >= 4; b = b[4:] {
			binary.NativeEndian.PutUint32(b, binary.LittleEndian.Uint32(b))
		}
	case F64:
		for ; len(b) >= 8; b = b[8:] {
			binary.NativeEndian.PutUint64(b, binary.LittleEndian.Uint64(b))
		}
	}
}

func bytesOf(f []float64) []byte {
	if len(f) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), 8*len(f))
}

// decode32 returns the elements of raw as float32: a view for F32, else widened
// into scratch. The type is not F64.
func decode32(lp *loops, t Type, table *[256]float32, raw []byte, scratch []float32) []float32 {
	switch t {
	case F32:
		return view32(raw)
	case F16:
		scratch = scratch[:len(raw)/2]
		lp.f16(scratch, raw)
	case BF16:
		scratch = scratch[:len(raw)/2]
		lp.bf16(scratch, raw)
	default:
		scratch = scratch[:len(raw)]
		for i, c := range raw {
			scratch[i] = table[c]
		}
	}
	return scratch
}

// widen returns float64 values: a view for F64, else converted by way of decode32.
func widen(lp *loops, t Type, table *[256]float32, raw []byte, scratch32 []float32, scratch64 []float64) []float64 {
	if t == F64 {
		return view64(raw)
	}
	s := decode32(lp, t, table, raw, scratch32)
	d := scratch64[:len(s)]
	for i, v := range s {
		d[i] = float64(v)
	}
	return d
}

package kernel

import "strconv"

// Type is how the elements of an operand are stored; all are little-endian.
type Type uint8

// The element types. Integers and bools have no figures here: they are compared
// for equality elsewhere.
const (
	F32  Type = iota // IEEE binary32
	F16              // IEEE binary16
	BF16             // bfloat16: the upper half of a binary32
	F64              // IEEE binary64
	F8               // one byte, its value looked up in Operand.Table
)

var typeInfo = [...]struct {
	name string
	size int
}{
	F32:  {"f32", 4},
	F16:  {"f16", 2},
	BF16: {"bf16", 2},
	F64:  {"f64", 8},
	F8:   {"f8", 1},
}

func (t Type) valid() bool { return int(t) < len(typeInfo) }

// Size returns the bytes of one element, 0 for an unknown type.
func (t Type) Size() int {
	if !t.valid() {
		return 0
	}
	return typeInfo[t].size
}

// String returns the short name: f32, f16, bf16, f64, f8.
func (t Type) String() string {
	if !t.valid() {
		return "type " + strconv.Itoa(int(t))
	}
	return typeInfo[t].name
}

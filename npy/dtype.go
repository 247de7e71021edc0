package npy

// DType is the type of an array's elements.
type DType uint8

// The element types that can be read and written. Void1 and Void2 are bytes
// whose meaning the file does not tell; see [Array.As].
const (
	Bool DType = iota
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	Float8E4M3FN
	Float8E5M2
	Float8E4M3FNUZ
	Float8E5M2FNUZ
	Float8E8M0
	Void1
	Void2
	numDTypes
)

type class uint8

const (
	classVoid class = iota
	classInt        // integers and bool
	classFloat
)

// dtypes holds what there is to know of each type. A code is what stands in
// a header after the byte order; NumPy's own types have one of their own, the
// others are stored as void (ml_dtypes does the same, so NumPy can load them).
var dtypes = [numDTypes]struct {
	name  string
	size  int
	class class
	code  string
}{
	Bool:           {"bool", 1, classInt, "b1"},
	Int8:           {"int8", 1, classInt, "i1"},
	Int16:          {"int16", 2, classInt, "i2"},
	Int32:          {"int32", 4, classInt, "i4"},
	Int64:          {"int64", 8, classInt, "i8"},
	Uint8:          {"uint8", 1, classInt, "u1"},
	Uint16:         {"uint16", 2, classInt, "u2"},
	Uint32:         {"uint32", 4, classInt, "u4"},
	Uint64:         {"uint64", 8, classInt, "u8"},
	Float16:        {"float16", 2, classFloat, "f2"},
	BFloat16:       {"bfloat16", 2, classFloat, "V2"},
	Float32:        {"float32", 4, classFloat, "f4"},
	Float64:        {"float64", 8, classFloat, "f8"},
	Float8E4M3FN:   {"float8_e4m3fn", 1, classFloat, "V1"},
	Float8E5M2:     {"float8_e5m2", 1, classFloat, "V1"},
	Float8E4M3FNUZ: {"float8_e4m3fnuz", 1, classFloat, "V1"},
	Float8E5M2FNUZ: {"float8_e5m2fnuz", 1, classFloat, "V1"},
	Float8E8M0:     {"float8_e8m0", 1, classFloat, "V1"},
	Void1:          {"void1", 1, classVoid, "V1"},
	Void2:          {"void2", 2, classVoid, "V2"},
}

// Size is the number of bytes of one element.
func (d DType) Size() int { return dtypes[d].size }

// String is the type's name, such as "bfloat16"; [ParseDType] reads it back.
func (d DType) String() string {
	if d >= numDTypes {
		return "unknown dtype"
	}
	return dtypes[d].name
}

// IsFloat reports whether d is a floating-point type, 8-bit ones included.
func (d DType) IsFloat() bool { return dtypes[d].class == classFloat }

// IsInt reports whether d is an integer type or bool.
func (d DType) IsInt() bool { return dtypes[d].class == classInt }

// ParseDType gives the type of that name, as [DType.String] writes it.
// "float8_e8m0fnu", ml_dtypes' and torch's name of float8_e8m0, is known too.
func ParseDType(name string) (DType, bool) {
	if name == "float8_e8m0fnu" {
		return Float8E8M0, true
	}
	for d, t := range dtypes {
		if t.name == name {
			return DType(d), true
		}
	}
	return 0, false
}

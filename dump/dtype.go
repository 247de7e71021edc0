package dump

import "strings"

// Precision is a class of logical dtypes that share noise floors, finest first.
type Precision int

// The precision classes of docs/metrics.md. Unknown is what neither a manifest
// nor the values tell.
const (
	Unknown Precision = iota
	Float32           // float32 and float64 with full-precision products
	TF32              // float32 whose products may have been reduced
	Float16
	BFloat16
	EightBit
)

var precisionNames = [...]string{"unknown", "float32", "tf32", "float16", "bfloat16", "8-bit"}

// String returns the class's name as reports print it.
func (p Precision) String() string { return precisionNames[p] }

// ParsePrecision reads the name of a class, as --floor takes it.
func ParsePrecision(s string) (Precision, bool) {
	for i, n := range precisionNames {
		if s == n {
			return Precision(i), true
		}
	}
	return Unknown, false
}

// dtypeAliases maps what engines write to the names of the schema.
var dtypeAliases = map[string]string{
	"f16": "float16", "fp16": "float16", "half": "float16",
	"bf16": "bfloat16",
	"f32":  "float32", "fp32": "float32", "float": "float32",
	"f64": "float64", "fp64": "float64", "double": "float64",
	"float8_e4m3": "float8_e4m3fn", "fp8": "float8_e4m3fn", "float8_e8m0fnu": "float8_e8m0", "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2",
}

// LogicalName normalises a dtype name: "torch.bfloat16", "BF16" and "bfloat16"
// are the same.
func LogicalName(s string) string {
	s = strings.ToLower(s)
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		s = s[i+1:]
	}
	if full, ok := dtypeAliases[s]; ok {
		return full
	}
	return s
}

// precisionByName holds the dtypes whose class does not depend on anything else.
var precisionByName = map[string]Precision{
	"float64": Float32, "tf32": TF32, "float16": Float16, "bfloat16": BFloat16,
	"int8": EightBit, "uint8": EightBit,
}

// PrecisionOf classifies a logical dtype name. full says that float32 products
// are known to be computed in full precision. Names of ggml and other quantised
// types (q4_1, q8_0, iq2_xs, mxfp4, nvfp4, awq...) are 8-bit at best, since their
// activations are; "" is Unknown.
func PrecisionOf(name string, full bool) Precision {
	name = LogicalName(name)
	if p, ok := precisionByName[name]; ok {
		return p
	}
	switch {
	case name == "":
		return Unknown
	case name == "float32" && full:
		return Float32
	case name == "float32":
		return TF32
	case strings.HasPrefix(name, "int") || strings.HasPrefix(name, "uint") || name == "bool":
		return Unknown
	}
	return EightBit
}

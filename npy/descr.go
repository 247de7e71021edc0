package npy

import (
	"fmt"
	"slices"
	"strings"
)

// codes maps what stands in descr after the byte order to a type.
var codes = func() map[string]DType {
	m := map[string]DType{
		"?":  Bool,
		"f1": Void1, // ml_dtypes writes float8_e5m2 so
	}
	for d := range numDTypes {
		m[dtypes[d].code] = d // V1 and V2 end as Void1 and Void2: they come last
	}
	return m
}()

// refusals says, by the letter of a descr, why a type is not read. The first
// row that matches is taken.
var refusals = []struct {
	letters string
	codes   []string // whole codes; nil: any code of that letter
	what    string
	remedy  string
}{
	{"O", nil, "object array: it needs pickle, which is never executed", "save a numeric array (ragged lists: padded, with their lengths)"},
	{"cFDG", nil, "complex array", "save its real and imaginary parts as two arrays"},
	{"fg", []string{"f16", "f12", "f10", "g"}, "long double (float128) array: its format depends on the machine that wrote it", "save it as float64"},
	{"USa", nil, "string array", "save token ids or other numbers"},
	{"M", nil, "datetime array", "save it as int64"},
	{"m", nil, "timedelta array", "save it as int64"},
	{"V", nil, "void array whose elements are not of 1 or 2 bytes", "save it as one of the numeric types"},
}

// parseDescr gives the type and byte order that descr names. The byte order
// matters to types of more than one byte; '=' and none are taken as
// little-endian, as on every machine that writes dumps today.
func parseDescr(descr string) (d DType, big bool, reason, remedy string) {
	code := descr
	if code != "" && strings.IndexByte("<>=|", code[0]) >= 0 {
		big = code[0] == '>'
		code = code[1:]
	}
	d, ok := codes[code]
	if !ok {
		d, ok = ParseDType(code)
	}
	if ok {
		return d, big && d.Size() > 1, "", ""
	}
	for _, r := range refusals {
		if code != "" && strings.IndexByte(r.letters, code[0]) >= 0 && matches(code, r.codes) {
			return 0, false, fmt.Sprintf("descr %q: %s", clip(descr), r.what), r.remedy
		}
	}
	return 0, false, fmt.Sprintf("descr %q: not a type that is known", clip(descr)), "save it as one of the numeric types, such as float32"
}

// matches reports whether code is one of list; for a nil list, whether it is a
// letter, digits and perhaps a unit, such as "c8", "U12" or "M8[ns]", and not a
// word that merely begins with the letter.
func matches(code string, list []string) bool {
	if list != nil {
		return slices.Contains(list, code)
	}
	rest := strings.TrimLeft(code[1:], "0123456789")
	return rest == "" || rest[0] == '[' && rest[len(rest)-1] == ']'
}

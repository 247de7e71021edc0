package npy

import (
	"math"
	"testing"
)

// smallTypes are the floats of 8 and 16 bits.
var smallTypes = []DType{Float16, BFloat16, Float8E4M3FN, Float8E5M2, Float8E4M3FNUZ, Float8E5M2FNUZ, Float8E8M0}

// values decodes all patterns of a type, in order.
func values(dt DType) []float64 {
	n := 1 << (8 * dt.Size())
	src := make([]byte, 0, n*dt.Size())
	for code := range n {
		src = append(src, byte(code))
		if dt.Size() == 2 {
			src = append(src, byte(code>>8))
		}
	}
	v := make([]float64, n)
	DecodeFloat64(v, src, dt)
	return v
}

// encode1 is the pattern that v becomes.
func encode1(v float64, dt DType) int {
	var b [8]byte
	EncodeFloat64(b[:], []float64{v}, dt)
	return int(le.Uint64(b[:]))
}

// TestEveryPatternAsMlDtypesReadsIt: all 65,536 halves and bfloat16s, all 256
// codes of each 8-bit float.
func TestEveryPatternAsMlDtypesReadsIt(t *testing.T) {
	for _, dt := range smallTypes {
		t.Run(dt.String(), func(t *testing.T) {
			golden := table(t, dt.String()+"_values")
			checkFloats(t, values(dt), floats(t, golden))
			if dt.Size() != 1 {
				return
			}
			got := make([]float64, 256)
			for i, v := range Table8(dt) {
				got[i] = float64(v)
			}
			checkFloats(t, got, floats(t, golden))
		})
	}
}

func TestSixteenBitHelpersDecodeEveryPattern(t *testing.T) {
	for dt, decode := range map[DType]func(uint16) float32{Float16: Float16ToFloat32, BFloat16: BFloat16ToFloat32} {
		want := floats(t, table(t, dt.String()+"_values"))
		for code, w := range want {
			if got := float64(decode(uint16(code))); !same(got, w) {
				t.Fatalf("%v %#04x is %v, want %v", dt, code, got, w)
			}
		}
	}
}

// TestNaNKeepsItsPayload: widening moves bits, it does not make a new NaN.
func TestNaNKeepsItsPayload(t *testing.T) {
	for h, want := range map[uint16]uint32{0x7c01: 0x7f802000, 0x7e00: 0x7fc00000, 0xfdff: 0xffbfe000} {
		if got := math.Float32bits(Float16ToFloat32(h)); got != want {
			t.Errorf("half %#04x became %#08x, want %#08x", h, got, want)
		}
	}
	if got := math.Float32bits(BFloat16ToFloat32(0xff81)); got != 0xff810000 {
		t.Errorf("bfloat16 0xff81 became %#08x", got)
	}
}

// TestRoundingAsMlDtypesDoesIt: 3,017 float32s over all magnitudes.
func TestRoundingAsMlDtypesDoesIt(t *testing.T) {
	inputs := floats(t, table(t, "rounding_inputs"))
	for _, dt := range smallTypes {
		want := floats(t, table(t, "rounding_"+dt.String()))
		decoded := values(dt)
		for i, v := range inputs {
			got, w := encode1(v, dt), int(want[i])
			if decoded[w] != decoded[w] { // any NaN will do
				if decoded[got] == decoded[got] {
					t.Errorf("%v of %v is %#x, want NaN", dt, v, got)
				}
			} else if dt == Float8E8M0 && 0x1p-127 < v && v < 0x1.8p-127 {
				// The one place where ml_dtypes does not round to the nearest, but up.
				if got != 0 || w != 1 {
					t.Errorf("%v of %v is %#x here, %#x in ml_dtypes", dt, v, got, w)
				}
			} else if got != w {
				t.Errorf("%v of %v is %#x, want %#x", dt, v, got, w)
			}
		}
	}
}

// TestRoundingAtEveryMidpoint walks all pairs of neighbours a < b of a type:
// below their midpoint a number becomes a, above it b, and on it the even one.
// Midpoints of these types are exact in float64, so Nextafter is the least that
// can be off; rounding by way of float32 would lose it.
func TestRoundingAtEveryMidpoint(t *testing.T) {
	for _, dt := range smallTypes {
		v := values(dt)
		pairs := 0
		for a := 0; a+1 < len(v); a++ {
			b := a + 1
			if math.IsInf(v[b], 0) || v[a] != v[a] || v[b] != v[b] || math.Abs(v[b]) < math.Abs(v[a]) {
				continue // the last finite one; the first negative one
			}
			pairs++
			mid := v[a]/2 + v[b]/2
			even := a + a&1
			if dt == Float8E8M0 {
				even = b // no mantissa, so no even one: ties go up
			}
			for _, c := range []struct {
				v    float64
				want int
			}{
				{v[a], a}, {v[b], b}, {mid, even},
				{math.Nextafter(mid, v[a]), a}, {math.Nextafter(mid, v[b]), b},
			} {
				if got := encode1(c.v, dt); got != c.want && v[got] != v[c.want] {
					t.Fatalf("%v of %v is %#x, want %#x", dt, c.v, got, c.want)
				}
			}
		}
		if want := map[DType]int{Float16: 2 * 31743, BFloat16: 2 * 32639, Float8E4M3FN: 252, Float8E5M2: 246, Float8E4M3FNUZ: 253, Float8E5M2FNUZ: 253, Float8E8M0: 254}[dt]; pairs != want {
			t.Errorf("%v: %d pairs of neighbours, want %d", dt, pairs, want)
		}
	}
}

// TestRoundingAtTheEdges: where a type ends, by its definition.
func TestRoundingAtTheEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	below := func(v float64) float64 { return math.Nextafter(v, 0) }
	for _, c := range []struct {
		dt     DType
		v      float64
		want   int
		reason string
	}{
		{Float16, below(65520), 0x7bff, "just below half way from 65504 to 65536"},
		{Float16, 65520, 0x7c00, "half way: the even one is infinity"},
		{Float16, -1e300, 0xfc00, "far beyond"},
		{Float16, inf, 0x7c00, "infinity"},
		{Float16, nan, 0x7e00, "NaN stays NaN"},
		{Float16, 0x1p-25, 0, "half of the least: the even one is zero"},
		{Float16, math.Nextafter(0x1p-25, 1), 1, "a little more"},
		{Float16, math.Copysign(0, -1), 0x8000, "negative zero"},
		{Float16, -0x1p-60, 0x8000, "underflow keeps the sign"},
		{Float16, 5e-324, 0, "float64's least"},
		{Float16, 1 + 0x1p-11 + 0x1p-40, 0x3c01, "float32 would first round it down to the midpoint"},
		{BFloat16, 1 + 0x1p-8 + 0x1p-40, 0x3f81, "float32 would first round it down to the midpoint"},
		{BFloat16, 0x1.ffp127, 0x7f80, "half way beyond the largest"},
		{BFloat16, below(0x1.ffp127), 0x7f7f, "just below it"},
		{BFloat16, nan, 0x7fc0, "NaN stays NaN"},
		{BFloat16, 0x1p-134, 0, "half of the least subnormal"},
		{BFloat16, 0x1.8p-133, 2, "1.5 times the least: the even one"},
		{Float8E4M3FN, 464, 0x7e, "half way from 448 to 480: the even one is 448"},
		{Float8E4M3FN, math.Nextafter(464, 500), 0x7f, "no infinity: NaN"},
		{Float8E4M3FN, -inf, 0xff, "no infinity: NaN"},
		{Float8E5M2, 61440, 0x7c, "half way from 57344 to 65536"},
		{Float8E5M2, below(61440), 0x7b, "just below it"},
		{Float8E4M3FNUZ, 248, 0x80, "half way beyond 240: NaN"},
		{Float8E4M3FNUZ, below(248), 0x7f, "just below it"},
		{Float8E4M3FNUZ, math.Copysign(0, -1), 0, "no negative zero"},
		{Float8E4M3FNUZ, -1e-9, 0, "underflow has no sign"},
		{Float8E5M2FNUZ, nan, 0x80, "the only NaN"},
		{Float8E8M0, 0, 0xff, "no zero"},
		{Float8E8M0, -1, 0xff, "no negative numbers"},
		{Float8E8M0, 5e-324, 0, "what is too small becomes the least"},
		{Float8E8M0, 0x1p127, 0xfe, "the largest"},
		{Float8E8M0, 0x1.8p127, 0xff, "half way beyond it"},
		{Float32, 16777217, 0x4b800000, "2^24 + 1, a tie: the even one"},
		{Float32, 1e300, 0x7f800000, "beyond"},
	} {
		if got := encode1(c.v, c.dt); got != c.want {
			t.Errorf("%v of %v is %#x, want %#x: %s", c.dt, c.v, got, c.want, c.reason)
		}
	}
}

// TestSixteenBitHelpersEncode holds them against EncodeFloat64, which the
// midpoints above have been through.
func TestSixteenBitHelpersEncode(t *testing.T) {
	inputs := floats(t, table(t, "rounding_inputs"))
	for _, dt := range []DType{Float16, BFloat16} {
		inputs = append(inputs, values(dt)...)
	}
	for dt, encode := range map[DType]func(float32) uint16{Float16: Float32ToFloat16, BFloat16: Float32ToBFloat16} {
		for _, v := range inputs {
			for _, near := range []float32{float32(v), math.Nextafter32(float32(v), 0), math.Float32frombits(math.Float32bits(float32(v)) + 0x8000)} {
				if got, want := encode(near), uint16(encode1(float64(near), dt)); got != want {
					t.Fatalf("%v of %v is %#04x, want %#04x", dt, near, got, want)
				}
			}
		}
	}
}

func TestIntegersRoundAndClamp(t *testing.T) {
	for _, c := range []struct {
		dt   DType
		v    float64
		want int64
	}{
		{Int8, 2.5, 2}, {Int8, 3.5, 4}, {Int8, -2.5, -2}, {Int8, 127.4, 127}, {Int8, 128, 127}, {Int8, -1e9, -128}, {Int8, math.NaN(), 0},
		{Uint8, -1, 0}, {Uint8, 255.4, 255}, {Uint8, 256, 255}, {Uint8, math.Inf(1), 255},
		{Int16, -32768.4, -32768}, {Uint16, 65535, 65535}, {Int32, math.Inf(-1), math.MinInt32}, {Uint32, 1e10, math.MaxUint32},
		{Int64, 0x1p63, math.MaxInt64}, {Int64, -0x1p63, math.MinInt64}, {Int64, 0x1p62, 1 << 62}, {Uint64, 0x1p62, 1 << 62},
		{Bool, 0, 0}, {Bool, -0.5, 1}, {Bool, math.NaN(), 1},
	} {
		var b [8]byte
		EncodeFloat64(b[:], []float64{c.v}, c.dt)
		got := []int64{0}
		decodeInt64(got, b[:], c.dt)
		if got[0] != c.want {
			t.Errorf("%v of %v is %d, want %d", c.dt, c.v, got[0], c.want)
		}
	}
	if encode := encode1(0x1p64, Uint64); uint64(encode) != math.MaxUint64 {
		t.Errorf("2^64 became %#x", uint64(encode))
	}
}

func TestNamesOfTypes(t *testing.T) {
	for d := range numDTypes {
		got, ok := ParseDType(d.String())
		if !ok || got != d {
			t.Errorf("%v reads back as %v", d, got)
		}
		if d.IsFloat() && d.IsInt() {
			t.Errorf("%v is both", d)
		}
	}
	for _, name := range []string{"", "f4", "Float32", "unknown dtype"} {
		if d, ok := ParseDType(name); ok {
			t.Errorf("%q reads as %v", name, d)
		}
	}
	if d, ok := ParseDType("float8_e8m0fnu"); !ok || d != Float8E8M0 {
		t.Error("torch's name of float8_e8m0 is not known")
	}
	if Float16.Size() != 2 || !BFloat16.IsFloat() || !Bool.IsInt() || Void2.IsFloat() || Void1.IsInt() || numDTypes.String() != "unknown dtype" {
		t.Error("the table of types is off")
	}
}

func TestCallersMistakesPanic(t *testing.T) {
	for name, do := range map[string]func(){
		"a table of an int":  func() { Table8(Int8) },
		"a number as void":   func() { EncodeFloat64(make([]byte, 2), []float64{1}, Void2) },
		"no room to encode":  func() { EncodeFloat64(make([]byte, 3), []float64{1}, Float32) },
		"too few to decode":  func() { DecodeFloat64(make([]float64, 2), make([]byte, 3), Float16) },
		"a type of no table": func() { numDTypes.Size() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			do()
		}()
	}
}

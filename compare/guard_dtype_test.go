package compare

import (
	"math/rand/v2"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

// bitsAs stores the float layers of a dump as one 16-bit type and labels the
// bytes as another.
func bitsAs(d dumptest.Dump, is, label npy.DType, names ...string) dumptest.Dump {
	d = d.Clone()
	for _, n := range names {
		b := d[n].As(is).Bytes()
		a := &dumptest.Array{Shape: d[n].Shape, DType: label, Data: make([]float64, len(d[n].Data))}
		for i := range a.Data {
			bits := uint16(b[2*i]) | uint16(b[2*i+1])<<8
			switch label {
			case npy.Uint16:
				a.Data[i] = float64(bits)
			case npy.Int16:
				a.Data[i] = float64(int16(bits))
			case npy.BFloat16:
				a.Data[i] = float64(npy.BFloat16ToFloat32(bits))
			case npy.Float16:
				a.Data[i] = float64(npy.Float16ToFloat32(bits))
			}
		}
		d[n] = a
	}
	return d
}

func TestGuardDTypeView(t *testing.T) {
	ref := net().Run()
	layers := ref.LayerNames()
	fault := net()
	fault.Fault = dumptest.At(3, times(-1))
	checkGuard(t, "capture.dtype_view", []guardCase{
		{reason: "float32 on both sides", ref: ref, port: right(), want: NotApplicable, verdict: Parity},
		{reason: "bfloat16 that is bfloat16", ref: ref, port: bitsAs(right(), npy.BFloat16, npy.BFloat16, layers...), want: Pass, verdict: Parity},
		{reason: "bfloat16 saved as uint16", ref: ref, port: bitsAs(right(), npy.BFloat16, npy.Uint16, layers...), want: Repaired, at: "layer_00",
			evidence: "the port's uint16 are bfloat16 bits: 6 checkpoints agree", verdict: Parity},
		{reason: "bfloat16 saved as int16", ref: ref, port: bitsAs(right(), npy.BFloat16, npy.Int16, layers...), want: Repaired, at: "layer_00",
			evidence: "the port's int16 are bfloat16 bits", verdict: Parity},
		{reason: "float16 saved as uint16", ref: ref, port: bitsAs(right(), npy.Float16, npy.Uint16, layers...), want: Repaired, at: "layer_00",
			evidence: "the port's uint16 are float16 bits", verdict: Parity},
		{reason: "float16 bits labelled bfloat16", ref: ref, port: bitsAs(right(), npy.Float16, npy.BFloat16, layers...), want: Repaired, at: "layer_00",
			evidence: "the port's bfloat16 are float16 bits", verdict: Parity},
		{reason: "bfloat16 bits labelled float16", ref: ref, port: bitsAs(right(), npy.BFloat16, npy.Float16, layers...), want: Repaired, at: "layer_00",
			evidence: "the port's float16 are bfloat16 bits", verdict: Parity},
		{reason: "the reference saved its bfloat16 as uint16", ref: bitsAs(ref, npy.BFloat16, npy.Uint16, layers...), port: right(), want: Repaired, at: "layer_00",
			evidence: "the reference's uint16 are bfloat16 bits", verdict: Parity},
		{reason: "uint16 views with a fault in layer 3: repaired where it can be seen, and the fault is named",
			ref: ref, port: bitsAs(fault.Run(), npy.BFloat16, npy.Uint16, layers...), want: Repaired, at: "layer_00", verdict: Divergence, enters: "layer_03"},
		{reason: "16-bit integers that are no floats at all", ref: ref, port: right().With("layer_03", dumptest.Rand(rand.New(rand.NewPCG(1, 1)), 16, 32).Map(times(1000)).As(npy.Int16)),
			want: Fail, at: "layer_03", evidence: "layer_03 of the port holds int16 where floats belong", verdict: Untrusted},
	})
}

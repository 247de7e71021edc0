package compare

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

// half and brain store every float as float16 and bfloat16.
func half(d dumptest.Dump) dumptest.Dump {
	return d.Map(func(_ string, a *dumptest.Array) *dumptest.Array { return a.As(npy.Float16) })
}

func brain(d dumptest.Dump) dumptest.Dump {
	return d.Map(func(_ string, a *dumptest.Array) *dumptest.Array { return a.As(npy.BFloat16) })
}

// widened stores values that a narrow type can hold as float32.
func widened(d dumptest.Dump, dt npy.DType) dumptest.Dump {
	return d.Map(func(_ string, a *dumptest.Array) *dumptest.Array {
		return a.Map(func(v float64) float64 {
			if dt == npy.Float16 {
				return float64(npy.Float16ToFloat32(npy.Float32ToFloat16(float32(v))))
			}
			return float64(npy.BFloat16ToFloat32(npy.Float32ToBFloat16(float32(v))))
		})
	})
}

// The class of a pair: what manifests say, never finer than what is stored or
// than all values show; the coarser side decides.
func TestPrecisionOfAPair(t *testing.T) {
	model := func(dtype string, more map[string]any) map[string]any {
		m := map[string]any{"model": map[string]any{"id": "tiny", "dtype": dtype}}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	cpu := map[string]any{"framework": map[string]any{"device": "cpu"}}
	gpu := map[string]any{"framework": map[string]any{"device": "cuda:0"}}
	highest := map[string]any{"framework": map[string]any{"device": "cuda:0", "matmul_precision": "highest"}}
	ref := net().Run()
	noisy := ref.Noise(5, 1e-3) // nothing agrees to float32: the run does not show its class
	for _, c := range []struct {
		reason            string
		ref, port         dumptest.Dump
		refSays, portSays map[string]any
		want              string
	}{
		{"float32 on a CPU", ref, noisy, model("float32", cpu), model("float32", cpu), "float32"},
		{"float32, full products asked for", ref, noisy, model("float32", highest), model("float32", highest), "float32"},
		{"float32 on a GPU that does not say how it multiplies", ref, noisy, model("float32", gpu), model("float32", cpu), "tf32"},
		{"float64", ref, noisy, model("float64", gpu), model("float64", gpu), "float32"},
		{"tf32", ref, noisy, model("tf32", cpu), model("float32", cpu), "tf32"},
		{"bfloat16 against float32", ref, noisy, model("float32", cpu), model("bfloat16", gpu), "bfloat16"},
		{"torch.bfloat16", ref, noisy, model("float32", cpu), model("torch.bfloat16", gpu), "bfloat16"},
		{"float16 against bfloat16", ref, noisy, model("float16", gpu), model("bfloat16", gpu), "bfloat16"},
		{"a quantised port", ref, noisy, model("float32", cpu), model("q4_1", cpu), "8-bit"},
		{"int8", ref, noisy, model("float32", cpu), model("int8", cpu), "8-bit"},
		{"fp8", ref, noisy, model("float32", cpu), model("float8_e4m3fn", gpu), "8-bit"},
		{"said to be float32, stored as float16", ref, half(noisy), model("float32", cpu), model("float32", cpu), "float16"},
		{"said to be float32, every value a bfloat16", ref, widened(noisy, npy.BFloat16), model("float32", cpu), model("float32", cpu), "bfloat16"},
		{"no manifest, stored as bfloat16", half(ref), brain(noisy), nil, nil, "bfloat16"},
		{"no manifest, every value a bfloat16 on both sides", widened(ref, npy.BFloat16), widened(noisy, npy.BFloat16), nil, nil, "bfloat16"},
		{"no manifest, every value a float16 on both sides", widened(ref, npy.Float16), widened(noisy, npy.Float16), nil, nil, "float16"},
		{"no manifest, float32", ref, noisy, nil, nil, "unknown"},
		{"no manifest in the port", ref, noisy, model("float32", cpu), nil, "unknown"},
		{"no manifest, and the run agrees to float32", ref, right(), nil, nil, "tf32 (read off the run: no manifest)"},
	} {
		got := runCase(t, guardCase{ref: c.ref, port: c.port, refSays: c.refSays, portSays: c.portSays})
		for _, ck := range got.Checkpoints {
			if ck.Name == "layer_03" && ck.FloorOf != c.want {
				t.Errorf("%s: held to %q, want %q", c.reason, ck.FloorOf, c.want)
			}
		}
	}
}

func TestAFlagDecidesThePrecision(t *testing.T) {
	dir := t.TempDir()
	ref, port := net().Run().Write(t, filepath.Join(dir, "ref")), right().Write(t, filepath.Join(dir, "port"))
	for p := range floors {
		o := DefaultOptions()
		o.Floor = &p
		want := p.String()
		if p == dump.Unknown {
			want = "tf32 (read off the run: no manifest)"
		}
		for _, ck := range compareWith(t, ref, port, o).Checkpoints {
			if ck.Name == "layer_03" && ck.FloorOf != want {
				t.Errorf("--floor %s: held to %q", p, ck.FloorOf)
			}
		}
	}
}

// Without a manifest, files of 16 bits show by the agreement of one computed
// checkpoint what the others are held to, and a bfloat16 run is known in float16
// files.
func TestSixteenBitFilesShowTheirPrecision(t *testing.T) {
	ref := net().Run()
	bent := ref.Map(func(name string, a *dumptest.Array) *dumptest.Array {
		if dump.Canonical(name).Layer > 2 || name == "post_final_norm" || name == "logits" {
			return a.Noise(rand.New(rand.NewPCG(1, 2)), 2e-2) // e 2e-4: far above float16, far below the cosine's 0.01
		}
		return a
	})
	for _, c := range []struct {
		reason    string
		ref, port dumptest.Dump
		want      string
		verdict   Verdict
	}{
		{"a float16 port that agrees to the rounding of its files", ref, half(right()), "float16 (read off the run: no manifest)", Parity},
		{"one layer of it does not", ref, half(bent), "float16 (read off the run: no manifest)", Divergence},
		{"nothing agrees to float16: 8 bits, for all that is known", ref, half(ref.Noise(5, 1e-3)), "unknown", Parity},
		{"bfloat16 runs in files of float16", half(widened(ref, npy.BFloat16)), half(widened(ref.Noise(5, 1e-3), npy.BFloat16)), "bfloat16", Parity},
	} {
		got := runCase(t, guardCase{reason: c.reason, ref: c.ref, port: c.port})
		ck := func() string {
			for _, ck := range got.Checkpoints {
				if ck.Name == "layer_05" {
					return ck.FloorOf
				}
			}
			return "none"
		}()
		if ck != c.want || got.Verdict != c.verdict {
			t.Errorf("%s: floor of %s and verdict %s (%s), want %s and %s", c.reason, ck, got.Verdict, got.Reason, c.want, c.verdict)
		}
	}
}

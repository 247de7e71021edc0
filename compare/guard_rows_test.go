package compare

import (
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

// eachRows applies f to every [T, D] tensor of a dump.
func eachRows(d dumptest.Dump, f func(*dumptest.Array) *dumptest.Array) dumptest.Dump {
	return d.Map(func(_ string, a *dumptest.Array) *dumptest.Array { return f(a) })
}

// padded puts rows of zeros before and after.
func padded(a *dumptest.Array, before, after int) *dumptest.Array {
	cols := a.Shape[1]
	b := &dumptest.Array{Shape: []int{before + a.Shape[0] + after, cols}, DType: a.DType}
	b.Data = append(b.Data, make([]float64, before*cols)...)
	b.Data = append(b.Data, a.Data...)
	b.Data = append(b.Data, make([]float64, after*cols)...)
	return b
}

func TestGuardExtraRows(t *testing.T) {
	ref := net().Run()
	last := func(d dumptest.Dump, names ...string) dumptest.Dump {
		for _, n := range names {
			d = d.With(n, d[n].Rows(15, 16))
		}
		return d
	}
	oneRow := right()
	oneRow["logits"] = &dumptest.Array{Shape: []int{64}, Data: oneRow["logits"].Row(15), DType: npy.Float32}
	three := oneRow.Clone()
	three["logits"].Shape = []int{1, 1, 64}
	lastName := right().With("logits", nil)
	lastName["last_logits"] = oneRow["logits"]
	odd := eachRows(right(), func(a *dumptest.Array) *dumptest.Array { return padded(a, 0, 2) })
	odd["layer_03"] = padded(odd["layer_03"], 0, 1)
	unrelated := dumptest.NewNet(55, 6, 18, 32).Run()
	unrelated["prompt_tokens"] = ref["prompt_tokens"]
	checkGuard(t, "capture.extra_rows", []guardCase{
		{reason: "as many rows on both sides", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "2 rows of padding at the end", ref: ref, port: eachRows(right(), func(a *dumptest.Array) *dumptest.Array { return padded(a, 0, 2) }),
			want: Repaired, at: "post_embed", evidence: "the port has 2 rows more at every checkpoint (0 at the start and 2 at the end): ignored, 16 rows compared", verdict: Parity},
		{reason: "3 rows of left padding", ref: ref, port: eachRows(right(), func(a *dumptest.Array) *dumptest.Array { return padded(a, 3, 0) }),
			want: Repaired, at: "post_embed", evidence: "(3 at the start and 0 at the end)", verdict: Parity},
		{reason: "padding in the reference", ref: eachRows(ref, func(a *dumptest.Array) *dumptest.Array { return padded(a, 1, 4) }), port: right(),
			want: Repaired, at: "post_embed", evidence: "the reference has 5 rows more at every checkpoint (1 at the start and 4 at the end)", verdict: Parity},
		{reason: "padding and a fault in layer 4", ref: ref, port: eachRows(withFault(4, times(-1)), func(a *dumptest.Array) *dumptest.Array { return padded(a, 2, 0) }),
			want: Repaired, at: "post_embed", verdict: Divergence, enters: "layer_04"},
		{reason: "only the last position of norm and logits is kept", ref: ref, port: last(right(), "post_final_norm", "logits"), want: Repaired, at: "post_final_norm",
			evidence: "one side keeps only the last position of post_final_norm, logits", verdict: Parity},
		{reason: "the reference keeps the last logits only", ref: last(ref, "logits"), port: right(), want: Repaired, at: "logits", verdict: Parity},
		{reason: "logits [V] against [T, V]", ref: ref, port: oneRow, want: Repaired, at: "logits", verdict: Parity},
		{reason: "logits [1, 1, V] against [T, V]", ref: ref, port: three, want: Repaired, at: "logits", verdict: Parity},
		{reason: "last_logits against logits", ref: ref, port: lastName, want: Repaired, at: "logits", verdict: Parity},
		{reason: "the last position, and it is wrong", ref: ref, port: last(right().With("logits", ref["logits"].Map(times(-1))), "logits"), want: Repaired, at: "logits", verdict: Divergence, enters: "logits"},
		{reason: "one layer with 15 rows is a wrong shape", ref: ref, port: right().With("layer_03", ref["layer_03"].Rows(0, 15)), want: NotApplicable, verdict: Divergence},
		{reason: "one layer has one row more than the others have more", ref: ref, port: odd, want: NotApplicable, verdict: Untrusted}, // post_embed has other rows
		{reason: "more rows, and nothing in common", ref: ref, port: unrelated, want: Fail, at: "post_embed", evidence: "no alignment makes them agree", verdict: Untrusted},
	})
}

func TestGuardRowShift(t *testing.T) {
	ref := net().Run()
	moved := eachRows(right(), roll)
	back := eachRows(right(), func(a *dumptest.Array) *dumptest.Array {
		for range a.Shape[0] - 1 {
			a = roll(a)
		}
		return a
	})
	ids := dumptest.Ints(1, 2, 3)
	checkGuard(t, "capture.row_shift", []guardCase{
		{reason: "rows at their tokens", ref: ref, port: right(), want: Pass, verdict: Parity},
		{reason: "rows one token late", ref: ref, port: moved, want: Fail, at: "post_embed", evidence: "row t+1 of the port is row t+0 of the reference", verdict: Untrusted},
		{reason: "rows one token early", ref: ref, port: back, want: Fail, at: "post_embed", evidence: "row t+0 of the port is row t+1 of the reference", verdict: Untrusted},
		{reason: "a fault is no shift", ref: ref, port: withFault(0, times(-1)), want: Pass, verdict: Divergence, enters: "layer_00"},
		{reason: "the ids differ: rows differ because of them", ref: ref, port: moved.With("prompt_tokens", ids), want: NotApplicable, verdict: Untrusted},
		{reason: "3 rows are too few", ref: eachRows(ref, func(a *dumptest.Array) *dumptest.Array { return a.Rows(0, 3) }), port: eachRows(right(), func(a *dumptest.Array) *dumptest.Array { return a.Rows(0, 3) }),
			want: NotApplicable, verdict: Parity},
	})
}

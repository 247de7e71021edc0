package compare

import (
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
)

func TestGuardMask(t *testing.T) {
	mask := func(n, zeros int) *dumptest.Array {
		a := dumptest.Ints(make([]int, n)...)
		for i := range a.Data {
			if i >= zeros {
				a.Data[i] = 1
			}
		}
		return a
	}
	ref := net().Run()
	tail := right() // positions derived from a short mask: wrong from row 12 on
	for i := 12 * 32; i < 16*32; i++ {
		tail["post_embed"].Data[i] = -tail["post_embed"].Data[i] + 1
	}
	for _, name := range tail.LayerNames() {
		copy(tail[name].Data[12*32:], tail["post_embed"].Data[12*32:])
	}
	checkGuard(t, "input.attention_mask", []guardCase{
		{reason: "equal masks", ref: ref.With("attention_mask", mask(16, 0)), port: right().With("attention_mask", mask(16, 0)), want: Pass, verdict: Parity},
		{reason: "other masks", ref: ref.With("attention_mask", mask(16, 0)), port: right().With("attention_mask", mask(16, 2)), want: Fail, at: "attention_mask",
			evidence: "the masks differ at 2 places, first at [0]", verdict: Untrusted},
		{reason: "the port's mask was not extended over the prefix", ref: ref.With("attention_mask", mask(16, 0)), port: right().With("attention_mask", mask(12, 0)), want: Fail, at: "attention_mask",
			evidence: "the masks differ: shapes differ: reference [16], port [12]", verdict: Untrusted},
		{reason: "a short mask on the side that has one", ref: ref, port: right().With("attention_mask", mask(12, 0)), want: Fail, at: "attention_mask",
			evidence: "the port's attention_mask covers 12 of 16 tokens", verdict: Untrusted},
		{reason: "a mask of [1, T]", ref: ref.With("attention_mask", mask(16, 0)), port: right().With("attention_mask", func() *dumptest.Array {
			m := mask(16, 0)
			m.Shape = []int{1, 16}
			return m
		}()), want: Pass, verdict: Parity},
		{reason: "no mask, nothing suspicious", ref: ref, port: right(), want: NotApplicable, verdict: Parity},
		{reason: "no mask, and the embedding is right up to token 11 and wrong from 12 on", ref: ref, port: tail, want: NotChecked,
			evidence: "right up to token 11 and wrong from token 12 on", verdict: Untrusted}, // by input.embedding
		{reason: "a decode prefix without a mask", ref: ref, port: right(), refSays: says(map[string]any{"mode": "teacher_forced"}), portSays: says(map[string]any{"mode": "teacher_forced"}),
			want: NotChecked, evidence: "a decode prefix without attention_mask", verdict: Parity},
	})
}

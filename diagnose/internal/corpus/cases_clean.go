package corpus

func cleanCases() []Case {
	clean := Want{Verdict: "parity", Clean: true}
	return []Case{
		{ID: "clean-float32", Title: "the same maths summed in another order", base: toy(), Want: clean},
		{ID: "clean-identical", Title: "two equal runs", base: toy(), Want: clean, arith: &arithRef},
		{
			ID: "clean-bf16", Title: "bfloat16 twin of 32 layers", arith: &arithBF16, Want: clean,
			base: toy().with(func(s *Spec) { s.Layers = 32; *s = s.build() }),
		},
	}
}

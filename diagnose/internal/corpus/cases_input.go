package corpus

import "slices"

// inputCases fail before the model: what went in differs, and nothing may be
// said of the model.
func inputCases() []Case {
	untrusted := func(causes ...string) Want {
		return Want{Verdict: "untrusted", Causes: causes, MustNot: []string{"rope.position", "order.tokens", "weights.swapped"}}
	}
	return []Case{
		{
			ID: "X-input-bos", Row: "130", Title: "the port's prompt has one token more in front", base: seeded(15),
			Want: untrusted("input.extra_token", "input.tokens", "capture.row_shift"),
			port: func(p *Plan) {
				p.tokens = func(ids []int64) []int64 { return append([]int64{1}, ids[:len(ids)-1]...) }
			},
		},
		{
			ID: "X-input-token", Title: "one token of the prompt is another", base: seeded(15),
			Want: untrusted("input.tokens"),
			port: func(p *Plan) {
				p.tokens = func(ids []int64) []int64 {
					ids = slices.Clone(ids)
					ids[20] = (ids[20] + 1) % 256
					return ids
				}
			},
		},
	}
}

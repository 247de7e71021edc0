package diagnose

import "fmt"

// ropeTransforms rotate q or k, or turn it back.
var ropeTransforms = []TransformSpec{
	{
		Name: "rope", Params: ropeParams,
		Doc:     "rotary position embedding; positions are those of the run that the value came from (position_ids, else counted)",
		Formula: "(x_a, x_b) := (x_a cos φ - x_b sin φ, x_b cos φ + x_a sin φ), φ = position·w_i, w_i = theta^(-2i/dims)",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			return applyRope(e, v, a, false)
		},
	},
	{
		Name: "unrope", Params: ropeParams,
		Doc:     "the inverse of rope with the same arguments",
		Formula: "rope with -φ, divided by mscale",
		apply: func(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			return applyRope(e, v, a, true)
		},
	},
}

var ropeParams = []TransformParam{
	{Name: "theta", Kind: argNumber, Doc: "the base; the manifest's, else 10000"},
	{Name: "layout", Kind: argWord, Words: []string{"half", "interleaved"}, Doc: "half: dims (i, i+d/2) are a pair; interleaved: (2i, 2i+1). half by default"},
	{Name: "dims", Kind: argInt, Doc: "leading dims of each head that are paired; all by default"},
	{Name: "start", Kind: argInt, Doc: "first paired dim of each head; 0 by default"},
	{Name: "pairs", Kind: argInt, Doc: "pairs that turn, of dims/2"},
	{Name: "denominator", Kind: argInt, Doc: "of the exponent; dims by default"},
	{Name: "scaling", Kind: argWord, Words: []string{"linear", "llama3", "yarn"}},
	{Name: "factor", Kind: argNumber, Doc: "of the scaling"},
	{Name: "low", Kind: argNumber, Doc: "llama3's low_freq_factor, 1 by default"},
	{Name: "high", Kind: argNumber, Doc: "llama3's high_freq_factor, 4 by default"},
	{Name: "original", Kind: argNumber, Doc: "original_max_position_embeddings, 8192 by default"},
	{Name: "beta_fast", Kind: argNumber, Doc: "yarn's, 32 by default"},
	{Name: "beta_slow", Kind: argNumber, Doc: "yarn's, 1 by default"},
	{Name: "mscale", Kind: argNumber, Doc: "multiplies cos and sin (yarn's attention factor)"},
	{Name: "negative", Kind: argFlag, Doc: "turn the other way"},
	{Name: "offset", Kind: argNumber, Doc: "added to every position"},
	{Name: "position", Kind: argNumber, Doc: "one position for all rows"},
	{Name: "positions", Kind: argList, Doc: "one position a row, repeated over the requests of a batch"},
	{Name: "round_positions", Kind: argWord, Words: roundWords},
	{Name: "round_freqs", Kind: argWord, Words: roundWords, Doc: "rounds w_i (inv_freq)"},
	{Name: "round_angles", Kind: argWord, Words: roundWords, Doc: "rounds position·w_i"},
	{Name: "round_table", Kind: argWord, Words: roundWords, Doc: "rounds cos and sin"},
	{Name: "freqs", Kind: argList, Doc: "one w a pair, in place of theta and scaling"},
	{Name: "sections", Kind: argList, Doc: "M-RoPE: pairs of each position axis"},
	{Name: "section_order", Kind: argWord, Words: []string{"chunked", "interleaved"}, Doc: "TTTHHHWWW or THWTHW..."},
	{Name: "head_dim", Kind: argInt, Doc: "the model's by default"},
}

// ruleOf reads a rope transform's arguments.
func ruleOf(e *tryEnv, a tryArgs) ropeRule {
	r := ropeRule{
		Layout: a.word("layout", "half"), Dims: a.int("dims", 0), Start: a.int("start", 0), Pairs: a.int("pairs", 0), Den: a.int("denominator", 0),
		Theta: a.num("theta", 0), Freqs: a.list("freqs"),
		Scaling: a.word("scaling", ""), Factor: a.num("factor", 1), Low: a.num("low", 0), High: a.num("high", 0), Orig: a.num("original", 0),
		BetaFast: a.num("beta_fast", 0), BetaSlow: a.num("beta_slow", 0), Mscale: a.num("mscale", 0), Negative: a.flag("negative"),
		Offset: a.num("offset", 0), Positions: a.list("positions"),
		RoundPos: a.word("round_positions", ""), RoundFreq: a.word("round_freqs", ""), RoundAngle: a.word("round_angles", ""), RoundTable: a.word("round_table", ""),
		Sections: a.ints("sections"), SectionOrder: a.word("section_order", "chunked"),
	}
	if a.has("position") {
		r.Positions = []float64{a.num("position", 0)}
	}
	if r.Theta == 0 {
		r.Theta = orDefault(orDefault(e.c.Facts(e.owner()).RopeTheta, e.c.Facts(Ref).RopeTheta), 10000)
	}
	return r
}

func applyRope(e *tryEnv, v *tryValue, a tryArgs, inverse bool) (*tryValue, error) {
	r := ruleOf(e, a)
	d := a.int("head_dim", 0)
	if d == 0 {
		d = e.c.headDim(v.Name, v.Cols)
	}
	if d < 2 || v.Cols%d != 0 {
		return nil, fmt.Errorf("heads of %d do not divide %d dims: give head_dim=", d, v.Cols)
	}
	if err := r.check(d, v.Rows); err != nil {
		return nil, err
	}
	pos := e.c.positions(e.owner(), v.Rows)
	return v.like(r.rotate(v.Data, v.Rows, v.Cols, d, pos, inverse)), nil
}

// check refuses a rule that a head of d dims and that many rows cannot follow.
func (r ropeRule) check(d, rows int) error {
	switch {
	case r.Dims < 0 || r.Dims > d || r.Dims%2 != 0:
		return fmt.Errorf("dims is %d; an even number up to the head's %d is needed", r.Dims, d)
	case r.Start < 0 || r.Start+r.width(d) > d:
		return fmt.Errorf("dims %d to %d are not in a head of %d", r.Start, r.Start+r.width(d)-1, d)
	case !(r.Theta > 0) || r.Scaling != "" && !(r.Factor > 0):
		return fmt.Errorf("theta and factor have to be positive")
	case len(r.Positions) > 0 && rows%len(r.Positions) != 0:
		return fmt.Errorf("%d positions for %d rows", len(r.Positions), rows)
	case r.Freqs != nil && len(r.Freqs) != r.width(d)/2:
		return fmt.Errorf("%d frequencies for %d pairs", len(r.Freqs), r.width(d)/2)
	}
	return nil
}

package triage

import (
	"strconv"
	"strings"

	"github.com/layerparity/parity/internal/lazy"
)

var numericMatchers = []Matcher{
	{
		ID: "nan-loss", Says: "a loss or gradient norm is not finite",
		Patterns: []string{"train.nan_loss", "numerics.overflow", "numerics.nan"},
		Weight:   weightCause,
		// "[INFO] loss: 2.3" holds inf and loss: the value's own surroundings spare it.
		hints: holding(` nan|=nan|'nan|"nan|:nan|(nan|-nan| inf|=inf|'inf|"inf|:inf|(inf|-inf|+inf`, "loss|norm"),
		expr: expr(`([\w./-]*\bloss\w*|[\w./-]*loss|[\w./-]*grad(?:ient)?[ _]?norm)\b['"]?\s*(?:\([^)]*\)\s*)?(?:[:=|]|is|->)?\s*['"]?(?:tensor\()?` +
			`[-+]?(nan|inf(?:inity)?)(?:['"\s,;|)}\]!.]|$)`),
		read: func(r *reading) bool {
			return !initialValue().MatchString(r.group(1))
		},
	},
	{
		ID: "nan-check", Says: "a check found NaN or Inf",
		Patterns: []string{"train.nan_loss", "numerics.nan", "numerics.overflow"},
		Weight:   weightCause,
		hints:    holding("nan|inf|non-finite", "found|returned|contains|non-finite|unexpected result"),
		expr: expr(`Function '\w+' returned nan values in its \d+th output|found (?:NaN|Inf) in (?:local )?(?:grad|forward)|` +
			`Unexpected result (?:nan|inf)|total norm .*for gradients .*is non-finite|probability tensor contains either .?inf.?, .?nan|` +
			`(?:Input|Tensor) contains (?:NaN|inf)|(?:NaN|Inf)(?:s)? (?:or Inf )?found in (?:the )?(?:output|input|activation|weight|grad)`),
	},
	{
		ID: "loss-scale", Says: "a step was skipped because gradients overflowed",
		Patterns: []string{"numerics.overflow", "train.nan_loss"},
		Weight:   weightHint,
		hints:    holding("scale", "overflow|reducing|minimum"),
		expr:     expr(`Gradient overflow\.\s+Skipping step|OVERFLOW!\s+(?:Rank \d+ )?Skipping step|loss scale.*reducing to|Current loss scale already at minimum`),
		read: func(r *reading) bool {
			r.note = "a few of these at the start of float16 training are normal; a long row of them is not"
			if strings.Contains(strings.ToLower(r.text), "already at minimum") {
				r.note = "the loss scale cannot fall further: gradients are not finite at any scale"
			}
			return true
		},
	},
}

// initialValue are names whose infinity is a start value: best_loss = inf.
var initialValue = lazy.Regexp(`(?i)(best|min|lowest|prev|last|old|initial)[\w./-]*$`)

// numbers reads the whole numbers of a list such as "1, 1, 4096, 4096".
func numbers(s string) []int64 {
	var out []int64
	for part := range strings.SplitSeq(s, ",") {
		if n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64); err == nil {
			out = append(out, n)
		}
	}
	return out
}

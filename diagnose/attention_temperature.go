package diagnose

import (
	"fmt"
	"math"

	"github.com/layerparity/parity/compare"
)

// querySlopes fits, for every query token over all heads, the slope of want's
// log-probabilities on got's. err is what is left with one slope a token, flat
// what one slope for all leaves; tokens that see one key only have slope 1.
func querySlopes(got, want []float64, g grid) (slopes []float64, err, flat float64, ok bool) {
	x := make([]float64, len(got))
	for i, v := range got {
		x[i] = math.Log(v)
	}
	rows := scoreRows(x, want, g)
	byToken := map[int][]scoreRow{}
	for _, r := range rows {
		byToken[r.row] = append(byToken[r.row], r)
	}
	s, flat, ok := fitSlope(rows)
	if !ok || !(s > 0) || len(byToken) < minTokens {
		return nil, 0, 0, false
	}
	slopes = make([]float64, g.T)
	for t := range slopes {
		slopes[t] = 1
	}
	var ss, sl float64
	for t, rs := range byToken {
		v, _, ok := fitSlope(rs)
		if !ok {
			continue
		}
		slopes[t] = v
		for _, r := range rs {
			a, b := r.centred(func(x float64) float64 { return v * x })
			ss, sl = ss+a, sl+b
		}
	}
	return slopes, relative(ss, sl), flat, true
}

// temperatureLaw finds 1 + a·ln(1 + floor(position/n)), Llama 4's scale of queries
// at long positions. ok is false where the slopes follow no such law.
func temperatureLaw(slopes []float64, past int) (a float64, n int, ok bool) {
	best := math.Inf(1)
	for k := 1; k < len(slopes)+past; k++ {
		var xx, xy, yy float64
		for t, s := range slopes {
			if t < 1 {
				continue
			}
			x := math.Log1p(float64((t + past) / k))
			xx, xy, yy = xx+x*x, xy+x*(s-1), yy+(s-1)*(s-1)
		}
		if xx == 0 || yy == 0 {
			continue
		}
		if e := math.Sqrt(math.Max(0, yy-xy*xy/xx) / yy); e < best {
			best, a, n = e, xy/xx, k
		}
	}
	return a, n, best < 0.02
}

// temperatureFinding: the scores differ by a factor that depends on the query's
// position.
func temperatureFinding(c *Context, ref, port *Tensor, g grid) (compare.Finding, bool) {
	slopes, err, flat, ok := querySlopes(port.Data, ref.Data, g)
	if !ok || g.T > sampleRows || !(err < 0.3*flat) {
		return compare.Finding{}, false
	}
	inverse := make([]float64, len(slopes))
	for t, s := range slopes {
		inverse[t] = 1 / s
	}
	var expr, law string
	values := map[string]any{}
	if a, n, ok := temperatureLaw(slopes, g.past()); ok {
		expr = fmt.Sprintf("log() | temperature(n=%d, a=%s) | softmax()", n, formatNum(a))
		law = fmt.Sprintf("reference multiplies the scores of a query by 1 + %s·ln(1 + floor(position/%d)), port does not", g6(a), n)
		values["reference"], values["port"], values["n"] = a, 0.0, n
	} else if a, n, ok := temperatureLaw(inverse, g.past()); ok {
		expr = fmt.Sprintf("log() | temperature(n=%d, a=%s, inverse=true) | softmax()", n, formatNum(a))
		law = fmt.Sprintf("port multiplies the scores of a query by 1 + %s·ln(1 + floor(position/%d)), reference does not", g6(a), n)
		values["reference"], values["port"], values["n"] = 0.0, a, n
	} else {
		expr = "log() | scale_queries(" + formatList(slopes) + ") | softmax()"
		last := 1 / slopes[len(slopes)-1]
		law = fmt.Sprintf("port's scores are the reference's times a factor that changes with the query's position (%s at the last token)", g6(last))
		values["slope_last"] = compare.Num(last)
	}
	params := len(slopes)
	if len(values) == 3 {
		params = 2
	}
	t, ok := tryTrial(c, expr, params)
	if !ok {
		return compare.Finding{}, false
	}
	f, ok := c.finding("attention.scale", t)
	if !ok {
		return f, false
	}
	for k, v := range values {
		f.Values[k] = number(v)
	}
	f.Claim = law
	f.Try = c.tryLine("%s", expr)
	f.For = []string{
		fmt.Sprintf("one factor a query explains the log-odds to %s, one factor for all only to %s", g2(err), g2(flat)),
		fmt.Sprintf("rel_l2 %s before, %s after (floor %s)", g2(t.before.Whole), g2(t.after.Whole), g2(t.floor)),
	}
	f.Verify = "look for a temperature of long positions (attn_temperature_tuning, attn_scale, floor_scale) or a scale by log of the length"
	f.Fix = "scale the queries by position as the reference does"
	return f, true
}

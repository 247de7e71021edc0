package diagnose

import (
	"fmt"
	"math"
	"strings"

	"github.com/layerparity/parity/compare"
)

// positionDiff reports rows that are rotated at other positions. A single fault
// of this kind is told by one number (an offset, a constant position), else by
// its stretches of rows.
func positionDiff(c *Context, r, p ropeFound) (ropeDiff, bool) {
	if len(r.turns.pos) == 3 && (r.rule.Sections != nil || p.rule.Sections != nil) {
		return ropeDiff{}, false
	}
	a, b := r.effective(), p.effective()
	var moved []int
	for t := range a {
		if math.Abs(a[t]-b[t]) > 1e-3 {
			moved = append(moved, t)
		}
	}
	d := ropeDiff{
		cause: "rope.position", more: map[string]any{},
		verify: "print the position ids that reach the rotation in both codes, for the first and the last token, and at a decode step",
		fix:    "count positions as the reference does: from the start of each request, pads left out where its position_ids leave them out, and from the length of the cache at decode",
	}
	if len(moved) == 0 {
		return d, false
	}
	off, share := commonShift(a, b, moved)
	switch {
	case len(moved) == len(a) && len(a) > 1 && share == 1:
		d.ref, d.port = 0.0, off
		d.more["offset"] = compare.Num(off)
		d.claim = fmt.Sprintf("port rotates every token %s than the reference", shiftText(off))
	case allEqual(b) && (len(b) > 1 || c.Step() > 0) && (len(moved) == len(a) || share < 1):
		d.ref, d.port = positionList(a), b[0]
		d.claim = fmt.Sprintf("port rotates at position %s whatever the token, reference at %s", shortNum(b[0]), spanText(a))
	case windowStart(a, b) > 0:
		n := windowStart(a, b)
		d.ref, d.port = spanText(a), fmt.Sprintf("first position of each window of %d", n)
		d.more["window"] = n
		d.claim = fmt.Sprintf("port rotates all tokens of each window of %d at the window's first position", n)
	case restarts(a, b) > 0:
		edge := restarts(a, b)
		d.ref, d.port = a[edge], b[edge]
		d.more["edge"] = edge
		d.claim = fmt.Sprintf("port counts positions from %s again at row %d, reference goes on at %s", shortNum(b[edge]), edge, shortNum(a[edge]))
	default:
		d.ref, d.port = spanText(pick(a, moved)), spanText(pick(b, moved))
		d.claim = fmt.Sprintf("port rotates rows %s at positions %s, reference at %s", rangesOf(moved), spanText(pick(b, moved)), spanText(pick(a, moved)))
		if share >= 0.5 {
			d.more["offset"] = compare.Num(off)
			d.claim = fmt.Sprintf("port rotates rows %s %s than the reference (the other rows agree)", rangesOf(moved), shiftText(off))
		}
	}
	if c.Step() > 0 {
		d.cause = "state.position"
		d.verify = "print the position that the rotation gets at each decode step: it has to be the number of tokens before it (the cache's length), not arange of the step's own rows"
	}
	return d, true
}

// shiftText is "1 position later", "3 positions earlier".
func shiftText(off float64) string {
	word, unit := "later", "positions"
	if off < 0 {
		word = "earlier"
	}
	if math.Abs(off) == 1 {
		unit = "position"
	}
	return shortNum(math.Abs(off)) + " " + unit + " " + word
}

// commonShift is the most frequent difference of the moved rows, and its share.
func commonShift(a, b []float64, moved []int) (shift, share float64) {
	count := map[float64]int{}
	for _, t := range moved {
		d := b[t] - a[t]
		if near := math.Round(d); math.Abs(d-near) < 1e-6 {
			d = near
		}
		count[d]++
		if n := count[d]; float64(n) > share {
			shift, share = d, float64(n)
		}
	}
	return shift, share / float64(len(moved))
}

// windowStart is n where b is a rounded down to multiples of n, else 0.
func windowStart(a, b []float64) int {
	for n := 2; n <= len(a)/2; n++ {
		ok := true
		for t := range a {
			if b[t] != a[t]-math.Mod(a[t], float64(n)) {
				ok = false
				break
			}
		}
		if ok {
			return n
		}
	}
	return 0
}

// restarts is the row from which b counts from a smaller number than a, all rows
// before it being equal, else 0.
func restarts(a, b []float64) int {
	edge := 0
	for edge < len(a) && a[edge] == b[edge] {
		edge++
	}
	if edge == 0 || edge >= len(a)-1 || b[edge] != 0 {
		return 0
	}
	for t := edge; t < len(a); t++ {
		if a[t]-b[t] != a[edge]-b[edge] {
			return 0
		}
	}
	return edge
}

func pick(x []float64, rows []int) []float64 {
	out := make([]float64, len(rows))
	for i, t := range rows {
		out[i] = x[t]
	}
	return out
}

// spanText prints positions for a reader: "28", "0 to 47", or the first few.
func spanText(x []float64) string {
	switch {
	case len(x) == 0:
		return "none"
	case allEqual(x):
		return shortNum(x[0])
	}
	for t := range x {
		if x[t] != x[0]+float64(t) {
			s := make([]string, len(x))
			for i, v := range x {
				s[i] = shortNum(v)
			}
			return join(s, 8)
		}
	}
	return fmt.Sprintf("%s to %s", shortNum(x[0]), shortNum(x[len(x)-1]))
}

func positionList(x []float64) any {
	if len(x) == 1 {
		return x[0]
	}
	out := make([]compare.Num, len(x))
	for i, v := range x {
		out[i] = compare.Num(v)
	}
	return out
}

// ropeFindings turns differences into findings that share one proof: the port's
// rule undone, the reference's done.
func ropeFindings(c *Context, r, p ropeFound, diffs []ropeDiff) []compare.Finding {
	if c.Step() > 0 {
		// The what-if may be run on this step alone, where nothing tells how many
		// tokens came before.
		r, p = r.placed(), p.placed()
	}
	expr := strings.Join(compactSteps(p.rule.call("unrope"), r.rule.call("rope")), " | ")
	params := max(1, p.params)
	t, ok := tryTrial(c, expr, params)
	if ok {
		_, ok = t.proof()
	}
	own := false
	if !ok {
		// The inputs differ already: prove the port's rule on the port's own.
		pre, dumped := preTap(c, Port, c.Tap)
		if !dumped {
			c.Note("rope at %s: %s fits, but %s leaves rel_l2 %s", c.At, p.rule.describe(), expr, g2(t.after.Whole))
			return nil
		}
		_, tap := SplitName(pre)
		expr = strings.Join(append([]string{"from(" + tap + ")"}, append(compactSteps(p.rule.call("rope")), "target(port)")...), " | ")
		if t, ok = tryTrial(c, expr, params); !ok {
			return nil
		}
		if _, ok = t.proof(); !ok {
			return nil
		}
		own = true
	}
	var out []compare.Finding
	agree, checked := c.downstreamAgrees(c.At)
	for _, d := range diffs {
		f, ok := c.finding(d.cause, t)
		if !ok {
			continue
		}
		sides(&f, d.ref, d.port)
		for k, v := range d.more {
			f.Values[k] = v
		}
		f.Claim, f.Verify, f.Fix = d.claim, d.verify, d.fix
		f.Try = c.tryLine("%s", expr)
		f.For = ropeEvidence(c, r, p, t, own)
		if len(diffs) > 1 {
			f.For = append(f.For, "the rules differ in more than this one property; the proof holds for all together")
		}
		if agree {
			benignRope(&f, d, checked)
		} else if d.cause == "rope.position" {
			if tap, same := partnerMoves(c, r, p); same {
				f.Against = append(f.Against, fmt.Sprintf("%s is moved by as much: scores depend on the difference of positions only, so this alone changes nothing in one forward pass", tap))
			}
		}
		out = append(out, f)
	}
	gatherSteps(c, out)
	return out
}

// placed writes the positions of the rows into the rule.
func (f ropeFound) placed() ropeFound {
	if !f.rule.None && f.rule.Sections == nil && f.rule.Positions == nil {
		f.rule.Positions, f.rule.Offset = f.effective(), 0
	}
	return f
}

// compactSteps drops transforms that do nothing.
func compactSteps(steps ...string) []string {
	var out []string
	for _, s := range steps {
		if s != "scale(1)" {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return []string{"scale(1)"}
	}
	return out
}

// benignRope relabels a difference that everything after it undoes.
func benignRope(f *compare.Finding, d ropeDiff, checked int) {
	switch d.cause {
	case "rope.position", "state.position":
		f.Cause = "benign.offset"
		f.Claim += "; the scores depend on differences of positions only and agree"
	case "rope.layout":
		f.Cause = "benign.layout"
		f.Claim += "; the scores agree, so the layout of q and k is a matter of storage"
	default:
		f.Against = append(f.Against, fmt.Sprintf("the next %s agree within their floors", plural(checked, "checkpoint")))
		return
	}
	f.For = append(f.For, fmt.Sprintf("the next %s agree within their floors", plural(checked, "checkpoint")))
	f.Fix = "nothing in one forward pass; a cache that another rule reads would notice"
}

// ropeEvidence lists the figures behind a rotation's finding.
func ropeEvidence(c *Context, r, p ropeFound, t trial, own bool) []string {
	out := []string{fmt.Sprintf("rel_l2 %s before, %s after turning the port's %s to the reference's rule (floor %s)", g2(t.before.Whole), g2(t.after.Whole), c.Tap, g2(t.floor))}
	if own {
		out[0] = fmt.Sprintf("the port's rule on the port's own input repeats its %s to rel_l2 %s", c.Tap, g2(t.after.Whole))
		if f := p.turns; r.turns.geometry == f.geometry {
			out = append(out, fmt.Sprintf("the reference's rule leaves %s there", g2(f.errorOf(r.rule))))
		}
	}
	if !p.rule.None {
		out = append(out, fmt.Sprintf("lengths of the %s pairs are kept to %s, so these dims are the port's pairs", p.rule.Layout, g2(p.shape)))
	}
	same := r.turns.geometry == p.turns.geometry
	if f, ok := ntkFactor(r, p); ok {
		out = append(out, fmt.Sprintf("the ratio of the thetas is %s^(d/(d-2)) with d = %d: NTK-aware scaling by %s on one side", g6(f), 2*r.turns.n, g6(f)))
	}
	if same && !r.rule.None && !p.rule.None && r.turns.n > 1 && r.turns.rows > 1 {
		a, b := r.rule.frequencies(r.turns.headDim), p.rule.frequencies(p.turns.headDim)
		last := len(a) - 1
		for last > 0 && a[last] == 0 {
			last--
		}
		if a[0] != 0 && a[last] != 0 {
			out = append(out, fmt.Sprintf("angle per position, port against reference: pair 0 x %s, pair %d x %s", g6(b[0]/a[0]), last, g6(b[last]/a[last])))
		}
	}
	row0 := errorOfRow(c, 0)
	if r.turns.pos[0][0] == 0 && r.turns.rows > 1 && !math.IsNaN(row0) {
		out = append(out, fmt.Sprintf("token 0, which no rotation turns, differs by %s, the last token by %s", g2(row0), g2(errorOfRow(c, r.turns.rows-1))))
	}
	return out
}

// ntkFactor recognises a theta that was raised by factor^(d/(d-2)), the NTK-aware
// context extension, for factors that people use.
func ntkFactor(r, p ropeFound) (float64, bool) {
	d := float64(2 * r.turns.n)
	if r.rule.None || p.rule.None || r.rule.Theta <= 0 || p.rule.Theta <= 0 || d <= 2 || r.rule.Theta == p.rule.Theta {
		return 0, false
	}
	f := math.Exp(math.Abs(math.Log(p.rule.Theta/r.rule.Theta)) * (d - 2) / d)
	near2 := math.Round(2*f) / 2
	return near2, near2 >= 1.5 && near2 <= 64 && near(f, near2, 1e-4)
}

// errorOfRow is the relative error of one token at this checkpoint.
func errorOfRow(c *Context, t int) float64 {
	ref, port, ok := c.Pair(c.At)
	if !ok || t >= ref.Rows {
		return math.NaN()
	}
	d2, r2 := rowDistance(ref.Row(t), port.Row(t))
	if r2 == 0 {
		return math.NaN()
	}
	return math.Sqrt(d2 / r2)
}

// partnerMoves tells whether the other of q and k is moved by the same positions.
func partnerMoves(c *Context, r, p ropeFound) (tap string, same bool) {
	other := map[string]string{"q_rope": "k_rope", "k_rope": "q_rope"}[c.Tap]
	d := c.Move(c.TapName(other))
	ref, port, ok := d.Pair(d.At)
	if !ok {
		return other, false
	}
	quiet := *d
	quiet.Note = func(string, ...any) {}
	r2, p2, ok := ropeRules(&quiet, ref, port)
	if !ok || r2.rule.None || p2.rule.None {
		return other, false
	}
	a, b, a2, b2 := r.effective(), p.effective(), r2.effective(), p2.effective()
	if len(a) != len(a2) {
		return other, false
	}
	for t := range a {
		if math.Abs((b[t]-a[t])-(b2[t]-a2[t])) > 1e-3 {
			return other, false
		}
	}
	return other, true
}

// gatherSteps adds the positions of the other decode steps to findings about
// them.
func gatherSteps(c *Context, fs []compare.Finding) {
	for i := range fs {
		if fs[i].Cause != "state.position" {
			continue
		}
		var steps []string
		var ref, port []float64
		for _, s := range c.Steps() {
			if s == 0 {
				continue
			}
			part, ok := c.Part(s, c.Rank())
			if !ok {
				continue
			}
			d := *c
			d.Source, d.Note = part, func(string, ...any) {}
			a, b, ok := d.Pair(d.At)
			if !ok {
				continue
			}
			r, p, ok := ropeRules(&d, a, b)
			if !ok || r.rule.None || p.rule.None {
				continue
			}
			ref, port = append(ref, r.effective()...), append(port, p.effective()...)
			steps = append(steps, fmt.Sprint(s))
		}
		if len(steps) < 2 {
			continue
		}
		fs[i].For = append(fs[i].For, fmt.Sprintf("over steps %s the port's positions are %s, the reference's %s", join(steps, 8), spanText(port), spanText(ref)))
		fs[i].Values["reference"] = positionList(ref)
		if allEqual(port) {
			fs[i].Values["port"] = compare.Num(port[0])
			fs[i].Claim = fmt.Sprintf("port rotates every decode step at position %s, reference at %s", shortNum(port[0]), spanText(ref))
		} else {
			fs[i].Values["port"] = positionList(port)
		}
	}
}

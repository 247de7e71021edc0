package compare

import (
	"fmt"
	"slices"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
)

// Pair is one checkpoint on both sides, on its way to a Checkpoint of the
// report.
type Pair struct {
	dump.Place
	Ref, Port *View
	Geo       Geometry
	// Out is what the report says of it.
	Out *Checkpoint

	// problem says why the pair cannot be compared; err why it cannot be read.
	problem string
	err     error
	// aside is set where a repair or a guard took the pair out of the verdict.
	aside string
	sums  *kernel.Sums
	// rel holds rel_l2 per token, e = rel²/2.
	rel []float64
	// tokens caches what tokensOf worked out.
	tokens *perToken
	// precision is the coarser class of both sides.
	precision dump.Precision
	// inferred is true where the class was read off the run's own agreement.
	inferred bool
	state    state
	inputs   []*Pair
	// bias holds the result of the second pass over sampled rows.
	bias biasFit
	// probs holds what a second pass counted, attn_probs only.
	probs rowFacts
	// inc holds the increment error per token, layers only; incStored how many
	// times larger the stream is than the increment.
	inc, incStored []float64
	// ties holds tokens whose discrete choice flipped inside the noise.
	ties map[int]bool
	// normed is set where a last entry after the final norm was repaired.
	normed bool
	// hasRaw tells that a repair kept the figures before it; rawMedianCos is the
	// median token's cosine then.
	hasRaw       bool
	rawMedianCos float64
}

// integers tells whether both sides are integers or bools, which are compared
// for equality.
func (p *Pair) integers() bool { return p.Ref.DType.IsInt() && p.Port.DType.IsInt() }

// comparable tells whether figures exist or can be made.
func (p *Pair) comparable() bool { return p.problem == "" && p.err == nil }

// match pairs the records of two runs by canonical name, exactly. What has no
// partner is listed. Pairs come in the reference's execution order.
func (p *part) match() {
	ports := make(map[string]*dump.Record)
	for _, r := range p.Port.Records {
		ports[r.Name] = r
	}
	used := make(map[string]bool)
	for _, r := range p.Ref.Records {
		q, ok := ports[r.Name]
		if !ok {
			q, ok = logitsPartner(r, p.Port, p.Ref)
		}
		if !ok {
			p.alone = append(p.alone, unpaired{r, "ref"})
			continue
		}
		used[q.Name] = true
		p.addPair(r, q)
	}
	for _, r := range p.Port.Records {
		if !used[r.Name] {
			p.alone = append(p.alone, unpaired{r, "port"})
		}
	}
	p.index()
	for _, pr := range p.Pairs {
		if pr.Kind != dump.KindLogits {
			continue
		}
		for _, a := range p.alone { // last_logits beside logits that both have
			if a.rec.Kind == dump.KindLogits {
				p.explained[a.rec] = pr.Name + " is compared, and holds the same"
			}
		}
	}
}

// unpaired is a record that only one side has.
type unpaired struct {
	rec  *dump.Record
	side string
}

// logitsPartner pairs logits of all positions with logits of the last one,
// where neither side has the other form.
func logitsPartner(r *dump.Record, port, ref *dump.Run) (*dump.Record, bool) {
	other := map[string]string{"logits": "last_logits", "last_logits": "logits"}[r.Name]
	if other == "" || ref.Lookup(other) != nil {
		return nil, false
	}
	q := port.Lookup(other)
	return q, q != nil
}

// addPair makes a pair of two records and checks that their shapes and dtypes
// can meet.
func (p *part) addPair(ref, port *dump.Record) {
	pr := &Pair{Place: ref.Place, Ref: newView(ref), Port: newView(port)}
	pr.Out = &Checkpoint{Name: p.name(ref.Name), Tap: ref.Tap, Kind: kindNames[ref.Kind], Ref: stored(ref), Port: stored(port)}
	if ref.Layer >= 0 {
		layer := ref.Layer
		pr.Out.Layer = &layer
	}
	if p.Step >= 0 {
		pr.Out.Step = &p.Step
	}
	if p.Rank >= 0 {
		pr.Out.Rank = &p.Rank
	}
	p.Pairs = append(p.Pairs, pr)
	if ref.Err != nil {
		pr.err = ref.Err
		return
	}
	if port.Err != nil {
		pr.err = port.Err
		return
	}
	pr.Out.Notes = append(append(pr.Out.Notes, ref.Warnings...), port.Warnings...)
	pr.fit(p.tokens)
}

// fit reconciles the shapes of both sides, or says why that is not possible.
func (p *Pair) fit(tokens int) {
	p.problem = ""
	a, b := p.Ref.Record.Shape(), p.Port.Record.Shape()
	if p.Ref.DType.IsInt() != p.Port.DType.IsInt() {
		p.problem = fmt.Sprintf("reference holds %s, port %s: integers are not compared with floats", p.Ref.DType, p.Port.DType)
		return
	}
	shape, note, ok := reconcile(a, b)
	if !ok {
		p.problem = fmt.Sprintf("shapes differ: reference %v, port %v", a, b)
		return
	}
	if note != "" && !slices.Contains(p.Out.Repairs, note) {
		p.Out.Repairs = append(p.Out.Repairs, note)
	}
	p.Geo = geometryOf(p.Place, shape, tokens)
	if p.integers() { // element by element, whatever the axes mean
		p.Geo = Geometry{Shape: shape, Rows: 1, Cols: int(p.Ref.Record.Header.Len()), Tokens: 1, Batch: 1}
	}
}

// rows restricts the pair to n rows of width cols, from row refRow of the
// reference and portRow of the port.
func (p *Pair) rows(n, cols, refRow, portRow int) {
	p.problem = ""
	p.Ref.Row0, p.Port.Row0 = refRow, portRow
	p.Geo = Geometry{Shape: []int{n, cols}, Rows: n, Cols: cols, Tokens: n, Batch: 1}
}

// kindNames are the words that reports use for kinds.
var kindNames = map[dump.Kind]string{
	dump.KindInput: "input", dump.KindEmbedding: "embedding", dump.KindTap: "tap", dump.KindLayer: "layer",
	dump.KindFinalNorm: "final_norm", dump.KindLogits: "logits", dump.KindOther: "other",
}

// lookup returns a pair by canonical name, nil where there is none.
func (p *part) lookup(name string) *Pair { return p.byName[name] }

// index rebuilds what is looked up by name.
func (p *part) index() {
	p.byName = make(map[string]*Pair, len(p.Pairs))
	// What cannot be judged stands in nobody's way: its own inputs count then.
	judged := func(n string) bool { in := p.byName[n]; return in != nil && in.comparable() && in.aside == "" }
	p.lineage = lineage{has: judged, stated: map[string][]string{}}
	for _, pr := range p.Pairs {
		p.byName[pr.Name] = pr
		if pr.Kind == dump.KindLayer {
			p.lineage.layers = append(p.lineage.layers, pr.Layer)
		}
		for _, v := range []*View{pr.Ref, pr.Port} {
			if m := v.Record.Meta; m != nil && len(m.Inputs) > 0 {
				names := make([]string, len(m.Inputs))
				for i, in := range m.Inputs {
					names[i] = dump.Canonical(in).Name
				}
				p.lineage.stated[pr.Name] = names
			}
		}
	}
	slices.Sort(p.lineage.layers)
}

package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
)

// part is one step and rank of both sides while it is being compared.
type part struct {
	*Part
	o       Options
	ctx     context.Context
	alone   []unpaired
	byName  map[string]*Pair
	lineage lineage
	// tokens is the length of the prompt, 0 where it is not known.
	tokens int
	guards []Guard
	// broken is true once an input or capture guard failed for good.
	broken bool
	warn   []string
	// shift is the index shift that was repaired, 0 for none.
	shift int
	// firstRaw is what was first before an index shift renumbered the layers;
	// nil where none did.
	firstRaw *rawFirst
	// explained holds, by record, why it has no partner.
	explained map[*dump.Record]string
}

// rawFirst keeps a result of firstOf, which may be nil.
type rawFirst struct{ first *First }

// newPart prepares one step and rank.
func newPart(ctx context.Context, ref, port *dump.Run, o Options, several bool) *part {
	p := &part{Part: &Part{Step: ref.Step, Rank: ref.Rank, Ref: ref, Port: port}, o: o, ctx: ctx, explained: map[*dump.Record]string{}}
	if several {
		p.label = dump.Label(ref.Step, ref.Rank)
	}
	for _, run := range []*dump.Run{ref, port} {
		if r := run.Lookup("prompt_tokens"); r != nil && r.Err == nil && len(r.Shape()) > 0 {
			p.tokens = r.Shape()[len(r.Shape())-1]
		}
		p.warn = append(p.warn, run.Warnings...)
	}
	return p
}

// name puts the part's label before a checkpoint's name.
func (p *part) name(n string) string {
	if p.label == "" {
		return n
	}
	return p.label + "/" + n
}

// run compares the part: pairs, guards on facts, sums, guards on numbers,
// second pass.
func (p *part) run() error {
	p.match()
	p.runGuards(metadata)
	if err := p.sumPairs(p.Pairs); err != nil {
		return err
	}
	p.runGuards(numeric)
	if err := p.secondPass(); err != nil {
		return err
	}
	p.classify()
	p.breakTies()
	p.judge()
	p.settle()
	p.runGuards(final)
	return p.ctx.Err()
}

// maxOpen is how many pairs are open at once, whatever the number of checkpoints.
// Their files stay within the 64 descriptors that a process starts with: Linux
// makes a process with threads wait some 10 ms for a larger table.
const maxOpen = 24

// sumPairs computes the sums of pairs, many at once. A file that cannot be read
// is that pair's error, not the part's.
func (p *part) sumPairs(pairs []*Pair) error {
	var todo []*Pair
	for _, pr := range pairs {
		switch {
		case !pr.comparable() || pr.aside != "":
		case pr.integers():
			pr.Out.Ints, pr.err = compareInts(pr)
		default:
			todo = append(todo, pr)
		}
	}
	for len(todo) > 0 {
		n := min(maxOpen, len(todo))
		p.sumBatch(todo[:n])
		if err := p.ctx.Err(); err != nil {
			return err
		}
		todo = todo[n:]
	}
	return nil
}

// sumBatch opens, sums and closes a few pairs.
func (p *part) sumBatch(pairs []*Pair) {
	jobs := make([]kernel.Pair, 0, len(pairs))
	var open []*Pair
	var closers []func() error
	for i, o := range p.openPairs(pairs) {
		if o.err != nil {
			pairs[i].err = o.err
			continue
		}
		jobs, open, closers = append(jobs, o.job), append(open, pairs[i]), append(closers, o.close)
	}
	what := ""
	if len(open) > 0 {
		what = open[0].Out.Name
	}
	sums, errs := kernel.RunAll(p.ctx, jobs, p.kernelOptions(what))
	for i, pr := range open {
		pr.sums = sums[i]
		pr.err = errors.Join(errs[i], closers[i]())
		if pr.err == nil {
			pr.rel = tokenErrors(pr.sums, pr.Geo)
		}
	}
}

// kernelOptions passes the workers and the progress on.
func (p *part) kernelOptions(what string) kernel.Options {
	o := kernel.Options{Workers: p.o.Workers}
	if p.o.Progress != nil {
		o.Progress = func(n int64) { p.o.Progress(what, n) }
	}
	return o
}

// opened is a pair that openPairs opened, or why it could not be.
type opened struct {
	job   kernel.Pair
	close func() error
	err   error
}

// openPairs opens several pairs, some at once: a file system takes longer for
// many small files than the kernel does.
func (p *part) openPairs(pairs []*Pair) []opened {
	out := make([]opened, len(pairs))
	kernel.Each(len(pairs), p.o.Workers, func(i int) {
		o := &out[i]
		o.job, o.close, o.err = openPair(pairs[i].Ref, pairs[i].Port, pairs[i].Geo)
	})
	return out
}

// openPair opens both views for the kernel; done closes them.
func openPair(ref, port *View, g Geometry) (job kernel.Pair, done func() error, err error) {
	a, err := ref.open()
	if err != nil {
		return job, nil, err
	}
	b, err := port.open()
	if err != nil {
		return job, nil, errors.Join(err, a.Close())
	}
	job = kernel.Pair{Ref: a.operand(g.Cols), Port: b.operand(g.Cols), Rows: g.Rows, Cols: g.Cols}
	return job, func() error { return errors.Join(a.Close(), b.Close()) }, nil
}

// sum computes the sums of two views that a guard wants to hold against each
// other.
func (p *part) sum(ref, port *View, g Geometry) (*kernel.Sums, error) {
	job, done, err := openPair(ref, port, g)
	if err != nil {
		return nil, err
	}
	s, err := kernel.Run(p.ctx, job, p.kernelOptions(ref.Record.File))
	return s, errors.Join(err, done())
}

// guardError is what a guard reports where its own reading failed.
func guardError(err error) string { return fmt.Sprintf("could not be tested: %v", err) }

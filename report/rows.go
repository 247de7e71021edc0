package report

import (
	"fmt"

	"github.com/layerparity/parity/compare"
)

// row is a line of the table of checkpoints: one checkpoint, or a run of
// agreeing ones folded into one.
type row struct {
	one  *compare.Checkpoint
	fold []*compare.Checkpoint
}

// rows chooses what the table shows: everything, or the residual stream and the
// other main checkpoints, with agreeing runs folded, and the sub-taps of the
// block where the error enters.
func rows(c *compare.Comparison, all bool) []row {
	var out []row
	flush := func(run []*compare.Checkpoint) {
		switch {
		case len(run) == 0:
		case len(run) <= 2:
			for _, ck := range run {
				out = append(out, row{one: ck})
			}
		default:
			out = append(out, row{fold: run})
		}
	}
	var run []*compare.Checkpoint
	for _, ck := range c.Checkpoints {
		if !all && !shown(c, ck) {
			continue
		}
		if !all && agrees(ck) && ck.Kind == "layer" && (len(run) == 0 || samePart(run[0], ck)) {
			run = append(run, ck)
			continue
		}
		flush(run)
		run = nil
		if !all && ck.Kind == "layer" && agrees(ck) {
			run = append(run, ck)
			continue
		}
		out = append(out, row{one: ck})
	}
	flush(run)
	return out
}

// shown leaves out the sub-taps that nothing happens at.
func shown(c *compare.Comparison, ck *compare.Checkpoint) bool {
	if ck.Kind != "tap" {
		return true
	}
	if c.Enters != nil && ck.Layer != nil && c.Enters.Layer != nil && *ck.Layer == *c.Enters.Layer && partOf(ck.Name) == partOf(c.Enters.Checkpoint) {
		return true
	}
	// A tap that differs is shown unless it only inherits.
	return !agrees(ck) && ck.Status != compare.Inherited
}

// samePart tells whether two checkpoints are of one step and rank.
func samePart(a, b *compare.Checkpoint) bool { return partOf(a.Name) == partOf(b.Name) }

// partOf is the step and rank before a name.
func partOf(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return ""
}

// cells are the table's columns for the row.
func (r row) cells() []string {
	if r.one != nil {
		return cells(r.one)
	}
	return foldCells(r.fold)
}

// cells are the table's columns for a checkpoint.
func cells(ck *compare.Checkpoint) []string {
	oneMinus := ""
	if ck.Figures != nil {
		oneMinus = small(ck.OneMinusCos)
	} else if ck.Ints != nil {
		oneMinus = "integers"
	}
	return []string{
		mark[ck.Status], clean(ck.Name), oneMinus, optional(ck.Error), optional(ck.WorstError), optional(ck.IncrementError), bar(ck.Error, ck.Floor),
	}
}

// foldCells are the columns of a folded run: the worst of each figure.
func foldCells(run []*compare.Checkpoint) []string {
	var one, e, w, inc compare.Num
	for _, ck := range run {
		if ck.Figures != nil {
			one = max(one, ck.OneMinusCos)
		}
		e, w, inc = worst(e, ck.Error), worst(w, ck.WorstError), worst(inc, ck.IncrementError)
	}
	last := run[len(run)-1]
	name := last.Name
	if p := partOf(name); p != "" {
		name = name[len(p)+1:]
	}
	return []string{"ok", fmt.Sprintf("%s … %s (%d)", clean(run[0].Name), clean(name), len(run)), small(one), small(e), small(w), small(inc), bar(&e, last.Floor)}
}

// worst keeps the larger of a figure and one that may be missing.
func worst(a compare.Num, b *compare.Num) compare.Num {
	if b == nil {
		return a
	}
	return max(a, *b)
}

// header names the columns.
var header = []string{"", "checkpoint", "1-cos", "median e", "worst e", "increment", "e: 1e-16 to 1, | floor"}

// find returns a checkpoint by name, nil where there is none.
func find(c *compare.Comparison, name string) *compare.Checkpoint {
	for _, ck := range c.Checkpoints {
		if ck.Name == name {
			return ck
		}
	}
	return nil
}

// opened is the checkpoint that is opened up: where the error enters, else where
// the cosine first falls, else the first that cannot be compared.
func opened(c *compare.Comparison) *compare.Checkpoint {
	switch {
	case c.Enters != nil:
		return find(c, c.Enters.Checkpoint)
	case c.First != nil:
		return find(c, c.First.Checkpoint)
	}
	for _, ck := range c.Checkpoints {
		if ck.Status == compare.Incomparable || ck.Status == compare.Fails || ck.Status == compare.Unreadable {
			return ck
		}
	}
	return nil
}

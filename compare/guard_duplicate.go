package compare

import (
	"errors"

	"github.com/layerparity/parity/compare/internal/kernel"
	"github.com/layerparity/parity/dump"
)

// guardDuplicate looks for layer outputs of one run that are the same bytes:
// views of one buffer, or a hook that wrote one tensor many times. Constant
// tensors do not count, nor what a repair explains.
func guardDuplicate(p *part) []Guard {
	const remedy = "clone the tensor in the hook; save after the copy, not a view of a buffer that the next layer overwrites"
	var out []Guard
	for _, side := range []struct {
		name string
		of   func(*Pair) *View
		sum  func(kernel.Moments) float64
	}{
		{"reference", func(pr *Pair) *View { return pr.Ref }, func(m kernel.Moments) float64 { return m.A2 }},
		{"port", func(pr *Pair) *View { return pr.Port }, func(m kernel.Moments) float64 { return m.B2 }},
	} {
		groups, err := p.duplicates(side.of, side.sum)
		if err != nil {
			return one(NotChecked, "", "%s", guardError(err))
		}
		var names []string
		for _, group := range groups {
			if side.name == "port" && p.skips(group) {
				continue
			}
			for _, pr := range group {
				names = append(names, pr.Name)
			}
		}
		if len(names) > 1 {
			g := one(Fail, remedy, "%d layer outputs of the %s hold the same bytes: %s", len(names), side.name, summary(names))
			g[0].Checkpoint = names[0]
			out = append(out, g...)
		}
	}
	if out == nil {
		return one(Pass, "", "no two layer outputs of one run are equal")
	}
	return out
}

// skips tells whether equal outputs are what the port computed: a layer that
// added nothing. The first of them is right then, the last is wrong, and so is
// what follows; behind a fault of the dump the next checkpoint is right again.
func (p *part) skips(group []*Pair) bool {
	first, last := group[0], group[len(group)-1]
	was := energy(median(last.rel))
	if !same(energy(median(first.rel)), was) {
		return false
	}
	after := false
	for _, pr := range p.Pairs {
		if after && pr.rel != nil && pr.aside == "" && !pr.normed && (pr.Kind == dump.KindLayer || pr.Kind == dump.KindFinalNorm || pr.Kind == dump.KindLogits) {
			return energy(median(pr.rel)) >= was/layoutRatio
		}
		after = after || pr == last
	}
	return false // nothing follows that could tell
}

// duplicates lists the groups of neighbouring layer outputs of one side that are
// equal. Equal sums of squares, row by row, find the candidates without reading
// again; the bytes then decide.
func (p *part) duplicates(of func(*Pair) *View, sum func(kernel.Moments) float64) ([][]*Pair, error) {
	var groups [][]*Pair
	var group []*Pair
	for _, pr := range p.layerPairs() {
		if pr.sums == nil || pr.aside != "" || pr.normed {
			continue
		}
		if n := len(group); n > 0 && sameSums(group[n-1], pr, sum) && !constant(pr, sum) {
			equal, err := sameBytes(of(group[n-1]), of(pr))
			if err != nil {
				return nil, err
			}
			if equal {
				if group = append(group, pr); n == 1 {
					groups = append(groups, nil)
				}
				groups[len(groups)-1] = group
				continue
			}
		}
		group = []*Pair{pr}
	}
	return groups, nil
}

// sameSums tells whether all row sums of two pairs are equal on one side.
func sameSums(a, b *Pair, sum func(kernel.Moments) float64) bool {
	if len(a.sums.Row) != len(b.sums.Row) || a.Geo.Cols != b.Geo.Cols {
		return false
	}
	for i := range a.sums.Row {
		if sum(a.sums.Row[i]) != sum(b.sums.Row[i]) {
			return false
		}
	}
	return true
}

// constant tells whether every row of one side has the same sum of squares, as
// a constant tensor has; one row alone is not judged.
func constant(p *Pair, sum func(kernel.Moments) float64) bool {
	for _, m := range p.sums.Row {
		if sum(m) != sum(p.sums.Row[0]) {
			return false
		}
	}
	return len(p.sums.Row) > 1 || sum(p.sums.Whole) == 0
}

// sameBytes compares two views of one run bit for bit.
func sameBytes(a, b *View) (equal bool, err error) {
	if a.DType != b.DType || a.Record.Header.Len() != b.Record.Header.Len() {
		return false, nil
	}
	x, err := a.Record.Open()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	y, err := b.Record.Open()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	const chunk = 1 << 15
	size := a.DType.Size()
	bx, by := make([]byte, chunk*size), make([]byte, chunk*size)
	for at, n := int64(0), a.Record.Header.Len(); at < n; at += chunk {
		k := min(chunk, n-at)
		if err := x.ReadElements(bx[:k*int64(size)], at, k); err != nil {
			return false, err
		}
		if err := y.ReadElements(by[:k*int64(size)], at, k); err != nil {
			return false, err
		}
		if string(bx[:k*int64(size)]) != string(by[:k*int64(size)]) {
			return false, nil
		}
	}
	return true, nil
}

// guardReused looks for a checkpoint that equals a later one of the other side:
// its buffer was overwritten before it was saved.
func guardReused(p *part) []Guard {
	layers := p.layerPairs()
	if p.shift != 0 {
		return one(NotApplicable, "", "an index shift explains what equals a later layer")
	}
	for i, pr := range layers {
		if pr.rel == nil || pr.aside != "" || energy(median(pr.rel)) <= guardTolerance {
			continue
		}
		was := energy(median(pr.rel))
		for _, late := range layers[i+1:] {
			if late.sums == nil || late.Geo.Rows != pr.Geo.Rows || late.Geo.Cols != pr.Geo.Cols {
				continue
			}
			for _, c := range []struct {
				ref, port *View
				side      string
			}{{late.Ref, pr.Port, "port"}, {pr.Ref, late.Port, "reference"}} {
				if !sameNorm(pr, late, c.side) {
					continue
				}
				e, err := p.tokenError(c.ref, c.port, pr.Geo)
				if err != nil {
					return one(NotChecked, "", "%s", guardError(err))
				}
				if same(e, was) && e <= 1e-6 {
					g := one(Fail, "copy the tensor inside the hook: its buffer is reused before the dump is written",
						"%s of the %s equals %s of the other side (e = %.2g), which comes later", pr.Name, c.side, late.Name, e)
					g[0].Checkpoint = pr.Name
					return g
				}
			}
		}
		break // the first that differs decides: later ones inherit
	}
	return one(Pass, "", "no checkpoint equals a later one of the other side")
}

// sameNorm is a cheap test whether one side of early has the norm of the other
// side of late, so that only likely candidates are read.
func sameNorm(early, late *Pair, side string) bool {
	a, b := early.sums.Whole.B2, late.sums.Whole.A2
	if side == "reference" {
		a, b = early.sums.Whole.A2, late.sums.Whole.B2
	}
	return a > 0.98*b && a < 1.02*b
}

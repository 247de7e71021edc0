package compare

import (
	"errors"
	"fmt"
	"math"

	"github.com/layerparity/parity/dump"
)

// halfMax is the largest finite float16.
const halfMax = 65504

// guardOverflow looks for Inf that the dump made: the other side is beyond the
// range of float16 there, and a later output of the same run is finite.
func guardOverflow(p *part) []Guard {
	for i, pr := range p.Pairs {
		if pr.sums == nil || pr.sums.NonFinite.Mismatched == 0 {
			continue
		}
		n := pr.sums.NonFinite
		portInf, refInf := n.PortPosInf+n.PortNegInf, n.RefPosInf+n.RefNegInf
		side, own, other := "port", pr.Port, pr.Ref
		if refInf > portInf {
			side, own, other = "reference", pr.Ref, pr.Port
		}
		if max(portInf, refInf) == 0 {
			continue
		}
		u, err1 := valueAt(own, n.FirstMismatch+int64(own.Row0*pr.Geo.Cols))
		v, err2 := valueAt(other, n.FirstMismatch+int64(other.Row0*pr.Geo.Cols))
		if err := errors.Join(err1, err2); err != nil {
			return one(NotChecked, "", "%s", guardError(err))
		}
		if !math.IsInf(u, 0) || !(math.Abs(v) > halfMax) || math.IsInf(v, 0) || !laterFinite(pr, p.Pairs[i+1:], side) {
			continue
		}
		g := one(Fail, "save in float32 or bfloat16: float16 ends at 65504",
			"the %s is infinite at %v where the other side is %.6g, and a later output of the same run is finite: the value overflowed when it was saved", side, pr.Geo.index(n.FirstMismatch), v)
		g[0].Checkpoint = pr.Name
		return g
	}
	return one(Pass, "", "no infinity that only the dump could have made")
}

// laterFinite tells whether a later output of the same rows is finite on that
// side: an infinity that the model computed would have gone on to it, as itself
// or as NaN.
func laterFinite(pr *Pair, later []*Pair, side string) bool {
	for _, l := range later {
		if l.sums == nil || l.Geo.Rows != pr.Geo.Rows || (l.Kind != dump.KindLayer && l.Kind != dump.KindFinalNorm && l.Kind != dump.KindLogits) {
			continue
		}
		n := l.sums.NonFinite
		bad := n.PortNaN + n.PortPosInf + n.PortNegInf
		if side == "reference" {
			bad = n.RefNaN + n.RefPosInf + n.RefNegInf
		}
		if bad == 0 {
			return true
		}
	}
	return false
}

// valueAt reads one element of a view.
func valueAt(v *View, at int64) (x float64, err error) {
	a, err := v.open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	var one, more [1]float64
	err = a.float64s(one[:], more[:], at)
	return one[0], err
}

// guardPartial looks for a tail of rows that one side never wrote: zero while
// the other side is not, and right again at the next checkpoint.
func guardPartial(p *part) []Guard {
	for i, pr := range p.Pairs {
		if pr.sums == nil || pr.Geo.Grouped || pr.Geo.Rows < 2 {
			continue
		}
		for _, side := range []string{"port", "reference"} {
			from := zeroTail(pr, side)
			if from == 0 || from == pr.Geo.Rows {
				continue
			}
			if next := nextWithRows(p.Pairs[i+1:], pr.Geo.Rows); next == nil || !tailAgrees(next, from) {
				continue
			}
			g := one(Fail, "synchronise before saving: the copy from the device was not awaited",
				"rows %d to %d of the %s are zero, those of the other side are not, and the next checkpoint is right there", from, pr.Geo.Rows-1, side)
			g[0].Checkpoint = pr.Name
			return g
		}
	}
	for i, pr := range p.Pairs {
		if pr.sums == nil || pr.Geo.Grouped || pr.Geo.Batch > 1 || pr.sums.NonFinite.Mismatched > 0 || pr.Kind == dump.KindTap {
			continue
		}
		from := wrongTail(pr)
		if from == 0 || from > pr.Geo.Rows-2 {
			continue
		}
		if next := nextWithRows(p.Pairs[i+1:], pr.Geo.Rows); next == nil || !tailAgrees(next, from) {
			continue
		}
		g := one(Fail, "synchronise before saving: the copy from the device was not awaited",
			"rows %d to %d differ, those before agree, and the next checkpoint is right in all: the tail of one side is not what was computed", from, pr.Geo.Rows-1)
		g[0].Checkpoint = pr.Name
		return g
	}
	return one(Pass, "", "no tail of rows is missing")
}

// zeroTail returns the first row of the zero tail of a side; Rows where it has
// none.
func zeroTail(p *Pair, side string) int {
	from := p.Geo.Rows
	for from > 0 {
		m := p.sums.Row[from-1]
		mine, others := m.B2, m.A2
		if side == "reference" {
			mine, others = m.A2, m.B2
		}
		if mine != 0 || others == 0 {
			break
		}
		from--
	}
	return from
}

// wrongTail returns the row from which all rows are far off while all before
// agree; 0 or Rows where there is no such row.
func wrongTail(p *Pair) int {
	from := p.Geo.Rows
	for from > 0 && energy(p.rel[from-1]) > 0.1 {
		from--
	}
	for _, r := range p.rel[:from] {
		if !(energy(r) <= guardTolerance) {
			return 0
		}
	}
	return from
}

// nextWithRows finds the next compared checkpoint with as many rows.
func nextWithRows(pairs []*Pair, rows int) *Pair {
	for _, pr := range pairs {
		if pr.rel != nil && !pr.Geo.Grouped && pr.Geo.Rows == rows {
			return pr
		}
	}
	return nil
}

// tailAgrees tells whether the rows from one on agree.
func tailAgrees(p *Pair, from int) bool {
	for _, r := range p.rel[from:] {
		if !(energy(r) <= guardTolerance) {
			return false
		}
	}
	return true
}

// evidenceOf words a pair's error against its floor.
func evidenceOf(p *Pair) string {
	return fmt.Sprintf("1-cos %.2g, rel_l2 %.2g", p.sums.Whole.OneMinusCos(), p.sums.Whole.RelL2())
}

package compare

import (
	"errors"
	"fmt"
	"math"

	"github.com/layerparity/parity/dump"
)

// Values is one side's tensor of a pair, decoded after the comparison's repairs.
type Values struct {
	Data       []float64
	Shape      []int
	Rows, Cols int
	Record     *dump.Record
}

// Read decodes one side of a pair whole, as it was compared: rows that only one
// side has are left out, a split residual is summed.
func (p *Pair) Read(port bool) (*Values, error) {
	v := p.Ref
	if port {
		v = p.Port
	}
	if !p.comparable() {
		return readWhole(v, p.Place)
	}
	data, err := v.Float64s()
	if err != nil {
		return nil, err
	}
	n, from := p.Geo.Rows*p.Geo.Cols, v.Row0*p.Geo.Cols
	if from+n > len(data) {
		return nil, fmt.Errorf("reading %s: rows %d to %d are not in it", v.Record.File, v.Row0, v.Row0+p.Geo.Rows)
	}
	return &Values{Data: data[from : from+n], Shape: p.Geo.Shape, Rows: p.Geo.Rows, Cols: p.Geo.Cols, Record: v.Record}, nil
}

// ReadRecord decodes a tensor that has no partner.
func ReadRecord(r *dump.Record) (*Values, error) { return readWhole(newView(r), r.Place) }

// readWhole decodes a view without a pair's geometry.
func readWhole(v *View, place dump.Place) (*Values, error) {
	if v.Record.Err != nil {
		return nil, v.Record.Err
	}
	data, err := v.Float64s()
	if err != nil {
		return nil, err
	}
	g := geometryOf(place, dropOnes(v.Record.Shape()), 0)
	if g.Rows*g.Cols != len(data) {
		return nil, errors.New("reading " + v.Record.File + ": its shape has no rows and columns")
	}
	return &Values{Data: data, Shape: g.Shape, Rows: g.Rows, Cols: g.Cols, Record: v.Record}, nil
}

// Find returns a pair of the part by canonical name, nil where there is none.
func (p *Part) Find(name string) *Pair {
	for _, pr := range p.Pairs {
		if pr.Name == name {
			return pr
		}
	}
	return nil
}

// FloorRel is the noise floor of the pair as rel_l2, √(2e).
func (p *Pair) FloorRel() float64 { return math.Sqrt(2 * p.floor()) }

// Good tells whether the pair was compared and is below its floor.
func (p *Pair) Good() bool { return p.comparable() && p.aside == "" && !p.state.bad }

// Bad tells whether the pair is above its floor and not by layout or capture.
func (p *Pair) Bad() bool { return p.comparable() && p.aside == "" && p.state.bad && !p.state.benign }

// Benign tells whether the pair differs while everything computed from it
// agrees.
func (p *Pair) Benign() bool { return p.state.bad && p.state.benign }

// EntersHere tells whether the pair is bad while all its inputs are good.
func (p *Pair) EntersHere() bool { return p.enters() }

// Gain returns the error over what inputs and rounding account for, NaN where it
// cannot be formed.
func (p *Pair) Gain() float64 { return p.state.gain }

// Class is the coarser precision class of both sides.
func (p *Pair) Class() dump.Precision { return p.precision }

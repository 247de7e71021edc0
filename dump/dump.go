package dump

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/layerparity/parity/npy"
)

// Dump is what was found under one path: the runs of every step and rank.
type Dump struct {
	// Path is the folder or archive as the caller named it.
	Path string
	// Runs are ordered by step, then rank; at least one.
	Runs []*Run
}

// Run is one step of one rank: the checkpoints of one forward pass.
type Run struct {
	// Dir is the folder or archive of this run.
	Dir string
	// Step and Rank are -1 where the dump has no such folders.
	Step, Rank int
	// Manifest is nil where the dump has none.
	Manifest *Manifest
	// Records are the checkpoints in execution order.
	Records []*Record
	// Warnings are doubts about the run as a whole: what was assumed, what was
	// found beside the dump.
	Warnings []string
}

// Record is one checkpoint of a run.
type Record struct {
	Place
	// Written is the name as the dump has it, before renames and aliases.
	Written string
	// File is where the values are, for messages: path, or archive:member.
	File string
	// Header describes the stored array.
	Header npy.Header
	// DType is the dtype the values are read as: the header's, or what the
	// manifest or a flag says of a 16-bit or 8-bit void.
	DType npy.DType
	// Logical is the manifest's dtype of the computation, normalised; "" where
	// it is not stated.
	Logical string
	// Meta is the manifest's entry, nil without one.
	Meta *Tensor
	// Warnings are doubts about this record: an assumed dtype, trailing bytes.
	Warnings []string
	// Err is set when the file cannot be read; then only Place, Written, File
	// and Meta hold.
	Err error

	open  func() (*Array, error)
	order int // rank within the manifest, for names that no table knows
}

// Open opens the stored array, read as DType. The caller closes it. It is an
// error when the file is no longer what Open of the dump saw.
func (r *Record) Open() (*Array, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	a, err := r.open()
	if err != nil {
		return nil, err
	}
	if h := a.Header(); h.DType != r.Header.DType || !slices.Equal(h.Shape, r.Header.Shape) {
		return nil, errors.Join(fmt.Errorf("opening %s: its header changed while the dump was being read; dump again, then compare", r.File), a.Close())
	}
	if r.DType == a.Header().DType {
		return a, nil
	}
	v, err := a.As(r.DType)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return &Array{v, a.closer}, nil
}

// Array is an open stored array. Close releases what it was read from.
type Array struct {
	*npy.Array
	closer io.Closer // nil where the array closes its own file
}

// Close closes the array and the archive or file behind it.
func (a *Array) Close() error {
	err := a.Array.Close()
	if a.closer != nil {
		err = errors.Join(err, a.closer.Close())
	}
	return err
}

// Shape returns the stored shape.
func (r *Record) Shape() []int { return r.Header.Shape }

// Label names a step and rank as reports do: "step_0001/rank_00", "" where the
// dump has neither.
func (r *Run) Label() string { return Label(r.Step, r.Rank) }

// Label joins the folder names of a step and a rank; -1 leaves a part out.
func Label(step, rank int) string {
	var parts []string
	if step >= 0 {
		parts = append(parts, fmt.Sprintf("step_%04d", step))
	}
	if rank >= 0 {
		parts = append(parts, fmt.Sprintf("rank_%02d", rank))
	}
	return strings.Join(parts, "/")
}

// Lookup returns the record of a canonical name, nil where there is none.
func (r *Run) Lookup(name string) *Record {
	for _, rec := range r.Records {
		if rec.Name == name {
			return rec
		}
	}
	return nil
}

// Options choose how a dump is read; the zero value reads everything.
type Options struct {
	// Renames are applied to names before the table of aliases.
	Renames []Rename
	// DType says what 8-bit and 16-bit voids are where no manifest does:
	// npy.Float8E4M3FN, npy.Float16, ... The zero value (bool) says nothing.
	DType npy.DType
	// Steps and Ranks choose runs; empty chooses all.
	Steps, Ranks []int
}

// A format recognises and opens one way of storing a run.
type format struct {
	name  string
	match func(path string, info os.FileInfo) bool
	open  func(path string, o Options) (*Dump, error)
}

// formats are tried in order; the first that matches opens the path.
var formats []format

func init() {
	formats = []format{
		{"npz archive", matchNPZ, openNPZ},
		{"folder", func(_ string, info os.FileInfo) bool { return info.IsDir() }, openFolder},
	}
}

// Open reads the names, headers and manifest of everything under path. Data is
// not read. The error says what is wrong with the dump as a whole; files that
// cannot be read are records with Err set.
func Open(path string, o Options) (*Dump, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening dump: %w", err)
	}
	for _, f := range formats {
		if !f.match(path, info) {
			continue
		}
		d, err := f.open(path, o)
		if err != nil {
			return nil, fmt.Errorf("opening dump %s: %w", path, err)
		}
		d.Path = path
		return d, d.choose(o)
	}
	return nil, fmt.Errorf("opening dump %s: neither a folder nor a .npz archive", path)
}

// choose drops the steps and ranks that were not asked for. A run without such
// folders is every step and rank, so that one whole reference can be held
// against a rank of the port.
func (d *Dump) choose(o Options) error {
	keep := func(want []int, have int) bool { return len(want) == 0 || have < 0 || slices.Contains(want, have) }
	all := d.Runs
	d.Runs = slices.DeleteFunc(slices.Clone(all), func(r *Run) bool { return !keep(o.Steps, r.Step) || !keep(o.Ranks, r.Rank) })
	if len(d.Runs) > 0 {
		return nil
	}
	var have []string
	for _, r := range all {
		have = append(have, r.Label())
	}
	return fmt.Errorf("opening dump %s: none of its runs is the chosen step and rank (it has %s)", d.Path, strings.Join(have, ", "))
}

// source is a stored array before it has a place.
type source struct {
	written string // file name without extension, or the manifest's name
	file    string // for messages
	open    func() (*Array, error)
	meta    *Tensor
	err     error
}

// newRun places the sources of one folder or archive.
func newRun(dir string, m *Manifest, sources []source, o Options) (*Run, error) {
	run := &Run{Dir: dir, Step: -1, Rank: -1, Manifest: m}
	byName := make(map[string]*Record, len(sources))
	for i, s := range sources {
		rec := &Record{Written: s.written, File: s.file, Meta: s.meta, Err: s.err, open: s.open, order: i}
		name := s.written
		for _, rn := range o.Renames {
			if to, ok := rn.apply(name); ok {
				name = to
				break
			}
		}
		rec.Place = Canonical(name)
		if s.meta != nil {
			rec.Logical = LogicalName(s.meta.DType)
			if s.meta.Order != nil {
				rec.order = *s.meta.Order
			}
		}
		if other := byName[rec.Name]; other != nil {
			return nil, fmt.Errorf("%s and %s both mean %s; rename one (--map) or remove it", other.File, rec.File, rec.Name)
		}
		byName[rec.Name] = rec
		rec.readHeader(o)
		run.Records = append(run.Records, rec)
	}
	run.sort()
	return run, nil
}

// readHeader fills what the stored array says of itself.
func (r *Record) readHeader(o Options) {
	if r.Err != nil {
		return
	}
	a, err := r.open()
	if err != nil {
		r.Err = err
		return
	}
	defer a.Close()
	r.Header = a.Header()
	if n := a.Trailing(); n > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %d bytes after the data were ignored", r.File, n))
	}
	r.DType, err = r.resolveDType(o.DType)
	if err != nil {
		r.Err = err
	}
}

// resolveDType decides what the stored bytes are. Only voids and unsigned or
// signed integers that stand for a narrow float are ever read as something else
// than the header says.
func (r *Record) resolveDType(flag npy.DType) (npy.DType, error) {
	stored := r.Header.DType
	stated, known := npy.ParseDType(r.Logical)
	known = known && stated.IsFloat() && stated.Size() == stored.Size()
	switch {
	case stored == npy.Void2 && known:
		return stated, nil
	case stored == npy.Void2 && flag.IsFloat() && flag.Size() == 2:
		return flag, nil
	case stored == npy.Void2:
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: 2-byte void read as bfloat16; a manifest or --dtype float16 says otherwise", r.File))
		return npy.BFloat16, nil
	case stored == npy.Void1 && known:
		return stated, nil
	case stored == npy.Void1 && flag.IsFloat() && flag.Size() == 1:
		return flag, nil
	case stored == npy.Void1:
		return stored, fmt.Errorf("reading header of %s: an 8-bit float whose kind the file does not tell; name it in the manifest or with --dtype float8_e4m3fn", r.File)
	case stored.IsInt() && known && stored != npy.Bool:
		// The manifest says float and the file holds integers of that width: a
		// hook that worked around numpy's missing bfloat16.
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %s bits read as the %s that the manifest states", r.File, stored, stated))
		return stated, nil
	}
	return stored, nil
}

// sort puts the records into execution order. Names no table knows follow the
// record that the manifest puts before them; without a manifest they come last,
// in natural order.
func (r *Run) sort() {
	slices.SortStableFunc(r.Records, func(a, b *Record) int {
		if c := ComparePlaces(a.Place, b.Place); c != 0 {
			return c
		}
		if r.Manifest != nil && a.order != b.order {
			return a.order - b.order
		}
		switch {
		case naturalLess(a.Name, b.Name):
			return -1
		case naturalLess(b.Name, a.Name):
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	if r.Manifest == nil {
		return
	}
	known := slices.DeleteFunc(slices.Clone(r.Records), func(rec *Record) bool { return rec.Kind == KindOther })
	for _, rec := range r.Records {
		if rec.Kind != KindOther {
			continue
		}
		at := 0
		for i, k := range known {
			if k.order < rec.order {
				at = i + 1
			}
		}
		known = slices.Insert(known, at, rec)
	}
	r.Records = known
}

// relative names a file for messages by its path under the dump's own.
func relative(dir, name string) string { return filepath.ToSlash(filepath.Join(dir, name)) }

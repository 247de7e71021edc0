package dump

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/layerparity/parity/internal/lazy"
	"github.com/layerparity/parity/npy"
)

var (
	stepFolder = lazy.Regexp(`^step[_-]?(\d{1,9})$`)
	rankFolder = lazy.Regexp(`^rank[_-]?(\d{1,9})$`)
)

// openFolder opens a folder and the step and rank folders below it.
func openFolder(path string, o Options) (*Dump, error) {
	d := &Dump{Path: path}
	if err := d.walk(path, -1, -1, o); err != nil {
		return nil, err
	}
	if len(d.Runs) == 0 {
		return nil, fmt.Errorf("no .npy file, no %s and no step_* or rank_* folder in it", ManifestFile)
	}
	slices.SortFunc(d.Runs, func(a, b *Run) int {
		if a.Step != b.Step {
			return a.Step - b.Step
		}
		return a.Rank - b.Rank
	})
	for i := 1; i < len(d.Runs); i++ {
		if a, b := d.Runs[i-1], d.Runs[i]; a.Step == b.Step && a.Rank == b.Rank {
			return nil, fmt.Errorf("%s and %s are the same step and rank", a.Dir, b.Dir)
		}
	}
	return d, nil
}

// walk opens dir as a run where it holds one, and the step and rank folders in
// it.
func (d *Dump) walk(dir string, step, rank int, o Options) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	holds := false
	for _, e := range entries {
		name := e.Name()
		if name == ManifestFile || isNPY(name) {
			holds = true
		}
		if !isDir(dir, e) {
			continue
		}
		s, r := step, rank
		if m := stepFolder().FindStringSubmatch(name); m != nil && step < 0 {
			s, _ = strconv.Atoi(m[1])
		} else if m := rankFolder().FindStringSubmatch(name); m != nil && rank < 0 {
			r, _ = strconv.Atoi(m[1])
		} else {
			continue
		}
		if err := d.walk(filepath.Join(dir, name), s, r, o); err != nil {
			return err
		}
	}
	if !holds {
		return nil
	}
	run, err := openRun(dir, entries, o)
	if err != nil {
		return err
	}
	run.Step, run.Rank = step, rank
	d.Runs = append(d.Runs, run)
	return nil
}

// isDir follows a symbolic link, so that a linked step folder counts.
func isDir(dir string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}

// isNPY tells whether a file name is an array's. Hidden files are left-overs of
// an interrupted atomic write.
func isNPY(name string) bool { return strings.HasSuffix(name, ".npy") && !strings.HasPrefix(name, ".") }

// openRun opens the .npy files of one folder. With a manifest its entries come
// first; files beside it are kept, and said.
func openRun(dir string, entries []fs.DirEntry, o Options) (*Run, error) {
	m, err := readManifestFile(dir)
	if err != nil {
		return nil, err
	}
	var sources []source
	listed := make(map[string]bool)
	if m != nil {
		for i := range m.Tensors {
			t := &m.Tensors[i]
			listed[filepath.Clean(t.File)] = true
			sources = append(sources, fileSource(dir, t.File, t.Name, t))
		}
	}
	var beside []string
	for _, e := range entries {
		if name := e.Name(); isNPY(name) && !listed[name] && !isDir(dir, e) {
			beside = append(beside, name)
			sources = append(sources, fileSource(dir, name, strings.TrimSuffix(name, ".npy"), nil))
		}
	}
	run, err := newRun(dir, m, sources, o)
	if err != nil {
		return nil, err
	}
	if m != nil && len(beside) > 0 {
		run.Warnings = append(run.Warnings, fmt.Sprintf("%s: not in %s, perhaps left by an earlier run: %s", dir, ManifestFile, strings.Join(beside, ", ")))
	}
	return run, nil
}

// readManifestFile reads the folder's manifest; nil where it has none.
func readManifestFile(dir string) (*Manifest, error) {
	f, err := os.Open(filepath.Join(dir, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := ReadManifest(f)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", relative(dir, ManifestFile), err)
	}
	return m, nil
}

// fileSource describes one .npy file.
func fileSource(dir, file, name string, meta *Tensor) source {
	path := filepath.Join(dir, file)
	return source{written: name, file: relative(dir, file), meta: meta, open: func() (*Array, error) {
		a, err := npy.Open(path)
		if err != nil {
			return nil, err
		}
		return &Array{Array: a}, nil
	}}
}

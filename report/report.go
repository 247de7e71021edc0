package report

import (
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/layerparity/parity/compare"
)

// Options choose how a report looks; programs' formats ignore them.
type Options struct {
	// Color allows terminal colours.
	Color bool
	// Width is the number of columns to fit into; 0 means 100.
	Width int
	// All shows agreeing checkpoints and passed guards one by one.
	All bool
}

// Format is one way of writing a comparison.
type Format struct {
	Name string
	// Ext are the file extensions that choose it, with the dot.
	Ext   []string
	Write func(w io.Writer, c *compare.Comparison, o Options) error
	Help  string
}

// Formats is the table of outputs.
var Formats = []Format{
	{"terminal", []string{".txt"}, Terminal, "for a person at a terminal"},
	{"json", []string{".json"}, func(w io.Writer, c *compare.Comparison, _ Options) error { return JSON(w, c) }, "parity.compare/1, for programs"},
	{"markdown", []string{".md"}, Markdown, "for a pull request or a job summary"},
	{"csv", []string{".csv"}, CSV, "one row a checkpoint"},
	{"junit", []string{".xml"}, JUnit, "a test case for each guard and checkpoint"},
}

// ByName returns the format of a name.
func ByName(name string) (Format, bool) {
	for _, f := range Formats {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// ByExt returns the format that a path's extension chooses.
func ByExt(path string) (Format, bool) {
	ext := strings.ToLower(filepath.Ext(path))
	for _, f := range Formats {
		if slices.Contains(f.Ext, ext) {
			return f, true
		}
	}
	return Format{}, false
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/report"
)

// output is where reports go, and in which formats.
type output struct {
	format string
	files  []string
	all    bool
	color  string
}

// register adds the flags to a command.
func (o *output) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&o.format, "format", "terminal", "what to print: terminal, json, markdown, csv, junit")
	fl.StringArrayVarP(&o.files, "output", "o", nil, "write a report to a `file` too, its format by extension (.json .md .csv .xml .txt); repeat for several. Nothing is printed then unless --format is given")
	fl.BoolVar(&o.all, "all", false, "show every checkpoint and guard, agreeing ones too")
	fl.StringVar(&o.color, "color", "auto", "colours: auto, always, never; NO_COLOR is honoured")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"terminal", "json", "markdown", "csv", "junit"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
}

// check finds flag errors before any work is done.
func (o *output) check() error {
	if _, ok := report.ByName(o.format); !ok {
		return fmt.Errorf("--format %s: not one of terminal, json, markdown, csv, junit", o.format)
	}
	for _, f := range o.files {
		if _, ok := report.ByExt(f); !ok {
			return fmt.Errorf("-o %s: the extension names no format; use .json, .md, .csv, .xml or .txt", f)
		}
	}
	if o.color != "auto" && o.color != "always" && o.color != "never" {
		return fmt.Errorf("--color %s: not one of auto, always, never", o.color)
	}
	return nil
}

// write writes all reports.
func (o *output) write(cmd *cobra.Command, e *env, c *compare.Comparison) error {
	for _, path := range o.files {
		f, _ := report.ByExt(path)
		var b bytes.Buffer
		if err := f.Write(&b, c, report.Options{Width: defaultWidth, All: o.all}); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		if err := writeFile(path, b.Bytes()); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	if len(o.files) > 0 && !cmd.Flags().Changed("format") {
		return nil
	}
	f, _ := report.ByName(o.format)
	if err := f.Write(e.Stdout, c, report.Options{Color: o.colored(e.Stdout), Width: width(e.Stdout), All: o.all}); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

// writeFile replaces a file as a whole, so that a reader never sees half a
// report.
func writeFile(path string, b []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, b, 0o644) // a pipe or device: written through
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".parity-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // a no-op after the rename
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// defaultWidth is what reports fit into where the terminal does not tell.
const defaultWidth = 100

// isTerminal tells whether w is a terminal.
func isTerminal(w io.Writer) (fd int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

// colored decides whether to colour: on a terminal, and never with NO_COLOR or
// a dumb one.
func (o *output) colored(w io.Writer) bool {
	switch o.color {
	case "always":
		return true
	case "never":
		return false
	}
	_, tty := isTerminal(w)
	return tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// width is the terminal's, at most what the report is designed for.
func width(w io.Writer) int {
	if fd, tty := isTerminal(w); tty {
		if n, _, err := term.GetSize(fd); err == nil && n >= 60 {
			return min(n, defaultWidth)
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 60 {
		return min(n, defaultWidth)
	}
	return defaultWidth
}

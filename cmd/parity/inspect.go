package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerparity/parity/compare"
)

// newInspectCmd builds `parity inspect`.
func newInspectCmd(e *env) *cobra.Command {
	var f compareFlags
	var format string
	cmd := &cobra.Command{
		Use:   "inspect DUMP",
		Short: "Look at one dump alone: shapes, dtypes, NaN, duplicates, norms, completeness",
		Long: `inspect reads one dump and says what is in it and whether it can be trusted by
itself: files that cannot be read, an interrupted run, layer outputs that hold the
same bytes, places that fired more than once, values that are not finite.

Exit statuses: 0 it can be trusted as far as one dump tells, 2 it cannot be read,
3 it cannot be trusted.`,
		Example: `  parity inspect port/
  parity inspect port/ --format json | jq '.tensors[].norm'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: dumpArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "terminal" && format != "json" {
				return fmt.Errorf("--format %s: not one of terminal, json", format)
			}
			d, err := f.openOne(args[0])
			if err != nil {
				return err
			}
			p := newProgress(e.Stderr)
			defer p.done()
			in, err := compare.Inspect(cmd.Context(), d, compare.Options{Workers: f.workers, Progress: p.add})
			if err != nil {
				return err
			}
			if format == "json" {
				enc := json.NewEncoder(e.Stdout)
				enc.SetIndent("", "  ")
				enc.SetEscapeHTML(false)
				err = enc.Encode(in)
			} else {
				_, err = fmt.Fprint(e.Stdout, inspection(in))
			}
			if err != nil {
				return fmt.Errorf("writing report: %w", err)
			}
			if in.ExitStatus != 0 {
				return &exitError{status: in.ExitStatus}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.maps, "map", nil, "rename checkpoints: FROM=TO, /REGEXP/=TO with $1, or a YAML `file`")
	fl.IntSliceVar(&f.steps, "step", nil, "look at these `steps` only")
	fl.IntSliceVar(&f.ranks, "rank", nil, "look at these `ranks` only")
	fl.StringVar(&f.dtype, "dtype", "", "what 8-bit or 2-byte voids are where no manifest says it")
	fl.IntVar(&f.workers, "workers", 0, "goroutines that read and sum (default: the CPUs of the cgroup's quota)")
	fl.StringVar(&format, "format", "terminal", "what to print: terminal, json")
	return cmd
}

// inspection renders the result for people.
func inspection(in *compare.Inspection) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n%s\n\n", in.Dump.Path, in.Verdict, in.Reason)
	fmt.Fprintf(&b, "%-36s %-10s %-18s %12s %12s  %s\n", "checkpoint", "dtype", "shape", "norm", "max |x|", "")
	for _, t := range in.Tensors {
		note := t.Note
		if t.Error != "" {
			note = "cannot be read: " + t.Error
		}
		norm, top := "", ""
		if t.Norm != nil {
			norm, top = fmt.Sprintf("%.6g", float64(*t.Norm)), fmt.Sprintf("%.6g", float64(*t.MaxAbs))
		}
		line := fmt.Sprintf("%-36s %-10s %-18s %12s %12s  %s", printable(t.Name), t.DType, fmt.Sprint(t.Shape), norm, top, printable(note))
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(&b)
	for _, g := range in.Guards {
		fmt.Fprintf(&b, "%-12s %-26s %s\n", g.Status, g.ID, printable(g.Evidence))
		if g.Status == compare.Fail {
			fmt.Fprintf(&b, "%-12s %-26s %s\n", "", "", g.Remedy)
		}
	}
	for _, w := range in.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", printable(w))
	}
	return b.String()
}

// printable replaces control characters, which names of files may hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}
		return r
	}, s)
}

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerparity/parity/diagnose/catalog"
)

// maxHits is how many patterns a search prints in full.
const maxHits = 3

// newPatternsCmd builds `parity patterns`.
func newPatternsCmd(e *env) *cobra.Command {
	var format string
	var all bool
	cmd := &cobra.Command{
		Use:   "patterns [ID | WORDS]",
		Short: "The catalogue: what a failure looks like, why, how to verify it, the fix",
		Long: `patterns prints the catalogue of causes and failure patterns, those of parallel
training included. Without arguments it lists all; an id prints one in full; words
search titles, keywords and text, best match first.

Exit statuses: 0 something was found, 2 nothing was.`,
		Example: `  parity patterns
  parity patterns rope.theta
  parity patterns nccl timeout checkpoint
  parity patterns softmax scale --format json`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var ids []string
			for _, p := range catalog.All() {
				ids = append(ids, p.ID+"\t"+p.Title)
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return catalog.RenderList(e.Stdout, format, catalog.All())
			}
			if len(args) == 1 {
				if p, ok := catalog.Get(args[0]); ok {
					return catalog.Render(e.Stdout, format, []catalog.Pattern{p})
				}
			}
			hits := catalog.Search(strings.Join(args, " "))
			if len(hits) == 0 {
				return fmt.Errorf("no pattern matches %q; `parity patterns` lists all", strings.Join(args, " "))
			}
			var found, rest []catalog.Pattern
			for i, h := range hits {
				if all || i < maxHits {
					found = append(found, h.Pattern)
				} else {
					rest = append(rest, h.Pattern)
				}
			}
			if err := catalog.Render(e.Stdout, format, found); err != nil {
				return err
			}
			if len(rest) > 0 && format == "terminal" {
				_, err := fmt.Fprintf(e.Stdout, "\n%d more match; --all prints them: %s\n", len(rest), ids(rest))
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "terminal", "what to print: "+strings.Join(catalog.Formats, ", "))
	cmd.Flags().BoolVar(&all, "all", false, "print every match in full, not the best three")
	return cmd
}

// ids lists the first few ids.
func ids(ps []catalog.Pattern) string {
	const show = 8
	var out []string
	for i, p := range ps {
		if i == show {
			out = append(out, "...")
			break
		}
		out = append(out, p.ID)
	}
	return strings.Join(out, ", ")
}

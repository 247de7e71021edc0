package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/diagnose"
)

// newTryCmd builds `parity try`.
func newTryCmd(e *env) *cobra.Command {
	var f compareFlags
	var at, format string
	var apply []string
	cmd := &cobra.Command{
		Use:   "try REF PORT --at CHECKPOINT --apply EXPR",
		Short: "What if: apply a transform to the port's tensor and compare again",
		Long: `try applies transforms to the port's tensor at one checkpoint and prints the
figures before and after, so that an idea is verified on the dumped tensors before
anything is recompiled. Transforms are chained with |.

Transforms:
` + transformHelp(),
		Example: `  parity try ref/ port/ --at layer_00.q_rope --apply 'unrope(theta=10000) | rope(theta=500000)'
  parity try ref/ port/ --at layer_03.mlp_out --apply 'scale(0.5)'
  parity try ref/ port/ --at layer_00.k --apply 'permute(interleaved_to_half, block=64)' --format json`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: dumpArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "terminal" && format != "json" {
				return fmt.Errorf("--format %s: not one of terminal, json", format)
			}
			if at == "" || len(apply) == 0 {
				return fmt.Errorf("try needs --at CHECKPOINT and --apply EXPR; see `%s --help`", cmd.CommandPath())
			}
			for _, x := range apply { // a typo is told before anything is read
				if _, err := diagnose.ParseTransforms(x); err != nil {
					return err
				}
			}
			f.out.format, f.out.color = "json", "never"
			c, err := f.compare(cmd, e, args, nil)
			if err != nil {
				return err
			}
			ctx, err := diagnose.At(c, at)
			if err != nil {
				return err
			}
			res, err := diagnose.Try(ctx, apply)
			if err != nil {
				return err
			}
			if err := writeTry(e.Stdout, res, format); err != nil {
				return fmt.Errorf("writing report: %w", err)
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&at, "at", "", "the `checkpoint`")
	fl.StringArrayVar(&apply, "apply", nil, "the transform, or several joined by |; repeat to chain")
	fl.StringArrayVar(&f.maps, "map", nil, "rename checkpoints, as in compare")
	fl.IntSliceVar(&f.steps, "step", nil, "use these `steps` only")
	fl.IntSliceVar(&f.ranks, "rank", nil, "use these `ranks` only")
	fl.StringVar(&f.dtype, "dtype", "", "what 8-bit or 2-byte voids are where no manifest says it")
	fl.IntVar(&f.workers, "workers", 0, "goroutines that read and sum")
	fl.StringVar(&format, "format", "terminal", "what to print: terminal, json")
	f.cos = float64(compare.DefaultThresholds().Cos)
	return cmd
}

// transformHelp lists the transforms.
func transformHelp() string {
	var b strings.Builder
	for _, t := range diagnose.Transforms() {
		fmt.Fprintf(&b, "  %s\n      %s\n", t.Usage(), t.Doc)
		if t.Formula != "" {
			fmt.Fprintf(&b, "      %s\n", t.Formula)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// writeTry prints the outcome.
func writeTry(w io.Writer, r diagnose.TryResult, format string) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s against %s, floor %.2g\n", printable(r.At), printable(r.Target), float64(r.Floor))
	fmt.Fprintf(&b, "  %-44s %10s %12s %10s %12s\n", "", "rel_l2", "1-cos", "max diff", "norm ratio")
	line := func(what string, m *diagnose.TryMetrics) {
		if m == nil {
			fmt.Fprintf(&b, "  %-44s %10s\n", printable(what), "other shape")
			return
		}
		fmt.Fprintf(&b, "  %-44s %10.3g %12.3g %10.3g %12.6g\n", printable(what), float64(m.RelL2), float64(m.OneMinusCos), float64(m.MaxDiff), float64(m.NormRatio))
	}
	line("before", &r.Before)
	for _, s := range r.Steps {
		line("| "+s.Apply, s.Metrics)
	}
	line("after", &r.After)
	_, err := io.WriteString(w, b.String())
	return err
}

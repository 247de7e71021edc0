package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/diagnose"
)

// newExplainCmd builds `parity explain`.
func newExplainCmd(e *env) *cobra.Command {
	var f compareFlags
	var brief bool
	cmd := &cobra.Command{
		Use:   "explain REF PORT",
		Short: "Say why: test hypotheses on the dumped tensors and prove the cause",
		Long: `explain compares two dumps, then tests at the place where the error enters what
could have caused it: rotary embeddings, masks, scales, norms, residual sums,
activations, orders, routing, ranks, weights, states. A cause is printed with its
proof: the transform, the error before and after, the floor. What cannot be decided
is said to be unknown, with the taps that would decide it.

Exit statuses are those of compare:
` + statusHelp(),
		Example: `  parity explain ref/ port/
  parity explain ref/ port/ --format json | jq '.findings[0]'
  parity explain ref/ port/ --brief > hypotheses.md`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: dumpArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !brief {
				return f.run(cmd, e, args, explain(cmd, e))
			}
			c, err := f.compare(cmd, e, args, explain(cmd, e))
			if err != nil {
				return &exitError{status: f.status(compare.Trouble), err: err}
			}
			if _, err := fmt.Fprint(e.Stdout, diagnose.Brief(c)); err != nil {
				return &exitError{status: f.status(compare.Trouble), err: fmt.Errorf("writing report: %w", err)}
			}
			if status := f.status(c.Verdict); status != 0 {
				return &exitError{status: status}
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&brief, "brief", false, "write a table of hypotheses to divide among several people or agents, as Markdown")
	return cmd
}

// explain is the stage that adds findings to a comparison.
func explain(cmd *cobra.Command, e *env) func(*compare.Comparison, compare.Options) error {
	return func(c *compare.Comparison, _ compare.Options) error {
		p := newProgress(e.Stderr)
		defer p.done()
		return diagnose.Explain(cmd.Context(), c, diagnose.Options{Progress: func(what string) {
			p.stage("testing hypotheses at " + printable(what))
		}})
	}
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/layerparity/parity/compare"
)

// trustWords is what validate says, by verdict.
var trustWords = map[compare.Verdict]string{
	compare.Parity:     "the dumpers can be trusted",
	compare.Divergence: "the dumpers are broken: do not read the port's comparison",
	compare.Untrusted:  "the dumpers are broken: do not read the port's comparison",
	compare.Trouble:    "nothing can be said of the dumpers",
}

// validateCos is step 1 of the protocol: about 0.999 or better at every layer.
const validateCos = 0.999

// newValidateCmd builds `parity validate`.
func newValidateCmd(e *env) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "validate REF PORT",
		Short: "Step 1: prove the dumpers on a model that is known to be right",
		Long: `validate compares two dumps of a model that is known to be right in both engines.
What differs then is the dumpers' fault. The thresholds are stricter than those of
compare (cosine 0.999), and no guard that applies may be left unchecked: a missing
prompt_tokens fails here.

Exit statuses:
` + statusHelp(),
		Example: `  parity validate known-good-ref/ known-good-port/
  parity validate hf/ llama.cpp/ --format json`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: dumpArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("cos") {
				f.cos = validateCos
			}
			f.strict = true
			return f.run(cmd, e, args, func(c *compare.Comparison, _ compare.Options) error {
				c.Reason = trustWords[c.Verdict] + ": " + c.Reason
				if c.Verdict == compare.Parity {
					c.NextStep = "Dump the port with the same dumpers, and compare."
				}
				return nil
			})
		},
	}
	f.register(cmd)
	return cmd
}

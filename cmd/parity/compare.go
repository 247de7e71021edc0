package main

import (
	"github.com/spf13/cobra"

	"github.com/layerparity/parity/compare"
)

// newCompareCmd builds `parity compare`.
func newCompareCmd(e *env) *cobra.Command {
	var f compareFlags
	var why bool
	cmd := &cobra.Command{
		Use:   "compare REF PORT",
		Short: "Compare two dumps: can they be trusted, and where does the error enter",
		Long: `compare holds the dump of a port against that of the trusted reference run.

REF and PORT are folders of .npy files (with or without dump.json), .npz archives,
or folders of step_*/rank_* folders; more than one step or rank is compared and
labelled. It first checks that the dumps can be trusted, then prints the first
checkpoint below the protocol's cosine and the one where the error enters: the
earliest whose error is above its noise floor while all its inputs are below
theirs.

Exit statuses:
` + statusHelp(),
		Example: `  parity compare ref/ port/
  parity compare ref/ port/ --format json | jq .enters
  parity compare ref/ port/ -o report.json -o report.md -o junit.xml
  parity compare ref/ port/ --map '/blk\.(\d+)\.out/=layer_$1'
  parity compare ref/ port/ --threshold 'layer_*:cos=0.9999' --allow-unpaired 'layer_31'
  git bisect run sh -c 'make dump && parity compare --git-bisect ref/ port/'`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: dumpArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if why {
				return f.run(cmd, e, args, explain(cmd, e))
			}
			return f.run(cmd, e, args, nil)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&why, "explain", false, "test hypotheses too, as parity explain does")
	return cmd
}

// dumpArgs completes up to n dumps: folders and archives.
func dumpArgs(n int) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// run compares, lets a later stage add to the comparison, and reports. Under
// --git-bisect every status is the table's second column, errors included.
func (f *compareFlags) run(cmd *cobra.Command, e *env, args []string, then func(*compare.Comparison, compare.Options) error) error {
	c, err := f.compare(cmd, e, args, then)
	if err != nil {
		return &exitError{status: f.status(compare.Trouble), err: err}
	}
	if err := f.out.write(cmd, e, c); err != nil {
		return &exitError{status: f.status(compare.Trouble), err: err}
	}
	if status := f.status(c.Verdict); status != 0 {
		return &exitError{status: status}
	}
	return nil
}

// compare checks the flags, opens both dumps and compares them.
func (f *compareFlags) compare(cmd *cobra.Command, e *env, args []string, then func(*compare.Comparison, compare.Options) error) (*compare.Comparison, error) {
	if err := f.out.check(); err != nil {
		return nil, err
	}
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	ref, port, err := f.open(args[0], args[1])
	if err != nil {
		return nil, err
	}
	p := newProgress(e.Stderr)
	o.Progress = p.add
	defer p.done()
	c, err := compare.Compare(cmd.Context(), ref, port, o)
	if err == nil && then != nil {
		err = then(c, o)
	}
	return c, err
}

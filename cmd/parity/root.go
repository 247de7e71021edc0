package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/layerparity/parity/compare"
)

// env is what a command may touch of the world around it.
type env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// exitError carries an exit status out of a command. A nil err prints nothing:
// the report said it all.
type exitError struct {
	status int
	err    error
}

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

// Unwrap implements errors.Unwrap.
func (e *exitError) Unwrap() error { return e.err }

// commands is the table of subcommands, in the order of the help.
var commands = []func(*env) *cobra.Command{
	newCompareCmd,
	newValidateCmd,
	newExplainCmd,
	newTryCmd,
	newInspectCmd,
	newPatternsCmd,
	newTriageCmd,
	newVersionCmd,
}

// run executes one command line and returns its exit status.
func run(ctx context.Context, args []string, e *env) int {
	root := newRootCmd(e)
	root.SetArgs(args)
	return bisecting(args, finish(e, root.ExecuteContext(ctx)))
}

// bisecting makes a status fit for `git bisect run` where that was asked for:
// usage errors too must skip the commit, not end the bisection.
func bisecting(args []string, status int) int {
	if slices.Contains(args, "--git-bisect") && status != compare.Parity.Info().Exit && status != compare.Divergence.Info().Exit {
		return compare.Trouble.Info().BisectExit
	}
	return status
}

// finish prints what went wrong and returns the exit status.
func finish(e *env, err error) int {
	if err == nil {
		return compare.Parity.Info().Exit
	}
	var ee *exitError
	if errors.As(err, &ee) && ee.err == nil {
		return ee.status
	}
	status := compare.Trouble.Info().Exit
	if ee != nil {
		status = ee.status
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return status // whoever read our output has gone: nobody to tell
	}
	fmt.Fprintf(e.Stderr, "parity: %v\n", err)
	return status
}

// newRootCmd builds the command tree.
func newRootCmd(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "parity",
		Short: "Find where a ported neural network first differs from its reference, and why",
		Long: `parity compares two folders of per-layer tensors: those of a trusted reference
run and those of a port of the same model. First it proves that the dumps can be
trusted, then it names the first divergent layer and where the error enters, then
why, with numeric proof on the tensors.

Exit statuses:
` + statusHelp(),
		Example: `  parity compare ref/ port/             # the main job
  parity compare ref/ port/ -o r.json -o r.xml
  parity explain ref/ port/             # why, proven on the tensors
  parity inspect port/                  # one dump alone`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())
	})
	for _, c := range commands {
		root.AddCommand(c(e))
	}
	return root
}

// statusHelp renders the table of verdicts for help texts.
func statusHelp() string {
	var b strings.Builder
	for _, v := range compare.Verdicts {
		fmt.Fprintf(&b, "  %d  %-11s %s\n", v.Exit, v.Verdict, v.Meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

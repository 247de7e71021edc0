package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/diagnose/triage"
)

// triageFlags are the flags of `parity triage`.
type triageFlags struct {
	logs           []string
	source, python string
	format         string
	ask            bool
	answers        map[string]*string
}

// newTriageCmd builds `parity triage`.
func newTriageCmd(e *env) *cobra.Command {
	f := triageFlags{answers: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "triage [--log FILE]... [--source DIR] [answers]",
		Short: "Hangs, losses, errors: from a log, from sources or from a few answers to a known pattern",
		Long: `triage finds known failure patterns without dumps. It takes

  --log FILE     a log (plain or gzip; - is standard input), of any size. Messages are
                 recognised and printed with their line and what their numbers mean.
                 Give the logs of several ranks, and they are held against each other.
  --source DIR   Python sources, read by the syntax tree of your own python3; nothing of
                 them is imported or run. Named are collectives, random draws and saves
                 that ranks do not share, with file, line and the way of calls.
                 A line that says "# parity: ignore" is left alone.
  answers        to the triage questions, as flags; on a terminal, without --log and
                 --source, they are asked in their order.

Exit statuses: 0 nothing was recognised (which proves nothing), 1 a pattern was,
2 trouble: something could not be read, or there was nothing to go by.`,
		Example: `  parity triage                                  # asks, on a terminal
  parity triage --log rank0.log --log rank1.log
  tail -n 1000 train.log | parity triage --log -
  parity triage --source src/ --format json
  parity triage --kind hang --one-rank yes --stage save`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), e) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.logs, "log", nil, "recognise messages in this `file`; may be repeated")
	fl.StringVar(&f.source, "source", "", "audit the Python sources in this `folder`")
	fl.StringVar(&f.python, "python", "python3", "the interpreter whose parser reads the sources")
	fl.StringVar(&f.format, "format", "terminal", "what to print: "+strings.Join(triage.Formats, ", "))
	fl.BoolVar(&f.ask, "ask", false, "ask the questions even where standard input is no terminal")
	for _, q := range triage.Questions {
		var choices []string
		for _, c := range q.Choices {
			choices = append(choices, c.ID)
		}
		f.answers[q.ID] = fl.String(q.ID, "", q.Text+" `"+strings.Join(choices, "|")+"`")
		must(cmd.RegisterFlagCompletionFunc(q.ID, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)))
	}
	return cmd
}

// must panics on a mistake in the command table, never on input.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// run gathers the evidence and prints what it speaks for. What can be read is
// printed also where something else cannot.
func (f *triageFlags) run(ctx context.Context, e *env) error {
	if err := triage.Render(io.Discard, f.format, &triage.Result{}); err != nil {
		return err // a typo is told before anything is read
	}
	r := &triage.Result{Answers: map[string]string{}}
	for _, q := range triage.Questions {
		answer, err := q.Parse(*f.answers[q.ID])
		if err != nil {
			return fmt.Errorf("--%w", err)
		}
		if answer != "" {
			r.Answers[q.ID] = answer
		}
	}
	stdin, isFile := e.Stdin.(*os.File)
	asks := f.ask
	if !asks && isFile && len(f.logs) == 0 && f.source == "" {
		_, asks = isTerminal(stdin)
	}
	if asks {
		tail, err := triage.Ask(e.Stdin, e.Stderr, r.Answers)
		if err != nil {
			return err
		}
		if tail != nil {
			r.Logs = append(r.Logs, *tail)
		}
	}
	if len(f.logs) == 0 && f.source == "" && len(r.Logs) == 0 && r.Answers["kind"] == "" {
		if err := triage.Help(e.Stdout); err != nil {
			return err
		}
		return errors.New("nothing to go by: give --log, --source, or at least --kind")
	}
	var troubles []error
	for _, name := range f.logs {
		log, err := readLog(ctx, e, name)
		if err != nil {
			troubles = append(troubles, err)
		}
		if log.Lines > 0 {
			r.Logs = append(r.Logs, log)
		}
	}
	if f.source != "" {
		audit, err := triage.AuditSource(ctx, f.python, f.source)
		if err != nil {
			troubles = append(troubles, err)
		}
		r.Source = audit
		if audit != nil {
			r.Warnings = audit.Doubts()
		}
	}
	if len(troubles) > 0 && len(r.Logs) == 0 && r.Source == nil && len(r.Answers) == 0 {
		return errors.Join(troubles...) // nothing was looked at: no report
	}
	r.Conclude()
	if err := triage.Render(e.Stdout, f.format, r); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(e.Stderr, "parity: warning: %s\n", w)
	}
	switch {
	case len(troubles) > 0:
		return errors.Join(troubles...)
	case r.Recognised():
		return &exitError{status: compare.Divergence.Info().Exit}
	}
	return nil
}

// readLog opens a log, "-" being standard input, and recognises its messages.
func readLog(ctx context.Context, e *env, name string) (triage.Log, error) {
	if name == "-" {
		return triage.ReadLog(name, cancelled{ctx, e.Stdin})
	}
	file, err := os.Open(name)
	if err != nil {
		return triage.Log{}, fmt.Errorf("reading log: %w", err)
	}
	defer file.Close()
	return triage.ReadLog(name, cancelled{ctx, file})
}

// cancelled is a reader that ends with its context.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

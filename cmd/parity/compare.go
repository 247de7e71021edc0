package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/report"
)

// newCompareCmd builds `parity compare`.
func newCompareCmd(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:  "compare REF PORT",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := dump.Open(args[0], dump.Options{})
			if err != nil {
				return err
			}
			port, err := dump.Open(args[1], dump.Options{})
			if err != nil {
				return err
			}
			c, err := compare.Compare(cmd.Context(), ref, port, compare.DefaultOptions())
			if err != nil {
				return err
			}
			if err := report.JSON(e.Stdout, c); err != nil {
				return fmt.Errorf("writing report: %w", err)
			}
			return &exitError{status: c.ExitStatus}
		},
	}
	return cmd
}

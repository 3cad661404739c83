package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newCoverage() *cobra.Command {
	var a apiFlags
	c := &cobra.Command{
		Use:   "coverage",
		Short: "Show which ledgers were read and verified, and whether there is a gap",
		Long: `Shows the ranges of ledgers that this deployment has followed, and whether each ledger
was verified against its hashes. Following continues where it stopped, so there is one
range. If ledgers may be missing between two ranges, the command ends with 3.`,
		Example: `  # Was every ledger read, without a gap?
  lumenhook coverage

  # How far the service is, for a script
  lumenhook coverage --field cursor.ledger`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.API()
			if err != nil {
				return err
			}
			read, err := c.GetCoverage(cmd.Context())
			if err != nil {
				return err
			}
			err = a.Print(cmd.OutOrStdout(), read, func(w io.Writer) { apicli.ShowCoverage(w, read) })
			if gaps := apicli.GapsFault(read); err == nil && gaps != nil {
				return cli.Differs(gaps)
			}
			return err
		},
	}
	a.register(c)
	return c
}

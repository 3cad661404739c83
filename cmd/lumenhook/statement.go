package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newStatement() *cobra.Command {
	var a apiFlags
	var wallet string
	var filter client.StatementFilter
	var asCSV bool
	c := &cobra.Command{
		Use:   "statement --wallet G…",
		Short: "Show every move of a watched wallet's balances, and what is unexplained",
		Long: `Shows the balances of a wallet before and after, and every move between them: the
payments to it, each with its events or why no watch took it, and whatever else
changed a balance. Each move begins where the last one ended. Where it does not, that
is unexplained, and the command ends with 3.

The service records moves with --balance-moves, of wallets that are watched: start it by
"lumenhook run --balance-moves", or in a clone by "make run ARGS=--balance-moves". A
statement begins with the first ledger that the oldest active watch of the account saw.`,
		Example: `  # A month of a wallet in XLM
  lumenhook statement --wallet G… --asset XLM --from 2026-11-01T00:00:00Z

  # A range of ledgers, for a spreadsheet
  lumenhook statement --wallet G… --from 63092000 --to 63093000 --csv > moves.csv`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asCSV && (a.JSON || a.Field != "") {
				return cli.Usage(errors.New("--csv: is another form than --json and --field: give one"))
			}
			if err := apicli.CheckWallet(wallet); err != nil {
				return err
			}
			c, err := a.API()
			if err != nil {
				return err
			}
			read, err := apicli.ReadStatement(cmd.Context(), c, wallet, filter)
			if err != nil {
				return err
			}
			if note := apicli.Future(filter, read, time.Now()); note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), note)
			}
			if out := cmd.OutOrStdout(); asCSV {
				err = apicli.WriteStatement(cli.Exact(out), read)
			} else {
				err = a.Print(out, read, func(w io.Writer) { apicli.ShowStatement(w, read, filter) })
			}
			if gaps := apicli.Unexplained(read); err == nil && gaps != nil {
				return cli.Differs(gaps)
			}
			return err
		},
	}
	a.register(c)
	c.Flags().StringVar(&wallet, "wallet", "", "the wallet's public address")
	cli.AddFields(c.Flags(), &filter)
	c.Flags().BoolVar(&asCSV, "csv", false, "print the moves as CSV")
	_ = c.MarkFlagRequired("wallet")
	return c
}

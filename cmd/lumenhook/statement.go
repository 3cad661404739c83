package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/ops"
)

func newStatement() *cobra.Command {
	var a apiFlags
	var wallet string
	var filter client.StatementFilter
	var asCSV bool
	c := &cobra.Command{
		Use:   "statement --wallet G…",
		Short: "Show every move of a watched wallet's balances, and what is unexplained",
		Long: `Shows the balances of a wallet before and after, and every move between them. Payments to
the wallet have their events, or the reason why no watch accepted them. Each move begins
where the last one ended. If it does not, the difference is unexplained, and the command
ends with 3.

With --balance-moves the service records the moves of watched wallets. Start it with
"lumenhook run --balance-moves", or in a clone with "make run ARGS=--balance-moves". A
statement begins with the first ledger that the oldest active watch of the account saw.`,
		Example: `  # A month of a wallet in XLM
  lumenhook statement --wallet G… --asset XLM --from 2026-11-01T00:00:00Z

  # A range of ledgers, for a spreadsheet
  lumenhook statement --wallet G… --from 63092000 --to 63093000 --csv > moves.csv`,
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
	cli.Require(c, "wallet")
	return c
}

// reconcileTimeoutMax bounds --timeout.
const reconcileTimeoutMax = 10 * time.Minute

// reconcileFlags are the flags of `lumenhook reconcile`.
type reconcileFlags struct {
	apiFlags
	source        config.Ledgers
	wallet, asset string
	timeout       time.Duration
}

func newReconcile() *cobra.Command {
	var r reconcileFlags
	c := &cobra.Command{
		Use:   "reconcile --wallet G…",
		Short: "Compare a wallet's statement with what its account holds on the network",
		Long: `Asks a Stellar RPC server for the balances of the wallet's account after its newest
ledger. It waits until the service has read that ledger, and compares the balances with
the statement. If a balance differs or has something unexplained, the command names it
and ends with 3.

For the strongest check, name a server that the service does not follow, with
--stellar-rpc-url. Without it, the command asks the network of the service in
--data-dir, or the public server of the test network. A balance without recorded moves
is shown but not compared, and the command says so if that holds for all of them. The
service records moves with --balance-moves. In a clone, run "make run ARGS=--balance-moves".`,
		Example: `  # Does the account hold what its statement says?
  lumenhook reconcile --wallet G… --stellar-rpc-url https://rpc.example

  # As JSON
  lumenhook reconcile --wallet G… --json --stellar-rpc-url https://rpc.example`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := r.run(cmd.Context())
			if err != nil {
				return err
			}
			err = r.Print(cmd.OutOrStdout(), report, func(w io.Writer) { report.Show(w) })
			if found := report.Findings(); err == nil && found != nil {
				return cli.Differs(found)
			}
			if err == nil && !report.Compared() {
				fmt.Fprintf(cmd.ErrOrStderr(), "nothing was compared: no move of these balances is recorded "+
					"since ledger %d, where the record begins. A balance is compared from its first recorded "+
					"move on.\n", report.RecordedSince)
			}
			return err
		},
	}
	r.register(c)
	f := c.Flags()
	f.StringVar(&r.wallet, "wallet", "", "the wallet's public address")
	f.StringVar(&r.asset, "asset", "",
		"only this balance: XLM, CODE:ISSUER, or pool:ID for shares in a liquidity pool")
	f.DurationVar(&r.timeout, "timeout", time.Minute,
		"how long to wait for the service to read what the source has")
	r.source.RegisterAccounts(f)
	cli.Require(c, "wallet")
	return c
}

func (r *reconcileFlags) run(ctx context.Context) (report ops.ReconcileReport, err error) {
	if err := r.source.CheckAccounts(); err != nil {
		return report, cli.Usage(err)
	}
	if err := apicli.CheckWallet(r.wallet); err != nil {
		return report, err
	}
	if r.timeout < time.Second || r.timeout > reconcileTimeoutMax {
		return report, cli.Usage(fmt.Errorf("--timeout %v: must be from 1s to %v", r.timeout,
			reconcileTimeoutMax))
	}
	c, err := r.API()
	if err != nil {
		return report, err
	}
	coverage, err := c.GetCoverage(ctx)
	if err != nil {
		return report, err
	}
	if coverage.NetworkPassphrase == nil {
		return report, errors.New("the service has read no ledger yet: does it follow a network " +
			"(lumenhook health)?")
	}
	if !r.NamesAPI() && !r.source.NamesServer() && r.source.Network == "" {
		run, err := r.Run("name the source with --stellar-rpc-url")
		if err != nil {
			return report, err
		}
		if run.Stellar.RPCURL != "" {
			r.source.UseServer(run.Stellar.RPCURL, run.Stellar.NetworkPassphrase)
		}
	}
	accounts, name, err := r.source.OpenAccounts(*coverage.NetworkPassphrase)
	if err != nil {
		return report, err
	}
	return ops.Reconciliation{
		API:      c,
		Accounts: accounts,
		Source:   name,
		Wallet:   r.wallet,
		Asset:    r.asset,
		Timeout:  r.timeout,
	}.Run(ctx)
}

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

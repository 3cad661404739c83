package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/ops"
)

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
		Long: `Asks a Stellar RPC server what the wallet's account holds after its newest ledger, waits
until the service has read that ledger, and compares the closing balances of the
statement with it. The command names each balance that differs or has something
unexplained, and ends with 3.

For the strongest check, name a server that the service does not follow, with
--stellar-rpc-url. Without it, the command asks the network of the service in
--data-dir, or the public server of the test network. A balance without recorded moves
is shown but not compared, and the command says so if that holds for all of them. The
service records moves with --balance-moves ("lumenhook run --balance-moves", or in a
clone "make run ARGS=--balance-moves").`,
		Example: `  # Does the account hold what its statement says?
  lumenhook reconcile --wallet G… --stellar-rpc-url https://rpc.example

  # As JSON
  lumenhook reconcile --wallet G… --json --stellar-rpc-url https://rpc.example`,
		Args: cli.NoArguments,
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
	_ = c.MarkFlagRequired("wallet")
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

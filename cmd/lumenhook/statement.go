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
	c := newCommand("statement", func(cmd *cobra.Command, _ []string) error {
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
			err = read.WriteCSV(cli.Exact(out))
		} else {
			err = a.Print(out, read, func(w io.Writer) { apicli.ShowStatement(w, read, filter) })
		}
		if gaps := apicli.Unexplained(read); err == nil && gaps != nil {
			return cli.Differs(gaps)
		}
		return err
	})
	a.register(c)
	c.Flags().StringVar(&wallet, "wallet", "", "public address of the wallet")
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
	c := newCommand("reconcile", func(cmd *cobra.Command, _ []string) error {
		report, err := r.run(cmd.Context())
		if err != nil {
			return err
		}
		err = r.Print(cmd.OutOrStdout(), report, func(w io.Writer) { report.Show(w) })
		if found := report.Findings(); err == nil && found != nil {
			return cli.Differs(found)
		}
		if err == nil && !report.Compared() {
			return fmt.Errorf("nothing was compared: no move of these balances is recorded since ledger "+
				"%d, where the record begins: a balance is compared from its first recorded move on",
				report.RecordedSince)
		}
		return err
	})
	r.register(c)
	f := c.Flags()
	f.StringVar(&r.wallet, "wallet", "", "public address of the wallet")
	f.StringVar(&r.asset, "asset", "",
		"only this balance: XLM, CODE:ISSUER, or pool:ID for shares in a liquidity pool")
	f.DurationVar(&r.timeout, "timeout", time.Minute,
		"how long to wait for the service to catch up with the source")
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
	c := asking(&a, "coverage",
		func(ctx context.Context, c *client.Client, _ []string) (client.Coverage, error) {
			return c.GetCoverage(ctx)
		}, apicli.ShowCoverage, apicli.CheckGaps)
	a.register(c)
	return c
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newWatches() *cobra.Command {
	var a apiFlags
	c := &cobra.Command{Use: "watches", Short: "Create and manage watches"}
	a.register(c)
	c.AddCommand(
		newWatchesCreate(&a), newWatchesList(&a), newWatchesUpdate(&a), newWatchesCheck(&a),
		newWatchesHistory(&a),
		getting(&a, apicli.Watches, "Show a watch",
			`  # Show a watch's rules, warnings and backfill progress
  lumenhook watches get wat_…`),
		withExample(changing(&a, "delete WATCH_ID", "Delete a watch",
			func(ctx context.Context, c *client.Client, args []string) (struct{}, error) {
				return struct{}{}, c.DeleteWatch(ctx, args[0])
			}, showDeleted), `  # Stop sending events for a wallet
  lumenhook watches delete wat_…`),
	)
	c.Example = examplesOf(c, "create")
	return c
}

func newWatchesCreate(a *apiFlags) *cobra.Command {
	var f apicli.Watch
	var warnings []string
	c := changing(a, "create --wallet G… --endpoint ep_…", "Watch a wallet",
		func(ctx context.Context, c *client.Client, _ []string) (client.Watch, error) {
			body, err := f.Create()
			if err != nil {
				return client.Watch{}, err
			}
			made, err := c.CreateWatch(ctx, body)
			warnings = made.WarningDetails
			return made, err
		}, apicli.ShowWatch)
	c.PostRun = func(c *cobra.Command, _ []string) {
		for _, warning := range warnings {
			if a.Field != "" { // else they are printed
				fmt.Fprintln(c.ErrOrStderr(), warning)
			}
		}
	}
	c.Example = `  # Watch all XLM payments to a wallet
  lumenhook watches create --wallet G… --endpoint ep_… --label "the till"

  # Watch for one invoice payment with this amount and memo for 30 minutes
  lumenhook watches create --wallet G… --endpoint ep_… --amount exact:12.5 --memo text:order-42 \
    --once --expires-in 30m

  # Watch for payments of at least 5 in an asset
  lumenhook watches create --wallet G… --endpoint ep_… --asset USDC:G… --amount min:5`
	f.Register(c.Flags())
	cli.Require(c, "wallet", "endpoint")
	return c
}

func newWatchesUpdate(a *apiFlags) *cobra.Command {
	var f apicli.Watch
	c := changing(a, "update WATCH_ID", "Update a watch",
		func(ctx context.Context, c *client.Client, args []string) (client.Watch, error) {
			patch, err := f.Patch()
			if err != nil {
				return client.Watch{}, err
			}
			return c.UpdateWatch(ctx, args[0], patch)
		}, apicli.ShowWatch)
	c.Example = `  # Send events for rejected payments as well
  lumenhook watches update wat_… --event-type payment.received,payment.rejected`
	f.Register(c.Flags(), "wallet", "once")
	update := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := update(cmd, args)
		if err == nil && changesRules(cmd.Flags()) {
			fmt.Fprintf(cmd.ErrOrStderr(), "\nThe new rules apply from the next ledger on. To match "+
				"earlier payments without an event of this watch:\n"+
				"  lumenhook backfill --watch %s --from LEDGER\n"+
				"`lumenhook explain TX` shows the ledger of a payment.\n", args[0])
		}
		return err
	}
	return c
}

// changesRules reports whether flags change which payments a watch takes.
func changesRules(f *pflag.FlagSet) bool {
	return slices.ContainsFunc([]string{
		"amount", "asset", "memo", "sender", "event-type", "expires-at", "expires-in", "endpoint",
	}, f.Changed)
}

func newWatchesList(a *apiFlags) *cobra.Command {
	c := listing(a, apicli.Watches, "List watches, newest first")
	c.Example = `  # List all watches
  lumenhook watches list

  # List the watches for a wallet
  lumenhook watches list --wallet G…`
	return c
}

func newWatchesCheck(a *apiFlags) *cobra.Command {
	var f apicli.Imagined
	c := asking(a, "check WATCH_ID --amount 12.5", "Test how a watch would handle a payment",
		func(ctx context.Context, c *client.Client, args []string) (client.WatchCheck, error) {
			payment, err := f.Payment()
			if err != nil {
				return client.WatchCheck{}, err
			}
			return c.CheckWatch(ctx, args[0], payment)
		}, apicli.ShowWatchCheck)
	c.Long = `Check a hypothetical payment against the watch's current rules, the same way as a
real payment. The command doesn't change anything.

If you don't set --sender, the payment comes from an address that isn't on any
allowlist.`
	c.Example = `  # Find out what happens to a payment with the wrong memo
  lumenhook watches check wat_… --amount 12.5 --memo text:inv-42`
	f.Register(c.Flags())
	cli.Require(c, "amount")
	return c
}

func newBackfill() *cobra.Command {
	var r apiFlags
	var watchID string
	var from, to uint32
	var noWait bool
	c := &cobra.Command{
		Use:   "backfill --watch WATCH_ID --from LEDGER [--to LEDGER]",
		Short: "Find and deliver past payments for a watch",
		Long: `Match every ledger in a range against a watch's current rules, and deliver payments
that don't have an event for this watch yet. You can use this command for payments
that were made before you created the watch, corrected its rules or extended its
expiry. Existing events aren't delivered again. Without --to, the range ends at the
live ledger. The watch handles later ledgers on its own.

The ledgers come from the service's own sources, as far back as its Stellar RPC
server or its lake keeps them. The command shows the progress. When it finishes, it
prints how many ledgers were read, and how many payments matched, already had an
event or got a new one. If you interrupt the command, the backfill continues in the
background. To see its progress, run "lumenhook watches get".`,
		Example: `  # Deliver payments in these ledgers that were made before you created the watch
  lumenhook backfill --watch wat_… --from 63092000 --to 63093000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask := client.BackfillCreate{From: from}
			if to != 0 {
				ask.To = &to
			}
			if from == 0 || to != 0 && to < from {
				return cli.Usage(fmt.Errorf("--from %d --to %d: must be the sequences of ledgers, "+
					"the first not above the last", from, to))
			}
			c, err := r.API()
			if err != nil {
				return err
			}
			w, err := c.BackfillWatch(cmd.Context(), watchID, ask)
			if err != nil {
				return err
			}
			if !noWait {
				w, err = apicli.FollowBackfill(cmd.Context(), c, w, cmd.ErrOrStderr())
			}
			show := func(out io.Writer) { apicli.ShowWatch(out, w) }
			return errors.Join(err, r.Print(cmd.OutOrStdout(), w, show))
		},
	}
	r.register(c)
	r.Changes(c)
	f := c.Flags()
	f.StringVar(&watchID, "watch", "", "id of the watch")
	f.Uint32Var(&from, "from", 0, "first ledger to read")
	f.Uint32Var(&to, "to", 0,
		"last ledger to read (default the newest ledger that was read)")
	f.BoolVar(&noWait, "no-wait", false, "return as soon as the service accepts the request")
	cli.Require(c, "watch", "from")
	return c
}

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newWatches() *cobra.Command {
	var a apiFlags
	c := &cobra.Command{Use: "watches", Short: "Watch wallets"}
	a.register(c)
	c.AddCommand(
		newWatchesCreate(&a), newWatchesList(&a), newWatchesUpdate(&a), newWatchesCheck(&a),
		newWatchesHistory(&a),
		getting(&a, apicli.Watches, "Show a watch",
			`  # Its rules, its warnings, and how far its backfill is
  lumenhook watches get wat_…`),
		withExample(changing(&a, "delete WATCH_ID", "Delete a watch", cli.OneArgument,
			func(ctx context.Context, c *client.Client, args []string) (struct{}, error) {
				return struct{}{}, c.DeleteWatch(ctx, args[0])
			}, showDeleted), `  # Send no more events of this wallet
  lumenhook watches delete wat_…`),
	)
	c.Example = examplesOf(c, "create")
	return c
}

func newWatchesCreate(a *apiFlags) *cobra.Command {
	var f apicli.Watch
	var twin string
	c := changing(a, "create --wallet G… --endpoint ep_…", "Watch a wallet", cli.NoArguments,
		func(ctx context.Context, c *client.Client, _ []string) (client.Watch, error) {
			body, err := f.Create()
			if err != nil {
				return client.Watch{}, err
			}
			made, err := c.CreateWatch(ctx, body)
			if err == nil {
				twin = apicli.Twin(ctx, c, made)
			}
			return made, err
		}, apicli.ShowWatch)
	c.PostRun = func(c *cobra.Command, _ []string) {
		if twin != "" {
			fmt.Fprintf(c.ErrOrStderr(), "%s watches this wallet for the same endpoint, too: "+
				"of a payment that both match there are two events\n", twin)
		}
	}
	c.Example = `  # Every payment in XLM to a wallet
  lumenhook watches create --wallet G… --endpoint ep_… --label "the till"

  # An invoice: one payment of this amount with this memo, within half an hour
  lumenhook watches create --wallet G… --endpoint ep_… --amount exact:12.5 --memo text:order-42 \
    --once --expires-in 30m

  # Of 5 and more, in an asset
  lumenhook watches create --wallet G… --endpoint ep_… --asset USDC:G… --amount min:5`
	f.Register(c.Flags())
	_ = c.MarkFlagRequired("wallet")
	_ = c.MarkFlagRequired("endpoint")
	return c
}

func newWatchesUpdate(a *apiFlags) *cobra.Command {
	var f apicli.Watch
	c := changing(a, "update WATCH_ID", "Change a watch", cli.OneArgument,
		func(ctx context.Context, c *client.Client, args []string) (client.Watch, error) {
			patch, err := f.Patch()
			if err != nil {
				return client.Watch{}, err
			}
			return c.UpdateWatch(ctx, args[0], patch)
		}, apicli.ShowWatch)
	c.Example = `  # Also send an event for each payment that the rules reject
  lumenhook watches update wat_… --event-type payment.received,payment.rejected`
	f.Register(c.Flags(), "wallet", "once")
	return c
}

func newWatchesList(a *apiFlags) *cobra.Command {
	c := listing(a, apicli.Watches, "List watches, newest first")
	c.Example = `  # All of them
  lumenhook watches list

  # Those of one wallet
  lumenhook watches list --wallet G…`
	return c
}

func newWatchesCheck(a *apiFlags) *cobra.Command {
	var f apicli.Imagined
	c := asking(a, "check WATCH_ID --amount 12.5", "Ask what a watch would make of a payment",
		cli.OneArgument,
		func(ctx context.Context, c *client.Client, args []string) (client.WatchCheck, error) {
			payment, err := f.Payment()
			if err != nil {
				return client.WatchCheck{}, err
			}
			return c.CheckWatch(ctx, args[0], payment)
		}, apicli.ShowWatchCheck)
	c.Long = `Checks an imagined payment against the watch as it is now, by the same rules as
payments of the network. It changes nothing.

Without --sender, the payment comes from an address that is on no list.`
	c.Example = `  # What happens to a payment with the wrong memo?
  lumenhook watches check wat_… --amount 12.5 --memo text:inv-42`
	f.Register(c.Flags())
	_ = c.MarkFlagRequired("amount")
	return c
}

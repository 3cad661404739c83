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
	c := group("watches", reading(&a, apicli.Watches)...)
	c.AddCommand(
		newWatchesCreate(&a), newWatchesUpdate(&a), newWatchesCheck(&a),
		changing(&a, "watches delete",
			func(ctx context.Context, c *client.Client, args []string) (struct{}, error) {
				return struct{}{}, c.DeleteWatch(ctx, args[0])
			}, func(w io.Writer, _ struct{}) { cli.Row(w, "deleted") }),
	)
	a.register(c)
	return c
}

func newWatchesCreate(a *apiFlags) *cobra.Command {
	var f apicli.Watch
	var warnings []string
	c := changing(a, "watches create",
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
	f.Register(c.Flags())
	cli.Require(c, "wallet", "endpoint")
	return c
}

func newWatchesUpdate(a *apiFlags) *cobra.Command {
	var f apicli.Watch
	c := changing(a, "watches update",
		func(ctx context.Context, c *client.Client, args []string) (client.Watch, error) {
			patch, err := f.Patch()
			if err != nil {
				return client.Watch{}, err
			}
			return c.UpdateWatch(ctx, args[0], patch)
		}, apicli.ShowWatch)
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

func newWatchesCheck(a *apiFlags) *cobra.Command {
	var f apicli.Imagined
	c := asking(a, "watches check",
		func(ctx context.Context, c *client.Client, args []string) (client.WatchCheck, error) {
			payment, err := f.Payment()
			if err != nil {
				return client.WatchCheck{}, err
			}
			return c.CheckWatch(ctx, args[0], payment)
		}, apicli.ShowWatchCheck)
	f.Register(c.Flags())
	cli.Require(c, "amount")
	return c
}

func newBackfill() *cobra.Command {
	var r apiFlags
	var watchID string
	var from, to uint32
	var noWait bool
	c := newCommand("backfill", func(cmd *cobra.Command, _ []string) error {
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
	})
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

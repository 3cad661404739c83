package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newBackfill() *cobra.Command {
	var r apiFlags
	var watchID string
	var from, to uint32
	var noWait bool
	c := &cobra.Command{
		Use:   "backfill --watch WATCH_ID --from LEDGER [--to LEDGER]",
		Short: "Find and deliver payments of the past for a watch",
		Long: `Matches every ledger of a range against a watch as it is now, and delivers the
payments that have no event of this watch yet. Use it for payments from before the
watch was created, and after you corrected its rules or extended its expiry. What was
delivered before is not delivered again. Without --to it goes as far as the live ledger
has been read; the watch sees later ones on its own.

Ledgers come from where the service follows them: as far back as its Stellar RPC
server keeps them, or its lake. The command shows the progress and, at the end, how many
ledgers were read and how many payments matched, were already delivered and were
created now. Interrupted, it leaves the backfill at work: "lumenhook watches get"
shows it.`,
		Example: `  # Deliver what a wallet was paid in these ledgers, before it was watched
  lumenhook backfill --watch wat_… --from 63092000 --to 63093000`,
		Args: cli.NoArguments,
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
	f.Uint32Var(&from, "from", 0, "first ledger to look at")
	f.Uint32Var(&to, "to", 0,
		"last ledger to look at; as far as the live ledger was read when not given")
	f.BoolVar(&noWait, "no-wait", false, "return when the request is taken")
	_ = c.MarkFlagRequired("watch")
	_ = c.MarkFlagRequired("from")
	return c
}

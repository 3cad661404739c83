package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/terminal"
)

// lookAtBackfill is how often a backfill is asked how far it has come.
const lookAtBackfill = 300 * time.Millisecond

func newBackfill() *cobra.Command {
	var r apiFlags
	var watchID string
	var from, to uint32
	var noWait bool
	c := &cobra.Command{
		Use:   "backfill --watch WATCH_ID --from LEDGER [--to LEDGER]",
		Short: "Find and deliver payments of the past for a watch",
		Long: `Has the follower hold ledgers of the past against a watch, beside the live
ledger, and deliver what it finds under the event ids that it would have had then:
what was delivered before is not delivered again. Without --to it goes as far as
the live ledger has been read; later ones the watch sees by itself.

Ledgers come from where the service follows them: as far back as its Stellar RPC
server keeps them, or its lake. The command shows how far it has come and returns
at the end. Interrupted, it leaves the backfill at work: "lumenhook watches get"
shows it.`,
		Example: "  lumenhook backfill --watch wat_… --from 63092000 --to 63093000",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask := client.BackfillCreate{From: from}
			if to != 0 {
				ask.To = &to
			}
			if from == 0 || to != 0 && to < from {
				return cli.Usage(fmt.Errorf("--from %d --to %d: must be the sequences of ledgers, the first not above the last", from, to))
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
				w, err = followBackfill(cmd.Context(), c, w, cmd.ErrOrStderr())
			}
			return errors.Join(err, r.Print(cmd.OutOrStdout(), w, func(out io.Writer) { showWatch(out, w) }))
		},
	}
	r.register(c)
	f := c.Flags()
	f.StringVar(&watchID, "watch", "", "id of the watch")
	f.Uint32Var(&from, "from", 0, "first ledger to look at")
	f.Uint32Var(&to, "to", 0, "last ledger to look at; as far as the live ledger was read when not given")
	f.BoolVar(&noWait, "no-wait", false, "return when the request is taken")
	_ = c.MarkFlagRequired("watch")
	_ = c.MarkFlagRequired("from")
	return c
}

// followBackfill tells how far a backfill has come until it ends.
func followBackfill(ctx context.Context, c *client.Client, w client.Watch, tell io.Writer) (client.Watch, error) {
	tick := time.NewTicker(lookAtBackfill)
	defer tick.Stop()
	asked := *w.Backfill
	for told := ""; ; {
		b := w.Backfill
		switch {
		case b == nil || !b.RequestedAt.Equal(asked.RequestedAt) || b.From != asked.From:
			return w, errors.New("another backfill of the watch has taken the place of this one")
		case b.Problem != nil:
			return w, fmt.Errorf("the backfill has ended before its last ledger: %s", *b.Problem)
		}
		if line := backfillText(b); line != told {
			_, _ = fmt.Fprintln(tell, line)
			told = line
		}
		if b.Done {
			return w, nil
		}
		select {
		case <-ctx.Done():
			return w, errors.New("interrupted; the backfill goes on (lumenhook watches get shows it)")
		case <-tick.C:
		}
		next, err := c.GetWatch(ctx, w.ID)
		if err != nil {
			return w, fmt.Errorf("asking how far the backfill has come (it goes on): %w", err)
		}
		w = next
	}
}

// backfillText tells in a line how far a backfill has come.
func backfillText(b *client.Backfill) string {
	switch {
	case b == nil:
		return ""
	case b.Problem != nil:
		return fmt.Sprintf("ledgers from %d: ended at %d: %s", b.From, b.Next, *b.Problem)
	case b.To == nil:
		return fmt.Sprintf("ledgers from %d: waiting for its turn", b.From)
	case b.Done:
		return fmt.Sprintf("ledgers %d to %d: done", b.From, *b.To)
	}
	done, left := b.Next-b.From, int64(*b.To)-int64(b.Next)+1
	return fmt.Sprintf("ledgers %d to %d: %s %d to go", b.From, *b.To, terminal.Bar(done, uint32(max(left, 0))), max(left, 0))
}

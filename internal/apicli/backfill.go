package apicli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/terminal"
)

// backfillInterval is how often the progress of a backfill is read.
const backfillInterval = 300 * time.Millisecond

// FollowBackfill prints the progress of a watch's backfill until it ends.
func FollowBackfill(
	ctx context.Context, c *client.Client, w client.Watch, tell io.Writer,
) (client.Watch, error) {
	tick := time.NewTicker(backfillInterval)
	defer tick.Stop()
	asked := *w.Backfill
	for told := ""; ; {
		b := w.Backfill
		switch {
		case b == nil || !b.RequestedAt.Equal(asked.RequestedAt) || b.From != asked.From:
			return w, errors.New("another backfill of the watch has taken the place of this one")
		case b.Problem != nil:
			return w, fmt.Errorf("the backfill did not match all of its ledgers: %s; %s", *b.Problem,
				b.Counts())
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

// backfillText returns the progress of a backfill in one line.
func backfillText(b *client.Backfill) string {
	switch {
	case b == nil:
		return ""
	case b.Problem != nil:
		return fmt.Sprintf("ledgers from %d: ended at %d: %s; %s", b.From, b.Next, *b.Problem, b.Counts())
	case b.To == nil:
		return fmt.Sprintf("ledgers from %d: waiting for its turn", b.From)
	case b.Done:
		return fmt.Sprintf("ledgers %d to %d: done; %s", b.From, *b.To, b.Counts())
	}
	done, left := b.Next-b.From, max(int64(*b.To)-int64(b.Next)+1, 0)
	return fmt.Sprintf("ledgers %d to %d: %s %d to go",
		b.From, *b.To, terminal.Bar(done, uint32(left)), left)
}

package apicli

import (
	"errors"
	"io"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// Replay are the flags of a replay.
type Replay struct {
	EventFilter
	dryRun bool
}

// Register adds the flags.
func (r *Replay) Register(f *pflag.FlagSet) {
	f.StringVar(&r.since, "since", "",
		"those whose createdAt is then or later: a time, or how long ago")
	f.StringVar(&r.until, "until", "",
		"those whose createdAt is before: a time, or how long ago")
	r.registerPaid(f)
	f.BoolVar(&r.dryRun, "dry-run", false, "say how many match, and queue none")
}

// Body returns the replay that the flags describe.
func (r *Replay) Body() (client.Replay, error) {
	since, err := cli.InstantFlag("since", r.since)
	until, untilErr := cli.InstantFlag("until", r.until)
	body := client.Replay{
		Since:         since.UTC(),
		WatchID:       r.WatchID,
		WalletAddress: r.WalletAddress,
		Type:          r.Type,
		PaymentID:     r.PaymentID,
		TxHash:        r.TxHash,
		Sender:        r.Sender,
		Memo:          r.Memo,
		Asset:         r.Asset,
		MinAmount:     r.MinAmount,
		MaxAmount:     r.MaxAmount,
		DryRun:        r.dryRun,
	}
	if !until.IsZero() {
		until = until.UTC()
		body.Until = &until
	}
	return body, errors.Join(err, untilErr)
}

// ShowReplay prints what a replay has queued, or would.
func ShowReplay(w io.Writer, a client.ReplayResult) {
	if !a.DryRun {
		cli.Row(w, "queued", a.Queued)
	}
	cli.Row(w, "matched", a.Matched)
	switch {
	case a.Truncated && a.DryRun:
		_, _ = io.WriteString(w, "\nNothing was queued. More match than one replay queues.\n")
	case a.Truncated:
		_, _ = io.WriteString(w, "\nMore matched than one replay queues: replay again.\n")
	case a.DryRun:
		_, _ = io.WriteString(w, "\nNothing was queued: replay without --dry-run for that.\n")
	}
}

package apicli

import (
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// Resend are the flags of a resend of many events.
type Resend struct {
	EventFilter
	cursor string
	dryRun bool
	given  func() bool // of a flag of these
}

// Register adds the flags.
func (r *Resend) Register(f *pflag.FlagSet) {
	own := pflag.NewFlagSet("resend", pflag.ContinueOnError)
	r.EventFilter.Register(own)
	own.StringVar(&r.cursor, "cursor", "", "go on where another resend with the same filters ended")
	own.BoolVar(&r.dryRun, "dry-run", false, "say how many match, and queue none")
	f.AddFlagSet(own)
	r.given = func() (given bool) {
		own.VisitAll(func(flag *pflag.Flag) { given = given || flag.Changed })
		return given
	}
}

// Given reports whether one of the flags was given.
func (r *Resend) Given() bool { return r.given() }

// Body returns the selection that the flags describe.
func (r *Resend) Body() (client.ResendMany, error) {
	f, err := r.Filter()
	return client.ResendMany{
		EndpointID:    f.EndpointID,
		WatchID:       f.WatchID,
		WalletAddress: f.WalletAddress,
		Type:          f.Type,
		State:         f.State,
		Since:         unlessZero(f.Since),
		Until:         unlessZero(f.Until),
		PaymentID:     f.PaymentID,
		TxHash:        f.TxHash,
		Sender:        f.Sender,
		Memo:          f.Memo,
		Asset:         f.Asset,
		MinAmount:     f.MinAmount,
		MaxAmount:     f.MaxAmount,
		Cursor:        r.cursor,
		DryRun:        r.dryRun,
	}, err
}

func unlessZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// ShowAnyResent prints what a resend of one event or of many has queued, or would.
func ShowAnyResent(w io.Writer, answer any) {
	switch a := answer.(type) {
	case client.Resent:
		ShowResent(w, a)
	case client.ResendManyResult:
		showResentMany(w, a)
	}
}

func showResentMany(w io.Writer, a client.ResendManyResult) {
	if !a.DryRun {
		cli.Row(w, "queued", a.Queued)
	}
	cli.Row(w, "matched", a.Matched)
	for _, r := range a.Refused {
		cli.Row(w, "refused", r.EventID+" "+r.Code)
	}
	switch {
	case a.DryRun && a.Truncated:
		_, _ = io.WriteString(w, "\nNothing was queued. More match than one resend queues.\n")
	case a.DryRun:
		_, _ = io.WriteString(w, "\nNothing was queued: resend without --dry-run for that.\n")
	case a.NextCursor != nil:
		_, _ = io.WriteString(w, "\nThere are more. Resend with the same filters and --cursor "+
			*a.NextCursor+"\n")
	}
}

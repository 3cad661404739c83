package apicli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// ShowWatch prints a watch, one field per line.
func ShowWatch(w io.Writer, x client.Watch) {
	cli.ShowFields(w, x, "backfill", "warnings", "warningDetails")
	if x.Backfill != nil {
		cli.Row(w, "backfill", backfillText(x.Backfill))
	}
	showWarnings(w, x.Warnings)
}

func showWarnings(w io.Writer, warnings []string) {
	for _, warning := range warnings {
		cli.Row(w, "warning", warning+": "+client.WarningDetail(warning))
	}
}

// Watch holds the flags for a watch's fields.
type Watch struct {
	client.WatchCreate
	amount, memo, expiresAt string
	expiresIn               time.Duration
	assets                  []string
	flags                   *pflag.FlagSet
}

// Register adds the flags, except those in except.
func (f *Watch) Register(s *pflag.FlagSet, except ...string) {
	f.flags = s
	cli.AddFields(s, &f.WatchCreate, except...)
	s.StringSliceVar(&f.assets, "asset", []string{"XLM"},
		"asset to accept: XLM or CODE:ISSUER; can be repeated")
	s.StringVar(&f.amount, "amount", "any", "amounts to accept: any, exact:12.5, min:1, max:9 or "+
		"range:1:9, in units of the asset")
	s.StringVar(&f.memo, "memo", "any",
		"memos to accept: any, present, absent, text:…, id:… or hash:…")
	cli.Offer(s, "asset", "XLM")
	cli.Offer(s, "amount", "any", "exact:", "min:", "max:", "range:")
	cli.Offer(s, "memo", "any", "present", "absent", "text:", "id:", "hash:")
	s.StringVar(&f.expiresAt, "expires-at", "", "don't accept payments in ledgers that close after "+
		"this time, such as 2026-12-01T12:00:00Z; to remove it in an update, use none")
	s.DurationVar(&f.expiresIn, "expires-in", 0,
		"like --expires-at, but as a duration from now, such as 30m")
}

// Create returns the watch to create.
func (f *Watch) Create() (client.WatchCreate, error) {
	err := f.parse()
	return f.WatchCreate, err
}

// Patch returns the changes to a watch.
func (f *Watch) Patch() (client.Patch, error) {
	if err := f.parse(); err != nil {
		return nil, err
	}
	patch := cli.ChangedFields(f.flags, &f.WatchCreate)
	for _, field := range []struct {
		flag, name string
		value      any
	}{
		{"asset", "assets", f.Assets},
		{"amount", "amountRule", f.AmountRule},
		{"memo", "memoRule", f.MemoRule},
		{"expires-at", "expiresAt", f.ExpiresAt},
		{"expires-in", "expiresAt", f.ExpiresAt},
	} {
		if f.flags.Changed(field.flag) {
			patch[field.name] = field.value
		}
	}
	return patch, NothingToChange(patch)
}

// NothingToChange returns an error for an empty patch.
func NothingToChange(patch client.Patch) error {
	if len(patch) > 0 {
		return nil
	}
	return cli.Usage(errors.New("nothing to change; set at least one field's flag"))
}

// noExpiry is the value of --expires-at that removes the expiry.
const noExpiry = "none"

func (f *Watch) expiry() (*time.Time, error) {
	switch {
	case f.flags.Changed("expires-at") && f.flags.Changed("expires-in"):
		return nil, cli.Usage(errors.New("--expires-at and --expires-in exclude each other; set " +
			"only one"))
	case f.flags.Changed("expires-in") && f.expiresIn <= 0:
		return nil, cli.Usage(fmt.Errorf("--expires-in %s: must be more than 0", f.expiresIn))
	case f.flags.Changed("expires-in"):
		return new(time.Now().UTC().Add(f.expiresIn)), nil
	case !f.flags.Changed("expires-at") || f.expiresAt == noExpiry:
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, f.expiresAt)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--expires-at %q: must be a time such as 2026-12-01T12:00:00Z",
			f.expiresAt))
	}
	return new(at.UTC()), nil
}

// parse parses the flags whose format differs from the API's fields.
func (f *Watch) parse() (err error) {
	for _, text := range f.assets {
		code, issuer, issued := strings.Cut(text, ":")
		a := client.Asset{Code: code}
		switch {
		case issued:
			a.Issuer = &issuer
		case code != domain.NativeCode:
			err = errors.Join(err, fmt.Errorf("--asset %q: must be XLM or CODE:ISSUER, where ISSUER is "+
				"the address (G…) of the issuing account", text))
		}
		f.Assets = append(f.Assets, a)
	}
	kind, rest, _ := strings.Cut(f.amount, ":")
	f.AmountRule = &client.AmountRule{Kind: kind}
	switch kind {
	case "any":
	case "exact", "min", "max":
		f.AmountRule.Amount = rest
	case "range":
		f.AmountRule.Min, f.AmountRule.Max, _ = strings.Cut(rest, ":")
	default:
		err = errors.Join(err, fmt.Errorf("--amount %q: "+
			"must be any, exact:12.5, min:1, max:9 or range:1:9", f.amount))
	}
	kind, rest, _ = strings.Cut(f.memo, ":")
	switch kind {
	case "any", "present", "absent":
		f.MemoRule = &client.MemoRule{Kind: kind}
	case "text", "id", "hash":
		f.MemoRule = &client.MemoRule{Kind: "equals", Type: kind, Value: rest}
	default:
		err = errors.Join(err, fmt.Errorf("--memo %q: "+
			"must be any, present, absent, text:…, id:… or hash:…", f.memo))
	}
	var expiryErr error
	f.ExpiresAt, expiryErr = f.expiry()
	return errors.Join(cli.Usage(err), expiryErr)
}

// Imagined holds the flags of a hypothetical payment.
type Imagined struct {
	payment client.ImaginedPayment
	memo    string
}

// Register adds the flags.
func (f *Imagined) Register(s *pflag.FlagSet) {
	f.payment.Asset = domain.NativeCode
	cli.AddFields(s, &f.payment)
	s.StringVar(&f.memo, "memo", "",
		"memo of the payment: text:…, id:… or hash:… (default none)")
}

// Payment returns the payment that the flags describe.
func (f *Imagined) Payment() (client.ImaginedPayment, error) {
	p := f.payment
	if f.memo == "" {
		return p, nil
	}
	p.MemoType, p.Memo, _ = strings.Cut(f.memo, ":")
	if p.Memo == "" || p.MemoType != "text" && p.MemoType != "id" && p.MemoType != "hash" {
		return p, cli.Usage(fmt.Errorf("--memo %q: must be text:…, id:… or hash:…", f.memo))
	}
	return p, nil
}

// ShowWatchCheck prints what a watch would do with a payment.
func ShowWatchCheck(w io.Writer, x client.WatchCheck) {
	cli.Row(w, "rules", strings.ToLower(x.Verification.Outcome))
	if reasons := x.Verification.Reasons; len(reasons) > 0 {
		cli.Row(w, "reasons", reasons)
	}
	if x.EventType != nil {
		cli.Row(w, "event", *x.EventType)
	} else {
		cli.Row(w, "no event", x.NotReported)
	}
}

const backfillInterval = 300 * time.Millisecond

// FollowBackfill prints the progress of a watch's backfill until it ends.
func FollowBackfill(
	ctx context.Context, c *client.Client, w client.Watch, tell io.Writer,
) (client.Watch, error) {
	tick := time.NewTicker(backfillInterval)
	defer tick.Stop()
	if w.Backfill == nil {
		return w, errors.New("the response has no backfill; is the service older than this command?")
	}
	asked := *w.Backfill
	for told := ""; ; {
		b := w.Backfill
		switch {
		case b == nil || !b.RequestedAt.Equal(asked.RequestedAt) || b.From != asked.From:
			return w, errors.New("another backfill of the watch has replaced this one")
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
			return w, errors.New("interrupted; the backfill continues (lumenhook watches get shows it)")
		case <-tick.C:
		}
		next, err := c.GetWatch(ctx, w.ID)
		if err != nil {
			return w, fmt.Errorf("reading the progress of the backfill, which continues: %w", err)
		}
		w = next
	}
}

func backfillText(b *client.Backfill) string {
	switch {
	case b == nil:
		return ""
	case b.Problem != nil:
		return fmt.Sprintf("ledgers from %d: stopped at %d: %s; %s", b.From, b.Next, *b.Problem,
			b.Counts())
	case b.To == nil:
		return fmt.Sprintf("ledgers from %d: queued", b.From)
	case b.Done:
		return fmt.Sprintf("ledgers %d to %d: done; %s", b.From, *b.To, b.Counts())
	}
	done, left := b.Next-b.From, max(int64(*b.To)-int64(b.Next)+1, 0)
	return fmt.Sprintf("ledgers %d to %d: %s %d to go",
		b.From, *b.To, cli.Bar(done, uint32(left)), left)
}

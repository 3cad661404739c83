package apicli

import (
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
	cli.Row(w, "id", x.ID)
	cli.Row(w, "wallet", x.WalletAddress)
	cli.Row(w, "label", x.Label)
	cli.Row(w, "endpoint", x.EndpointID)
	cli.Row(w, "status", x.Status)
	for _, a := range x.Assets {
		cli.Row(w, "asset", assetText(a))
	}
	a := x.AmountRule
	cli.Row(w, "amount", words(a.Kind, a.Amount, a.Min, a.Max))
	cli.Row(w, "memo", strings.TrimSpace(x.MemoRule.Kind+" "+x.MemoRule.Type+" "+x.MemoRule.Value))
	cli.Row(w, "senders", x.SenderAllowlist)
	cli.Row(w, "event types", x.EventTypes)
	if x.Once {
		cli.Row(w, "once", "for one payment")
	}
	cli.Row(w, "expires", x.ExpiresAt)
	if f := x.Fulfilled; f != nil {
		cli.Row(w, "fulfilled", fmt.Sprintf("by payment %s of ledger %d: event %s", f.PaymentID, f.Ledger,
			f.EventID))
	}
	if x.Backfill != nil {
		cli.Row(w, "backfill", backfillText(x.Backfill))
	}
	cli.Row(w, "created", x.CreatedAt)
	for _, warning := range x.Warnings {
		cli.Row(w, "warning", warningText(warning))
	}
}

// words joins those that are not empty.
func words(list ...string) string {
	return strings.Join(strings.Fields(strings.Join(list, " ")), " ")
}

func assetText(a client.Asset) string {
	if a.Issuer == nil {
		return a.Code
	}
	return a.Code + ":" + *a.Issuer
}

// ShowWatches prints a list of them.
func ShowWatches(w io.Writer, l client.List[client.Watch]) {
	cli.Row(w, "ID", "WALLET", "ENDPOINT", "STATUS", "AMOUNT", "LABEL", "EXPIRES", "CREATED")
	for _, x := range l.Data {
		cli.Row(w, x.ID, x.WalletAddress, x.EndpointID, x.Status, x.AmountRule.Kind, x.Label, x.ExpiresAt,
			x.CreatedAt)
	}
	cli.More(w, l.NextCursor)
}

// Watch are the flags of a watch's fields.
type Watch struct {
	label, endpoint, amount, memo string
	expiresAt                     string
	expiresIn                     time.Duration
	once                          bool
	assets, senders, eventTypes   []string
	changed                       func(name string) bool
}

// Register adds the flags.
func (f *Watch) Register(s *pflag.FlagSet) {
	s.StringVar(&f.endpoint, "endpoint", "", "id of the endpoint that receives the events")
	s.StringVar(&f.label, "label", "", "a text for people")
	s.StringSliceVar(&f.assets, "asset", []string{"XLM"}, "XLM or CODE:ISSUER; may be repeated")
	s.StringVar(&f.amount, "amount", "any", "any, exact:12.5, min:1, max:9 or range:1:9, in "+
		"units of the asset")
	s.StringVar(&f.memo, "memo", "any", "any, present, absent, text:…, id:… or hash:…")
	s.StringSliceVar(&f.senders, "sender", nil, "an address that may pay; may be repeated "+
		"(default anyone)")
	s.StringSliceVar(&f.eventTypes, "event-type", nil, "payment.received, payment.rejected or both "+
		"(default payment.received)")
	s.StringVar(&f.expiresAt, "expires-at", "", "take no payment of a ledger that closes after this "+
		"time, such as 2026-12-01T12:00:00Z (with update, none: it does not expire)")
	s.DurationVar(&f.expiresIn, "expires-in", 0, "the same, from now on, such as 30m")
	f.changed = s.Changed
}

// Create returns the watch to create for a wallet.
func (f *Watch) Create(wallet string) (client.WatchCreate, error) {
	assets, amount, memo, err := f.parse()
	expiry, expiryErr := f.expiry()
	return client.WatchCreate{
		WalletAddress:   wallet,
		Label:           f.label,
		EndpointID:      f.endpoint,
		Assets:          assets,
		AmountRule:      amount,
		MemoRule:        memo,
		SenderAllowlist: f.senders,
		EventTypes:      f.eventTypes,
		ExpiresAt:       expiry,
		Once:            f.once,
	}, errors.Join(err, expiryErr)
}

// Patch returns the changes to a watch.
func (f *Watch) Patch() (client.Patch, error) {
	assets, amount, memo, err := f.parse()
	expiry, expiryErr := f.expiry()
	if err := errors.Join(err, expiryErr); err != nil {
		return nil, err
	}
	patch := client.Patch{}
	for _, field := range []struct {
		flag, name string
		value      any
	}{
		{"endpoint", "endpointId", f.endpoint},
		{"label", "label", f.label},
		{"asset", "assets", assets},
		{"amount", "amountRule", amount},
		{"memo", "memoRule", memo},
		{"sender", "senderAllowlist", f.senders},
		{"event-type", "eventTypes", f.eventTypes},
		{"expires-at", "expiresAt", expiry},
		{"expires-in", "expiresAt", expiry},
	} {
		if f.changed(field.flag) {
			patch[field.name] = field.value
		}
	}
	if len(patch) == 0 {
		return nil, cli.Usage(errors.New("nothing to change: give a flag of what is to be another"))
	}
	return patch, nil
}

// RegisterOnce adds the flag of what is decided when a watch is made.
func (f *Watch) RegisterOnce(s *pflag.FlagSet) {
	s.BoolVar(&f.once, "once", false, "the watch is for one payment: the first that meets its rules")
}

// noExpiry is the --expires-at of a watch that is not to expire any more.
const noExpiry = "none"

// expiry returns when the watch is to expire; nil: it is not to.
func (f *Watch) expiry() (*time.Time, error) {
	switch {
	case f.changed("expires-at") && f.changed("expires-in"):
		return nil, cli.Usage(errors.New("--expires-at and --expires-in say the same: give one of them"))
	case f.changed("expires-in") && f.expiresIn <= 0:
		return nil, cli.Usage(fmt.Errorf("--expires-in %s: must be more than nothing", f.expiresIn))
	case f.changed("expires-in"):
		return new(time.Now().UTC().Add(f.expiresIn)), nil
	case !f.changed("expires-at") || f.expiresAt == noExpiry:
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, f.expiresAt)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--expires-at %q: must be a time such as 2026-12-01T12:00:00Z",
			f.expiresAt))
	}
	return new(at.UTC()), nil
}

func (f *Watch) parse() (
	assets []client.Asset, amount *client.AmountRule, memo *client.MemoRule, err error,
) {
	for _, text := range f.assets {
		code, issuer, issued := strings.Cut(text, ":")
		a := client.Asset{Code: code}
		switch {
		case issued:
			a.Issuer = &issuer
		case code != domain.NativeCode:
			err = errors.Join(err, fmt.Errorf("--asset %q: must be XLM or CODE:ISSUER, where ISSUER is "+
				"the address (G…) of the account that issues it", text))
		}
		assets = append(assets, a)
	}
	kind, rest, _ := strings.Cut(f.amount, ":")
	amount = &client.AmountRule{Kind: kind}
	switch kind {
	case "any":
	case "exact", "min", "max":
		amount.Amount = rest
	case "range":
		amount.Min, amount.Max, _ = strings.Cut(rest, ":")
	default:
		err = errors.Join(err, fmt.Errorf("--amount %q: "+
			"must be any, exact:12.5, min:1, max:9 or range:1:9", f.amount))
	}
	kind, rest, _ = strings.Cut(f.memo, ":")
	switch kind {
	case "any", "present", "absent":
		memo = &client.MemoRule{Kind: kind}
	case "text", "id", "hash":
		memo = &client.MemoRule{Kind: "equals", Type: kind, Value: rest}
	default:
		err = errors.Join(err, fmt.Errorf("--memo %q: "+
			"must be any, present, absent, text:…, id:… or hash:…", f.memo))
	}
	return assets, amount, memo, cli.Usage(err)
}

// Imagined are the flags of a payment that nobody has made.
type Imagined struct {
	payment client.ImaginedPayment
	memo    string
}

// Register adds the flags.
func (f *Imagined) Register(s *pflag.FlagSet) {
	s.StringVar(&f.payment.Amount, "amount", "", "how much is paid, in units of the asset")
	s.StringVar(&f.payment.Asset, "asset", "XLM", "XLM or CODE:ISSUER")
	s.StringVar(&f.memo, "memo", "", "text:…, id:… or hash:…; none when not given")
	s.StringVar(&f.payment.Sender, "sender", "", "the address that pays")
}

// Payment returns the payment.
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

// ShowWatchCheck prints what a watch would make of a payment.
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

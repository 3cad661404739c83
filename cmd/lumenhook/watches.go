package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newWatches() *cobra.Command {
	var r apiFlags
	c := &cobra.Command{Use: "watches", Short: "Watch wallets"}
	r.register(c)
	c.AddCommand(
		newWatchesCreate(&r), newWatchesList(&r), newWatchesUpdate(&r),
		asking(&r, "get WATCH_ID", "Show a watch", cli.OneArgument, func(ctx context.Context, c *client.Client, args []string) (client.Watch, error) {
			return c.GetWatch(ctx, args[0])
		}, showWatch),
		asking(&r, "delete WATCH_ID", "Delete a watch", cli.OneArgument, func(ctx context.Context, c *client.Client, args []string) (struct{}, error) {
			return struct{}{}, c.DeleteWatch(ctx, args[0])
		}, done("deleted")),
	)
	return c
}

func showWatch(w io.Writer, x client.Watch) {
	cli.Row(w, "id", x.ID)
	cli.Row(w, "wallet", x.WalletAddress)
	cli.Row(w, "label", x.Label)
	cli.Row(w, "endpoint", x.EndpointID)
	cli.Row(w, "status", x.Status)
	for _, a := range x.Assets {
		cli.Row(w, "asset", assetText(a))
	}
	cli.Row(w, "amount", strings.Join(strings.Fields(x.AmountRule.Kind+" "+x.AmountRule.Amount+" "+x.AmountRule.Min+" "+x.AmountRule.Max), " "))
	cli.Row(w, "memo", strings.TrimSpace(x.MemoRule.Kind+" "+x.MemoRule.Type+" "+x.MemoRule.Value))
	cli.Row(w, "senders", x.SenderAllowlist)
	cli.Row(w, "event types", x.EventTypes)
	if x.Backfill != nil {
		cli.Row(w, "backfill", backfillText(x.Backfill))
	}
	cli.Row(w, "created", x.CreatedAt)
	for _, warning := range x.Warnings {
		cli.Row(w, "warning", warning)
	}
}

func assetText(a client.Asset) string {
	if a.Issuer == nil {
		return a.Code
	}
	return a.Code + ":" + *a.Issuer
}

// watchFlags are the fields of a watch.
type watchFlags struct {
	label, endpoint, amount, memo string
	assets, senders, eventTypes   []string
}

func (f *watchFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.StringVar(&f.endpoint, "endpoint", "", "id of the endpoint that receives the events")
	s.StringVar(&f.label, "label", "", "a text for people")
	s.StringSliceVar(&f.assets, "asset", []string{"XLM"}, "XLM or CODE:ISSUER; may be repeated")
	s.StringVar(&f.amount, "amount", "any", "any, exact:12.5, min:1, max:9 or range:1:9")
	s.StringVar(&f.memo, "memo", "any", "any, present, absent, text:…, id:… or hash:…")
	s.StringSliceVar(&f.senders, "sender", nil, "an address that may pay; anyone when not given")
	s.StringSliceVar(&f.eventTypes, "event-type", nil, "payment.received, payment.rejected")
}

func (f *watchFlags) parse() (assets []client.Asset, amount *client.AmountRule, memo *client.MemoRule, err error) {
	for _, text := range f.assets {
		code, issuer, issued := strings.Cut(text, ":")
		a := client.Asset{Code: code}
		if issued {
			a.Issuer = &issuer
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
		err = fmt.Errorf("--amount %q: must be any, exact:12.5, min:1, max:9 or range:1:9", f.amount)
	}
	kind, rest, _ = strings.Cut(f.memo, ":")
	switch kind {
	case "any", "present", "absent":
		memo = &client.MemoRule{Kind: kind}
	case "text", "id", "hash":
		memo = &client.MemoRule{Kind: "equals", Type: kind, Value: rest}
	default:
		err = errors.Join(err, fmt.Errorf("--memo %q: must be any, present, absent, text:…, id:… or hash:…", f.memo))
	}
	return assets, amount, memo, cli.Usage(err)
}

func newWatchesCreate(r *apiFlags) *cobra.Command {
	var f watchFlags
	var wallet string
	c := asking(r, "create --wallet G… --endpoint ep_…", "Watch a wallet", cli.NoArguments,
		func(ctx context.Context, c *client.Client, _ []string) (client.Watch, error) {
			assets, amount, memo, err := f.parse()
			if err != nil {
				return client.Watch{}, err
			}
			return c.CreateWatch(ctx, client.WatchCreate{
				WalletAddress: wallet, Label: f.label, EndpointID: f.endpoint, Assets: assets, AmountRule: amount, MemoRule: memo,
				SenderAllowlist: f.senders, EventTypes: f.eventTypes,
			})
		}, showWatch)
	c.Flags().StringVar(&wallet, "wallet", "", "the wallet's public address")
	f.register(c)
	_ = c.MarkFlagRequired("wallet")
	_ = c.MarkFlagRequired("endpoint")
	return c
}

func newWatchesUpdate(r *apiFlags) *cobra.Command {
	var f watchFlags
	var c *cobra.Command
	c = asking(r, "update WATCH_ID", "Change a watch", cli.OneArgument,
		func(ctx context.Context, api *client.Client, args []string) (client.Watch, error) {
			assets, amount, memo, err := f.parse()
			if err != nil {
				return client.Watch{}, err
			}
			patch := client.Patch{}
			for _, field := range []struct {
				flag, name string
				value      any
			}{
				{"endpoint", "endpointId", f.endpoint}, {"label", "label", f.label}, {"asset", "assets", assets}, {"amount", "amountRule", amount},
				{"memo", "memoRule", memo}, {"sender", "senderAllowlist", f.senders}, {"event-type", "eventTypes", f.eventTypes},
			} {
				if c.Flags().Changed(field.flag) {
					patch[field.name] = field.value
				}
			}
			if len(patch) == 0 {
				return client.Watch{}, cli.Usage(errors.New("nothing to change: give a flag of what is to be another"))
			}
			return api.UpdateWatch(ctx, args[0], patch)
		}, showWatch)
	f.register(c)
	return c
}

func newWatchesList(r *apiFlags) *cobra.Command {
	var p cli.PageFlags
	var f client.WatchFilter
	c := asking(r, "list", "List watches, newest first", cli.NoArguments,
		func(ctx context.Context, c *client.Client, _ []string) (client.List[client.Watch], error) {
			return c.ListWatches(ctx, f, p.Page)
		}, func(w io.Writer, l client.List[client.Watch]) {
			cli.Row(w, "ID", "WALLET", "ENDPOINT", "STATUS", "AMOUNT", "LABEL", "CREATED")
			for _, x := range l.Data {
				cli.Row(w, x.ID, x.WalletAddress, x.EndpointID, x.Status, x.AmountRule.Kind, x.Label, x.CreatedAt)
			}
			cli.More(w, l.NextCursor)
		})
	p.Register(c)
	c.Flags().StringVar(&f.EndpointID, "endpoint", "", "only those of this endpoint")
	c.Flags().StringVar(&f.WalletAddress, "wallet", "", "only those of this wallet")
	return c
}

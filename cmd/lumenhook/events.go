package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newEvents() *cobra.Command {
	var r apiFlags
	c := &cobra.Command{Use: "events", Short: "Look at events and send them again"}
	r.register(c)
	c.AddCommand(
		newEventsList(&r),
		asking(&r, "get EVENT_ID", "Show an event and every attempt to deliver it", cli.OneArgument, func(ctx context.Context, c *client.Client, args []string) (client.Event, error) {
			return c.GetEvent(ctx, args[0])
		}, showEvent),
		asking(&r, "resend EVENT_ID", "Queue an event again, delivered or not; one cancelled with its endpoint goes to the one that its watch names now", cli.OneArgument, func(ctx context.Context, c *client.Client, args []string) (client.Resent, error) {
			return c.ResendEvent(ctx, args[0])
		}, func(w io.Writer, a client.Resent) {
			cli.Row(w, "id", a.ID)
			cli.Row(w, "state", stateText(a.Delivery))
			cli.Row(w, "endpoint", a.Delivery.EndpointID)
		}),
	)
	return c
}

func stateText(d client.Delivery) string {
	if d.Held {
		return d.State + " (held: the endpoint is disabled)"
	}
	return d.State
}

func showEvent(w io.Writer, e client.Event) {
	cli.Row(w, "id", e.ID)
	cli.Row(w, "type", e.Type)
	cli.Row(w, "created", e.CreatedAt)
	cli.Row(w, "endpoint", e.Delivery.EndpointID)
	cli.Row(w, "state", stateText(e.Delivery))
	cli.Row(w, "next attempt", e.Delivery.NextAttemptAt)
	if e.HistoryBehind {
		cli.Row(w, "as of", "an earlier time: the history is being built anew (HISTORY_BEHIND). Ask again later")
	}
	cli.Row(w, "data", string(e.Data))
	_, _ = io.WriteString(w, "\n")
	cli.Row(w, "ATTEMPT", "RUN", "ENDPOINT", "SENT", "TOOK", "STATUS", "ERROR", "RESPONSE")
	for _, a := range e.Attempts {
		cli.Row(w, a.Number, a.Run, a.EndpointID, a.SentAt, fmt.Sprintf("%d ms", a.DurationMs), a.StatusCode, a.Error, a.ResponseBody)
	}
}

func newEventsList(r *apiFlags) *cobra.Command {
	var p cli.PageFlags
	var f client.EventFilter
	var since, until string
	c := asking(r, "list", "List events, newest first", cli.NoArguments,
		func(ctx context.Context, c *client.Client, _ []string) (client.List[client.Event], error) {
			var err, untilErr error
			f.Since, err = cli.InstantFlag("since", since)
			f.Until, untilErr = cli.InstantFlag("until", until)
			if err := errors.Join(err, untilErr); err != nil {
				return client.List[client.Event]{}, err
			}
			return c.ListEvents(ctx, f, p.Page)
		}, func(w io.Writer, l client.List[client.Event]) {
			cli.Row(w, "ID", "TYPE", "STATE", "ENDPOINT", "CREATED", "NEXT ATTEMPT")
			for _, e := range l.Data {
				cli.Row(w, e.ID, e.Type, stateText(e.Delivery), e.Delivery.EndpointID, e.CreatedAt, e.Delivery.NextAttemptAt)
			}
			cli.More(w, l.NextCursor)
		})
	p.Register(c)
	s := c.Flags()
	s.StringVar(&f.EndpointID, "endpoint", "", "only those of this endpoint")
	s.StringVar(&f.WatchID, "watch", "", "only those of this watch")
	s.StringVar(&f.WalletAddress, "wallet", "", "only payments to this wallet")
	s.StringVar(&f.Type, "type", "", "payment.received, payment.rejected or test.ping")
	s.StringVar(&f.State, "state", "", "QUEUED, WAITING, DELIVERED, FAILED or CANCELLED")
	s.StringVar(&since, "since", "", "those created then or later: a time, or how long ago")
	s.StringVar(&until, "until", "", "those created before: a time, or how long ago")
	return c
}

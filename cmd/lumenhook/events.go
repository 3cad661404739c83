package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newEvents() *cobra.Command {
	var a apiFlags
	c := &cobra.Command{Use: "events", Short: "Look at events and send them again"}
	a.register(c)
	c.AddCommand(
		newEventsList(&a),
		asking(&a, "get EVENT_ID", "Show an event and every attempt to deliver it", cli.OneArgument,
			func(ctx context.Context, c *client.Client, args []string) (client.Event, error) {
				return c.GetEvent(ctx, args[0])
			}, apicli.ShowEvent),
		asking(&a, "resend EVENT_ID", "Queue an event again, delivered or not; one cancelled with "+
			"its endpoint goes to the one that its watch names now", cli.OneArgument,
			func(ctx context.Context, c *client.Client, args []string) (client.Resent, error) {
				return c.ResendEvent(ctx, args[0])
			}, apicli.ShowResent),
	)
	return c
}

func newEventsList(a *apiFlags) *cobra.Command {
	var p cli.PageFlags
	var f apicli.EventFilter
	c := asking(a, "list", "List events, newest first", cli.NoArguments,
		func(ctx context.Context, c *client.Client, _ []string) (client.List[client.Event], error) {
			filter, err := f.Filter()
			if err != nil {
				return client.List[client.Event]{}, err
			}
			return c.ListEvents(ctx, filter, p.Page)
		}, apicli.ShowEvents)
	p.Register(c)
	f.Register(c.Flags())
	return c
}

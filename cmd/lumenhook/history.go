package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

const historyIs = `Lists facts, newest first, each with the fields that it changed. With --json
each has the whole state after it, which is the fold of all facts up to it. What was deleted has its
history still.`

func newWatchesHistory(a *apiFlags) *cobra.Command {
	c := newHistory(a, "history WATCH_ID", "Show what a watch was, and what changed it",
		(*client.Client).GetWatchHistory)
	c.Long = historyIs
	c.Example = `  # When this rule was widened: each change, before and after
  lumenhook watches history wat_…

  # What it was at its version 3
  lumenhook watches history wat_… --json | jq '.data[] | select(.version == 3) .state'`
	return c
}

func newEndpointsHistory(a *apiFlags) *cobra.Command {
	c := newHistory(a, "history ENDPOINT_ID", "Show what an endpoint was, and what changed it",
		(*client.Client).GetEndpointHistory)
	c.Long = historyIs + ` Facts of its deliveries are those of its events.`
	c.Example = `  # When it was disabled and why, enabled, changed, its secret rotated
  lumenhook endpoints history ep_…`
	return c
}

func newEventsHistory(a *apiFlags) *cobra.Command {
	c := newHistory(a, "history EVENT_ID", "Show the history of an event's delivery, fact by fact",
		(*client.Client).GetEventHistory)
	c.Long = `Lists facts, newest first, each with the fields that it changed: queued, each attempt,
held and let go on with its endpoint, sent again, cancelled, handed over. With --json each has the
whole state after it, which is the fold of all facts up to it.`
	c.Example = `  # Why it came so late: each attempt, and when its endpoint held it
  lumenhook events history evt_…

  # What it was when support looked at it
  lumenhook events history evt_… --json |
    jq 'first(.data[] | select(.at < "2026-11-21T10:15")) .state'`
	return c
}

func newHistory(
	a *apiFlags, use, short string,
	read func(*client.Client, context.Context, string, client.Page) (client.List[client.Fact], error),
) *cobra.Command {
	var p cli.PageFlags
	c := asking(a, use, short, cli.OneArgument,
		func(ctx context.Context, c *client.Client, args []string) (client.List[client.Fact], error) {
			return read(c, ctx, args[0], p.Page)
		}, apicli.ShowHistory)
	p.RegisterWithin(c, 20, 50)
	return c
}

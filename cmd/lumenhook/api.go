package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
)

// apiFlags are those of every command that asks the API.
type apiFlags struct {
	config.Service
	cli.Output
}

// register adds the flags to a command and those below it.
func (a *apiFlags) register(c *cobra.Command) {
	f := c.PersistentFlags()
	a.Service.Register(f)
	a.RegisterAPI(f)
	a.Output.Register(f)
}

// changing is asking for an operation that changes something.
func changing[T any](a *apiFlags, use, short string,
	ask func(context.Context, *client.Client, []string) (T, error), show func(io.Writer, T),
) *cobra.Command {
	c := asking(a, use, short, ask, show)
	a.Changes(c)
	return c
}

// asking makes the command of one operation of the API, which prints what it answers: JSON, or as a
// person reads it.
func asking[T any](a *apiFlags, use, short string,
	ask func(context.Context, *client.Client, []string) (T, error), show func(io.Writer, T),
) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.API()
			if err != nil {
				return err
			}
			answer, err := ask(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return a.Print(cmd.OutOrStdout(), answer, func(w io.Writer) { show(w, answer) })
		},
	}
}

// listing makes the command that lists a resource.
func listing[T, F any](a *apiFlags, r apicli.Resource[T, F], short string) *cobra.Command {
	var p cli.PageFlags
	f := r.Filter
	c := asking(a, "list", short,
		func(ctx context.Context, c *client.Client, _ []string) (client.List[T], error) {
			return r.List(c, ctx, f, p.Page)
		}, r.ShowAll)
	p.Register(c)
	cli.AddFields(c.Flags(), &f)
	return c
}

// getting makes the command that shows one object of a resource.
func getting[T, F any](
	a *apiFlags, r apicli.Resource[T, F], short, example string,
) *cobra.Command {
	return withExample(asking(a, "get "+r.ID, short,
		func(ctx context.Context, c *client.Client, args []string) (T, error) {
			return r.Get(c, ctx, args[0])
		}, r.Show), example)
}

// acting makes a command that does something to one object of a resource.
func acting[T any](
	a *apiFlags, use, short string,
	act func(*client.Client, context.Context, string, ...client.Option) (T, error),
	show func(io.Writer, T), example string,
) *cobra.Command {
	return withExample(changing(a, use, short,
		func(ctx context.Context, c *client.Client, args []string) (T, error) {
			return act(c, ctx, args[0])
		}, show), example)
}

func showDeleted(w io.Writer, _ struct{}) { cli.Row(w, "deleted") }

// stderrLog is for commands that say what goes wrong meanwhile.
func stderrLog() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }

const historyIs = `List facts, newest first, and the fields that each one changed. With --json, each
fact includes the complete state after the change. Deleted objects keep their
history.`

func newWatchesHistory(a *apiFlags) *cobra.Command {
	c := newHistory(a, "history WATCH_ID", "Show a watch's change history",
		(*client.Client).GetWatchHistory)
	c.Long = historyIs
	c.Example = `  # Find out when a rule changed, with the values before and after
  lumenhook watches history wat_…

  # Show the watch as of version 3
  lumenhook watches history wat_… --json | jq '.data[] | select(.version == 3) .state'`
	return c
}

func newEndpointsHistory(a *apiFlags) *cobra.Command {
	c := newHistory(a, "history ENDPOINT_ID", "Show an endpoint's change history",
		(*client.Client).GetEndpointHistory)
	c.Long = historyIs + `

For the history of deliveries, run "lumenhook events history".`
	c.Example = `  # Find out when an endpoint was changed, or when and why it was disabled
  lumenhook endpoints history ep_…`
	return c
}

func newEventsHistory(a *apiFlags) *cobra.Command {
	c := newHistory(a, "history EVENT_ID", "Show an event's delivery history",
		(*client.Client).GetEventHistory)
	c.Long = `List facts, newest first, and the fields that each one changed. An event can be
queued, attempted, held and released with its endpoint, resent, cancelled or handed
over. With --json, each fact includes the complete state after the change.`
	c.Example = `  # Find out why an event arrived late, including each attempt and when it was held
  lumenhook events history evt_…

  # Show the event as it was at a given time
  lumenhook events history evt_… --json |
    jq 'first(.data[] | select(.at < "2026-11-21T10:15")) .state'`
	return c
}

func newHistory(
	a *apiFlags, use, short string,
	read func(*client.Client, context.Context, string, client.Page) (client.List[client.Fact], error),
) *cobra.Command {
	var p cli.PageFlags
	c := asking(a, use, short,
		func(ctx context.Context, c *client.Client, args []string) (client.List[client.Fact], error) {
			return read(c, ctx, args[0], p.Page)
		}, apicli.ShowHistory)
	p.RegisterWithin(c, 20, 50)
	return c
}

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

// apiFlags are the flags of every command that calls the API.
type apiFlags struct {
	config.Service
	cli.Output
}

// register adds the flags to a command and its subcommands.
func (a *apiFlags) register(c *cobra.Command) {
	f := c.PersistentFlags()
	a.Service.Register(f)
	a.RegisterAPI(f)
	a.Output.Register(f)
}

// changing is like asking, for an operation that changes something.
func changing[T any](a *apiFlags, path string,
	ask func(context.Context, *client.Client, []string) (T, error), show func(io.Writer, T),
	check ...func(T) error,
) *cobra.Command {
	c := asking(a, path, ask, show, check...)
	a.Changes(c)
	return c
}

// asking returns the command of an API operation, which prints the response. show prints it as
// text. If the response doesn't pass a check, the command fails after it has printed it.
func asking[T any](a *apiFlags, path string,
	ask func(context.Context, *client.Client, []string) (T, error), show func(io.Writer, T),
	check ...func(T) error,
) *cobra.Command {
	return newCommand(path, func(cmd *cobra.Command, args []string) error {
		c, err := a.API()
		if err != nil {
			return err
		}
		answer, err := ask(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		err = a.Print(cmd.OutOrStdout(), answer, func(w io.Writer) { show(w, answer) })
		for _, passes := range check {
			if err == nil {
				err = passes(answer)
			}
		}
		return err
	})
}

// acting returns a command that does something to one object.
func acting[T any](a *apiFlags, path string,
	act func(*client.Client, context.Context, string, ...client.Option) (T, error),
	show func(io.Writer, T),
) *cobra.Command {
	return changing(a, path,
		func(ctx context.Context, c *client.Client, args []string) (T, error) {
			return act(c, ctx, args[0])
		}, show)
}

// reading returns the commands that read a resource: list, get and history.
func reading[T, F any](a *apiFlags, r apicli.Resource[T, F]) []*cobra.Command {
	commands := []*cobra.Command{listing(a, r)}
	if r.Show != nil {
		commands = append(commands, asking(a, r.Name+" get",
			func(ctx context.Context, c *client.Client, args []string) (T, error) {
				return r.Get(c, ctx, args[0])
			}, r.Show))
	}
	if r.History != nil {
		var p cli.PageFlags
		c := asking(a, r.Name+" history",
			func(ctx context.Context, c *client.Client, args []string) (client.List[client.Fact], error) {
				return r.History(c, ctx, args[0], p.Page)
			}, apicli.ShowHistory)
		p.RegisterWithin(c, 20, 50)
		commands = append(commands, c)
	}
	return commands
}

func listing[T, F any](a *apiFlags, r apicli.Resource[T, F]) *cobra.Command {
	var p cli.PageFlags
	f := r.Filter
	c := asking(a, r.Name+" list",
		func(ctx context.Context, c *client.Client, _ []string) (client.List[T], error) {
			return r.List(c, ctx, f, p.Page)
		}, func(w io.Writer, l client.List[T]) { r.ShowList(w, l, f) })
	p.Register(c)
	cli.AddFields(c.Flags(), &f)
	return c
}

// stderrLog returns the log of a command that reports problems while it runs.
func stderrLog() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }

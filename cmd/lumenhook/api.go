package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
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

// asking makes the command of one operation of the API that changes nothing, which prints what
// it answers: JSON, or as a person reads it.
func asking[T any](a *apiFlags, use, short string, arguments cobra.PositionalArgs,
	ask func(context.Context, *client.Client, []string) (T, error), show func(io.Writer, T),
) *cobra.Command {
	c := operation(a, use, short, arguments, ask, show)
	a.Reads(c, *new(T))
	return c
}

// changing is asking of an operation that changes something.
func changing[T any](a *apiFlags, use, short string, arguments cobra.PositionalArgs,
	ask func(context.Context, *client.Client, []string) (T, error), show func(io.Writer, T),
) *cobra.Command {
	c := operation(a, use, short, arguments, ask, show)
	a.Changes(c, *new(T))
	return c
}

// operation makes a command of asking or changing, or one whose answer is of several forms.
func operation[T any](a *apiFlags, use, short string, arguments cobra.PositionalArgs,
	ask func(context.Context, *client.Client, []string) (T, error), show func(io.Writer, T),
) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  arguments,
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

func showDeleted(w io.Writer, _ struct{}) { cli.Row(w, "deleted") }

// stderrLog is for commands that say what goes wrong meanwhile.
func stderrLog() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }

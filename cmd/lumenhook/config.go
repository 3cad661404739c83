package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/server"
)

func newConfig() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Look at the configuration of `lumenhook serve`"}
	c.AddCommand(newConfigCheck())
	c.Example = examplesOf(c, "check")
	return c
}

func newConfigCheck() *cobra.Command {
	var s server.Flags
	var out cli.Output
	c := &cobra.Command{
		Use:   "check",
		Short: "Print the settings that count, and where each came from",
		Long: `Takes the flags, variables and files of ` + "`lumenhook serve`" +
			`, names every fault of them,
and prints the settings that count, with secrets masked. Nobody is asked anything:
whether the cluster is fit is the question of ` + "`lumenhook topics check`" + `.`,
		Example: `  # Before a restart: is the file right, and what counts?
  lumenhook config check --config lumenhook.yaml

  # Where one setting comes from, among file, variables and flags
  lumenhook config check --config lumenhook.yaml | grep topic-prefix`,
		Args: cli.NoArguments,
	}
	s.Register(c.Flags())
	out.Register(c.Flags())
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		settings := cli.Effective(cmd.Flags())
		shown := out.Print(cmd.OutOrStdout(), settings, func(w io.Writer) {
			cli.Row(w, "SETTING", "VALUE", "FROM")
			for _, one := range settings {
				cli.Row(w, one.Name, one.Value, one.From)
			}
		})
		return errors.Join(cli.Usage(s.Check()), shown)
	}
	return c
}

package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/server"
	"github.com/lumenhook/lumenhook/internal/standalone"
)

func newRun() *cobra.Command {
	var s standalone.Flags
	var check bool
	c := newCommand("run", func(cmd *cobra.Command, _ []string) error {
		if err := cli.Faults(s.Check()); err != nil {
			return cli.Usage(err)
		}
		if check {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the settings are valid")
			return err
		}
		signal.Ignore(syscall.SIGPIPE) // a pager that was left does not stop a service
		return standalone.Run(cmd.Context(), &s, cmd.OutOrStdout())
	})
	c.Flags().BoolVar(&check, "check", false, "only check the settings, for example before a restart")
	cli.NoSetting(c.Flags(), "check")
	s.Register(c.Flags())
	return c
}

func newServe() *cobra.Command {
	var s server.Flags
	c := newCommand("serve", func(cmd *cobra.Command, _ []string) error {
		signal.Ignore(syscall.SIGPIPE) // a pager that was left does not stop a service
		if s.Supervised() {
			return server.Supervise(cmd.Context(), &s, unsupervised(cmd, os.Args[1:]))
		}
		return server.Run(cmd.Context(), &s)
	})
	c.PreRunE = func(*cobra.Command, []string) error { return s.Check() }
	s.Register(c.Flags())
	return c
}

// unsupervised is this command line, for the child that serves.
func unsupervised(c *cobra.Command, args []string) []string {
	args = slices.Clone(args)
	if c.ArgsLenAtDash() == 0 { // it ends with "--", after which there are no flags
		args = args[:len(args)-1]
	}
	return append(args, server.Unsupervised)
}

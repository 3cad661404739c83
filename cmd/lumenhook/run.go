package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/standalone"
)

func newRun() *cobra.Command {
	var s standalone.Flags
	c := &cobra.Command{
		Use:   "run",
		Short: "Run everything on this machine: broker, ClickHouse, development network, service, demo",
		Long: `Starts a Kafka-protocol broker with its data on disk, a ClickHouse engine, a
development Stellar network, the service itself, and a demo: a receiver, an
endpoint, a watch, and a payment now and then. Ctrl-C stops it; started again on
the same --data-dir it goes on where it was.

With --network it follows that network in place of one of its own, and keeps what it
was told by fsync: the whole service for one merchant, on one machine.

Once everything is ready it says so and writes run.json into the data folder: the
addresses and the API key. What is not ready after 10 s, such as a network that does
not answer, is named and waited for beside the rest.`,
		Example: `  # Everything, with a network of its own and a demo
  lumenhook run

  # On Stellar's test network, for a service in a folder of its own
  lumenhook run --network testnet --no-demo --data-dir testnet`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Faults(s.Check()); err != nil {
				return cli.Usage(err)
			}
			signal.Ignore(syscall.SIGPIPE) // a pager that was left does not stop a service
			return standalone.Run(cmd.Context(), &s, cmd.OutOrStdout())
		},
	}
	s.Register(c.Flags())
	return c
}

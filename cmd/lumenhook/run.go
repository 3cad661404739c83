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
endpoint, a watch, and a payment every 15 seconds. Ctrl-C stops it. Started again
with the same --data-dir, it continues where it stopped.

With --network it follows that network instead of its own, and syncs every record
to the disk: the whole service for one merchant, on one machine.

When everything is ready, it prints the addresses and writes them to run.json in the
data folder, with the API key. After 10 s it starts without parts that are not ready,
such as a network that does not answer, names them, and waits for them.`,
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

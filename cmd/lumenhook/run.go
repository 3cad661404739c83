package main

import (
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
	c := &cobra.Command{
		Use:   "run",
		Short: "Run everything on this machine: broker, ClickHouse, development network, service, demo",
		Long: `Starts a Kafka-protocol broker with its data on disk, a ClickHouse engine, a
development Stellar network and the service. It also starts a demo: a receiver, an
endpoint, a watch, and a payment every 15 seconds. Ctrl-C stops it. Started again
with the same --data-dir, it continues where it stopped.

With --network it follows that network instead of its own, and syncs every record
to the disk. This is the whole service for one merchant, on one machine.

When everything is ready, it prints the addresses and writes them to run.json in the
data folder, with the API key. If a part is not ready after 10 s, such as a network that
does not answer, it starts without it, names it, and waits for it.`,
		Example: `  # Everything, with a network of its own and a demo
  lumenhook run

  # On Stellar's test network, for a service in a folder of its own
  lumenhook run --network testnet --no-demo --data-dir testnet`,
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

func newServe() *cobra.Command {
	var s server.Flags
	c := &cobra.Command{
		Use:   "serve --roles ROLE,… --kafka-brokers HOST:PORT,…",
		Short: "Run some roles of the service on your own Kafka cluster and ClickHouse",
		Long: `Runs any set of the roles in this process. Any number of processes share the work.

  api         answers requests.
  engine      decides and makes the attempts; engines divide the partitions.
  follower    reads ledgers; one is active, the others stand by.
  projector   writes the history to ClickHouse.
  mailer      emails holders of disabled endpoints.

Settings come from flags, from variables, from a folder of secrets (--secrets-dir) and
from a YAML file (--config), in this order of precedence. ` + "`lumenhook config check`" + ` prints
each setting and its origin. /healthz and /readyz are served next to /metrics, with a
reason for each part. SIGTERM stops it after the attempts in flight have finished.

With --supervised a small process starts the one that serves, and passes SIGTERM on. It
ends with the same exit code, which is 137 after kill -9. If the process dies, it is
removed from its groups at once. Others then take over its partitions without the usual
wait of 6 s.`,
		Example: `  # The roles and everything else that the file says
  lumenhook serve --config /etc/lumenhook/lumenhook.yaml

  # An engine alone
  lumenhook serve --roles engine --kafka-brokers kafka-1:9092 --master-key-file key.json`,
		PreRunE: func(*cobra.Command, []string) error { return s.Check() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGPIPE) // a pager that was left does not stop a service
			if s.Supervised() {
				return server.Supervise(cmd.Context(), &s, unsupervised(cmd, os.Args[1:]))
			}
			return server.Run(cmd.Context(), &s)
		},
	}
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

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
		Short: "Run the complete service on this machine, with a devnet and a demo",
		Long: `Start a Kafka-compatible broker that stores its data on disk, a ClickHouse engine, a
local Stellar network (devnet) and the service. A demo starts as well, with a
receiver, an endpoint, a watch and a payment every 15 seconds. Press Ctrl-C to stop.
If you run the command again with the same --data-dir, it resumes where it stopped.

With --network, the service follows that network instead of the devnet, and the
broker syncs every record to disk. This way, you can run the complete service for a
single merchant on one machine.

When everything is ready, the command prints the addresses and saves them to run.json
in the data folder together with the API key. If a part isn't ready after 10 s, for
example because the network doesn't respond, the service starts without it. The
command then shows which part it's still waiting for.`,
		Example: `  # Start everything with a devnet and a demo
  lumenhook run

  # Run the service on Stellar's testnet in a separate data folder
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
		Short: "Run the service's roles on your own Kafka cluster and ClickHouse",
		Long: `Run one or more roles in this process. You can run any number of processes to share
the work.

  api         responds to API requests.
  engine      schedules and sends attempts; the engines share the partitions.
  follower    reads ledgers; one follower is active and the others are on standby.
  projector   writes the history to ClickHouse.
  mailer      sends emails about disabled endpoints.

You can configure settings with flags, environment variables, a folder of secrets
(--secrets-dir) and a YAML file (--config), in this order of precedence. To see each
setting and where it comes from, run ` + "`lumenhook config check`" + `. /healthz and /readyz
are served on the same address as /metrics and report the status of each part. On
SIGTERM, the process waits for attempts in flight to finish before it exits.

With --supervised, a small parent process starts the service in a child process and
forwards SIGTERM to it. The parent exits with the child's exit code, which is 137
after kill -9. If the child dies, it is removed from its groups immediately, so other
processes can take over its partitions without the usual wait of 6 s.`,
		Example: `  # Run the roles that are set in a configuration file
  lumenhook serve --config /etc/lumenhook/lumenhook.yaml

  # Run only an engine
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

package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/server"
)

func newServe() *cobra.Command {
	var s server.Flags
	c := &cobra.Command{
		Use:   "serve --roles ROLE,… --kafka-brokers HOST:PORT,…",
		Short: "Run some roles of the service on a Kafka cluster, a ClickHouse and a network of yours",
		Long: `Runs any set of the roles in this process: any number of processes share the work.

  api         answers requests
  engine      decides and makes the attempts; engines divide the partitions
  follower    reads ledgers; one is active, the others stand by
  projector   writes the history to ClickHouse
  mailer      emails holders of disabled endpoints

Settings come from flags, from variables, from a folder of secrets (--secrets-dir) and
from a YAML file (--config), in this order of precedence. ` + "`lumenhook config check`" + ` prints
what counts, and where it came from. /healthz and /readyz are served beside /metrics,
with a reason for each part. SIGTERM ends it: attempts under way are finished first.`,
		Example: `  lumenhook serve --config /etc/lumenhook.yaml
  lumenhook serve --roles engine --kafka-brokers kafka:9092 --master-key-file key.json`,
		Args:    cli.NoArguments,
		PreRunE: func(*cobra.Command, []string) error { return s.Check() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGPIPE) // a pager that was left does not stop a service
			return server.Run(cmd.Context(), &s)
		},
	}
	s.Register(c.Flags())
	return c
}

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
)

func newHealth() *cobra.Command {
	var asked config.HealthFlags
	var out cli.Output
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask a running process whether it does its work, and which part does not",
		Long: `Asks /readyz of a process of ` + "`lumenhook serve` or `lumenhook run`" + `, and prints
what each of its parts says: for probes of containers and of systemd, where there is no
other program to ask with. It ends with 0 when all parts do their work, and with 1 when
one does not, or when nobody answers in time.

With --alive it asks /healthz: whether the process answers at all. Use that where the
answer decides about a restart: a process whose Kafka is away does not get better by it.`,
		Example: `  # Of the service of this machine
  lumenhook health

  # Of the process that serves by this file, as a probe asks
  lumenhook health --config /etc/lumenhook/lumenhook.yaml

  # Of a process elsewhere, with each part as JSON
  lumenhook health --metrics-listen 10.0.0.7:9464 --json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			health, err := asked.Ask(cmd.Context())
			if err != nil {
				return err
			}
			err = out.Print(cmd.OutOrStdout(), health, func(w io.Writer) { showHealth(w, health) })
			if err != nil {
				return err
			}
			return health.Fault()
		},
	}
	asked.Register(c.Flags())
	out.Register(c.Flags())
	return c
}

func showHealth(w io.Writer, h config.Health) {
	cli.Row(w, h.URL+": "+h.Status)
	for _, part := range h.Checks {
		cli.Row(w, part.Name, part.Status, part.Detail)
	}
}

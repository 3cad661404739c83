package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/doctor"
	"github.com/lumenhook/lumenhook/internal/server"
)

func newDoctor() *cobra.Command {
	var asked server.Checkup
	var out cli.Output
	c := &cobra.Command{
		Use:   "doctor [--config FILE | --data-dir FOLDER] [--only CHECK,…] [--url https://…]",
		Short: "Check all that a service needs around it: what is wrong, and what to do",
		Long: `Checks the configuration, the files of secrets, Kafka (brokers and their versions, topics,
transactions, rights), ClickHouse (version, migrations, rights, disks, replicas), where
ledgers come from, the clock, name servers, the way to receivers, the disk, limits of the
process and the mail server. What is wrong is followed by what to do.

It takes the flags, variables and files of ` + "`lumenhook serve`" + `, so that it says before a
start what would fail; without --kafka-brokers it checks the service that runs on --data-dir.
While that does not run, its folder and this machine are checked, and the rest is left out.
Nothing is changed, no mail is sent, and no receiver gets a request: --url opens a connection
to one as an attempt would, and says what an attempt would end with.

The checks run at once, each in at most --timeout. It ends with 0 when all is well, or
warned of only; with 1 when there is a problem, or something could not be checked; and with
2 when the configuration itself is wrong, after the other checks.`,
		Example: `  # Is all well around the service of this folder?
  lumenhook doctor

  # What would fail, before a process of serve is started
  lumenhook doctor --config /etc/lumenhook/lumenhook.yaml

  # Why is a receiver not reached?
  lumenhook doctor --only dns,egress --url https://shop.example/webhooks`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := asked.Config()
			if err != nil {
				return err
			}
			return examine(cmd, &out, cfg)
		},
	}
	asked.Register(c.Flags())
	out.Register(c.Flags())
	return c
}

func examine(cmd *cobra.Command, out *cli.Output, cfg doctor.Config) error {
	w := cmd.OutOrStdout()
	asTheyEnd := func(r doctor.Result) { showResult(w, r) }
	if out.JSON || out.Field != "" {
		asTheyEnd = func(doctor.Result) {}
	}
	report := doctor.Run(cmd.Context(), cfg, asTheyEnd)
	if out.JSON || out.Field != "" {
		if err := out.Print(w, report, nil); err != nil {
			return err
		}
	}
	if len(cfg.Faults) > 0 {
		return cli.Usage(cli.Faults(cfg.Faults))
	}
	fault := report.Fault()
	if fault == nil || out.Field == "" && saysWhyAway(report) {
		return fault
	}
	return errors.Join(cfg.Away, fault)
}

// saysWhyAway reports whether the check that says why a service does not run is shown.
func saysWhyAway(report doctor.Report) bool {
	return slices.ContainsFunc(report.Checks, func(r doctor.Result) bool {
		return r.Name == doctor.Configuration
	})
}

// showResult prints a check as it ends: a line a finding, and below it what to do.
func showResult(w io.Writer, r doctor.Result) {
	const line = "%-13s  %-7s  %s\n"
	name := r.Name
	for _, f := range r.Findings {
		fmt.Fprintf(w, line, name, mark(f.Status), cli.OneLine(f.Found))
		if f.Do != "" {
			fmt.Fprintf(w, line, "", "", "→ "+cli.OneLine(f.Do))
		}
		name = ""
	}
	if took := time.Duration(r.DurationMs) * time.Millisecond; took >= time.Second {
		fmt.Fprintf(w, line, "", "", fmt.Sprintf("(it took %s)", took))
	}
}

func mark(s doctor.Status) string {
	if s == doctor.Problem {
		return "PROBLEM"
	}
	return string(s)
}

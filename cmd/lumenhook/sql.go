package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/ops"
	"github.com/lumenhook/lumenhook/projections"
)

func newSQL() *cobra.Command {
	var (
		t      config.Service
		format string
		cfg    projections.ConsoleConfig
	)
	c := &cobra.Command{
		Use:   `sql ["SELECT …"]`,
		Short: "Ask the history: one query, or a shell without one",
		Long: `Runs one query against the history in ClickHouse and prints its answer. Without
a query it reads them from standard input; on a terminal that is a shell with
line editing, in which a query ends with a semicolon. Nothing can be written.

What the topics hold at the time of asking is waited for, for 2 s at most: whether it is
all there is said on standard error. With --clickhouse-dsn that needs --kafka-brokers.

Tables, views and twenty-one questions: docs/analytics.md.`,
		Example: `  # How attempts went: how many a rung of the ladder has, and how many succeeded
  lumenhook sql "SELECT * FROM retry_ladder"

  # For a spreadsheet
  lumenhook sql --format csv "SELECT * FROM attempts_per_minute" > minutes.csv

  # Which tables there are
  lumenhook sql "SHOW TABLES"`,
		Args: cli.OptionalArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			write, known := ops.SQLFormats[format]
			if !known {
				return cli.Usage(fmt.Errorf("--format %q: must be table, json or csv", format))
			}
			err := checkBounds(cfg)
			if err != nil {
				return err
			}
			if cfg.DSN, err = t.ReaderDSN(); err != nil {
				return err
			}
			return query(cmd, args, &t, cfg, write)
		},
	}
	t.Register(c.Flags())
	t.RegisterClickHouse(c.Flags())
	t.RegisterKafka(c.Flags())
	c.Flags().StringVar(&format, "format", "table", "table, json (a line for each row) or csv")
	cli.Offer(c.Flags(), "format", "table", "json", "csv")
	c.Flags().IntVar(&cfg.RowsMax, "max-rows", 10_000, "rows to print at most")
	c.Flags().DurationVar(&cfg.TimeMax, "timeout", time.Minute, "how long a query may take")
	return c
}

// query runs the query that args name, or those on standard input.
func query(
	cmd *cobra.Command, args []string, t *config.Service, cfg projections.ConsoleConfig,
	write ops.SQLFormat,
) error {
	console, err := projections.OpenConsole(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer console.Close()
	if err := noteLag(cmd, t, cfg.DSN); err != nil {
		return err
	}
	s := ops.SQLSession{
		Console: console,
		Write:   write,
		RowsMax: cfg.RowsMax,
		Out:     cmd.OutOrStdout(),
		Notes:   cmd.ErrOrStderr(),
	}
	if len(args) == 1 {
		return s.Ask(cmd.Context(), args[0])
	}
	return s.Read(cmd.Context(), cmd.InOrStdin())
}

func checkBounds(cfg projections.ConsoleConfig) error {
	if cfg.RowsMax < 1 || cfg.TimeMax < time.Second || cfg.TimeMax > 24*time.Hour {
		return cli.Usage(fmt.Errorf("--max-rows %d and --timeout %s: "+
			"must be at least 1, and from 1s to 24h", cfg.RowsMax, cfg.TimeMax))
	}
	return nil
}

// noteLag prints, in addition to the answer, how far the history is behind its topics. Its error is
// one of the flags that name the brokers; a password for them without the brokers is not an error.
func noteLag(cmd *cobra.Command, t *config.Service, dsn string) error {
	if len(t.Kafka.Brokers) > 0 {
		if _, err := t.NamedCluster(stderrLog()); err != nil {
			return err
		}
	}
	missing, err := t.AwaitHistory(cmd.Context(), dsn)
	switch {
	case err != nil:
		fmt.Fprintf(cmd.ErrOrStderr(), "how far the history is behind its topics is not known: %s\n",
			cli.Explain(err, cmd.Flags()))
	case missing > 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "the history is %d records behind its topics: "+
			"what happened last is not in it yet\n", missing)
	}
	return nil
}

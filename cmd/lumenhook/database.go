package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/ops"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/writer"
)

func newMigrate() *cobra.Command {
	var (
		t         config.Service
		retention string
	)
	c := newCommand("migrate", func(cmd *cobra.Command, _ []string) error {
		keep, err := cli.ParseDays(retention)
		if err != nil {
			return cli.Usage(fmt.Errorf("--history-retention %q: %w", retention, err))
		}
		db, err := t.Database()
		if err != nil {
			return err
		}
		defer db.Close()
		if err := writer.Migrate(cmd.Context(), db); err != nil {
			return err
		}
		if cmd.Flags().Changed("history-retention") {
			if err := writer.SetRetention(cmd.Context(), db, keep); err != nil {
				return fmt.Errorf("--history-retention: %w", err)
			}
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "the tables of %s are up to date\n", db.Name())
		return err
	})
	t.Register(c.Flags())
	t.RegisterClickHouse(c.Flags())
	c.Flags().StringVar(&retention, "history-retention", "0",
		"how long to keep rows, such as 90d; 0 keeps everything; if not set, retention doesn't change")
	return c
}

// refoldFlags are what rebuild and verify-projection have in common.
type refoldFlags struct {
	config.Service
	tables []string
	all    bool
}

func (r *refoldFlags) register(f *pflag.FlagSet, what string) {
	r.Service.Register(f)
	r.RegisterKafka(f)
	r.RegisterClickHouse(f)
	f.StringSliceVar(&r.tables, "table", nil, "table to "+what+"; can be repeated")
	cli.Offer(f, "table", writer.Tables()...)
	f.BoolVar(&r.all, "all", false, what+" every table")
}

// config opens what is needed. The caller closes the database.
func (r *refoldFlags) config(out io.Writer) (cfg writer.RefoldConfig, end func(), err error) {
	if r.all == (len(r.tables) > 0) {
		return cfg, nil, cli.Usage(fmt.Errorf("give either --all or --table, one of %s",
			strings.Join(writer.Tables(), ", ")))
	}
	for _, name := range r.tables {
		if !slices.Contains(writer.Tables(), name) {
			return cfg, nil, cli.Usage(fmt.Errorf("--table %q: must be one of %s",
				name, strings.Join(writer.Tables(), ", ")))
		}
	}
	cluster, err := r.Cluster(stderrLog())
	if err != nil {
		return cfg, nil, err
	}
	db, err := r.Database()
	if err != nil {
		return cfg, nil, err
	}
	bar := cli.NewProgress(out)
	return writer.RefoldConfig{
		DB:      db,
		Cluster: cluster,
		Now:     time.Now,
		Tables:  r.tables,
		Report:  func(p writer.RefoldProgress) { bar.Show(p.Done, p.Total) },
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}, func() { bar.End(); _ = db.Close() }, nil
}

func newRebuild() *cobra.Command {
	var flags refoldFlags
	c := newCommand("rebuild", func(cmd *cobra.Command, _ []string) error {
		cfg, end, err := flags.config(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		// Collecting garbage took a fifth of a rebuild, whose blocks are garbage soon.
		debug.SetGCPercent(rebuildGCPercent)
		debug.SetMemoryLimit(rebuildMemoryBytes)
		err = writer.Rebuild(cmd.Context(), cfg)
		end()
		if cmd.Context().Err() != nil {
			return fmt.Errorf("interrupted; the live tables are as they were, "+
				"and the same command continues: %w", context.Cause(cmd.Context()))
		}
		if err != nil {
			return fmt.Errorf("the rebuild failed: %w", err)
		}
		names := "all tables"
		if !flags.all {
			names = strings.Join(flags.tables, ", ")
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "rebuilt %s\n", names)
		return err
	})
	flags.register(c.Flags(), "rebuild")
	return c
}

// A rebuild is a process of its own, and may take memory for time, to a bound.
const (
	rebuildGCPercent   = 400
	rebuildMemoryBytes = 1 << 30
)

func newVerifyProjection() *cobra.Command {
	var flags refoldFlags
	c := newCommand("verify-projection", func(cmd *cobra.Command, _ []string) error {
		cfg, end, err := flags.config(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		found, err := writer.Verify(cmd.Context(), cfg)
		end()
		if err != nil {
			return fmt.Errorf("verifying the projection: %w", err)
		}
		return reportVerification(cmd.OutOrStdout(), found)
	})
	flags.register(c.Flags(), "compare")
	return c
}

func reportVerification(w io.Writer, found writer.Verification) error {
	for _, name := range writer.Tables() {
		if rows, compared := found.Rows[name]; compared {
			fmt.Fprintf(w, "%-18s %d rows compared\n", name, rows)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found.Former)) {
		fmt.Fprintf(w, "%-18s %d rows not compared, because the topics no longer have their facts\n",
			name, found.Former[name])
	}
	for _, topic := range slices.Sorted(maps.Keys(found.LeftOut)) {
		fmt.Fprintf(w, "%d records of the topic %s do not count and are in no table: "+
			"lumenhook topics cat dead-letters\n", found.LeftOut[topic], topic)
	}
	for _, d := range found.Differences {
		fmt.Fprintf(w, "%s, partition %d, %s: %d rows with checksum %016x, "+
			"and the topic gives %d with %016x; such as %s\n",
			d.Table, d.Partition, d.Day, d.LiveRows, d.LiveSum,
			d.RefoldRows, d.RefoldSum, strings.Join(d.Examples, ", "))
	}
	for _, d := range found.Doubled {
		fmt.Fprintf(w, "%s has %d live deliveries, at %s\n",
			d.EventID, len(d.Endpoints), strings.Join(d.Endpoints, " and "))
	}
	var faults []error
	if n := len(found.Differences); n > 0 {
		faults = append(faults, fmt.Errorf("%d partitions of days differ from their topics: "+
			"`lumenhook rebuild` of these tables fixes them", n))
	}
	if n := found.DoubledEvents; n > 0 {
		faults = append(faults, fmt.Errorf("%d events have two live deliveries in the journal, "+
			"so two endpoints may have received one event. Run `lumenhook events get EVENT_ID` to "+
			"see what each received, tell their owners, and report a bug. A rebuild can't fix this, "+
			"and lists show such an event once", n))
	}
	if len(faults) > 0 {
		return cli.Differs(errors.Join(faults...))
	}
	_, err := fmt.Fprintln(w, "the history matches the topics")
	return err
}

func newSQL() *cobra.Command {
	var (
		t      config.Service
		format string
		cfg    history.ConsoleConfig
	)
	c := newCommand("sql", func(cmd *cobra.Command, args []string) error {
		if format != "table" && !cmd.Flags().Changed("max-rows") && !cli.IsTerminal(cmd.OutOrStdout()) {
			cfg.RowsMax = math.MaxInt32
		}
		err := checkBounds(cfg)
		if err != nil {
			return err
		}
		if format == "parquet" {
			return writeParquet(cmd, args, &t, cfg)
		}
		if _, known := ops.SQLFormats[format]; !known {
			return cli.Usage(fmt.Errorf("--format %q: must be one of %s", format,
				strings.Join(sqlFormats, ", ")))
		}
		if cfg.DSN, err = t.ReaderDSN(); err != nil {
			return err
		}
		return query(cmd, args, &t, cfg, format)
	})
	t.Register(c.Flags())
	t.RegisterClickHouse(c.Flags())
	t.RegisterKafka(c.Flags())
	c.Flags().StringVar(&format, "format", "table",
		"output format: table, vertical (a line per value), json (a line per row), csv or parquet")
	cli.Offer(c.Flags(), "format", sqlFormats...)
	c.Flags().IntVar(&cfg.RowsMax, "max-rows", 10_000, "maximum number of rows to print")
	c.Flags().DurationVar(&cfg.TimeMax, "timeout", time.Minute, "maximum time for a query, up to 10m")
	return c
}

var sqlFormats = []string{"table", "vertical", "json", "csv", "parquet"}

func writeParquet(
	cmd *cobra.Command, args []string, t *config.Service, cfg history.ConsoleConfig,
) error {
	switch {
	case len(args) == 0:
		return cli.Usage(errors.New("--format parquet: pass the query as an argument"))
	case t.ClickHouse.DSN != "":
		return cli.Usage(errors.New("--format parquet: add FORMAT Parquet to the query, and send it to " +
			"the HTTP port of your ClickHouse; the flag is for \"lumenhook run\""))
	case cli.IsTerminal(cmd.OutOrStdout()):
		return cli.Usage(errors.New("--format parquet: redirect the output to a file"))
	}
	dsn, err := t.ReaderDSN()
	if err != nil {
		return err
	}
	run, err := runfile.Read(t.DataDir)
	if err == nil {
		err = noteLag(cmd, t, dsn)
	}
	if err != nil {
		return err
	}
	return ops.WriteParquet(cmd.Context(), run.ClickHouse, args[0], cfg.TimeMax,
		cli.Exact(cmd.OutOrStdout()))
}

// query runs the query that args name, or those on standard input.
func query(
	cmd *cobra.Command, args []string, t *config.Service, cfg history.ConsoleConfig, format string,
) error {
	console, err := history.OpenConsole(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer console.Close()
	if err := noteLag(cmd, t, cfg.DSN); err != nil {
		return err
	}
	s := ops.SQLSession{
		Console: console,
		Format:  format,
		RowsMax: cfg.RowsMax,
		Out:     cmd.OutOrStdout(),
		Notes:   cmd.ErrOrStderr(),
	}
	if len(args) == 1 {
		return s.Ask(cmd.Context(), args[0])
	}
	return s.Read(cmd.Context(), cmd.InOrStdin())
}

func checkBounds(cfg history.ConsoleConfig) error {
	if cfg.RowsMax < 1 || cfg.TimeMax < time.Second || cfg.TimeMax > 10*time.Minute {
		return cli.Usage(fmt.Errorf("--max-rows %d and --timeout %s: "+
			"must be at least 1, and from 1s to 10m", cfg.RowsMax, cfg.TimeMax))
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
		fmt.Fprintf(cmd.ErrOrStderr(), "cannot find out how far the history is behind: %s\n",
			cli.Explain(err, cmd.Flags()))
	case missing > 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "the history is %d records behind its topics: "+
			"the latest changes are missing\n", missing)
	}
	return nil
}

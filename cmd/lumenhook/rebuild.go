package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/projections"
)

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
	f.StringSliceVar(&r.tables, "table", nil, "table to "+what+"; may be repeated")
	cli.Offer(f, "table", projections.Tables()...)
	f.BoolVar(&r.all, "all", false, what+" all tables")
}

// config opens what is needed. The caller closes the database.
func (r *refoldFlags) config(out io.Writer) (cfg projections.RefoldConfig, end func(), err error) {
	if r.all == (len(r.tables) > 0) {
		return cfg, nil, cli.Usage(fmt.Errorf("give either --all or --table, one of %s",
			strings.Join(projections.Tables(), ", ")))
	}
	for _, name := range r.tables {
		if !slices.Contains(projections.Tables(), name) {
			return cfg, nil, cli.Usage(fmt.Errorf("--table %q: must be one of %s",
				name, strings.Join(projections.Tables(), ", ")))
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
	return projections.RefoldConfig{
		DB:      db,
		Cluster: cluster,
		Now:     time.Now,
		Tables:  r.tables,
		Report:  func(p projections.RefoldProgress) { bar.Show(p.Done, p.Total) },
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}, func() { bar.End(); _ = db.Close() }, nil
}

func newRebuild() *cobra.Command {
	var (
		flags     refoldFlags
		copyOlder bool
	)
	c := &cobra.Command{
		Use:   "rebuild --all | --table NAME…",
		Short: "Rebuild tables of the history from the topics, while the service runs",
		Long: `Fills new tables from the start of the topics, catches up with the end, exchanges
them with the live tables atomically, and drops the old ones. The service reads and
writes in the meantime. The next rebuild of the same tables continues an interrupted
one. A rebuild that fails leaves the live tables unchanged.`,
		Example: `  # One table, such as one that verify-projection has named
  lumenhook rebuild --table attempts

  # The whole history, while the service runs
  lumenhook rebuild --all`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, end, err := flags.config(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			cfg.CopyOlder = copyOlder
			// Collecting garbage took a fifth of a rebuild, whose blocks are garbage soon.
			debug.SetGCPercent(rebuildGCPercent)
			debug.SetMemoryLimit(rebuildMemoryBytes)
			err = projections.Rebuild(cmd.Context(), cfg)
			end()
			if cmd.Context().Err() != nil {
				return fmt.Errorf("interrupted; the live tables are as they were, "+
					"and the same command goes on: %w", context.Cause(cmd.Context()))
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
		},
	}
	flags.register(c.Flags(), "rebuild")
	c.Flags().BoolVar(&copyOlder, "copy-older", false,
		"take what the topics no longer hold from the live tables")
	return c
}

// A rebuild is a process of its own, and may take memory for time, to a bound.
const (
	rebuildGCPercent   = 400
	rebuildMemoryBytes = 1 << 30
)

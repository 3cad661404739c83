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
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/projections"
)

// refoldFlags are what rebuild and verify-projection have in common.
type refoldFlags struct {
	target
	tables []string
	all    bool
}

func (r *refoldFlags) register(f *pflag.FlagSet, what string) {
	r.target.register(f)
	r.registerKafka(f)
	r.registerClickHouse(f)
	f.StringSliceVar(&r.tables, "table", nil, "table to "+what+"; may be repeated")
	f.BoolVar(&r.all, "all", false, what+" all tables")
}

// config opens what is needed. The caller closes the database.
func (r *refoldFlags) config(out io.Writer) (cfg projections.RefoldConfig, end func(), err error) {
	if r.all == (len(r.tables) > 0) {
		return cfg, nil, cli.Usage(fmt.Errorf("give either --all or --table, one of %s", strings.Join(projections.Tables(), ", ")))
	}
	for _, name := range r.tables {
		if !slices.Contains(projections.Tables(), name) {
			return cfg, nil, cli.Usage(fmt.Errorf("--table %q: must be one of %s",
				name, strings.Join(projections.Tables(), ", ")))
		}
	}
	cluster, err := r.cluster()
	if err != nil {
		return cfg, nil, err
	}
	db, err := r.database()
	if err != nil {
		return cfg, nil, err
	}
	bar := &progressBar{out: out, terminal: isTerminal(out), began: time.Now()}
	return projections.RefoldConfig{
		DB: db, Cluster: cluster, Now: time.Now, Tables: r.tables, Report: bar.show,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}, func() { bar.end(); _ = db.Close() }, nil
}

func newRebuild() *cobra.Command {
	var (
		flags     refoldFlags
		copyOlder bool
	)
	c := &cobra.Command{
		Use:   "rebuild --all | --table NAME…",
		Short: "Build tables of the history anew from the topics, while the service goes on",
		Long: `Fills new tables from the topics' beginning beside the live ones, catches up with
the live end, exchanges them atomically and drops the old ones. Reading and
writing go on meanwhile. Interrupted, it is taken up by the next rebuild of the
same tables; failed, it leaves the live tables as they were.`,
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
				return fmt.Errorf("interrupted; the live tables are as they were, and the same command goes on: %w", context.Cause(cmd.Context()))
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
	c.Flags().BoolVar(&copyOlder, "copy-older", false, "take what the topics no longer hold from the live tables")
	return c
}

// A rebuild is a process of its own, and may take memory for time, to a bound.
const (
	rebuildGCPercent   = 400
	rebuildMemoryBytes = 1 << 30
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	barCells      = 30
	linesInterval = 5 * time.Second // between two lines where there is no terminal
)

// progressBar shows how far a refold is, with its rate and the time that remains.
type progressBar struct {
	out      io.Writer
	terminal bool
	began    time.Time

	mu     sync.Mutex
	first  int64 // done before this try
	known  bool
	last   time.Time
	showed bool
}

func (b *progressBar) show(p projections.RefoldProgress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known {
		b.first, b.known = p.Done, true
	}
	now := time.Now()
	if !b.terminal && now.Sub(b.last) < linesInterval {
		return
	}
	b.last, b.showed = now, true
	line := b.line(p, now.Sub(b.began))
	if b.terminal {
		fmt.Fprintf(b.out, "\r%s\x1b[K", line)
		return
	}
	fmt.Fprintln(b.out, line)
}

func (b *progressBar) line(p projections.RefoldProgress, took time.Duration) string {
	part := 1.0
	if p.Total > 0 {
		part = float64(p.Done) / float64(p.Total)
	}
	full := min(barCells, int(part*barCells))
	rate := float64(p.Done-b.first) / max(took.Seconds(), 0.001)
	line := fmt.Sprintf("%s%s %3.0f%%  %d of %d records  %.0f/s", strings.Repeat("█", full), strings.Repeat("░", barCells-full), part*100, p.Done, p.Total, rate)
	if left := p.Total - p.Done; left > 0 && rate >= 1 {
		line += "  " + (time.Duration(float64(left)/rate) * time.Second).String() + " left"
	}
	return line
}

func (b *progressBar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.terminal && b.showed {
		fmt.Fprintln(b.out)
	}
}

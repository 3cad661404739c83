package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

// scratch is a folder for states while they are copied.
type scratch struct{ within string }

func (s *scratch) register(f *pflag.FlagSet) {
	f.StringVar(&s.within, "scratch", "", "folder for a temporary copy of the states, which takes "+
		"as much space as the engines' (default the system's for temporary files)")
}

// use calls f with an empty folder, and deletes it afterwards.
func (s *scratch) use(f func(dir string) error) error {
	dir, err := os.MkdirTemp(s.within, "lumenhook-")
	if err != nil {
		return fmt.Errorf("--scratch: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return f(dir)
}

// telling prints the steps of a transfer, with a bar for each.
func telling(out io.Writer) (tell transfer.Telling, end func()) {
	var bar *cli.Progress
	end = func() {
		if bar != nil {
			bar.End()
			bar = nil
		}
	}
	return transfer.Telling{
		Step: func(name string) {
			end()
			fmt.Fprintln(out, name)
			bar = cli.NewProgress(out)
		},
		Progress: func(done, total int64) { bar.Show(done, total) },
	}, end
}

// backingUp are the flags of backup.
type backingUp struct {
	at     config.Service
	output cli.Output
	tmp    scratch
	to     string
}

func newBackup() *cobra.Command {
	var b backingUp
	c := &cobra.Command{
		Use:   "backup --to FOLDER",
		Short: "Copy everything that nothing else has into a folder, while the service runs",
		Long: `Copies the state of every partition, what the engine has not taken yet, and the
follower's position, all as of one moment, into a folder: zstd files with checksums, and
a manifest that is written last. A folder without one is no backup. A mounted bucket is a
folder.

A cluster that is made from it (lumenhook restore) has the same accounts and API keys, the
same endpoints and watches, and the same event ids. It delivers what was not delivered at
that moment, and what was paid since: the follower reads on from where it was.

Not in it: the master key, without which nothing is signed (keep a copy of its file apart:
the backup has secrets as they are sealed, and who has both has all), and the history,
which is a database of its own (BACKUP DATABASE, a statement of ClickHouse).`,
		Example: `  # Of the service of this machine, while it runs
  lumenhook backup --to /backups/2026-11-23

  # Of a service on a Kafka cluster, by a user who may read
  lumenhook backup --config lumenhook.yaml --kafka-user backup --to /mnt/bucket/2026-11-23`,
		Args: cli.NoArguments,
		RunE: b.run,
	}
	b.at.Register(c.Flags())
	b.at.RegisterKafka(c.Flags())
	b.output.Register(c.Flags())
	b.output.Changes(c)
	b.tmp.register(c.Flags())
	c.Flags().StringVar(&b.to, "to", "", "folder to write; it must be empty, or not there yet")
	return c
}

func (b *backingUp) run(cmd *cobra.Command, _ []string) error {
	if b.to == "" {
		return cli.Usage(fmt.Errorf("--to %q: must name a folder", b.to))
	}
	cluster, err := b.at.Cluster(stderrLog())
	if err != nil {
		return err
	}
	tell, end := telling(cmd.ErrOrStderr())
	var m transfer.Manifest
	err = b.tmp.use(func(dir string) error {
		m, err = transfer.WriteBackup(cmd.Context(), transfer.SourceConfig{
			Cluster: cluster,
			Scratch: dir,
			Program: cli.ThisBuild().Version,
			Now:     time.Now,
			Logger:  stderrLog(),
		}, b.to, tell)
		return err
	})
	end()
	if cmd.Context().Err() != nil {
		return fmt.Errorf("interrupted; what is in %s is no backup: %w", b.to,
			context.Cause(cmd.Context()))
	}
	if err != nil {
		return err
	}
	return b.output.Print(cmd.OutOrStdout(), m, func(w io.Writer) { showBackup(w, b.to, m) })
}

func showBackup(w io.Writer, to string, m transfer.Manifest) {
	cli.Row(w, "backup", to)
	cli.Row(w, "made at", m.MadeAt.Format(time.RFC3339))
	cli.Row(w, "partitions", m.Partitions)
	cli.Row(w, "entries of the states", m.Entries)
	if m.Cursor != nil {
		cli.Row(w, "ledgers read up to", m.Cursor.Ledger)
	}
	cli.Row(w, "not in it", "the master key, and the history in ClickHouse: keep copies of both")
}

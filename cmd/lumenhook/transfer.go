package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/standalone"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

// scratch is a folder for temporary states.
type scratch struct{ within string }

func (s *scratch) register(f *pflag.FlagSet) {
	f.StringVar(&s.within, "scratch", "", "folder for a temporary copy of the engines' states, "+
		"which needs as much space as they do (default the system's temporary folder)")
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

// transferProgress prints the steps of a transfer, with a bar for each that counts in a unit.
func transferProgress(out io.Writer, unit string) (announce transfer.Telling, end func()) {
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
			bar.Unit = unit
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
	c := newCommand("backup", b.run)
	b.at.Register(c.Flags())
	b.at.RegisterKafka(c.Flags())
	b.output.Register(c.Flags())
	b.output.Changes(c)
	b.tmp.register(c.Flags())
	c.Flags().StringVar(&b.to, "to", "",
		"folder to write the backup to; must be empty or not exist yet")
	return c
}

func (b *backingUp) run(cmd *cobra.Command, _ []string) error {
	if b.to == "" {
		return cli.Usage(fmt.Errorf("--to %q: must name a folder", b.to))
	}
	cluster, err := b.at.NamedCluster(stderrLog())
	if err != nil {
		return err
	}
	if len(cluster.Brokers) == 0 {
		announce, end := transferProgress(cmd.ErrOrStderr(), "bytes")
		m, err := standalone.WriteBackup(cmd.Context(), b.at.DataDir, b.to, cli.ThisBuild().Version,
			stderrLog(), announce)
		end()
		if err != nil {
			return err
		}
		return b.output.Print(cmd.OutOrStdout(), m, func(w io.Writer) { b.showFolder(w, m) })
	}
	if err := cluster.Listening(cmd.Context()); err != nil {
		return err
	}
	announce, end := transferProgress(cmd.ErrOrStderr(), "")
	var m transfer.Manifest
	err = b.tmp.use(func(dir string) error {
		m, err = transfer.WriteBackup(cmd.Context(), transfer.SourceConfig{
			Cluster: cluster,
			Scratch: dir,
			Program: cli.ThisBuild().Version,
			Now:     time.Now,
			Logger:  stderrLog(),
		}, b.to, announce)
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

func (b *backingUp) showFolder(w io.Writer, m standalone.Backup) {
	cli.Row(w, "backup", b.to)
	cli.Row(w, "created", m.MadeAt.Format(time.RFC3339))
	cli.Row(w, "files", len(m.Files), fmt.Sprintf("%.1f MB", float64(m.Bytes)/1e6))
	cli.Row(w, "not included", filepath.Join(b.at.DataDir, "secrets")+
		"; keep a copy elsewhere, because restoring the backup requires it")
}

func showBackup(w io.Writer, to string, m transfer.Manifest) {
	cli.Row(w, "backup", to)
	cli.Row(w, "created", m.MadeAt.Format(time.RFC3339))
	cli.Row(w, "partitions", m.Partitions)
	cli.Row(w, "state entries", m.Entries)
	if m.Cursor != nil {
		cli.Row(w, "ledgers read up to", m.Cursor.Ledger)
	}
	cli.Row(w, "not included", "the master key, and the history in ClickHouse; back up both")
}

// newTopicsFlags are the flags of commands that make the topics of a deployment.
type newTopicsFlags struct {
	shape  topology.Shape
	accept []string
}

func (n *newTopicsFlags) register(f *pflag.FlagSet, replicas int16, otherwise string) {
	f.Int16Var(&n.shape.Replicas, "replication", replicas,
		"number of copies of each record"+otherwise)
	f.StringSliceVar(&n.accept, "accept-loss", nil,
		"risks that you accept for the new topics: replication, min.insync.replicas")
}

func (n *newTopicsFlags) check() error {
	if n.shape.Partitions < 1 || n.shape.Partitions > 10_000 {
		return fmt.Errorf("%d partitions: there must be from 1 to 10000", n.shape.Partitions)
	}
	if err := topology.CheckShape(n.shape, n.accept); err != nil {
		return fmt.Errorf("--replication %d: %w", n.shape.Replicas, err)
	}
	return nil
}

// movedHistory is the database of a deployment that continues on other topics.
type movedHistory struct{ db *writer.DB }

// openHistory opens the database that flags name, or returns nil without one.
func openHistory(at *config.Service) (transfer.History, func(), error) {
	if at.ClickHouse.DSN == "" {
		return nil, func() {}, nil
	}
	db, err := at.Database()
	if err != nil {
		return nil, nil, err
	}
	return movedHistory{db: db}, func() { _ = db.Close() }, nil
}

func (h movedHistory) CatchUp(ctx context.Context, from kafka.Cluster) error {
	return writer.Finish(ctx, writer.ProjectorConfig{
		DB:      h.db,
		Cluster: from,
		Now:     time.Now,
		Logger:  stderrLog(),
	})
}

func (h movedHistory) CheckAt(ctx context.Context, of transfer.Manifest) error {
	return writer.CheckAt(ctx, h.db, of.Journal, of.JournalEnds)
}

func (h movedHistory) Restart(ctx context.Context, of transfer.Manifest) error {
	return writer.Restart(ctx, h.db, of.Journal)
}

// restoring are the flags of restore.
type restoring struct {
	at     config.Service
	output cli.Output
	tmp    scratch
	topics newTopicsFlags
	from   string
}

func newRestore() *cobra.Command {
	var r restoring
	c := newCommand("restore", r.run)
	r.at.Kafka.Register(c.Flags())
	r.at.RegisterClickHouse(c.Flags())
	r.output.Register(c.Flags())
	r.output.Changes(c)
	r.tmp.register(c.Flags())
	c.Flags().StringVar(&r.at.DataDir, "data-dir", "",
		"new data folder for a data folder's backup; must contain only its secrets")
	cli.NotShared(c.Flags(), "data-dir")
	c.Flags().StringVar(&r.from, "from", "", "folder that contains the backup")
	c.Flags().Int32Var(&r.topics.shape.Partitions, "partitions", 0,
		"number of partitions per keyed topic, which can't be changed later; 0: same as the backup")
	r.topics.register(c.Flags(), topology.LeastReplicas, "")
	return c
}

func (r *restoring) run(cmd *cobra.Command, _ []string) error {
	if r.from == "" {
		return cli.Usage(fmt.Errorf("--from %q: must name the folder of a backup", r.from))
	}
	h, closeHistory, err := openHistory(&r.at)
	if err != nil {
		return err
	}
	defer closeHistory()
	if standalone.IsBackup(r.from) {
		return r.folder(cmd)
	}
	m, err := transfer.ReadManifest(r.from)
	if err != nil {
		return err
	}
	if r.at.DataDir != "" {
		return cli.Usage(fmt.Errorf("--data-dir: %s is a cluster's backup: name the brokers of a new "+
			"cluster with --kafka-brokers", r.from))
	}
	r.topics.shape.Partitions = cmp.Or(r.topics.shape.Partitions, m.Partitions)
	if err := r.topics.check(); err != nil {
		return cli.Usage(err)
	}
	cluster, err := namedCluster(&r.at)
	if err != nil {
		return err
	}
	placed, err := r.place(cmd, cluster, h)
	if err != nil {
		return err
	}
	return r.output.Print(cmd.OutOrStdout(), placed, func(w io.Writer) { showPlaced(w, placed) })
}

// folder restores a data folder.
func (r *restoring) folder(cmd *cobra.Command) error {
	for _, flag := range []string{
		"kafka-brokers", "clickhouse-dsn", "partitions", "replication", "accept-loss",
	} {
		if cmd.Flags().Changed(flag) {
			return cli.Usage(fmt.Errorf("--%s: %s is a backup of a data folder: use --data-dir only", flag,
				r.from))
		}
	}
	if r.at.DataDir == "" {
		return cli.Usage(fmt.Errorf("--data-dir: %s is a backup of a data folder: name the new folder",
			r.from))
	}
	announce, end := transferProgress(cmd.ErrOrStderr(), "bytes")
	b, err := standalone.RestoreBackup(cmd.Context(), r.from, r.at.DataDir, announce)
	end()
	if err != nil {
		return err
	}
	return r.output.Print(cmd.OutOrStdout(), b, func(w io.Writer) {
		cli.Row(w, "restored", r.at.DataDir, fmt.Sprintf("%d files of %s", len(b.Files),
			b.MadeAt.Format(time.RFC3339)))
		start := "lumenhook run --data-dir " + r.at.DataDir
		if runfile.IsPackaged(r.at.DataDir) {
			start = "systemctl start lumenhook"
		}
		cli.Row(w, "now start it with", start)
	})
}

// place writes the backup into a cluster's empty topics, with progress.
func (r *restoring) place(
	cmd *cobra.Command, cluster kafka.Cluster, h transfer.History,
) (placed transfer.Placed, err error) {
	announce, end := transferProgress(cmd.ErrOrStderr(), "")
	err = r.tmp.use(func(dir string) error {
		placed, err = transfer.Restore(cmd.Context(), r.from, transfer.TargetConfig{
			Cluster: cluster,
			Shape:   r.topics.shape,
			Scratch: dir,
			Logger:  stderrLog(),
		}, h, announce)
		return err
	})
	end()
	if cmd.Context().Err() != nil {
		return placed, fmt.Errorf("interrupted; delete the topics of the prefix %s before you repeat "+
			"it: %w", cluster.Prefix, context.Cause(cmd.Context()))
	}
	return placed, err
}

// namedCluster is the cluster that flags name.
func namedCluster(at *config.Service) (kafka.Cluster, error) {
	cluster, err := at.NamedCluster(stderrLog())
	if err == nil && len(cluster.Brokers) == 0 {
		err = cli.Usage(fmt.Errorf("--kafka-brokers: must name the brokers of the cluster"))
	}
	if err != nil {
		return cluster, err
	}
	return cluster, cluster.Listening(context.Background())
}

func showPlaced(w io.Writer, p transfer.Placed) {
	cli.Row(w, "partitions", p.Partitions)
	cli.Row(w, "state entries", p.Entries, "verified by reading back")
	for _, topic := range slices.Sorted(maps.Keys(p.Records)) {
		cli.Row(w, "records of "+topic, p.Records[topic])
	}
}

// repartition is the command's flags.
type repartition struct {
	config.Service
	cli.Output
	scratch
	newTopicsFlags
	toPrefix string
}

func newRepartition() *cobra.Command {
	var r repartition
	c := newCommand("repartition", r.run)
	r.Kafka.Register(c.Flags())
	r.RegisterClickHouse(c.Flags())
	r.Output.Register(c.Flags())
	r.Changes(c)
	r.scratch.register(c.Flags())
	c.Flags().Int32Var(&r.shape.Partitions, "to", 0,
		"number of partitions per keyed topic, which can't be changed later")
	c.Flags().StringVar(&r.toPrefix, "to-prefix", "",
		"prefix for the names of the new topics, groups and transactional ids")
	r.newTopicsFlags.register(c.Flags(), 0, "; 0: same as the current journal")
	return c
}

func (r *repartition) run(cmd *cobra.Command, _ []string) error {
	if err := r.checkPrefixes(); err != nil {
		return cli.Usage(err)
	}
	h, closeHistory, err := openHistory(&r.Service)
	if err != nil {
		return err
	}
	defer closeHistory()
	cluster, err := namedCluster(&r.Service)
	if err != nil {
		return err
	}
	if err := r.shapeOf(cmd.Context(), cluster); err != nil {
		return err
	}
	announce, end := transferProgress(cmd.ErrOrStderr(), "")
	var moved transfer.Moved
	err = r.use(func(dir string) error {
		ask := func(inUse error) {
			end()
			fmt.Fprintf(cmd.ErrOrStderr(), "%s. The states are warm: stop every process of the service "+
				"now (this continues on its own)\n", inUse)
			announce.Step("reading new records until the service stops")
		}
		moved, err = transfer.Repartition(cmd.Context(), r.move(cluster, dir, h, announce, ask))
		return err
	})
	end()
	if cmd.Context().Err() != nil {
		return fmt.Errorf("interrupted: %w", errors.Join(context.Cause(cmd.Context()), err))
	}
	if err != nil {
		return err
	}
	return r.Print(cmd.OutOrStdout(), moved, func(w io.Writer) { showMoved(w, moved) })
}

func (r *repartition) checkPrefixes() error {
	from := r.Kafka.Prefix
	switch {
	case r.toPrefix == "" || r.toPrefix == from:
		return fmt.Errorf("--to-prefix %q: must be another one than the present --topic-prefix %q",
			r.toPrefix, from)
	case strings.HasPrefix(r.toPrefix, from) || strings.HasPrefix(from, r.toPrefix):
		return fmt.Errorf("--to-prefix %q: neither of it and --topic-prefix %q may begin with the "+
			"other, or rights and groups of the one would be of both", r.toPrefix, from)
	case r.shape.Partitions < 1 || r.shape.Partitions > 10_000:
		return fmt.Errorf("--to %d: must be from 1 to 10000", r.shape.Partitions)
	}
	return nil
}

// shapeOf has the new topics be like the present ones where no flag says otherwise.
func (r *repartition) shapeOf(ctx context.Context, c kafka.Cluster) error {
	if r.shape.Replicas == 0 {
		have, err := c.DescribeTopics(ctx, schemas.TopicJournal)
		if err != nil {
			return err
		}
		journal, found := have[schemas.TopicJournal]
		if !found {
			return fmt.Errorf("there is no topic %s%s: --topic-prefix must be that of the present topics",
				c.Prefix, schemas.TopicJournal)
		}
		r.shape.Replicas = int16(journal.Replicas) // #nosec G115 -- a replication factor
		return nil
	}
	return cli.Usage(r.check())
}

func (r *repartition) move(
	c kafka.Cluster, dir string, h transfer.History, announce transfer.Telling, stop func(error),
) transfer.Move {
	to := c
	to.Prefix = r.toPrefix
	return transfer.Move{
		Source: transfer.SourceConfig{
			Cluster: c,
			Scratch: filepath.Join(dir, "source"),
			Program: cli.ThisBuild().Version,
			Now:     time.Now,
			Logger:  stderrLog(),
		},
		Target: transfer.TargetConfig{
			Cluster: to,
			Shape:   r.shape,
			Scratch: filepath.Join(dir, "target"),
			Logger:  stderrLog(),
		},
		History: h,
		Tell:    announce,
		Stop:    stop,
	}
}

func showMoved(w io.Writer, m transfer.Moved) {
	cli.Row(w, "from", m.From, fmt.Sprint(m.Before, " partitions"))
	cli.Row(w, "to", m.To, fmt.Sprint(m.Partitions, " partitions"))
	cli.Row(w, "state entries", m.Entries, "verified by reading back")
	cli.Row(w, "the service paused for", fmt.Sprintf("%.1f s", m.PauseSeconds))
	cli.Row(w, "now start it with", "--topic-prefix "+m.To)
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

// newTopicsFlags are the flags of commands that make the topics of a deployment.
type newTopicsFlags struct {
	shape  topology.Shape
	accept []string
}

func (n *newTopicsFlags) register(f *pflag.FlagSet, replicas int16, otherwise string) {
	f.Int16Var(&n.shape.Replicas, "replication", replicas, "copies of each record"+otherwise)
	f.StringSliceVar(&n.accept, "accept-loss", nil,
		"faults of the new topics that you answer for, by name: replication, min.insync.replicas")
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

// history is the database of a deployment that continues on other topics.
type history struct{ db *projections.DB }

// openHistory opens the database that flags name, or returns nil without one.
func openHistory(at *config.Service) (transfer.History, func(), error) {
	if at.ClickHouse.DSN == "" {
		return nil, func() {}, nil
	}
	db, err := at.Database()
	if err != nil {
		return nil, nil, err
	}
	return history{db: db}, func() { _ = db.Close() }, nil
}

func (h history) CatchUp(ctx context.Context, from kafka.Cluster) error {
	return projections.Finish(ctx, projections.ProjectorConfig{
		DB:      h.db,
		Cluster: from,
		Now:     time.Now,
		Logger:  stderrLog(),
	})
}

func (h history) CheckAt(ctx context.Context, of transfer.Manifest) error {
	return projections.CheckAt(ctx, h.db, of.Journal, of.JournalEnds)
}

func (h history) Restart(ctx context.Context, of transfer.Manifest) error {
	return projections.Restart(ctx, h.db, of.Journal)
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
	c := &cobra.Command{
		Use:   "restore --from FOLDER --kafka-brokers HOST:PORT…",
		Short: "Make the topics of a new cluster from a backup",
		Long: `Checks every file of a backup against its checksum, creates the topics, writes them, and
reads the states back to compare them with the backup. It refuses topics that have
records, so that nothing is restored into a live deployment. The number of partitions may
differ from the backup's.

Then serve with the master key of the backup: accounts, API keys and secrets stay valid.
Deliveries that were pending at the backup are delivered. The ledgers since then are read
again, so that later payments are reported under the same event ids, even if the old
cluster has reported them.

With --clickhouse-dsn the history of the old deployment continues, if the database is at
exactly the position of the backup. An older or newer one is refused, because the restore
could not tell its attempts from later ones. Without it, and with an empty database, the
history starts at the backup; keep the old database to read in.`,
		Example: `  # Into a new cluster; serve there afterwards, with the master key of then
  lumenhook restore --from /backups/2026-11-23 --kafka-brokers kafka-1:9092`,
		Args: cli.NoArguments,
		RunE: r.run,
	}
	r.at.Kafka.Register(c.Flags())
	r.at.RegisterClickHouse(c.Flags())
	r.output.Register(c.Flags())
	r.output.Changes(c)
	r.tmp.register(c.Flags())
	c.Flags().StringVar(&r.from, "from", "", "folder of the backup")
	c.Flags().Int32Var(&r.topics.shape.Partitions, "partitions", 0,
		"partitions of each keyed topic, which cannot change later; 0: as many as the backup has")
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
	m, err := transfer.ReadManifest(r.from)
	if err != nil {
		return err
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

// place writes the backup into a cluster's empty topics, with progress.
func (r *restoring) place(
	cmd *cobra.Command, cluster kafka.Cluster, h transfer.History,
) (placed transfer.Placed, err error) {
	tell, end := telling(cmd.ErrOrStderr())
	err = r.tmp.use(func(dir string) error {
		placed, err = transfer.Restore(cmd.Context(), r.from, transfer.TargetConfig{
			Cluster: cluster,
			Shape:   r.topics.shape,
			Scratch: dir,
			Logger:  stderrLog(),
		}, h, tell)
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
	cli.Row(w, "entries of the states", p.Entries, "read back, and equal")
	for _, topic := range slices.Sorted(maps.Keys(p.Records)) {
		cli.Row(w, "records of "+topic, p.Records[topic])
	}
}

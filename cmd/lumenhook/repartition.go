package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

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
	c := &cobra.Command{
		Use:   "repartition --to N --to-prefix PREFIX --kafka-brokers HOST:PORT…",
		Short: "Bring a deployment to another partition count, under another prefix",
		Long: `Creates topics with N partitions under another prefix, and folds the states of the present
topics while the service runs. When the states are warm, it asks you to stop the service
and waits until no process uses the topics. Then it copies the newest records, writes the
states, reads them back from the new topics and compares them. This takes seconds, in
which the service is down. Then serve with --topic-prefix PREFIX.

Everything is kept: accounts and keys, endpoints with their secrets, watches, events and
their ids, pending and failed deliveries, answers to requests, and the follower's ledger.
With --clickhouse-dsn the history continues too, after it has caught up with the old
topics. Without it, a database that was filled from the old topics refuses the new ones.

Until the new topics are complete, a failure leaves the old ones unchanged, and the service
may continue with them. Afterwards they are closed: the service no longer starts on them.
Delete them when you are sure.`,
		Example: `  # From the topics of the file to 96 partitions under another prefix
  lumenhook repartition --config lumenhook.yaml --kafka-user admin \
    --to 96 --to-prefix lumenhook96.`,
		Args: cli.NoArguments,
		RunE: r.run,
	}
	r.Kafka.Register(c.Flags())
	r.RegisterClickHouse(c.Flags())
	r.Output.Register(c.Flags())
	r.Changes(c)
	r.scratch.register(c.Flags())
	c.Flags().Int32Var(&r.shape.Partitions, "to", 0,
		"partitions of each keyed topic, which cannot change later")
	c.Flags().StringVar(&r.toPrefix, "to-prefix", "",
		"what the names of the new topics, groups and transactional ids begin with")
	r.newTopicsFlags.register(c.Flags(), 0, "; 0: as many as the present journal has")
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
	tell, end := telling(cmd.ErrOrStderr())
	var moved transfer.Moved
	err = r.use(func(dir string) error {
		ask := func(inUse error) {
			end()
			fmt.Fprintf(cmd.ErrOrStderr(), "%s. The states are warm: stop every process of the service "+
				"now (this continues on its own)\n", inUse)
			tell.Step("folding what comes, until the service is stopped")
		}
		moved, err = transfer.Repartition(cmd.Context(), r.move(cluster, dir, h, tell, ask))
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
	c kafka.Cluster, dir string, h transfer.History, tell transfer.Telling, stop func(error),
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
		Tell:    tell,
		Stop:    stop,
	}
}

func showMoved(w io.Writer, m transfer.Moved) {
	cli.Row(w, "from", m.From, fmt.Sprint(m.Before, " partitions"))
	cli.Row(w, "to", m.To, fmt.Sprint(m.Partitions, " partitions"))
	cli.Row(w, "entries of the states", m.Entries, "read back, and equal")
	cli.Row(w, "the service stood still for", fmt.Sprintf("%.1f s", m.PauseSeconds))
	cli.Row(w, "now start it with", "--topic-prefix "+m.To)
}

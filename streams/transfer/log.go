package transfer

import (
	"context"

	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

// Log is the topics of one deployment that a copy is read from or written to: those of a cluster,
// or the simulation's.
type Log interface {
	// Starts and Of return the first and the end offsets of a topic's partitions.
	Starts(ctx context.Context, topic string) (map[int32]int64, error)
	Of(ctx context.Context, topic string) (map[int32]int64, error)
	// Read calls take for the committed records of a topic between offsets. It may also pass some
	// later records.
	Read(
		ctx context.Context, topic string, from, to map[int32]int64, take func(kafka.Record) error,
	) error
	// Replica opens the state of a partition, which is folded while its owner keeps running.
	Replica(cfg task.CoreConfig[engine.Effect, engine.Outcome]) (*replica, error)
	// Append appends records by their keys; Place places them at the partitions and offsets that
	// they name. DeleteBefore deletes the records below offsets.
	Append(ctx context.Context, records ...kafka.Record) error
	Place(ctx context.Context, records ...kafka.Record) error
	DeleteBefore(ctx context.Context, below kafka.Offsets) error
	Close()
}

// replica is a partition's state, folded while its owner keeps running.
type replica = task.Replica[engine.Effect, engine.Outcome]

// openLog returns log, or the log of the cluster if log is nil.
func openLog(log Log, c kafka.Cluster) (Log, error) {
	if log != nil {
		return log, nil
	}
	ends, err := c.NewEnds()
	if err != nil {
		return nil, err
	}
	return &clusterLog{Ends: ends, cluster: c}, nil
}

// clusterLog is the topics of a cluster. Clients for writing are opened when they are needed.
type clusterLog struct {
	*kafka.Ends
	cluster  kafka.Cluster
	producer *kafka.Producer
	placer   *kafka.Placer
}

const pollRecords = 2_000

func (l *clusterLog) Read(
	ctx context.Context, topic string, from, to map[int32]int64, take func(kafka.Record) error,
) error {
	return l.cluster.ReadBetween(ctx, topic, from, to, pollRecords, take)
}

func (l *clusterLog) Replica(
	cfg task.CoreConfig[engine.Effect, engine.Outcome],
) (*replica, error) {
	return task.NewReplica(l.cluster, cfg)
}

func (l *clusterLog) Append(ctx context.Context, records ...kafka.Record) (err error) {
	if l.producer == nil {
		if l.producer, err = l.cluster.NewProducer(); err != nil {
			return err
		}
	}
	return l.producer.Append(ctx, records...)
}

func (l *clusterLog) Place(ctx context.Context, records ...kafka.Record) (err error) {
	if l.placer == nil {
		if l.placer, err = l.cluster.NewPlacer(); err != nil {
			return err
		}
	}
	return l.placer.Place(ctx, records...)
}

func (l *clusterLog) DeleteBefore(ctx context.Context, below kafka.Offsets) error {
	deleter, err := l.cluster.NewDeleter()
	if err != nil {
		return err
	}
	defer deleter.Close()
	return deleter.DeleteBefore(ctx, below)
}

func (l *clusterLog) Close() {
	l.Ends.Close()
	if l.producer != nil {
		l.producer.Close()
	}
	if l.placer != nil {
		l.placer.Close()
	}
}

package transfer

import (
	"context"

	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/engine"
)

// Log is the topics of one deployment, as a copy is read from them or written to them: those
// of a cluster, or the simulation's.
type Log interface {
	// Starts and Of return the first and the end offsets of a topic's partitions.
	Starts(ctx context.Context, topic string) (map[int32]int64, error)
	Of(ctx context.Context, topic string) (map[int32]int64, error)
	// Read calls take for the committed records of a topic between offsets; some that follow
	// may come, too.
	Read(
		ctx context.Context, topic string, from, to map[int32]int64, take func(streams.Record) error,
	) error
	// Replica opens the state of a partition, which is folded beside its owner.
	Replica(cfg streams.CoreConfig[engine.Effect, engine.Outcome]) (*replica, error)
	// Append appends records by their keys, and Place at the partitions and offsets that they
	// name. DeleteBefore deletes those below offsets.
	Append(ctx context.Context, records ...streams.Record) error
	Place(ctx context.Context, records ...streams.Record) error
	DeleteBefore(ctx context.Context, below streams.Offsets) error
	Close()
}

// replica is a partition's state, folded beside its owner.
type replica = streams.Replica[engine.Effect, engine.Outcome]

// openLog returns a log, or else a cluster's.
func openLog(log Log, c streams.Cluster) (Log, error) {
	if log != nil {
		return log, nil
	}
	ends, err := c.NewEnds()
	if err != nil {
		return nil, err
	}
	return &clusterLog{Ends: ends, cluster: c}, nil
}

// clusterLog is the topics of a cluster. Clients that write are opened when they are needed.
type clusterLog struct {
	*streams.Ends
	cluster  streams.Cluster
	producer *streams.Producer
	placer   *streams.Placer
}

const pollRecords = 2_000

func (l *clusterLog) Read(
	ctx context.Context, topic string, from, to map[int32]int64, take func(streams.Record) error,
) error {
	return l.cluster.ReadBetween(ctx, topic, from, to, pollRecords, take)
}

func (l *clusterLog) Replica(
	cfg streams.CoreConfig[engine.Effect, engine.Outcome],
) (*replica, error) {
	return streams.NewReplica(l.cluster, cfg)
}

func (l *clusterLog) Append(ctx context.Context, records ...streams.Record) (err error) {
	if l.producer == nil {
		if l.producer, err = l.cluster.NewProducer(); err != nil {
			return err
		}
	}
	return l.producer.Append(ctx, records...)
}

func (l *clusterLog) Place(ctx context.Context, records ...streams.Record) (err error) {
	if l.placer == nil {
		if l.placer, err = l.cluster.NewPlacer(); err != nil {
			return err
		}
	}
	return l.placer.Place(ctx, records...)
}

func (l *clusterLog) DeleteBefore(ctx context.Context, below streams.Offsets) error {
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

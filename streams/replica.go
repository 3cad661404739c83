package streams

import (
	"context"
	"fmt"
	"maps"
)

// Replica is the state of a partition, folded from its journal without taking the partition
// over: its owner goes on. It is used by one goroutine.
type Replica[E, C any] struct {
	core    *Core[E, C]
	cfg     CoreConfig[E, C]
	cluster Cluster
	readers map[string]*Reader // by topic
}

// NewReplica opens the state of a replica, which goes on where it was.
func NewReplica[E, C any](cluster Cluster, cfg CoreConfig[E, C]) (*Replica[E, C], error) {
	r := &Replica[E, C]{
		core:    NewCore(cfg),
		cfg:     cfg,
		cluster: cluster,
		readers: make(map[string]*Reader),
	}
	if err := r.core.TookOver(); err != nil {
		return nil, err
	}
	return r, nil
}

// CatchUp folds what the journal has from its first offset up to an end. It may be called
// again with a later one.
func (r *Replica[E, C]) CatchUp(ctx context.Context, start, end int64) error {
	if err := r.core.LocatedJournal(start, end); err != nil {
		return err
	}
	for {
		var err error
		switch a := r.core.Next(Moment{}).(type) {
		case ReadJournal:
			err = r.read(ctx, r.cfg.Journal, a.From, a.To, r.core.ReadJournal)
		case LocateSnapshots:
			err = r.locateSnapshots(ctx)
		case ReadSnapshots:
			err = r.read(ctx, r.cfg.Snapshots.Topic, a.From, a.To, r.core.ReadSnapshots)
		default: // the next action would be the owner's
			return r.core.commitRestored()
		}
		if err != nil {
			return fmt.Errorf("streams: following partition %d of %s: %w", r.cfg.Partition,
				r.cfg.Journal, err)
		}
	}
}

func (r *Replica[E, C]) locateSnapshots(ctx context.Context) error {
	ends, err := r.cluster.NewEnds()
	if err != nil {
		return err
	}
	defer ends.Close()
	topic, p := r.cfg.Snapshots.Topic, r.cfg.Partition
	starts, err := ends.Starts(ctx, topic)
	if err != nil {
		return err
	}
	known, err := ends.Of(ctx, topic)
	if err != nil {
		return err
	}
	return r.core.LocatedSnapshots(starts[p], known[p])
}

// read reads some records of a topic's partition, from an offset on towards an end.
func (r *Replica[E, C]) read(
	ctx context.Context, topic string, from, to int64, take func([]Record, int64) error,
) (err error) {
	p := r.cfg.Partition
	reader := r.readers[topic]
	if reader == nil || reader.Position(topic, p) != from {
		if reader != nil {
			reader.Close()
		}
		reader, err = r.cluster.NewReader(ReaderConfig{From: Offsets{topic: {p: from}}, Notes: true})
		if err != nil {
			return err
		}
		r.readers[topic] = reader
	}
	var records []Record
	err = reader.pollTowards(ctx, topic, map[int32]int64{p: to}, restoreBatch,
		func(rec Record) error {
			records = append(records, rec)
			return nil
		})
	if err != nil {
		return err
	}
	return take(records, reader.Position(topic, p))
}

// Folded returns the offset of the journal that is folded next.
func (r *Replica[E, C]) Folded() int64 { return r.core.Folded() }

// Taken returns the offsets up to which the owner had taken its inputs, by topic; false if
// the journal has none.
func (r *Replica[E, C]) Taken() (positions map[string]int64, known bool) {
	return maps.Clone(r.core.progress.positions), r.core.progress.positions != nil
}

// Store returns the state. It is whole up to Folded between two calls of CatchUp.
func (r *Replica[E, C]) Store() *Store { return r.core.Store() }

// Close closes the state.
func (r *Replica[E, C]) Close() error {
	for _, reader := range r.readers {
		reader.Close()
	}
	return r.core.Close()
}

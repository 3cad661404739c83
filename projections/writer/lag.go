package writer

import (
	"context"
	"time"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Lag measures how far the live tables are behind the topics, no matter which projector fills them.
type Lag struct {
	db   *DB
	ends *kafka.Ends
}

// NewLag returns a Lag. Close releases its client.
func NewLag(db *DB, cluster kafka.Cluster) (*Lag, error) {
	ends, err := cluster.NewEnds()
	if err != nil {
		return nil, err
	}
	return &Lag{db: db, ends: ends}, nil
}

// Close releases the client.
func (l *Lag) Close() { l.ends.Close() }

// Records returns how many records, including control records, are missing from a table that they
// fill, over all topics.
func (l *Lag) Records(ctx context.Context) (records int64, err error) {
	ends, err := endsOf(ctx, l.ends, Topics())
	if err != nil {
		return 0, err
	}
	return l.missing(ctx, ends)
}

// CatchUp waits until the tables contain everything that was in the topics at the time of the call,
// until ctx ends, or until the tables can no longer be read. It returns the number of records still
// missing.
func (l *Lag) CatchUp(ctx context.Context) (missing int64, err error) {
	ends, err := endsOf(ctx, l.ends, Topics())
	if err != nil {
		return 0, err
	}
	tick := time.NewTicker(progressPoll)
	defer tick.Stop()
	for looks := 0; ; looks++ {
		now, err := l.missing(ctx, ends)
		switch {
		case err != nil && looks > 0: // a connection's deadline may pass before that of ctx
			return missing, nil
		case err != nil || now == 0:
			return now, err
		}
		missing = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return missing, nil
		}
	}
}

func (l *Lag) missing(
	ctx context.Context, ends map[topicPartition]int64,
) (records int64, err error) {
	db, err := l.db.pin(ctx)
	if err != nil {
		return 0, err
	}
	return db.behind(ctx, ends)
}

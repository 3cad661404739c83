package projections

import (
	"context"

	"github.com/lumenhook/lumenhook/streams"
)

// Lag tells how far the live tables are behind the topics, whoever fills them.
type Lag struct {
	db   *DB
	ends *streams.Ends
}

// NewLag makes a Lag. Close frees what it holds.
func NewLag(db *DB, cluster streams.Cluster) (*Lag, error) {
	ends, err := cluster.NewEnds()
	if err != nil {
		return nil, err
	}
	return &Lag{db: db, ends: ends}, nil
}

// Close frees what the Lag holds.
func (l *Lag) Close() { l.ends.Close() }

// Records is how many records of all topics are not in every table yet that is
// filled from them, control records included.
func (l *Lag) Records(ctx context.Context) (records int64, err error) {
	db, err := l.db.pin(ctx)
	if err != nil {
		return 0, err
	}
	live, err := db.live(ctx)
	if err != nil {
		return 0, err
	}
	progress, err := db.progress(ctx, live)
	if err != nil {
		return 0, err
	}
	for _, topic := range Topics() {
		ends, err := l.ends.Of(ctx, topic)
		if err != nil {
			return 0, err
		}
		for partition, end := range ends {
			records += max(0, end-progress[place{topic, partition}])
		}
	}
	return records, nil
}

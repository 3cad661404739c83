package node

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// lagMax is how many records the history may be behind in a process that is ready.
const lagMax = 1_000_000

// History is the history for the API, and how far it is behind. A node may have none, or none
// yet.
type History struct {
	history.History
	writes atomic.Pointer[written] // nil: there is no history
}

// written holds the projector and lag of a history.
type written struct {
	stuck  func() error // why nothing is written at present
	lag    func(context.Context) (records int64, err error)
	damage func(context.Context) (writer.Damages, error) // tables that lost rows on disk
}

// readFrom opens the history of a database that a projector of this process writes; nil: others
// write it. The caller closes the result.
func (h *History) readFrom(
	db *writer.DB, cluster kafka.Cluster, projector *writer.Projector,
) (closed func(), err error) {
	ends, err := cluster.NewEnds()
	if err != nil {
		return nil, err
	}
	lag, err := writer.NewLag(db, cluster)
	if err != nil {
		ends.Close()
		return nil, err
	}
	endsOf := func(topic string) func(context.Context) (map[int32]int64, error) {
		return func(ctx context.Context) (map[int32]int64, error) { return ends.Of(ctx, topic) }
	}
	cfg := history.Config{
		DB:           db,
		Ends:         endsOf(schemas.TopicJournal),
		PaymentsEnds: endsOf(schemas.TopicPayments),
	}
	by := &written{stuck: func() error { return nil }, lag: lag.Records, damage: db.Damage}
	if projector != nil {
		cfg.Ask, cfg.Stuck = projector.Ask, projector.Stuck
		by.stuck, by.lag = projector.Stuck, projector.Lag
	}
	h.ReadFrom(cfg)
	h.writes.Store(by)
	return func() { ends.Close(); lag.Close() }, nil
}

// describe returns how far the history is behind.
func (h *History) describe(ctx context.Context) string {
	records, err := h.records(ctx)
	switch {
	case err != nil:
		return "how far it is behind is not known: " + err.Error()
	case records == 0:
		return "up to date"
	}
	return fmt.Sprintf("%d records behind", records)
}

// check returns an error while there is no history, while nothing writes it, while it lacks rows
// that it had, and while it is too far behind.
func (h *History) check(ctx context.Context) error {
	records, err := h.records(ctx)
	if err != nil {
		return err
	}
	if records > lagMax {
		return fmt.Errorf("%w: by %d records, more than %d", readmodel.ErrBehind, records, lagMax)
	}
	damaged, _ := h.writes.Load().damage(ctx) // a user may lack the right to ask
	if len(damaged) > 0 {
		return fmt.Errorf("%w: %w", readmodel.ErrBehind, damaged)
	}
	return nil
}

// records returns how many records the history is behind.
func (h *History) records(ctx context.Context) (int64, error) {
	by := h.writes.Load()
	if by == nil {
		return 0, h.Missing()
	}
	if err := by.stuck(); err != nil {
		return 0, err
	}
	return by.lag(ctx)
}

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

// lagMax is the maximum number of records that the history may lack in a ready process.
const lagMax = 1_000_000

// History is the history for the API, and its lag. A node may have no history, or none yet.
type History struct {
	history.History
	writes atomic.Pointer[written] // nil if there is no history
	lacks  atomic.Pointer[error]   // why there is none
}

// Lacks sets why there is no history: in words for clients, and as the cause for operators.
func (h *History) Lacks(why string, cause error) {
	h.History.Lacks(why)
	h.lacks.Store(&cause)
}

// waits returns the check that reports a history that the node cannot open yet. The process is
// ready without it.
func (h *History) waits() []readyPart {
	cause := h.lacks.Load()
	if cause == nil || h.Missing() == nil {
		return nil
	}
	return []readyPart{{Name: "history", Status: "waiting", Detail: (*cause).Error()}}
}

type written struct {
	stuck  func() error // why nothing is being written
	lag    func(context.Context) (records int64, err error)
	damage func(context.Context) (writer.Damages, error) // tables that lost rows on disk
}

// readFrom opens a database's history. projector is nil if another process writes the history. The
// caller must call closed.
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

func (h *History) describe(ctx context.Context) string {
	records, err := h.records(ctx)
	switch {
	case err != nil:
		return "its lag is unknown: " + err.Error()
	case records == 0:
		return "up to date"
	}
	return fmt.Sprintf("%d records behind", records)
}

// check returns an error if there is no history, nothing writes it, it has lost rows, or it is too
// far behind.
func (h *History) check(ctx context.Context) error {
	records, err := h.records(ctx)
	if err != nil {
		return err
	}
	if records > lagMax {
		return fmt.Errorf("%w: by %d records, more than %d", readmodel.ErrBehind, records, lagMax)
	}
	damaged, _ := h.writes.Load().damage(ctx) // the user may lack the right to query it
	if len(damaged) > 0 {
		return fmt.Errorf("%w: %w", readmodel.ErrBehind, damaged)
	}
	return nil
}

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

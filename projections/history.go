package projections

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/singleflight"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// Faults of reading the history.
var (
	// ErrNotFound says that the account has no such event, as of the question.
	ErrNotFound = errors.New("projections: no such event")
	// ErrBehind says that the history did not catch up in time, or that it cannot
	// be told how far it should be: whether the event exists is not known.
	ErrBehind = errors.New("projections: the history is behind the journal")
	// ErrUnavailable says that ClickHouse cannot be read.
	ErrUnavailable = errors.New("projections: the history is unavailable")
)

const (
	defaultRead  = 2 * time.Second // for one lookup
	patience     = 4               // times as long for one that is made again
	defaultWait  = 2 * time.Second // for the projection to catch up
	progressPoll = 25 * time.Millisecond
)

// HistoryConfig says what is read.
type HistoryConfig struct {
	DB *DB
	// Ends returns the high watermark of each partition of the journal.
	Ends func(context.Context) (map[int32]int64, error)
	// WaitMax bounds the wait for a history that is behind; 2 s when zero.
	WaitMax time.Duration
	// ReadMax bounds one lookup; 2 s when zero. One that was cut off is made once
	// more, and may take four times as long.
	ReadMax time.Duration
}

// History reads events with their deliveries and attempts. It may be used by many
// goroutines.
type History struct {
	db  *DB
	all []*reading // of each server
}

// reading is the history on one server: what is known of its tables is not true of
// another's.
type reading struct {
	cfg    HistoryConfig
	flight singleflight.Group // progress is read once for all who wait
	full   fullTables
}

// EventRecord is an event with its present delivery. Whether the delivery is held is the
// endpoint's state at the time of reading, and not part of it: it is held when
// its state is pending and its endpoint disabled.
type EventRecord struct {
	EventHead
	Body []byte // the envelope, byte for byte as receivers get it

	State               domain.DeliveryState
	NextAttemptAtMillis int64 // 0: none

	// A list leaves these out.
	Behind          bool   // the tables are being filled: it may be shown as it was earlier
	FirstEndpointID string // that the event was sent to at first; empty: not in the tables yet
	Run             int    // 1 is the first
	AttemptsMade    int    // over all runs
	UpdatedAtMillis int64
	Attempts        []AttemptRecord // of all its deliveries, oldest first
}

// EventHead is what an event is about; the rest is in its body.
type EventHead struct {
	ID              string
	EndpointID      string
	CreatedAtMillis int64
}

// AttemptRecord is one attempt of a delivery.
type AttemptRecord struct {
	EndpointID string
	Number     int // counts over all runs; 1 is the first
	Run        int
	Result     domain.AttemptResult
}

// readSettings suit questions that touch few rows: to spread them over threads
// takes longer than to read them.
var readSettings = clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1})

// NewHistory returns a reader of the history.
func NewHistory(cfg HistoryConfig) *History {
	cfg.WaitMax = cmp.Or(cfg.WaitMax, defaultWait)
	cfg.ReadMax = cmp.Or(cfg.ReadMax, defaultRead)
	h := &History{db: cfg.DB}
	for _, one := range cfg.DB.servers() {
		of := cfg
		of.DB = one
		h.all = append(h.all, &reading{cfg: of})
	}
	return h
}

// ask asks one server, and the others in turn while what they say is that they are
// unavailable.
func (h *History) ask(ctx context.Context, question func(*reading) error) (err error) {
	first := slices.IndexFunc(h.all, func(r *reading) bool { return r.cfg.DB == h.db.server() })
	for i := range h.all {
		of := h.all[(first+i)%len(h.all)]
		if err = question(of); !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		of.full.forget() // others may be ahead when it is asked again
		h.db.moveOn(of.cfg.DB)
	}
	return err
}

// Event finds an event of an account. If it is not there it waits, bounded, until
// everything that was in the journal at the time of the question is in the
// tables, and looks again. It waits for tables that are being filled again too;
// one that stands in them before they are full says that it is Behind. Its faults
// are ErrNotFound, ErrBehind, ErrUnavailable and the context's own.
func (h *History) Event(
	ctx context.Context, accountID, eventID string,
) (record EventRecord, err error) {
	err = h.ask(ctx, func(of *reading) error {
		record, err = of.event(ctx, accountID, eventID)
		return err
	})
	return record, err
}

func (h *reading) event(ctx context.Context, accountID, eventID string) (EventRecord, error) {
	var record EventRecord
	var found error
	err := h.onFull(ctx, func() error {
		record, found = h.await(ctx, accountID, eventID)
		return found
	})
	if err == nil {
		return record, found
	}
	if !errors.Is(err, ErrBehind) {
		return EventRecord{}, err
	}
	record, found = h.find(ctx, accountID, eventID)
	if errors.Is(found, ErrNotFound) {
		return EventRecord{}, err
	}
	record.Behind = true
	return record, found
}

// await finds an event that may have been written only just now.
func (h *reading) await(ctx context.Context, accountID, eventID string) (EventRecord, error) {
	record, err := h.find(ctx, accountID, eventID)
	if !errors.Is(err, ErrNotFound) {
		return record, err
	}
	if err := h.catchUp(ctx); err != nil {
		return EventRecord{}, err
	}
	return h.find(ctx, accountID, eventID)
}

// CatchUp returns when the tables hold all that the journal held at the time of
// the call. It waits for WaitMax at most. Its faults are ErrBehind,
// ErrUnavailable and the context's own.
func (h *History) CatchUp(ctx context.Context) error {
	return h.ask(ctx, func(of *reading) error { return of.catchUp(ctx) })
}

func (h *reading) catchUp(ctx context.Context) error {
	if err := h.settle(ctx, "projection_progress"); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, h.cfg.WaitMax)
	defer cancel()
	ends, err := h.cfg.Ends(waiting)
	if err != nil {
		return callersFirst(ctx, fmt.Errorf("%w: asking for the journal's ends: %w", ErrBehind, err))
	}
	tick := time.NewTicker(progressPoll)
	defer tick.Stop()
	for {
		progress, err := h.progress(waiting)
		switch {
		case (err == nil || isMissing(err)) && passed(progress, ends):
			return h.settle(ctx, journalNames()...)
		case err != nil && waiting.Err() == nil && !isMissing(err):
			return err
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			return callersFirst(ctx,
				fmt.Errorf("%w: it was not brought up to date within %s", ErrBehind, h.cfg.WaitMax))
		}
	}
}

// settle makes sure that this server has what the cluster acknowledged of tables. One
// that is cut off from the others answers what it has for as long as it is asked.
func (h *reading) settle(ctx context.Context, tables ...string) error {
	fetching, cancel := context.WithTimeout(ctx, h.cfg.WaitMax)
	defer cancel()
	err := h.cfg.DB.settle(fetching, tables...)
	if err != nil && !isMissing(err) {
		return callersFirst(ctx, fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	return nil
}

// settleOnce settles the journal's tables for all who ask at the same time.
func (h *reading) settleOnce(ctx context.Context) error {
	if h.cfg.DB.cluster == "" {
		return nil
	}
	return h.once(ctx, "settle",
		func(ctx context.Context) error { return h.settle(ctx, journalNames()...) })
}

// callersFirst prefers the caller's own end over what came of it.
func callersFirst(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
}

// progress is read by one of those who ask at the same time. Whatever it says is
// true for all: progress only grows.
func (h *reading) progress(ctx context.Context) (map[int32]int64, error) {
	read := h.flight.DoChan("progress", func() (any, error) {
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.ReadMax)
		defer cancel()
		return h.cfg.DB.journalProgress(reading, schemas.TopicJournal)
	})
	select {
	case r := <-read:
		if r.Err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, r.Err)
		}
		return r.Val.(map[int32]int64), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find looks an event up, bounded in time.
func (h *reading) find(
	ctx context.Context, accountID, eventID string,
) (record EventRecord, err error) {
	err = h.look(ctx, func(ctx context.Context) error {
		record, err = h.cfg.DB.event(ctx, accountID, eventID)
		return err
	})
	return record, readFault(ctx, err)
}

// look asks the tables something that may be asked again. A connection may have
// died without a word, which takes the whole of the time; and a ClickHouse that has
// only started, or has too much to do, reads its own program and its indexes first.
// So what was cut off is asked once more, and for longer.
func (h *reading) look(ctx context.Context, ask func(context.Context) error) error {
	once := func(limit time.Duration) error {
		asking, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return ask(clickhouse.Context(asking, readSettings))
	}
	err := once(h.cfg.ReadMax)
	if isCutOff(err) && ctx.Err() == nil {
		err = once(patience * h.cfg.ReadMax)
	}
	return err
}

// isCutOff reports whether a question was begun and got no answer.
func isCutOff(err error) bool {
	for _, cut := range []error{
		context.DeadlineExceeded, os.ErrDeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET,
		syscall.EPIPE,
	} {
		if errors.Is(err, cut) {
			return true
		}
	}
	return false
}

// readFault says what became of a question to the tables.
func readFault(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows), isMissing(err):
		return ErrNotFound
	}
	return callersFirst(ctx, fmt.Errorf("%w: %w", ErrUnavailable, err))
}

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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/singleflight"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// Errors of reading the history.
var (
	// ErrNotFound means that the account has no such event at the time of the call.
	ErrNotFound = errors.New("projections: no such event")
	// ErrExpired is an ErrNotFound: what became of the event is there, and its body is not.
	ErrExpired = fmt.Errorf("%w: its body is no longer kept", ErrNotFound)
	// ErrBehind means that the history did not catch up in time, or that it is unknown how
	// far it should be: whether the event exists is unknown.
	ErrBehind = errors.New("projections: the history is behind the journal")
	// ErrUnavailable means that ClickHouse cannot be read.
	ErrUnavailable = errors.New("projections: the history is unavailable")
)

// errOlder means that tables lack a column: a migration runs, or no projector of this version
// has started yet.
var errOlder = fmt.Errorf("%w: its tables are being migrated", ErrBehind)

const (
	defaultRead  = 2 * time.Second // for one lookup
	patience     = 4               // factor for a retried lookup
	defaultWait  = 2 * time.Second // for the projection to catch up
	progressPoll = 25 * time.Millisecond
)

// HistoryConfig configures a History.
type HistoryConfig struct {
	DB *DB
	// Ends returns the high watermark of each partition of the journal.
	Ends func(context.Context) (map[int32]int64, error)
	// PaymentsEnds returns that of the topic "payments"; only statements need it.
	PaymentsEnds func(context.Context) (map[int32]int64, error)
	// Ask, if set, is Projector.Ask of the projector that fills the tables, if that is in this
	// process: it is called with each read, and with the ends that a read waits for.
	Ask func(ctx context.Context, ends map[int32]int64)
	// WaitMax bounds the wait for a history that is behind; 0: 2 s.
	WaitMax time.Duration
	// ReadMax bounds one lookup; 0: 2 s. One that was cut off is retried once, and may take
	// four times as long.
	ReadMax time.Duration
}

// History reads events with their deliveries and attempts. It may be used by many
// goroutines.
type History struct {
	db  *DB
	all []*reading // one for each server
}

// reading is the history on one server: what is known of its tables does not apply to
// another's.
type reading struct {
	cfg    HistoryConfig
	flight singleflight.Group // progress is read once for all waiting callers
	full   fullTables
	damage atomic.Pointer[Damages] // not older than damageAge; nil: to be asked for
	uptime atomic.Uint32           // of the server, in seconds, when it was read last
	// of the journal, for which they are for ever; 0: not asked yet
	partitions atomic.Int32
}

// EventRecord is an event with its present delivery. Whether the delivery is held is not
// part of it: it is held if its state is pending and its endpoint is disabled at the time
// of reading.
type EventRecord struct {
	EventHead
	Body []byte // the envelope, byte for byte as receivers get it

	State               domain.DeliveryState
	NextAttemptAtMillis int64 // 0: none
	AttemptsMade        int   // over all runs

	// Lists have these, of the last attempt at the present endpoint; zero without one.
	LastStatusCode int
	LastError      domain.AttemptError

	// Lists leave these out.
	Behind          bool   // the tables are being filled: this may be an earlier state
	FirstEndpointID string // the event's first endpoint; empty: not in the tables yet
	Run             int    // 1 is the first
	UpdatedAtMillis int64
	Attempts        []AttemptRecord  // of all its deliveries, oldest first
	Deliveries      []DeliveryRecord // oldest first
}

// DeliveryRecord is one delivery of an event.
type DeliveryRecord struct {
	EndpointID string
	State      domain.DeliveryState
	Sequence   uint64 // domain.DeliveryCreated.Sequence; 0: none
	Moves      int    // hand-overs of the event before it
	MovedTo    string // endpoint that the event was handed over to; empty: none
	Attempts   int    // over all runs, those before it included
	Run        int
}

// EventHead are an event's identifying fields; the rest is in its body.
type EventHead struct {
	ID              string
	EndpointID      string
	CreatedAtMillis int64
	Sequence        uint64 // of its delivery to the endpoint; 0: none
}

// AttemptRecord is one attempt of a delivery.
type AttemptRecord struct {
	EndpointID string
	Number     int // counts over all runs; 1 is the first
	Run        int
	Result     domain.AttemptResult
	Entry      domain.LogEntry // without its hashes: History.LogHashes has them
}

// readSettings suit queries that read few rows: spreading them over threads takes longer
// than reading them.
var readSettings = clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1})

// NewHistory returns a reader of the history.
func NewHistory(cfg HistoryConfig) *History {
	cfg.WaitMax = cmp.Or(cfg.WaitMax, defaultWait)
	cfg.ReadMax = cmp.Or(cfg.ReadMax, defaultRead)
	if cfg.Ask == nil {
		cfg.Ask = func(context.Context, map[int32]int64) {}
	}
	h := &History{db: cfg.DB}
	for _, one := range cfg.DB.servers() {
		of := cfg
		of.DB = one
		h.all = append(h.all, &reading{cfg: of})
	}
	return h
}

// ask queries one server, and the others in turn if it is unavailable.
func (h *History) ask(ctx context.Context, question func(*reading) error) (err error) {
	first := slices.IndexFunc(h.all, func(r *reading) bool { return r.cfg.DB == h.db.server() })
	for i := range h.all {
		of := h.all[(first+i)%len(h.all)]
		if err = question(of); !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		of.full.forget() // others may be ahead when it is queried again
		h.db.moveOn(of.cfg.DB)
	}
	return err
}

// Event returns an event of an account. If it is not there, Event waits, for a bounded
// time, until everything that was in the journal at the time of the call is in the tables,
// and looks again. It also waits for tables that are being refilled; an event that they
// hold before they are complete is marked as Behind. Its errors are ErrNotFound, ErrBehind,
// ErrUnavailable and the context's own.
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

// Recall is Event for an event that is to be sent again. AsOf has every partition of the
// journal: everything below these offsets is in what it returns. An event whose body is not
// kept is ErrExpired, and tables that are being refilled are ErrBehind.
func (h *History) Recall(
	ctx context.Context, accountID, eventID string,
) (record EventRecord, asOf map[int32]int64, err error) {
	err = h.ask(ctx, func(of *reading) error {
		record, asOf, err = of.recall(ctx, accountID, eventID)
		return err
	})
	return record, asOf, err
}

func (h *reading) recall(
	ctx context.Context, accountID, eventID string,
) (record EventRecord, asOf map[int32]int64, err error) {
	var found error
	err = h.onFull(ctx, func() error {
		if asOf, found = h.asOf(ctx); found != nil {
			return found
		}
		record, found = h.await(ctx, accountID, eventID)
		return found
	})
	return record, asOf, cmp.Or(err, found)
}

// asOf returns the offset of each partition of the journal up to which this server has what
// is read of the tables afterwards. It asks anew each time: what was asked before may be of
// tables that were exchanged since.
func (h *reading) asOf(ctx context.Context) (asOf map[int32]int64, err error) {
	err = h.look(ctx, func(ctx context.Context) error {
		asOf, err = h.cfg.DB.journalProgress(ctx)
		return err
	})
	if err != nil {
		return nil, callersFirst(ctx, fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	waiting, cancel := context.WithTimeout(ctx, h.cfg.WaitMax)
	defer cancel()
	ends, err := h.cfg.Ends(waiting) // after the progress, which cannot have passed them
	if err != nil {
		return nil, callersFirst(ctx, fmt.Errorf("%w: asking for the journal's ends: %w", ErrBehind, err))
	}
	for partition, end := range ends {
		if asOf[partition] > end {
			return nil, fmt.Errorf("%w: it has partition %d of another one, up to offset %d, and this one "+
				"ends at %d", ErrBehind, partition, asOf[partition], end)
		}
		asOf[partition] = max(asOf[partition], 0)
	}
	return asOf, nil
}

// await looks for an event that may have been written only just now.
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

// CatchUp returns when the tables hold everything that the journal held at the time of the
// call. It waits for at most WaitMax. Its errors are ErrBehind, ErrUnavailable and the
// context's own.
func (h *History) CatchUp(ctx context.Context) error {
	return h.ask(ctx, func(of *reading) error { return of.catchUp(ctx) })
}

func (h *reading) catchUp(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, h.cfg.WaitMax)
	defer cancel()
	ends, err := h.cfg.Ends(waiting)
	if err != nil {
		return callersFirst(ctx, fmt.Errorf("%w: asking for the journal's ends: %w", ErrBehind, err))
	}
	tick := time.NewTicker(progressPoll)
	defer tick.Stop()
	for {
		h.cfg.Ask(waiting, ends)
		progress, err := h.progress(waiting)
		switch {
		case (err == nil || isMissing(err)) && passed(progress, ends):
			return nil
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

// callersFirst returns the error of the caller's context, if it has ended, in preference to
// err. A connection has the context's deadline for its own, and may tell of it a moment before
// the context does.
func callersFirst(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	deadline, has := ctx.Deadline()
	if !has || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if time.Now().Before(deadline) { //nolint:forbidigo // the deadline is of this clock
		return err
	}
	return context.DeadlineExceeded
}

// progress reads the progress of the journal's tables.
func (h *reading) progress(ctx context.Context) (map[int32]int64, error) {
	return h.topicProgress(ctx, schemas.TopicJournal)
}

// topicProgress reads the progress of a topic once for all concurrent callers. Any result holds
// for all of them: progress only grows.
func (h *reading) topicProgress(ctx context.Context, topic string) (map[int32]int64, error) {
	read := h.flight.DoChan("progress of "+topic, func() (any, error) {
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.ReadMax)
		defer cancel()
		return h.cfg.DB.topicProgress(reading, topic)
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

// find looks an event up, for a bounded time.
func (h *reading) find(
	ctx context.Context, accountID, eventID string,
) (record EventRecord, err error) {
	err = h.look(ctx, func(ctx context.Context) error {
		record, err = h.cfg.DB.event(ctx, accountID, eventID)
		return err
	})
	return record, readFault(ctx, err)
}

// look makes a query that may be repeated. A connection may have died silently, which takes
// the whole timeout; and a ClickHouse that has just started, or is overloaded, is slow at
// first. So a query that was cut off is retried once, with a longer timeout.
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

// isCutOff reports whether a query was started and got no answer.
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

// readFault returns the error of a query of the tables.
func readFault(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoBody):
		return ErrExpired
	case errors.Is(err, sql.ErrNoRows), isMissing(err):
		return ErrNotFound
	case hasCode(err, olderCodes...):
		return fmt.Errorf("%w: %w", errOlder, err)
	}
	return callersFirst(ctx, fmt.Errorf("%w: %w", ErrUnavailable, err))
}

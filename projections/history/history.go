package history

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
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

var olderCodes = []int32{10, 16, 47}

// errOlder means that a table lacks a column, because a migration is running or no projector of
// this version has started yet.
var errOlder = fmt.Errorf("%w: its tables are being migrated", readmodel.ErrBehind)

const (
	defaultRead = 2 * time.Second // per lookup
	patience    = 4               // times the timeout, for a retried lookup
	defaultWait = 2 * time.Second // for the projection to catch up
	catchUpPoll = 25 * time.Millisecond
)

// Config configures a History.
type Config struct {
	DB *writer.DB
	// Ends returns the high watermark of each partition of the journal.
	Ends func(context.Context) (map[int32]int64, error)
	// PaymentsEnds does the same for the topic "payments". Only statements need it.
	PaymentsEnds func(context.Context) (map[int32]int64, error)
	// Ask, if set, is Projector.Ask of a projector in this process that fills the tables. It is
	// called on each read, with the ends that the read waits for, if any.
	Ask func(ctx context.Context, ends map[int32]int64)
	// Stuck, if set, returns why nothing is being written, or nil if there is no problem.
	Stuck func() error
	// WaitMax limits the wait for a history that is behind. The default is 2 s.
	WaitMax time.Duration
	// ReadMax limits a lookup. The default is 2 s. A lookup that was cut off is retried once, with
	// four times the limit.
	ReadMax time.Duration
}

// History reads events with their deliveries and attempts. It is safe for concurrent use. While it
// has no database, each read returns a [readmodel.Missing].
type History struct {
	from atomic.Pointer[servers] // nil if there is no history
	why  atomic.Pointer[string]  // reason if there is no history; may be nil
}

type servers struct {
	db  *writer.DB
	all []*reading
}

type tables struct{ *writer.DB }

// reading is the history on one server. What is known about its tables doesn't apply to other
// servers.
type reading struct {
	cfg    Config
	db     tables
	flight singleflight.Group  // progress is read once for all waiting callers
	places *semaphore.Weighted // ReadsMax; the pool rejects queries that wait longer than dialMax
	full   fullTables
	damage atomic.Pointer[writer.Damages] // not older than writer.DamageAge; nil if it must be read
	uptime atomic.Uint32                  // the server's uptime in seconds when last read
	// Number of the journal's partitions, which never changes; 0 if not read yet.
	partitions atomic.Int32
}

// readSettings are for queries that read few rows. Spreading these over threads takes longer than
// reading them.
var readSettings = clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1})

// New returns a History of a database.
func New(cfg Config) *History {
	h := new(History)
	h.ReadFrom(cfg)
	return h
}

// ReadFrom sets the database to read.
func (h *History) ReadFrom(cfg Config) {
	cfg.WaitMax = cmp.Or(cfg.WaitMax, defaultWait)
	cfg.ReadMax = cmp.Or(cfg.ReadMax, defaultRead)
	if cfg.Ask == nil {
		cfg.Ask = func(context.Context, map[int32]int64) {}
	}
	if cfg.Stuck == nil {
		cfg.Stuck = func() error { return nil }
	}
	from := &servers{db: cfg.DB}
	for _, one := range cfg.DB.Servers() {
		from.all = append(from.all,
			&reading{cfg: cfg, db: tables{one}, places: semaphore.NewWeighted(writer.ReadsMax)})
	}
	h.from.Store(from)
}

// Lacks sets the reason why there is no history.
func (h *History) Lacks(why string) { h.why.Store(&why) }

// Missing returns a [readmodel.Missing] if there is no history, otherwise nil.
func (h *History) Missing() error {
	if h.from.Load() != nil {
		return nil
	}
	var missing readmodel.Missing
	if why := h.why.Load(); why != nil {
		missing.Why = *why
	}
	return missing
}

// ask queries one server, and then the others in turn if it is unavailable.
func (h *History) ask(ctx context.Context, question func(*reading) error) (err error) {
	from := h.from.Load()
	if from == nil {
		return h.Missing()
	}
	first := slices.IndexFunc(from.all, func(r *reading) bool { return r.db.DB == from.db.Server() })
	for i := range from.all {
		of := from.all[(first+i)%len(from.all)]
		if err = question(of); !errors.Is(err, readmodel.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		of.full.forget() // other servers may be ahead when this one is queried again
		from.db.MoveOn(of.db.DB)
	}
	return err
}

// Event returns an account's event. If it isn't found, Event waits, for a limited time, until the
// tables contain everything that was in the journal at the time of the call, and looks again. It
// also waits for tables that are being rebuilt. An event from incomplete tables is marked as
// Behind. The errors are ErrNotFound, ErrBehind, ErrUnavailable and the context's error.
func (h *History) Event(
	ctx context.Context, accountID, eventID string,
) (record readmodel.Event, err error) {
	err = h.ask(ctx, func(of *reading) error {
		record, err = of.event(ctx, accountID, eventID)
		return of.stuck(err)
	})
	return record, err
}

func (h *reading) event(ctx context.Context, accountID, eventID string) (readmodel.Event, error) {
	var record readmodel.Recalled
	var found error
	err := h.onFull(ctx, func() error {
		record, found = h.await(ctx, accountID, eventID)
		return found
	})
	if err == nil {
		return record.Event, found
	}
	if !errors.Is(err, readmodel.ErrBehind) {
		return readmodel.Event{}, err
	}
	record, found = h.find(ctx, accountID, eventID)
	if errors.Is(found, readmodel.ErrNotFound) {
		return readmodel.Event{}, err
	}
	record.Behind = true
	return record.Event, found
}

// Recall is like Event, for an event that is to be sent again, and returns its deliveries as well.
// It returns ErrExpired if the body is no longer stored, and ErrBehind for tables that are being
// rebuilt.
func (h *History) Recall(
	ctx context.Context, accountID, eventID string,
) (record readmodel.Recalled, err error) {
	err = h.ask(ctx, func(of *reading) error {
		record, err = of.recall(ctx, accountID, eventID)
		return of.stuck(err)
	})
	return record, err
}

func (h *reading) recall(
	ctx context.Context, accountID, eventID string,
) (record readmodel.Recalled, err error) {
	var asOf map[int32]int64
	var found error
	err = h.onFull(ctx, func() error {
		if asOf, found = h.asOf(ctx); found != nil {
			return found
		}
		record, found = h.await(ctx, accountID, eventID)
		return found
	})
	partitionOf := kafka.PartitionOf(len(asOf))
	record.AsOf = func(endpointID string) int64 { return asOf[partitionOf(endpointID)] }
	return record, cmp.Or(err, found)
}

// stuck adjusts the error of reading an event: while nothing is being written, an event that isn't
// found may still exist.
func (h *reading) stuck(err error) error {
	if errors.Is(err, readmodel.ErrNotFound) {
		if stuck := h.cfg.Stuck(); stuck != nil {
			return fmt.Errorf("%w: %w", readmodel.ErrBehind, stuck)
		}
	}
	return err
}

// asOf returns the journal offsets up to which subsequent reads on this server have the rows. It
// isn't cached, because tables may be exchanged.
func (h *reading) asOf(ctx context.Context) (asOf map[int32]int64, err error) {
	err = h.readOnly(ctx, func(ctx context.Context) error {
		asOf, err = h.db.JournalProgress(ctx)
		return err
	})
	if err != nil {
		return nil, callersFirst(ctx, fmt.Errorf("%w: %w", readmodel.ErrUnavailable, err))
	}
	waiting, cancel := context.WithTimeout(ctx, h.cfg.WaitMax)
	defer cancel()
	ends, err := h.cfg.Ends(waiting) // after the progress, which cannot have passed them
	if err != nil {
		return nil, callersFirst(ctx,
			fmt.Errorf("%w: asking for the journal's ends: %w", readmodel.ErrBehind, err))
	}
	for partition, end := range ends {
		if asOf[partition] > end {
			return nil, fmt.Errorf("%w: it has partition %d of another one, up to offset %d, and this one "+
				"ends at %d", readmodel.ErrBehind, partition, asOf[partition], end)
		}
		asOf[partition] = max(asOf[partition], 0)
	}
	return asOf, nil
}

// await looks up an event that may have been written just now.
func (h *reading) await(
	ctx context.Context, accountID, eventID string,
) (readmodel.Recalled, error) {
	record, err := h.find(ctx, accountID, eventID)
	if !errors.Is(err, readmodel.ErrNotFound) {
		return record, err
	}
	if err := h.catchUp(ctx); err != nil {
		return readmodel.Recalled{}, err
	}
	return h.find(ctx, accountID, eventID)
}

// CatchUp returns when the tables contain everything that was in the journal at the time of the
// call. It waits for at most WaitMax. The errors are ErrBehind, ErrUnavailable and the context's
// error.
func (h *History) CatchUp(ctx context.Context) error {
	return h.ask(ctx, func(of *reading) error { return of.catchUp(ctx) })
}

func (h *reading) catchUp(ctx context.Context) error {
	return h.awaitTopic(ctx, schemas.TopicJournal, h.cfg.Ends)
}

// awaitTopic returns when the tables contain everything that was in a topic at the time of the
// call. It waits for at most WaitMax.
func (h *reading) awaitTopic(
	ctx context.Context, topic string, endsOf func(context.Context) (map[int32]int64, error),
) error {
	waiting, cancel := context.WithTimeout(ctx, h.cfg.WaitMax)
	defer cancel()
	ends, err := endsOf(waiting)
	if err != nil {
		return callersFirst(ctx,
			fmt.Errorf("%w: asking for the ends of %s: %w", readmodel.ErrBehind, topic, err))
	}
	var ofJournal map[int32]int64 // the ends to pass to Ask
	if topic == schemas.TopicJournal {
		ofJournal = ends
	}
	tick := time.NewTicker(catchUpPoll)
	defer tick.Stop()
	for {
		h.cfg.Ask(waiting, ofJournal)
		progress, err := h.topicProgress(waiting, topic)
		switch {
		case (err == nil || writer.IsMissing(err)) && writer.Passed(progress, ends):
			return nil
		case err != nil && waiting.Err() == nil && !writer.IsMissing(err):
			return err
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			return callersFirst(ctx, fmt.Errorf("%w: %s was not brought up to date within %s",
				readmodel.ErrBehind, topic, h.cfg.WaitMax))
		}
	}
}

// callersFirst returns the error of the caller's context if it has ended, otherwise err. A
// connection has the same deadline and may report it slightly earlier than the context.
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

// topicProgress reads a topic's progress once for all concurrent callers. Each result is valid for
// all of them, because progress only grows.
func (h *reading) topicProgress(ctx context.Context, topic string) (map[int32]int64, error) {
	return h.progressAfter(ctx, topic, 0)
}

// progressAfter is like topicProgress, after a delay that the callers share.
func (h *reading) progressAfter(
	ctx context.Context, topic string, wait time.Duration,
) (map[int32]int64, error) {
	read := h.flight.DoChan(fmt.Sprintf("progress of %s after %s", topic, wait), func() (any, error) {
		lasting := context.WithoutCancel(ctx)
		if wait > 0 {
			_ = retry.Sleep(lasting, wait)
		}
		reading, cancel := context.WithTimeout(lasting, h.cfg.ReadMax)
		defer cancel()
		return h.db.TopicProgress(reading, topic)
	})
	select {
	case r := <-read:
		if r.Err != nil {
			return nil, fmt.Errorf("%w: %w", readmodel.ErrUnavailable, r.Err)
		}
		return r.Val.(map[int32]int64), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *reading) find(
	ctx context.Context, accountID, eventID string,
) (record readmodel.Recalled, err error) {
	err = h.read(ctx, func(ctx context.Context, db tables) (err error) {
		record, err = db.event(ctx, accountID, eventID)
		return err
	})
	return record, err
}

// readOnly runs a query that can be repeated. A query that was cut off is retried once, with a
// longer timeout: a connection may have died silently, which uses up the whole timeout, and
// ClickHouse may be slow at first, shortly after its start or when overloaded.
func (h *reading) readOnly(ctx context.Context, ask func(context.Context) error) error {
	once := func(limit time.Duration) error {
		if err := h.places.Acquire(ctx, 1); err != nil {
			return err
		}
		defer h.places.Release(1)
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

// isCutOff reports whether a query was sent and got no response.
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

// readFault translates the error of a query of the tables.
func readFault(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoBody):
		return readmodel.ErrExpired
	case errors.Is(err, sql.ErrNoRows), writer.IsMissing(err):
		return readmodel.ErrNotFound
	case writer.HasCode(err, olderCodes...):
		return fmt.Errorf("%w: %w", errOlder, err)
	}
	return callersFirst(ctx, fmt.Errorf("%w: %w", readmodel.ErrUnavailable, err))
}

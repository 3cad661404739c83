package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// pullPoll is how often waiting readers check whether the tables have more. They share one query.
const pullPoll = 250 * time.Millisecond

// An endpoint's numbers have no gaps, and are in the order of its facts. So rows can be returned up
// to the first missing number. If that leaves none, the number belongs to a row that either is yet
// to be written or was deleted by retention. The reader then waits until the tables contain
// everything that was in the journal after it saw the gap. A number that is still missing then will
// never appear, because its fact precedes those of larger numbers. Offsets in the rows would not
// help: the rows of a copied deployment have offsets of another journal.
const (
	selectNextNumber = `
SELECT min(sequence) FROM {database:Identifier}.events
PREWHERE account_id = {account:String} AND endpoint_id = {endpoint:String}
    AND sequence > {after:UInt64}`

	selectNumberBefore = `
SELECT if(countIf(since) > 0, toUInt64(minIf(sequence, since) - 1), max(sequence)) FROM (
    SELECT sequence, created_at >= fromUnixTimestamp64Milli({since:Int64}) AS since
    FROM {database:Identifier}.events
    PREWHERE account_id = {account:String} AND endpoint_id = {endpoint:String} AND sequence > 0)`

	// Duplicates of a row are equal. After an older backup was restored, two events may have the same
	// number. Both are returned.
	selectNumbered = `
SELECT event_id, sequence, toUnixTimestamp64Milli(created_at), body
FROM {database:Identifier}.events
PREWHERE account_id = {account:String} AND endpoint_id = {endpoint:String}
    AND sequence > {after:UInt64} AND sequence <= {upTo:UInt64}
ORDER BY sequence, event_id LIMIT 1 BY sequence, event_id`
)

// Numbered returns an endpoint's events with numbers above after, in order, for at most limit (1 to
// 250) numbers. It never skips a number that may still appear: missing numbers never will. The page
// is empty if nothing follows yet. The errors are ErrBehind, ErrUnavailable and the context's
// error.
func (h *History) Numbered(
	ctx context.Context, accountID, endpointID string, after uint64, limit int,
) (page readmodel.NumberedPage, err error) {
	if limit < 1 || limit > listMax {
		return page, fmt.Errorf("projections: a page has 1 to %d numbers, not %d", listMax, limit)
	}
	err = h.ask(ctx, func(of *reading) error {
		page, err = of.numbered(ctx, pull{accountID, endpointID, after, limit})
		return err
	})
	return page, err
}

// NumberBefore returns the number before an endpoint's first event that was created at or after a
// time. It considers all events that were acknowledged before the call. If there is no such event,
// it returns the last number. Its errors are those of Numbered.
func (h *History) NumberBefore(
	ctx context.Context, accountID, endpointID string, sinceMillis int64,
) (before uint64, err error) {
	which := writer.Parameters{
		"account":  accountID,
		"endpoint": endpointID,
		"since":    strconv.FormatInt(sinceMillis, 10),
	}
	err = h.ask(ctx, func(of *reading) error {
		if err := of.catchUp(ctx); err != nil { // a lower number may not be written yet
			return err
		}
		return of.onJournal(ctx, func(ctx context.Context, db tables) error {
			return db.QueryRow(ctx, selectNumberBefore, which, &before)
		})
	})
	return before, err
}

// AwaitMore returns when the tables contain more of an endpoint's partition than a page's AsOf. Its
// errors are those of Numbered.
func (h *History) AwaitMore(ctx context.Context, endpointID string, asOf int64) error {
	return h.ask(ctx, func(of *reading) error {
		for {
			of.cfg.Ask(ctx, nil)
			by, err := of.nextProgress(ctx)
			if err != nil {
				return err
			}
			at, err := of.progressOf(ctx, endpointID, by)
			if err != nil || at != asOf {
				return err
			}
		}
	})
}

type pull struct {
	accountID, endpointID string
	after                 uint64
	limit                 int
}

func (h *reading) numbered(ctx context.Context, p pull) (page readmodel.NumberedPage, err error) {
	progress, err := h.topicProgress(ctx, schemas.TopicJournal) // before the rows
	if err != nil && !writer.IsMissing(err) {
		return page, err
	}
	asOf, err := h.progressOf(ctx, p.endpointID, progress)
	if err != nil {
		return page, err
	}
	err = h.onFull(ctx, func() error {
		page, err = h.readNumbered(ctx, p)
		return err
	})
	page.AsOf = asOf
	return page, err
}

func (h *reading) readNumbered(
	ctx context.Context, p pull,
) (page readmodel.NumberedPage, err error) {
	next, err := h.nextNumber(ctx, p)
	if err != nil || next == 0 {
		return page, err
	}
	final := next > p.after+1
	if final {
		if err := h.catchUp(ctx); err != nil {
			return page, err
		}
		if next, err = h.nextNumber(ctx, p); err != nil || next == 0 {
			return page, err
		}
	}
	events, err := h.numberedFrom(ctx, p, next-1)
	if err != nil {
		return page, err
	}
	return pageOf(p.after, events, final), nil
}

// pageOf builds a page of events. Unless gaps are final, the page ends before the first gap.
func pageOf(
	after uint64, events []readmodel.NumberedEvent, final bool,
) (page readmodel.NumberedPage) {
	for _, e := range events {
		if e.Sequence > after+1 {
			if !final {
				return page
			}
			page.Missing = append(page.Missing, readmodel.Numbers{From: after + 1, To: e.Sequence - 1})
		}
		page.Events, after = append(page.Events, e), e.Sequence
	}
	return page
}

func (h *reading) nextNumber(ctx context.Context, p pull) (next uint64, err error) {
	which := writer.Parameters{
		"account":  p.accountID,
		"endpoint": p.endpointID,
		"after":    strconv.FormatUint(p.after, 10),
	}
	err = h.read(ctx, func(ctx context.Context, db tables) error {
		return db.QueryRow(ctx, selectNextNumber, which, &next)
	})
	return next, err
}

func (h *reading) numberedFrom(
	ctx context.Context, p pull, after uint64,
) (events []readmodel.NumberedEvent, err error) {
	which := writer.Parameters{
		"account":  p.accountID,
		"endpoint": p.endpointID,
		"after":    strconv.FormatUint(after, 10),
		"upTo":     strconv.FormatUint(after+uint64(p.limit), 10), // #nosec G115 -- 1 to 250
	}
	err = h.read(ctx, func(ctx context.Context, db tables) error {
		events = events[:0]
		return db.Query(ctx, selectNumbered, which, func(read func(...any) error) error {
			var e readmodel.NumberedEvent
			err := read(&e.ID, &e.Sequence, &e.CreatedAtMillis, &e.Body)
			events = append(events, e)
			return err
		})
	})
	return events, err
}

// nextProgress reads the progress after a short delay, once for all waiting callers. It returns nil
// if there are no tables.
func (h *reading) nextProgress(ctx context.Context) (by map[int32]int64, err error) {
	by, err = h.progressAfter(ctx, schemas.TopicJournal, pullPoll)
	if writer.IsMissing(err) {
		return nil, nil
	}
	return by, err
}

func (h *reading) progressOf(
	ctx context.Context, endpointID string, by map[int32]int64,
) (int64, error) {
	if h.partitions.Load() == 0 {
		asking, cancel := context.WithTimeout(ctx, h.cfg.WaitMax)
		defer cancel()
		ends, err := h.cfg.Ends(asking)
		if err == nil && len(ends) == 0 {
			err = errors.New("it has no partitions")
		}
		if err != nil {
			return 0, callersFirst(ctx,
				fmt.Errorf("%w: asking for the journal's ends: %w", readmodel.ErrBehind, err))
		}
		h.partitions.Store(int32(len(ends))) // #nosec G115 -- partitions
	}
	return by[kafka.PartitionOf(int(h.partitions.Load()))(endpointID)], nil
}

package projections

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/domain"
)

// countsTable counts attempts by spans of time.
const countsTable = "attempt_counts"

// Lengths of its spans, in seconds.
const (
	shortSpan = 5 * 60
	longSpan  = 60 * 60
)

// pendingSpare is what is left of a read when the oldest pending is given up.
const pendingSpare = 500 * time.Millisecond

// attemptCount is an attempt in one span.
type attemptCount struct {
	seconds      int64
	sentAtMillis int64
	success      uint8
}

func countOf(a domain.AttemptMade, seconds int64) attemptCount {
	c := attemptCount{seconds: seconds, sentAtMillis: a.Result.SentAtMillis}
	if a.State == domain.StateDelivered {
		c.success = 1
	}
	return c
}

// at returns the start of the span, in Unix seconds.
func (c attemptCount) at() int64 { return c.sentAtMillis / 1000 / c.seconds * c.seconds }

// HealthFilter selects endpoints of an account.
type HealthFilter struct {
	AccountID   string
	EndpointIDs []string // empty: all of the account
	NowMillis   int64
	Spark       time.Duration // what the sparks cover: an hour, a day or a week
	CountsOnly  bool          // neither the last attempts nor the oldest pending are asked for
}

// Numbers of spans that are counted, up to now.
const (
	hourSpans = 12  // short ones
	daySpans  = 24  // long ones
	weekSpans = 168 // long ones
	weekPart  = 6   // long ones in a part of a week's spark
)

// A row for each span: copies of an attempt collapse in the sets. Before them come the last success
// and the last failure of all times.
const (
	healthEndpoints = `endpoint_id IN (
    SELECT endpoint_id FROM {database:Identifier}.endpoints FINAL
    WHERE account_id = {account:String}
        AND (empty({endpoints:Array(String)}) OR endpoint_id IN {endpoints:Array(String)})
)`
	selectCounts = `
SELECT endpoint_id, seconds, toInt64(toUnixTimestamp(at)), groupBitmapMerge(delivered),
    groupBitmapMerge(failed)
FROM {database:Identifier}.attempt_counts
PREWHERE ` + healthEndpoints + `
    AND (seconds = 300 AND at > toDateTime({hour:Int64})
        OR seconds = 3600 AND at > toDateTime({week:Int64}))
GROUP BY endpoint_id, seconds, at`

	selectLast = `
SELECT endpoint_id, toUnixTimestamp64Milli(max(delivered_at)), toUnixTimestamp64Milli(max(failed_at))
FROM {database:Identifier}.attempt_counts
PREWHERE ` + healthEndpoints + ` AND seconds = 3600
GROUP BY endpoint_id`

	// Rows that are not merged yet may look pending and be not: the oldest that look so are looked up
	// again as a whole.
	selectOldest = `
SELECT endpoint_id, countIf(run > ended), toUnixTimestamp64Milli(minIf(created, run > ended)),
    count()
FROM (
    SELECT endpoint_id, max(d.run) AS run, max(d.ended_run) AS ended, max(d.created_at) AS created
    FROM {database:Identifier}.deliveries AS d
    WHERE (event_id, endpoint_id) IN (
        SELECT event_id, endpoint_id FROM {database:Identifier}.deliveries
        WHERE run > ended_run AND ` + healthEndpoints + `
        GROUP BY event_id, endpoint_id
        ORDER BY max(created_at) LIMIT {most:UInt32} BY endpoint_id
    )
    GROUP BY event_id, endpoint_id
)
GROUP BY endpoint_id`

	selectDown = `
SELECT countIf(failed > delivered AND delivered < fromUnixTimestamp64Milli({before:Int64}))
FROM (
    SELECT max(delivered_at) AS delivered, max(failed_at) AS failed
    FROM {database:Identifier}.attempt_counts
    PREWHERE seconds = 3600 AND at > toDateTime({week:Int64}) AND endpoint_id IN (
        SELECT endpoint_id FROM {database:Identifier}.endpoints FINAL
        WHERE status = 'active' AND NOT deleted
    )
    GROUP BY endpoint_id
)`
)

// Health returns how endpoints do, by their ids; those that were never sent anything are left out.
// Its errors are those of Events.
func (h *History) Health(
	ctx context.Context, f HealthFilter,
) (by map[string]domain.EndpointHealth, err error) {
	err = h.onJournal(ctx, func(ctx context.Context, db *DB) error {
		by, err = db.health(ctx, f)
		return err
	})
	return by, err
}

// EndpointsDown counts the active endpoints of all accounts that are down.
func (h *History) EndpointsDown(ctx context.Context, nowMillis int64) (n uint64, err error) {
	which := parameters{
		"before": strconv.FormatInt(nowMillis-domain.HealthDownAfter.Milliseconds(), 10),
		"week":   strconv.FormatInt(since(nowMillis, longSpan, weekSpans), 10),
	}
	err = h.onJournal(ctx, func(ctx context.Context, db *DB) error {
		return db.queryRow(ctx, selectDown, which, &n)
	})
	return n, err
}

// since returns the start of the span before the last n of them, in Unix seconds.
func since(nowMillis, seconds, n int64) int64 { return (nowMillis/1000/seconds - n) * seconds }

func (db *DB) health(
	ctx context.Context, f HealthFilter,
) (map[string]domain.EndpointHealth, error) {
	which := parameters{
		"account":   f.AccountID,
		"endpoints": arrayOf(f.EndpointIDs),
		"hour":      strconv.FormatInt(since(f.NowMillis, shortSpan, hourSpans), 10),
		"week":      strconv.FormatInt(since(f.NowMillis, longSpan, weekSpans), 10),
	}
	// Sums over all that an account has are worth more than one thread.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_threads": 4}))
	if f.CountsOnly {
		return db.countSpans(ctx, f, which)
	}
	var by map[string]domain.EndpointHealth
	var last map[string][2]int64
	var oldest map[string]int64
	var unknown error
	reads, reading := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		by, err = db.countSpans(reading, f, which)
		return err
	})
	reads.Go(func() (err error) {
		last, err = db.lastAttempts(reading, which)
		return err
	})
	// The more is pending the longer this takes. It ends before the others must, which are shown
	// without it then.
	reads.Go(func() error {
		pending, cancel := ctx, func() {}
		if deadline, has := ctx.Deadline(); has {
			pending, cancel = context.WithDeadline(ctx, deadline.Add(-pendingSpare))
		}
		defer cancel()
		oldest, unknown = db.oldestPending(pending, which)
		return nil
	})
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	_, _, parts := sparkOf(f.Spark)
	of := func(id string, change func(*domain.EndpointHealth)) {
		h := by[id]
		if h.Spark == nil {
			h.Spark = make([]domain.AttemptCounts, parts)
		}
		h.PendingUnknown = unknown != nil
		change(&h)
		by[id] = h
	}
	for id, at := range last {
		of(id, func(h *domain.EndpointHealth) { h.LastSuccessMillis, h.LastFailureMillis = at[0], at[1] })
	}
	for id, at := range oldest {
		of(id, func(h *domain.EndpointHealth) { h.OldestPendingMillis = at })
	}
	return by, nil
}

func (db *DB) lastAttempts(
	ctx context.Context, which parameters,
) (last map[string][2]int64, err error) {
	last = make(map[string][2]int64)
	err = db.query(ctx, selectLast, which, func(read func(...any) error) error {
		var id string
		var at [2]int64
		err := read(&id, &at[0], &at[1])
		last[id] = at
		return err
	})
	return last, err
}

// sparkOf says of which spans a spark consists: of which length, how many in a part, how many parts.
func sparkOf(span time.Duration) (seconds uint32, each, parts int64) {
	switch span {
	case time.Hour:
		return shortSpan, 1, hourSpans
	case weekSpans * time.Hour:
		return longSpan, weekPart, weekSpans / weekPart
	}
	return longSpan, 1, daySpans
}

// countSpans adds up the attempts of each endpoint.
func (db *DB) countSpans(
	ctx context.Context, f HealthFilter, which parameters,
) (by map[string]domain.EndpointHealth, err error) {
	by = make(map[string]domain.EndpointHealth)
	length, each, parts := sparkOf(f.Spark)
	err = db.query(ctx, selectCounts, which, func(read func(...any) error) error {
		var id string
		var seconds uint32
		var at int64
		var c domain.AttemptCounts
		if err := read(&id, &seconds, &at, &c.Delivered, &c.Failed); err != nil {
			return err
		}
		h := by[id]
		if h.Spark == nil {
			h.Spark = make([]domain.AttemptCounts, parts)
		}
		// How many spans ago; the clock that stamped an attempt may be ahead.
		ago := max(0, f.NowMillis/1000/int64(seconds)-at/int64(seconds))
		if part := ago / each; seconds == length && part < parts {
			h.Spark[parts-1-part].Add(c)
		}
		if seconds == shortSpan {
			h.Hour.Add(c)
		} else if h.Week.Add(c); ago < daySpans {
			h.Day.Add(c)
		}
		by[id] = h
		return nil
	})
	return by, err
}

// oldestPending reads when the oldest pending event of each endpoint was created. Where none of the
// oldest that look pending is, it looks at more.
func (db *DB) oldestPending(
	ctx context.Context, which parameters,
) (oldest map[string]int64, err error) {
	oldest = make(map[string]int64)
	which = maps.Clone(which)
	for _, most := range []uint64{32, 100_000} {
		which["most"] = strconv.FormatUint(most, 10)
		unsure := false
		err := db.query(ctx, selectOldest, which, func(read func(...any) error) error {
			var id string
			var pending, looked uint64
			var at int64
			err := read(&id, &pending, &at, &looked)
			if pending > 0 {
				oldest[id] = at
			}
			unsure = unsure || pending == 0 && looked == most
			return err
		})
		if err != nil || !unsure {
			return oldest, err
		}
	}
	return oldest, nil
}

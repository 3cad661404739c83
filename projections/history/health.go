package history

import (
	"context"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// pendingShare is the share of the remaining time for reading the oldest pending events. The rest
// is left to return the other results.
const pendingShare = 0.75

// Numbers of time spans to count, up to now.
const (
	hourSpans = 12 // of length writer.ShortSpan
	weekSpans = 168
)

// There is one row per time span. Copies of an attempt collapse in the sets. The first row of an
// endpoint has its last success and failure of all time.
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
SELECT endpoint_id, toUnixTimestamp64Milli(max(delivered_at)),
    toUnixTimestamp64Milli(max(failed_at))
FROM {database:Identifier}.attempt_counts
PREWHERE ` + healthEndpoints + ` AND seconds = 3600
GROUP BY endpoint_id`

	// Rows that have not been merged yet may look pending although the delivery isn't. So the oldest
	// candidates are looked up again, completely.
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

// Health returns the health of endpoints by id. It omits endpoints without attempts. Its errors are
// those of Events.
func (h *History) Health(
	ctx context.Context, f readmodel.HealthFilter,
) (by map[string]domain.EndpointHealth, err error) {
	err = h.onJournal(ctx, func(ctx context.Context, db tables) error {
		by, err = db.health(ctx, f)
		return err
	})
	return by, err
}

// EndpointsDown returns the number of active endpoints of all accounts that are down.
func (h *History) EndpointsDown(ctx context.Context, nowMillis int64) (n uint64, err error) {
	which := writer.Parameters{
		"before": strconv.FormatInt(nowMillis-domain.HealthDownAfter.Milliseconds(), 10),
		"week":   since(nowMillis, writer.LongSpan, weekSpans),
	}
	err = h.onJournal(ctx, func(ctx context.Context, db tables) error {
		return db.QueryRow(ctx, selectDown, which, &n)
	})
	return n, err
}

// since returns the start of the span before the last n spans, in Unix seconds. The current span is
// one of these n.
func since(nowMillis, seconds, n int64) string {
	return strconv.FormatInt((nowMillis/1000/seconds-n)*seconds, 10)
}

// health reads the oldest pending events last. That query takes longer the more events are pending,
// and is cancelled in time to return the other results without it.
func (db tables) health(
	ctx context.Context, f readmodel.HealthFilter,
) (map[string]domain.EndpointHealth, error) {
	// Sums over a whole account justify several threads.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_threads": 4}))
	which := writer.Parameters{
		"account":   f.AccountID,
		"endpoints": writer.ArrayOf(f.EndpointIDs),
		"hour":      since(f.NowMillis, writer.ShortSpan, hourSpans),
		"week":      since(f.NowMillis, writer.LongSpan, weekSpans),
	}
	by, err := db.countSpans(ctx, which, f.NowMillis)
	if err != nil || f.CountsOnly {
		return by, err
	}
	err = db.Query(ctx, selectLast, which, func(read func(...any) error) error {
		var id string
		var success, failure int64
		err := read(&id, &success, &failure)
		h := by[id]
		h.LastSuccessMillis, h.LastFailureMillis = success, failure
		by[id] = h
		return err
	})
	if err != nil {
		return nil, err
	}
	pending, cancel := ctx, func() {}
	if deadline, has := ctx.Deadline(); has {
		left := time.Until(deadline) //nolint:forbidigo // the deadline is of this clock
		pending, cancel = context.WithTimeout(ctx, time.Duration(pendingShare*float64(left)))
	}
	defer cancel()
	oldest, unknown := db.oldestPending(pending, which)
	for id, at := range oldest {
		h := by[id]
		h.OldestPendingMillis = at
		by[id] = h
	}
	for id, h := range by {
		h.PendingUnknown = unknown != nil
		by[id] = h
	}
	return by, nil
}

// countSpans sums up each endpoint's attempts.
func (db tables) countSpans(
	ctx context.Context, which writer.Parameters, nowMillis int64,
) (by map[string]domain.EndpointHealth, err error) {
	by = make(map[string]domain.EndpointHealth)
	err = db.Query(ctx, selectCounts, which, func(read func(...any) error) error {
		var id string
		var seconds uint32
		var at int64
		var c domain.AttemptCounts
		err := read(&id, &seconds, &at, &c.Delivered, &c.Failed)
		h := by[id]
		if seconds == writer.ShortSpan {
			h.Hour.Add(c)
		} else {
			h.Week.Add(c)
			// The clock that stamped an attempt may be ahead.
			if ago := max(0, int(nowMillis/1000/writer.LongSpan-at/writer.LongSpan)); ago < len(h.Hours) {
				h.Day.Add(c)
				h.Hours[len(h.Hours)-1-ago].Add(c)
			}
		}
		by[id] = h
		return err
	})
	return by, err
}

// oldestPending reads the creation time of each endpoint's oldest pending event. If none of an
// endpoint's oldest candidates is pending, it reads more of them.
func (db tables) oldestPending(
	ctx context.Context, which writer.Parameters,
) (oldest map[string]int64, err error) {
	oldest = make(map[string]int64)
	for most, unsure := uint64(32), true; unsure && err == nil && most < 1<<20; most *= 1 << 10 {
		which["most"], unsure = strconv.FormatUint(most, 10), false
		err = db.Query(ctx, selectOldest, which, func(read func(...any) error) error {
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
	}
	return oldest, err
}

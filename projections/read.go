package projections

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/domain"
)

// standing is where a delivery stands, and where its parts are.
type standing struct {
	accountID       string
	endpointID      string
	createdAt       time.Time
	updatedAt       time.Time
	attempts        uint32
	run             uint32
	sentAt          []time.Time
	version         uint64
	state           domain.DeliveryState
	nextAttemptAtMs int64
}

// The rows of a delivery are collapsed here as the table does when it merges.
const selectStandings = `SELECT event_id, max(account_id), max(endpoint_id), max(created_at), max(updated_at), max(attempts), max(run),
    groupUniqArrayArray(attempt_times), max(version), toUInt8(bitAnd(bitShiftRight(max(standing), 48), 7)), toInt64(bitAnd(max(standing), 281474976710655))
FROM {database:Identifier}.deliveries WHERE event_id IN {events:Array(String)} GROUP BY event_id`

// states are in the order of the table's own list; 0 is none.
var states = []domain.DeliveryState{"", domain.StateQueued, domain.StateWaiting, domain.StateDelivered, domain.StateFailed, domain.StateCancelled}

// standings gives where deliveries stand, by event. The enabling of an endpoint
// has been counted in.
func (db *DB) standings(ctx context.Context, eventIDs []string) (map[string]standing, error) {
	by := make(map[string]standing, len(eventIDs))
	if len(eventIDs) == 0 {
		return by, nil
	}
	err := db.query(ctx, selectStandings, parameters{"events": arrayOf(eventIDs)}, func(read func(...any) error) error {
		var eventID string
		var s standing
		var state uint8
		err := read(&eventID, &s.accountID, &s.endpointID, &s.createdAt, &s.updatedAt, &s.attempts, &s.run, &s.sentAt, &s.version, &state, &s.nextAttemptAtMs)
		if int(state) < len(states) {
			s.state = states[state]
		}
		by[eventID] = s
		return err
	})
	if err != nil {
		return nil, err
	}
	return by, db.countEnabling(ctx, by)
}

const selectEnabled = `SELECT endpoint_id, max(version), argMax(changed_at, version) FROM {database:Identifier}.endpoint_changes
WHERE endpoint_id IN {endpoints:Array(String)} AND change = '` + changeEnabled + `' GROUP BY endpoint_id`

// countEnabling makes the deliveries that waited when their endpoint was enabled
// due at once: there is no fact for each of them.
func (db *DB) countEnabling(ctx context.Context, by map[string]standing) error {
	var endpoints []string
	asked := make(map[string]bool)
	for _, s := range by {
		if s.state.Pending() && !asked[s.endpointID] {
			asked[s.endpointID] = true
			endpoints = append(endpoints, s.endpointID)
		}
	}
	if len(endpoints) == 0 {
		return nil
	}
	return db.query(ctx, selectEnabled, parameters{"endpoints": arrayOf(endpoints)}, func(read func(...any) error) error {
		var endpointID string
		var version uint64
		var at time.Time
		err := read(&endpointID, &version, &at)
		for eventID, s := range by {
			if s.endpointID == endpointID && s.state.Pending() && s.version < version {
				s.nextAttemptAtMs = min(s.nextAttemptAtMs, at.UnixMilli())
				by[eventID] = s
			}
		}
		return err
	})
}

// event reads the tables in the opposite order of writing: first the delivery,
// which tells where its event and its attempts are.
func (db *DB) event(ctx context.Context, accountID, eventID string) (EventRecord, error) {
	if strings.ContainsAny(eventID, `'\`) {
		return EventRecord{}, sql.ErrNoRows
	}
	by, err := db.standings(ctx, []string{eventID})
	if err != nil {
		return EventRecord{}, err
	}
	s, found := by[eventID]
	if !found || s.accountID != accountID {
		return EventRecord{}, sql.ErrNoRows
	}
	r := EventRecord{EventHead: EventHead{ID: eventID, CreatedAtMillis: s.createdAt.UnixMilli()}}
	s.into(&r)
	reads, reading := errgroup.WithContext(ctx)
	reads.Go(func() error { return db.readBody(reading, s, &r) })
	reads.Go(func() (err error) {
		r.Attempts, err = db.attempts(reading, eventID, s)
		return err
	})
	return r, reads.Wait()
}

// into fills in what the delivery says of an event.
func (s standing) into(r *EventRecord) {
	r.State, r.Run, r.AttemptsMade = s.state, int(s.run), int(s.attempts)
	r.UpdatedAtMillis, r.NextAttemptAtMillis = s.updatedAt.UnixMilli(), s.nextAttemptAtMs
}

// A copy of an event's row is like any other, so the first will do.
const selectEvent = `SELECT type, endpoint_id, watch_id, wallet_address, body FROM {database:Identifier}.events
WHERE account_id = {account:String} AND created_at = fromUnixTimestamp64Milli({created:Int64}, 'UTC') AND event_id = {event:String} LIMIT 1`

func (db *DB) readBody(ctx context.Context, s standing, r *EventRecord) error {
	which := parameters{"account": s.accountID, "created": strconv.FormatInt(s.createdAt.UnixMilli(), 10), "event": r.ID}
	var kind string
	err := db.queryRow(ctx, selectEvent, which, &kind, &r.EndpointID, &r.WatchID, &r.WalletAddress, &r.Body)
	r.Type = domain.EventType(kind)
	return err
}

// Attempts above the delivery's version are left for the next question, so that
// state and attempts belong together (P3).
const selectAttempts = `SELECT number, run, sent_at, duration_ms, status_code, error, response_body FROM {database:Identifier}.attempts
WHERE endpoint_id = {endpoint:String} AND sent_at IN (%s) AND event_id = {event:String} AND version <= {version:UInt64}
ORDER BY number LIMIT 1 BY number`

func (db *DB) attempts(ctx context.Context, eventID string, s standing) (list []AttemptRecord, err error) {
	if len(s.sentAt) == 0 {
		return nil, nil
	}
	times := make([]string, len(s.sentAt))
	for i, at := range s.sentAt {
		times[i] = fmt.Sprintf("fromUnixTimestamp64Milli(%d, 'UTC')", at.UnixMilli())
	}
	which := parameters{"endpoint": s.endpointID, "event": eventID, "version": strconv.FormatUint(s.version, 10)}
	err = db.query(ctx, fmt.Sprintf(selectAttempts, strings.Join(times, ", ")), which, func(read func(...any) error) error {
		attempt, err := readAttempt(read)
		list = append(list, attempt)
		return err
	})
	return list, err
}

func readAttempt(read func(...any) error) (AttemptRecord, error) {
	var (
		number, run, durationMillis uint32
		sentAt                      time.Time
		status                      *uint16
		fault                       string
		response                    []byte
	)
	err := read(&number, &run, &sentAt, &durationMillis, &status, &fault, &response)
	a := AttemptRecord{Number: int(number), Run: int(run), Result: domain.AttemptResult{
		SentAtMillis: sentAt.UnixMilli(), DurationMillis: int64(durationMillis), Error: domain.AttemptError(fault), ResponseBody: response,
	}}
	if status != nil {
		a.Result.StatusCode = int(*status)
	}
	return a, err
}

package projections

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/domain"
)

// standing is where a delivery stands.
type standing struct {
	endpointID      string
	version         uint64
	state           domain.DeliveryState
	nextAttemptAtMs int64
}

// above tells which of two standings of a delivery is the later; it is the order
// of the packed number in the table.
func (s standing) above(other standing) bool {
	return cmp.Or(cmp.Compare(s.version, other.version), cmp.Compare(stateNumber(s.state), stateNumber(other.state)), cmp.Compare(s.nextAttemptAtMs, other.nextAttemptAtMs)) > 0
}

// whole is a delivery with where its parts are.
type whole struct {
	standing
	accountID string
	createdAt time.Time
	updatedAt time.Time
	attempts  uint32
	run       uint32
	sentAt    []time.Time
}

// states are in the order of the table's own list; 0 is none.
var states = []domain.DeliveryState{"", domain.StateQueued, domain.StateWaiting, domain.StateDelivered, domain.StateFailed, domain.StateCancelled}

func stateOf(number uint8) domain.DeliveryState {
	if int(number) < len(states) {
		return states[number]
	}
	return ""
}

func stateNumber(s domain.DeliveryState) int { return slices.Index(states, s) }

// unpacked takes a delivery's standing apart: version, state, next attempt.
const unpacked = `toUInt64(bitShiftRight(%[1]s, 64)), toUInt8(bitAnd(bitShiftRight(%[1]s, 48), 7)), toInt64(bitAnd(%[1]s, 281474976710655))`

var (
	// Rows that are not merged yet are collapsed here, as the table does it: for a
	// few rows that takes half of the time that GROUP BY does.
	selectDelivery = `SELECT ` + fmt.Sprintf(unpacked, "standing") + `, account_id, endpoint_id, created_at, updated_at, attempts, run, attempt_times
FROM {database:Identifier}.deliveries WHERE event_id = {event:String}`

	// For a page, two columns of many deliveries.
	selectStandings = `SELECT event_id, ` + fmt.Sprintf(unpacked, "max(standing)") + `
FROM {database:Identifier}.deliveries WHERE event_id IN {events:Array(String)} GROUP BY event_id`
)

// delivery gives an event's delivery, and whether there is one. An enabling of its
// endpoint is not counted in.
func (db *DB) delivery(ctx context.Context, eventID string) (w whole, found bool, err error) {
	err = db.query(ctx, selectDelivery, parameters{"event": eventID}, func(read func(...any) error) error {
		var row whole
		var state uint8
		err := read(&row.version, &state, &row.nextAttemptAtMs, &row.accountID, &row.endpointID, &row.createdAt, &row.updatedAt, &row.attempts, &row.run, &row.sentAt)
		row.state = stateOf(state)
		if !found {
			w, found = row, true
			return err
		}
		w.join(row)
		return err
	})
	return w, found, err
}

// join collapses two rows of a delivery.
func (w *whole) join(row whole) {
	endpointID := max(w.endpointID, row.endpointID)
	if row.above(w.standing) {
		w.standing = row.standing
	}
	w.endpointID = endpointID
	w.accountID = max(w.accountID, row.accountID)
	w.attempts, w.run = max(w.attempts, row.attempts), max(w.run, row.run)
	if row.createdAt.After(w.createdAt) {
		w.createdAt = row.createdAt
	}
	if row.updatedAt.After(w.updatedAt) {
		w.updatedAt = row.updatedAt
	}
	w.sentAt = append(w.sentAt, row.sentAt...) // the same twice asks for the same attempt
}

// standings gives where the deliveries of events stand, by event. The enabling of
// an endpoint has been counted in.
func (db *DB) standings(ctx context.Context, events []EventRecord) (map[string]standing, error) {
	by := make(map[string]standing, len(events))
	if len(events) == 0 {
		return by, nil
	}
	ids, endpoints := make([]string, len(events)), make(map[string]string, len(events))
	for i, e := range events {
		ids[i], endpoints[e.ID] = e.ID, e.EndpointID
	}
	err := db.query(ctx, selectStandings, parameters{"events": arrayOf(ids)}, func(read func(...any) error) error {
		var eventID string
		var s standing
		var state uint8
		err := read(&eventID, &s.version, &state, &s.nextAttemptAtMs)
		s.state, s.endpointID = stateOf(state), endpoints[eventID]
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
	w, found, err := db.delivery(ctx, eventID)
	if err != nil {
		return EventRecord{}, err
	}
	if !found || w.accountID != accountID {
		return EventRecord{}, sql.ErrNoRows
	}
	r := EventRecord{
		EventHead: EventHead{ID: eventID, CreatedAtMillis: w.createdAt.UnixMilli()},
		Run:       int(w.run), AttemptsMade: int(w.attempts), UpdatedAtMillis: w.updatedAt.UnixMilli(),
	}
	reads, reading := errgroup.WithContext(ctx)
	reads.Go(func() error {
		by := map[string]standing{eventID: w.standing}
		err := db.countEnabling(reading, by)
		by[eventID].into(&r)
		return err
	})
	reads.Go(func() error { return db.readBody(reading, w, &r) })
	reads.Go(func() (err error) {
		r.Attempts, err = db.attempts(reading, eventID, w)
		return err
	})
	err = reads.Wait()
	return r, err
}

// into fills in where the delivery of an event stands.
func (s standing) into(r *EventRecord) { r.State, r.NextAttemptAtMillis = s.state, s.nextAttemptAtMs }

// A copy of an event's row is like any other, so the first will do.
const selectEvent = `SELECT type, endpoint_id, watch_id, wallet_address, body FROM {database:Identifier}.events
WHERE account_id = {account:String} AND created_at = fromUnixTimestamp64Milli({created:Int64}, 'UTC') AND event_id = {event:String} LIMIT 1`

func (db *DB) readBody(ctx context.Context, s whole, r *EventRecord) error {
	which := parameters{"account": s.accountID, "created": strconv.FormatInt(s.createdAt.UnixMilli(), 10), "event": r.ID}
	var kind string
	err := db.queryRow(ctx, selectEvent, which, &kind, &r.EndpointID, &r.WatchID, &r.WalletAddress, &r.Body)
	r.Type = domain.EventType(kind)
	return err
}

// Attempts above the delivery's version are left for the next question, so that
// state and attempts belong together (P3). Copies are sorted out here, which takes
// less than to have it done.
const selectAttempts = `SELECT number, run, sent_at, duration_ms, status_code, error, response_body FROM {database:Identifier}.attempts
WHERE endpoint_id = {endpoint:String} AND sent_at IN (%s) AND event_id = {event:String} AND version <= {version:UInt64}`

func (db *DB) attempts(ctx context.Context, eventID string, s whole) (list []AttemptRecord, err error) {
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
	slices.SortFunc(list, func(a, b AttemptRecord) int { return cmp.Compare(a.Number, b.Number) })
	return slices.CompactFunc(list, func(a, b AttemptRecord) bool { return a.Number == b.Number }), err
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

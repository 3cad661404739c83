package history

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

type rebuildState struct {
	endpointID      string
	moves           uint32 // earlier handovers of the event
	version         uint64
	state           domain.DeliveryState
	nextAttemptAtMs int64
	attempts        uint32 // across all runs
}

// above reports whether a standing is later than another one of the same delivery. The order is
// that of the packed number in the table.
func (s rebuildState) above(other rebuildState) bool {
	return cmp.Or(cmp.Compare(s.version, other.version),
		cmp.Compare(stateNumber(s.state), stateNumber(other.state)),
		cmp.Compare(s.nextAttemptAtMs, other.nextAttemptAtMs)) > 0
}

// succeeds reports whether a delivery takes precedence over another one of the same event. The
// current delivery is the one with the most handovers. A tie is a fault (see
// [writer.Verification]). In that case, the delivery that was not cancelled takes precedence, and
// then the one with the greater endpoint id, so that every read shows the same.
func (s rebuildState) succeeds(other rebuildState) bool {
	switch cancelled := s.state == domain.StateCancelled; {
	case s.moves != other.moves:
		return s.moves > other.moves
	case cancelled != (other.state == domain.StateCancelled):
		return !cancelled
	}
	return s.endpointID > other.endpointID
}

func (s *rebuildState) join(row rebuildState) {
	moves, attempts := max(s.moves, row.moves), max(s.attempts, row.attempts)
	if row.above(*s) {
		*s = row
	}
	s.moves, s.attempts = moves, attempts
}

// whole is a delivery with the positions of its parts.
type whole struct {
	rebuildState
	accountID string
	sequence  uint64 // number among the endpoint's deliveries; 0: no number
	movedTo   string // endpoint that the event was handed over to, or empty
	createdAt time.Time
	updatedAt time.Time
	run       uint32
	sentAt    []time.Time
}

// states are in the order of the table's enum. 0 means no state.
var states = []domain.DeliveryState{
	"", domain.StateQueued, domain.StateWaiting, domain.StateDelivered,
	domain.StateFailed, domain.StateCancelled,
}

func stateOf(number int) domain.DeliveryState {
	if number < len(states) {
		return states[number]
	}
	return ""
}

func stateNumber(s domain.DeliveryState) int { return slices.Index(states, s) }

// unpack decodes the column standing: 64 bits of version, 16 bits of state, and 48 bits of the next
// attempt's time. ClickHouse could do this, but any function in a query costs more.
func (s *rebuildState) unpack(packed *big.Int) {
	var b [16]byte
	packed.FillBytes(b[:])
	low := binary.BigEndian.Uint64(b[8:])
	s.version = binary.BigEndian.Uint64(b[:8])
	s.state, s.nextAttemptAtMs = stateOf(int(low>>48&7)), int64(low&(1<<48-1))
}

// Rows that have not been merged yet are collapsed here, as the table would. For a few rows this is
// faster than in ClickHouse. PREWHERE saves the server the analysis of a WHERE clause.
const (
	selectDeliveries = `
SELECT standing, account_id, endpoint_id, sequence, moves, moved_to, created_at, updated_at,
    attempts, run, attempt_times
FROM {database:Identifier}.deliveries
PREWHERE event_id = {event:String}`

	// For a page: few columns of many deliveries.
	selectStandings = `
SELECT event_id, endpoint_id, moves, attempts, standing FROM {database:Identifier}.deliveries
PREWHERE event_id IN {events:Array(String)}`
)

// deliveries returns the deliveries of an account's event, the current one last. It doesn't
// consider enablings.
func (db tables) deliveries(
	ctx context.Context, accountID, eventID string,
) (list []whole, err error) {
	err = db.Query(ctx, selectDeliveries, writer.Parameters{"event": eventID},
		func(read func(...any) error) error {
			var row whole
			var packed big.Int
			err := read(&packed, &row.accountID, &row.endpointID, &row.sequence, &row.moves,
				&row.movedTo, &row.createdAt, &row.updatedAt, &row.attempts, &row.run, &row.sentAt)
			row.unpack(&packed)
			i := slices.IndexFunc(list, func(w whole) bool { return w.endpointID == row.endpointID })
			if i < 0 {
				list = append(list, row)
			} else {
				list[i].join(row)
			}
			return err
		})
	list = slices.DeleteFunc(list, func(w whole) bool { return w.accountID != accountID })
	slices.SortFunc(list, func(a, b whole) int {
		if a.succeeds(b.rebuildState) {
			return 1
		}
		return -1
	})
	return list, err
}

func (w *whole) join(row whole) {
	w.rebuildState.join(row.rebuildState)
	w.accountID, w.movedTo = max(w.accountID, row.accountID), max(w.movedTo, row.movedTo)
	w.sequence = max(w.sequence, row.sequence)
	w.run = max(w.run, row.run)
	if row.createdAt.After(w.createdAt) {
		w.createdAt = row.createdAt
	}
	if row.updatedAt.After(w.updatedAt) {
		w.updatedAt = row.updatedAt
	}
	w.sentAt = append(w.sentAt, row.sentAt...) // duplicates only select the same attempt again
}

// eventAt identifies a delivery. An event can have deliveries at several endpoints.
type eventAt struct{ eventID, endpointID string }

// standings returns the state of each event's current delivery, without considering enablings. For
// many events it runs two queries concurrently.
func (db tables) standings(
	ctx context.Context, events []readmodel.Event,
) (map[string]rebuildState, error) {
	all := make(map[eventAt]rebuildState, len(events))
	var mu sync.Mutex
	reads, reading := errgroup.WithContext(ctx)
	for part := range slices.Chunk(events, max(standingsMin, (len(events)+1)/2)) {
		reads.Go(func() error {
			return db.standingsOf(reading, part, func(eventID string, s rebuildState) {
				mu.Lock()
				defer mu.Unlock()
				key := eventAt{eventID, s.endpointID}
				if other, seen := all[key]; seen {
					s.join(other)
				}
				all[key] = s
			})
		})
	}
	err := reads.Wait()
	present := make(map[string]rebuildState, len(events))
	for key, s := range all {
		if other, seen := present[key.eventID]; !seen || s.succeeds(other) {
			present[key.eventID] = s
		}
	}
	return present, err
}

// standingsMin is the number of deliveries below which a second query doesn't pay off.
const standingsMin = 64

func (db tables) standingsOf(
	ctx context.Context, events []readmodel.Event, give func(eventID string, s rebuildState),
) error {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	return db.Query(ctx, selectStandings, writer.Parameters{"events": writer.ArrayOf(ids)},
		func(read func(...any) error) error {
			var eventID string
			var s rebuildState
			var packed big.Int
			err := read(&eventID, &s.endpointID, &s.moves, &s.attempts, &packed)
			s.unpack(&packed)
			give(eventID, s)
			return err
		})
}

const selectEnabled = `
SELECT endpoint_id, max(version), argMax(changed_at, version)
FROM {database:Identifier}.endpoint_changes
WHERE endpoint_id IN {endpoints:Array(String)} AND change = 'enabled'
GROUP BY endpoint_id`

// countEnabling makes deliveries due immediately that were pending when their endpoint was enabled,
// because there are no facts for the individual deliveries.
func (db tables) countEnabling(ctx context.Context, by map[string]rebuildState) error {
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
	return db.Query(ctx, selectEnabled, writer.Parameters{"endpoints": writer.ArrayOf(endpoints)},
		func(read func(...any) error) error {
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

// event reads the tables in reverse order of writing: the deliveries, which refer to the event and
// the attempts, come first.
func (db tables) event(
	ctx context.Context, accountID, eventID string,
) (readmodel.Recalled, error) {
	if strings.ContainsAny(eventID, `'\`) {
		return readmodel.Recalled{}, sql.ErrNoRows
	}
	deliveries, err := db.deliveries(ctx, accountID, eventID)
	if err != nil {
		return readmodel.Recalled{}, err
	}
	if len(deliveries) == 0 {
		return readmodel.Recalled{}, sql.ErrNoRows
	}
	w := deliveries[len(deliveries)-1]
	r := readmodel.Event{
		ID:              eventID,
		EndpointID:      w.endpointID,
		CreatedAtMillis: w.createdAt.UnixMilli(),
		Sequence:        w.sequence,
	}
	reads, reading := errgroup.WithContext(ctx)
	reads.Go(func() error {
		by := map[string]rebuildState{eventID: w.rebuildState}
		err := db.countEnabling(reading, by)
		by[eventID].into(&r)
		return err
	})
	reads.Go(func() error { return db.readBody(reading, w, &r) })
	reads.Go(func() error {
		for _, of := range deliveries {
			attempts, err := db.attempts(reading, eventID, of)
			if err != nil {
				return err
			}
			r.Attempts = append(r.Attempts, attempts...)
		}
		return nil
	})
	err = reads.Wait()
	return readmodel.Recalled{Event: r, Deliveries: recalled(eventID, deliveries)}, err
}

func (s rebuildState) into(r *readmodel.Event) {
	r.State, r.NextAttemptAtMillis, r.AttemptsMade = s.state, s.nextAttemptAtMs, int(s.attempts)
}

// Duplicates of an event's row are equal, so the first one is used.
const selectEvent = `
SELECT body FROM {database:Identifier}.events
PREWHERE account_id = {account:String}
    AND created_at = fromUnixTimestamp64Milli({created:Int64}, 'UTC')
    AND event_id = {event:String}
    AND endpoint_id = {endpoint:String}
LIMIT 1`

func (db tables) readBody(ctx context.Context, w whole, r *readmodel.Event) error {
	which := writer.Parameters{
		"account": w.accountID,
		"created": strconv.FormatInt(w.createdAt.UnixMilli(), 10),
		"event":   r.ID, "endpoint": w.endpointID,
	}
	err := db.QueryRow(ctx, selectEvent, which, &r.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return errNoBody
	}
	return err
}

var errNoBody = errors.New("projections: the event's body is not kept")

// recalled returns an event's deliveries, each with the endpoints before it, or nil if a delivery
// is missing.
func recalled(eventID string, found []whole) (all []domain.Delivery) {
	var former []string
	for i, w := range found {
		if int(w.moves) != i {
			return nil
		}
		d := domain.Delivery{
			EventID:           eventID,
			AccountID:         w.accountID,
			EndpointID:        w.endpointID,
			State:             w.state,
			CreatedAtMillis:   found[len(found)-1].createdAt.UnixMilli(),
			Attempts:          int(w.attempts),
			Run:               int(w.run),
			Sequence:          w.sequence,
			Moves:             i,
			FormerEndpointIDs: slices.Clone(former),
			MovedTo:           w.movedTo,
		}
		if i+1 < len(found) {
			d.MovedTo = found[i+1].endpointID
		}
		all, former = append(all, d), append(former, w.endpointID)
	}
	return all
}

// Attempts beyond the delivery's version are left for the next query, so that state and attempts
// are consistent (P3). Duplicates are removed here, which is faster than in ClickHouse.
const selectAttempts = `
SELECT number, run, sent_at, duration_ms, status_code, error, error_detail, response_body,
    log_from, leaf, body_sha256, signature_sha256
FROM {database:Identifier}.attempts
PREWHERE endpoint_id = {endpoint:String}
    AND sent_at IN {times:Array(DateTime64(3, 'UTC'))}
    AND event_id = {event:String}
    AND version <= {version:UInt64}`

func (db tables) attempts(
	ctx context.Context, eventID string, s whole,
) (list []readmodel.Attempt, err error) {
	if len(s.sentAt) == 0 {
		return nil, nil
	}
	which := writer.Parameters{
		"endpoint": s.endpointID,
		"times":    writer.TimesOf(s.sentAt...),
		"event":    eventID,
		"version":  strconv.FormatUint(s.version, 10),
	}
	err = db.Query(ctx, selectAttempts, which, func(read func(...any) error) error {
		attempt, err := readAttempt(read)
		attempt.EndpointID = s.endpointID
		list = append(list, attempt)
		return err
	})
	slices.SortFunc(list, func(a, b readmodel.Attempt) int { return cmp.Compare(a.Number, b.Number) })
	same := func(a, b readmodel.Attempt) bool { return a.Number == b.Number }
	return slices.CompactFunc(list, same), err
}

func readAttempt(read func(...any) error) (readmodel.Attempt, error) {
	var (
		number, run, durationMillis uint32
		sentAt                      time.Time
		status                      *uint16
		fault, detail               string
		response                    []byte
		entry                       domain.LogEntry
	)
	err := read(&number, &run, &sentAt, &durationMillis, &status, &fault, &detail, &response,
		&entry.From, &entry.Number, &entry.BodySHA256, &entry.SignatureSHA256)
	a := readmodel.Attempt{Number: int(number), Run: int(run), Entry: entry}
	a.Result = domain.AttemptResult{
		SentAtMillis:   sentAt.UnixMilli(),
		DurationMillis: int64(durationMillis),
		Error:          domain.AttemptError(fault),
		ErrorDetail:    detail,
		ResponseBody:   response,
	}
	if status != nil {
		a.Result.StatusCode = int(*status)
	}
	return a, err
}

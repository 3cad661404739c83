package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// EventSteps returns the facts of an event's deliveries with the states after them, and the facts
// of their endpoints that hold or release deliveries. Its errors are those of EndpointSteps.
func (h *History) EventSteps(
	ctx context.Context, f readmodel.StepFilter,
) (readmodel.StepPage[domain.TrackedDelivery], error) {
	return steps(ctx, h, f, folding[domain.TrackedDelivery]{
		evolve:   domain.TrackedDelivery.Evolve,
		each:     tables.eachEventFact,
		precedes: domain.TrackedDelivery.Precedes,
		shows: func(s domain.Step[domain.TrackedDelivery]) bool {
			return s.Fact.EventID() != "" || s.Before.Held() != s.After.Held() ||
				s.Before.DueMillis() != s.After.DueMillis()
		},
	})
}

// eachEventFact calls visit with the facts of an account's event, endpoint by endpoint in handover
// order. They include the endpoints' facts that affect the event's deliveries.
func (db tables) eachEventFact(
	ctx context.Context, f readmodel.StepFilter, visit func(domain.Fact) error,
) error {
	// All tables are complete up to here. Beyond it, a table may already have a fact while another one
	// lacks an earlier fact, because a block's tables are not written atomically.
	asOf, err := db.JournalProgress(ctx)
	if err != nil {
		return err
	}
	begun, err := db.RestartPositions(ctx)
	if err != nil {
		return err
	}
	deliveries, err := db.deliveries(ctx, f.AccountID, f.ID)
	if err != nil {
		return err
	}
	for _, w := range deliveries {
		of := deliveryFacts{db: db, eventID: f.ID, whole: w, asOf: asOf, restarted: len(begun) > 0}
		if err := of.read(ctx); err != nil {
			return fmt.Errorf("projections: reading the facts of %s: %w", f.ID, err)
		}
		for _, fact := range of.facts {
			if f.Before != 0 && w.endpointID == f.BeforeAt && fact.Version >= f.Before {
				return nil
			}
			if err := visit(fact); err != nil {
				return err
			}
		}
	}
	return nil
}

type deliveryFacts struct {
	whole
	db        tables
	eventID   string
	asOf      map[int32]int64
	restarted bool // some rows have offsets of former topics, which asOf doesn't cover

	facts  []domain.Fact
	newest uint64 // version of its last fact in any table, even beyond asOf
	// Highest run and number of attempts according to the facts.
	runs, made int
	kept       keptFacts
}

func (d *deliveryFacts) read(ctx context.Context) error {
	if len(d.sentAt) > factsMax {
		return readmodel.ErrManyFacts
	}
	for _, some := range []func(context.Context) error{d.readCreation, d.readAttempts} {
		if err := some(ctx); err != nil {
			return err
		}
	}
	if err := d.readKept(ctx, selectDeliveryFacts); err != nil {
		return err
	}
	if d.newest < d.version || d.runs < int(d.run) || d.made < int(d.attempts) {
		return fmt.Errorf("%w: version %d, run %d, attempt %d of %d, %d and %d",
			readmodel.ErrFactsMissing, d.newest, d.runs, d.made, d.version, d.run, d.attempts)
	}
	own := len(d.facts)
	if err := d.readKept(ctx, selectHolding); err != nil {
		return err
	}
	if d.state.Pending() && len(d.facts) == own {
		return fmt.Errorf("%w: those of its endpoint", readmodel.ErrFactsMissing)
	}
	slices.SortFunc(d.facts, func(a, b domain.Fact) int { return cmp.Compare(a.Version, b.Version) })
	d.facts = slices.CompactFunc(d.facts,
		func(a, b domain.Fact) bool { return a.Version == b.Version })
	return nil
}

// add adds a fact, unless it is beyond the position that all tables have reached. Up to the
// delivery's version all tables are complete, because the delivery's row is written last (P3). asOf
// limits later facts. After [writer.Restart], only endpoints may have facts of former topics there.
func (d *deliveryFacts) add(f domain.Fact, partition int32, offset int64) {
	if f.EventID() != "" {
		d.newest = max(d.newest, f.Version)
	}
	switch body := f.Body.(type) {
	case domain.DeliveryCreated:
		d.runs, d.made = max(d.runs, body.Moved.Runs+1), max(d.made, body.Moved.Attempts)
	case domain.AttemptMade:
		d.made = max(d.made, body.Number)
	case domain.DeliveryRequeued:
		d.runs = max(d.runs, body.Run)
	default: // other facts don't start a run
	}
	former := d.restarted && f.EventID() == ""
	if f.Version <= d.version || former || offset < d.asOf[partition] {
		d.facts = append(d.facts, f)
	}
}

const selectCreation = `
SELECT type, watch_id, wallet_address, sequence, version, partition, offset
FROM {database:Identifier}.events
PREWHERE account_id = {account:String}
    AND created_at = fromUnixTimestamp64Milli({created:Int64}, 'UTC')
    AND event_id = {event:String}
    AND endpoint_id = {endpoint:String}
LIMIT 1`

// readCreation reads the creation of the event's first delivery. Its time is the time of the event,
// which is created a moment before it is queued.
func (d *deliveryFacts) readCreation(ctx context.Context) error {
	if d.moves > 0 {
		return nil // stored in delivery_facts
	}
	at := d.createdAt.UnixMilli()
	which := writer.Parameters{
		"account": d.accountID, "created": strconv.FormatInt(at, 10),
		"event": d.eventID, "endpoint": d.endpointID,
	}
	return d.db.Query(ctx, selectCreation, which, func(read func(...any) error) error {
		body := domain.DeliveryCreated{
			AccountID:  d.accountID,
			EndpointID: d.endpointID,
			Event:      domain.Event{ID: d.eventID, CreatedAtMillis: at},
		}
		f := domain.Fact{Aggregate: d.endpointID, AtMillis: at}
		var kind string
		var partition int32
		var offset int64
		err := read(&kind, &body.WatchID, &body.WalletAddress, &body.Sequence, &f.Version, &partition,
			&offset)
		body.Event.Type = domain.EventType(kind)
		f.Body = body
		d.add(f, partition, offset)
		return err
	})
}

const selectAttemptFacts = `
SELECT number, run, event_type, sent_at, duration_ms, status_code, error, error_detail, state,
    next_attempt_at, version, partition, offset
FROM {database:Identifier}.attempts
PREWHERE endpoint_id = {endpoint:String}
    AND sent_at IN {times:Array(DateTime64(3, 'UTC'))}
    AND event_id = {event:String}`

// readAttempts reads the delivery's attempts. The time of each is its end.
func (d *deliveryFacts) readAttempts(ctx context.Context) error {
	if len(d.sentAt) == 0 {
		return nil
	}
	which := writer.Parameters{
		"endpoint": d.endpointID, "times": writer.TimesOf(d.sentAt...), "event": d.eventID,
	}
	return d.db.Query(ctx, selectAttemptFacts, which, func(read func(...any) error) error {
		var (
			number, run, durationMillis uint32
			kind, fault, detail, state  string
			sentAt                      time.Time
			nextAt                      *time.Time
			status                      *uint16
			version                     uint64
			partition                   int32
			offset                      int64
		)
		err := read(&number, &run, &kind, &sentAt, &durationMillis, &status, &fault, &detail, &state,
			&nextAt, &version, &partition, &offset)
		made := domain.AttemptMade{
			EventID:   d.eventID,
			EventType: domain.EventType(kind),
			Number:    int(number),
			Run:       int(run),
			State:     domain.DeliveryState(state),
			Result: domain.AttemptResult{
				SentAtMillis:   sentAt.UnixMilli(),
				DurationMillis: int64(durationMillis),
				Error:          domain.AttemptError(fault),
				ErrorDetail:    detail,
			},
		}
		if status != nil {
			made.Result.StatusCode = int(*status)
		}
		if nextAt != nil {
			made.NextAttemptAtMillis = nextAt.UnixMilli()
		}
		d.add(domain.Fact{
			Aggregate: d.endpointID,
			Version:   version,
			AtMillis:  made.Result.SentAtMillis + made.Result.DurationMillis,
			Body:      made,
		}, partition, offset)
		return err
	})
}

const selectDeliveryFacts = `
SELECT fact, form, value, partition, offset FROM {database:Identifier}.delivery_facts
PREWHERE event_id = {event:String} AND endpoint_id = {endpoint:String}
ORDER BY version LIMIT 1 BY version LIMIT {most:UInt32}`

// selectHolding reads the endpoint's facts that hold or release its deliveries.
const selectHolding = `
SELECT fact, form, value, partition, offset FROM {database:Identifier}.facts
PREWHERE aggregate_id = {endpoint:String}
WHERE fact IN ('EndpointCreated', 'EndpointDisabled', 'EndpointEnabled', 'EndpointDeleted')
ORDER BY version LIMIT 1 BY version LIMIT {most:UInt32}`

func (d *deliveryFacts) readKept(ctx context.Context, statement string) error {
	which := writer.Parameters{
		"event": d.eventID, "endpoint": d.endpointID, "most": strconv.Itoa(factsMax + 1),
	}
	return d.db.Query(ctx, statement, which, func(read func(...any) error) error {
		var partition int32
		var offset int64
		f, err := d.kept.decode(ctx, read, &partition, &offset)
		if err == nil {
			d.add(f, partition, offset)
		}
		return err
	})
}

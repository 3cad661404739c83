package writer

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

type delivery struct {
	eventID             string
	accountID           string
	createdAtMillis     int64
	sequence            uint64
	moves               int
	movedTo             string
	state               domain.DeliveryState
	attempts            int
	run                 int
	sentAtMillis        int64 // of the fact's attempt
	nextAttemptAtMillis int64
}

// deliveryFact is a fact of a delivery that has no row in another table.
type deliveryFact struct {
	eventID string
	schemas.Message
}

type deliveryKey struct{ eventID, endpointID string }

type leaf struct {
	domain.LogEntry
	sentAtMillis int64
}

type endpointChange struct {
	change string
	reason domain.DisabledReason // if it was disabled
}

// changeEnabled makes waiting deliveries due immediately. Other changes don't affect deliveries.
const changeEnabled = "enabled"

// addFact collects the rows of a journal fact. Facts in the last case only have rows in the tables
// facts and delivery_facts: accounts and watches get their rows from other topics, and a recalled
// delivery already has one.
func (b *block) addFact(r kafka.Record) error {
	f, err := schemas.DecodeFact(schemas.Read(r.Value, r))
	if err != nil {
		return err
	}
	if b.oldestMillis == 0 || f.AtMillis < b.oldestMillis {
		b.oldestMillis = f.AtMillis
	}
	if kept, own := f.Kept(); own {
		b.facts.add(newRow(r, f, schemas.EncodeFact(kept)))
	}
	if kept, alone := f.KeptOfDelivery(); alone {
		b.ofDelivery.add(newRow(r, f, deliveryFact{f.EventID(), schemas.EncodeFact(kept)}))
	}
	switch body := f.Body.(type) {
	case domain.DeliveryCreated:
		b.deliveryCreated(r, f, body)
	case domain.AttemptMade:
		b.attemptMade(r, f, body)
	case domain.DeliveryCancelled:
		b.addDelivery(newRow(r, f, delivery{eventID: body.EventID, state: domain.StateCancelled}))
	case domain.DeliveryRequeued:
		b.addDelivery(newRow(r, f, delivery{
			eventID:             body.EventID,
			state:               domain.StateQueued,
			run:                 body.Run,
			nextAttemptAtMillis: body.NextAttemptAtMillis,
		}))
	case domain.DeliveryMoved:
		b.addDelivery(newRow(r, f, delivery{
			eventID: body.EventID,
			state:   domain.StateCancelled,
			movedTo: body.ToEndpointID,
		}))
	case domain.EndpointCreated:
		b.endpointChanged(r, f, "created", "")
	case domain.EndpointUpdated:
		b.endpointChanged(r, f, "updated", "")
	case domain.SecretRotated:
		b.endpointChanged(r, f, "secret_rotated", "")
	case domain.EndpointDisabled:
		b.endpointChanged(r, f, "disabled", body.Reason)
	case domain.EndpointEnabled:
		b.endpointChanged(r, f, changeEnabled, "")
	case domain.EndpointDeleted:
		b.endpointChanged(r, f, "deleted", "")
	case domain.DeliveryRecalled, domain.SecretsResealed, domain.CommandHandled,
		domain.MailOrdered, domain.MailAttempted,
		domain.AccountCreated, domain.KeyCreated, domain.KeyRolled, domain.KeyRevoked,
		domain.WatchCreated, domain.WatchUpdated, domain.WatchDeleted, domain.BackfillRequested,
		domain.RangeCovered, domain.PartBegun, domain.BackfillStopped:
	}
	return nil
}

func (b *block) deliveryCreated(r kafka.Record, f domain.Fact, body domain.DeliveryCreated) {
	b.events.add(newRow(r, f, body))
	b.addDelivery(newRow(r, f, delivery{
		eventID:             body.Event.ID,
		accountID:           body.AccountID,
		createdAtMillis:     body.Event.CreatedAtMillis,
		sequence:            body.Sequence,
		moves:               body.Moved.Moves,
		attempts:            body.Moved.Attempts,
		run:                 body.Moved.Runs + 1,
		state:               domain.StateQueued,
		nextAttemptAtMillis: f.AtMillis,
	}))
}

func (b *block) attemptMade(r kafka.Record, f domain.Fact, body domain.AttemptMade) {
	b.attempts.add(newRow(r, f, body))
	if body.Entry.Number != 0 {
		b.leaves.add(newRow(r, f, leaf{body.Entry, body.Result.SentAtMillis}))
	}
	b.addDelivery(newRow(r, f, delivery{
		eventID:             body.EventID,
		state:               body.State,
		attempts:            body.Number,
		run:                 body.Run,
		sentAtMillis:        body.Result.SentAtMillis,
		nextAttemptAtMillis: body.NextAttemptAtMillis,
	}))
}

func (b *block) endpointChanged(
	r kafka.Record, f domain.Fact, change string, reason domain.DisabledReason,
) {
	b.changes.add(newRow(r, f, endpointChange{change: change, reason: reason}))
}

// addDelivery adds a fact's row of a delivery. If the block already has a row of the delivery, it
// merges the two as the table would. A row contains at most one attempt.
func (b *block) addDelivery(r row[delivery]) {
	key := deliveryKey{r.body.eventID, r.endpointID}
	i, there := b.at[key]
	if !there || (b.deliveries[i].body.sentAtMillis != 0 && r.body.sentAtMillis != 0) {
		b.at[key] = len(b.deliveries)
		b.deliveries.add(r)
		return
	}
	// The state and the next attempt come from the higher version, because a repeated fact may come
	// after later ones.
	latest, other := r, b.deliveries[i]
	if other.version > latest.version {
		latest, other = other, latest
	}
	latest.body.join(other.body)
	latest.atMillis, latest.offset = max(latest.atMillis, other.atMillis),
		max(latest.offset, other.offset)
	b.deliveries[i] = latest
}

// join fills in the earlier fact's values, and takes the larger value of each count.
func (d *delivery) join(earlier delivery) {
	d.accountID = max(d.accountID, earlier.accountID)
	d.createdAtMillis = max(d.createdAtMillis, earlier.createdAtMillis)
	d.sequence = max(d.sequence, earlier.sequence)
	d.moves = max(d.moves, earlier.moves)
	d.movedTo = max(d.movedTo, earlier.movedTo)
	d.attempts = max(d.attempts, earlier.attempts)
	d.run = max(d.run, earlier.run)
	d.sentAtMillis = max(d.sentAtMillis, earlier.sentAtMillis)
}

// newRow uses the fact's aggregate as the endpoint, which is right for deliveries. In the table
// facts it may also be a watch.
func newRow[B any](r kafka.Record, f domain.Fact, body B) row[B] {
	return row[B]{
		body:       body,
		endpointID: f.Aggregate,
		atMillis:   f.AtMillis,
		version:    f.Version,
		partition:  r.Partition,
		offset:     r.Offset,
	}
}

type endpointRow struct {
	domain.Endpoint
	gone bool
}

func readEndpointRow(r kafka.Record) (endpointRow, error) {
	e, gone, err := intake.Endpoint(r)
	if gone {
		e.ID = string(r.Key)
	}
	return endpointRow{e, gone}, err
}

type watchRow struct {
	domain.Watch
	gone bool
}

func readWatchRow(r kafka.Record) (watchRow, error) {
	w, gone, err := intake.Watch(r)
	if gone {
		w.ID = string(r.Key)
	}
	return watchRow{w, gone}, err
}

func (b *block) addCurrent(r kafka.Record) error {
	switch {
	case r.Topic == schemas.TopicPayments && schemas.IsBalanceMoved(r):
		return addOne(&b.moves, r, intake.Move)
	case r.Topic == schemas.TopicPayments:
		return addOne(&b.payments, r, intake.Payment)
	case r.Topic == schemas.TopicEndpoints:
		return addOne(&b.endpoints, r, readEndpointRow)
	case r.Topic == schemas.TopicWatches:
		return addOne(&b.watches, r, readWatchRow)
	}
	return nil
}

func addOne[B any](
	to *rows[B], r kafka.Record, decode func(kafka.Record) (B, error),
) error {
	body, err := decode(r)
	if err == nil {
		to.add(row[B]{body: body, partition: r.Partition, offset: r.Offset})
	}
	return err
}

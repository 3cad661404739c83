package sim

import (
	"math"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// mostHistoryLag is by how many records of the journal the history is behind, at most.
const mostHistoryLag = 120

// history returns the history's view of a delivery, from which the API requests a resend. It
// contains each partition of the journal up to some offset.
func (w *World) history(id deliveryID) *domain.Remembered {
	at := topicPartition{schemas.TopicJournal, w.partitionOf(id.endpoint)}
	records, asOf := w.log.read(at, 0, math.MaxInt)
	if w.chance(0.5) && !w.calm {
		asOf = max(0, asOf-w.rnd.Int64N(mostHistoryLag))
	}
	known := &domain.Remembered{Body: w.checks.model.bodies[id], AsOf: asOf}
	for _, f := range append(w.whatWas(id), factsOf(id, records, asOf)...) {
		known.Delivery = shown(known.Delivery, f)
	}
	// The partition to which it moved may have been read further.
	if d := w.checks.reference.deliveries[id]; known.Delivery.Exists() && d.next != "" &&
		w.chance(0.7) {
		known.Delivery.MovedTo = d.next
	}
	return known
}

func factsOf(id deliveryID, records []kafka.Record, below int64) (facts []domain.Fact) {
	for _, r := range records {
		if r.Offset >= below || r.Header(schemas.HeaderType) == "" {
			continue
		}
		f := decode(r, schemas.DecodeFact)
		if f.Aggregate == id.endpoint && f.EventID() == id.event {
			facts = append(facts, f)
		}
	}
	return facts
}

func shown(d domain.Delivery, f domain.Fact) domain.Delivery {
	switch b := f.Body.(type) {
	case domain.DeliveryCreated:
		return domain.Delivery{
			EventID:           b.Event.ID,
			EventType:         b.Event.Type,
			AccountID:         b.AccountID,
			EndpointID:        b.EndpointID,
			WatchID:           b.WatchID,
			State:             domain.StateQueued,
			CreatedAtMillis:   b.Event.CreatedAtMillis,
			Attempts:          b.Moved.Attempts,
			Run:               b.Moved.Runs + 1,
			Sequence:          b.Sequence,
			Moves:             b.Moved.Moves,
			FormerEndpointIDs: b.Moved.FormerEndpointIDs,
		}
	case domain.AttemptMade:
		d.State, d.Attempts, d.Run = b.State, b.Number, b.Run
	case domain.DeliveryRequeued:
		d.State, d.Run = domain.StateQueued, b.Run
	case domain.DeliveryCancelled:
		d.State = domain.StateCancelled
	case domain.DeliveryMoved:
		d.MovedTo = b.ToEndpointID
	default: // it makes no row
	}
	return d
}

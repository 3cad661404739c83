package projections

import (
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// block gathers the rows of facts, and how far it brings each partition.
type block struct {
	events     []row[domain.DeliveryCreated]
	attempts   []row[domain.AttemptMade]
	deliveries []row[delivery]
	facts      int
	sizeBytes  int
	from       map[int32]int64 // where the block begins, by partition
	next       map[int32]int64 // what comes after it; only partitions that moved
}

// row is what a fact puts into one table, and where the fact is.
type row[B any] struct {
	body       B
	endpointID string
	atMillis   int64
	version    uint64
	partition  int32
	offset     int64
}

// delivery is the state that a fact brings a delivery to.
type delivery struct {
	eventID             string
	state               domain.DeliveryState
	attempts            int
	run                 int // 0: the fact says neither the run nor the attempts
	nextAttemptAtMillis int64
}

// rowOverheadBytes is about what the rows of one fact take beside their bodies.
const rowOverheadBytes = 512

func newBlock() *block {
	return &block{from: make(map[int32]int64), next: make(map[int32]int64)}
}

// empty tells whether there is neither a row nor a position to write.
func (b *block) empty() bool { return len(b.next) == 0 }

// add decodes a record of the journal and gathers the rows that its fact makes.
func (b *block) add(r streams.Record) error {
	fact, err := schemas.DecodeFact(schemas.Read(r.Value, r))
	if err != nil {
		return fmt.Errorf("projections: the record at offset %d of %s/%d cannot be projected: %w", r.Offset, r.Topic, r.Partition, err)
	}
	b.facts++
	b.sizeBytes += rowOverheadBytes
	switch body := fact.Body.(type) {
	case domain.DeliveryCreated:
		b.sizeBytes += len(body.Event.Body)
		b.events = append(b.events, newRow(r, fact, body))
		b.deliveries = append(b.deliveries, newRow(r, fact, delivery{
			eventID: body.Event.ID, state: domain.StateQueued, run: 1, nextAttemptAtMillis: fact.AtMillis,
		}))
	case domain.AttemptMade:
		b.sizeBytes += len(body.Result.ResponseBody)
		b.attempts = append(b.attempts, newRow(r, fact, body))
		b.deliveries = append(b.deliveries, newRow(r, fact, delivery{
			eventID: body.EventID, state: body.State, attempts: body.Number, run: body.Run, nextAttemptAtMillis: body.NextAttemptAtMillis,
		}))
	case domain.DeliveryCancelled:
		b.deliveries = append(b.deliveries, newRow(r, fact, delivery{eventID: body.EventID, state: domain.StateCancelled}))
	}
	return nil
}

// newRow takes the endpoint from the fact's aggregate: a delivery belongs to its
// endpoint's.
func newRow[B any](r streams.Record, f domain.Fact, body B) row[B] {
	return row[B]{body: body, endpointID: f.Aggregate, atMillis: f.AtMillis, version: f.Version, partition: r.Partition, offset: r.Offset}
}

// cover notes how far a partition is brought.
func (b *block) cover(partition int32, from, next int64) {
	if _, known := b.from[partition]; !known {
		b.from[partition] = from
	}
	b.next[partition] = next
}

// reset empties the block and keeps its room.
func (b *block) reset() {
	clear(b.events) // lets go of what the rows point at
	clear(b.attempts)
	clear(b.deliveries)
	clear(b.from)
	clear(b.next)
	*b = block{events: b.events[:0], attempts: b.attempts[:0], deliveries: b.deliveries[:0], from: b.from, next: b.next}
}

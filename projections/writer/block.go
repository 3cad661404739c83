package writer

import (
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

type topicPartition struct {
	topic     string
	partition int32
}

func (p topicPartition) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

type block struct {
	payments   rows[schemas.PaymentObserved]
	moves      rows[schemas.BalanceMoved]
	endpoints  rows[endpointRow]
	watches    rows[watchRow]
	attempts   rows[domain.AttemptMade]
	leaves     rows[leaf]
	changes    rows[endpointChange]
	facts      rows[schemas.Message]
	ofDelivery rows[deliveryFact]
	events     rows[domain.DeliveryCreated]
	deliveries rows[delivery]
	at         map[deliveryKey]int // index in deliveries of each delivery's last row

	dead []schemas.DeadLetter // records that were set aside

	records      int
	sizeBytes    int
	began        time.Time                // when its first records arrived
	oldestMillis int64                    // time of the oldest fact; 0 if there is none
	from         map[topicPartition]int64 // the block's first offsets
	next         map[topicPartition]int64 // the offsets after the block, for partitions that advanced
}

// rowOverheadBytes is the approximate size of a record's rows without their bodies.
const rowOverheadBytes = 512

func newBlock() *block {
	return &block{
		at:   make(map[deliveryKey]int),
		from: make(map[topicPartition]int64),
		next: make(map[topicPartition]int64),
	}
}

func (b *block) empty() bool { return len(b.next) == 0 }

// add decodes a record and collects its rows. A journal record must be a fact. An invalid record of
// another topic is added to dead instead.
func (b *block) add(r kafka.Record, nowMillis int64) error {
	var err error
	if r.Topic == schemas.TopicJournal {
		err = b.addFact(r)
	} else if err = b.addCurrent(r); err != nil && !errors.Is(err, schemas.ErrNewer) {
		b.dead = append(b.dead, intake.DeadLetter(r, err, nowMillis))
		err = nil
	}
	if err != nil {
		return fmt.Errorf("projections: the record at offset %d of %s/%d cannot be projected: %w",
			r.Offset, r.Topic, r.Partition, err)
	}
	b.records++
	b.sizeBytes += rowOverheadBytes + len(r.Value)
	return nil
}

func (b *block) cover(p topicPartition, from, next int64) {
	if _, known := b.from[p]; !known {
		b.from[p] = from
	}
	b.next[p] = next
}

func (b *block) reset() {
	b.payments.reset()
	b.moves.reset()
	b.endpoints.reset()
	b.watches.reset()
	b.attempts.reset()
	b.leaves.reset()
	b.changes.reset()
	b.facts.reset()
	b.ofDelivery.reset()
	b.events.reset()
	b.deliveries.reset()
	clear(b.at)
	b.dead = nil
	clear(b.from)
	clear(b.next)
	b.began = time.Time{}
	b.records, b.sizeBytes, b.oldestMillis = 0, 0, 0
}

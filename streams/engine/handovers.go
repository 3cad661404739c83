package engine

import (
	"encoding/binary"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// What one endpoint is told of another (docs/decisions/notices.md) goes the way of hand-overs.
//
// Hand-overs are numbered by the partition that makes them, and a partition that takes them
// in remembers the highest number of each other. What is not above it is a repeat, however
// late it comes: the delivery itself may be forgotten by then.
//
// The numbers of one partition arrive in their order. They rise from fact to fact. A turn's
// records are one transaction, the next one begins when it has ended, and another owner begins
// with numbers above those of an aborted turn: its records have taken up as many offsets of the
// journal.

// handOver appends an event to the partition of the endpoint that it was moved to, as a
// match. There it is deduplicated.
func (m *machine) handOver(t *task.Turn, endpointID string, moved domain.DeliveryMoved) error {
	delivery, err := m.state.delivery(t.Batch, moved.EventID)
	if err != nil || delivery.EndpointID != endpointID { // it continues in this partition
		return err
	}
	in := delivery.HandOver(moved.Body)
	in.Moved.FromPartition, in.Moved.Number = m.cfg.PartitionOf(endpointID), moved.Number
	t.AppendTo(m.cfg.PartitionOf(in.EndpointID), handedOver(in))
	return nil
}

// tell appends the event by which another endpoint is told of a fact to the partition of that
// endpoint, as a match. There it is deduplicated, as a hand-over is.
func (m *machine) tell(t *task.Turn, f domain.Fact) error {
	if f.Telling().EndpointID == "" {
		return nil
	}
	endpoint, err := m.state.endpoint(t.Batch, f.Aggregate)
	if err != nil {
		return err
	}
	in, _ := f.Told(endpoint, m.cfg.PartitionOf(f.Aggregate))
	t.AppendTo(m.cfg.PartitionOf(in.EndpointID), handedOver(in))
	return nil
}

// handedOver is an event on its way to another endpoint, as a record.
func handedOver(in domain.MatchInput) kafka.Record {
	m := schemas.EncodeHandOver(in)
	return kafka.NewRecord(schemas.TopicMatches, in.EndpointID, m.Value, m.EachHeader)
}

// handOverNumber returns the number of a hand-over whose fact is the next one of a turn: the
// offset of the journal that the fact has, or would have if nothing else stood before it.
func (m *machine) handOverNumber(t *task.Turn) uint64 {
	return uint64(t.Next) + uint64(len(m.facts))
}

// handOverKey is the key of the highest number taken in from a partition.
//
//	0x1b | partition, 4 bytes, big endian → number, 8 bytes, big endian
func handOverKey(partition int32) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceHandOver}, uint32(partition))
}

// knowsHandOver reports whether an event was handed over to this partition before. One
// without a number is not known by it.
func (s *state) knowsHandOver(r reader, moved domain.Moved) (bool, error) {
	if moved.Number == 0 {
		return false, nil
	}
	value, err := r.Get(handOverKey(moved.FromPartition))
	if err != nil || len(value) != 8 {
		return false, err
	}
	return moved.Number <= binary.BigEndian.Uint64(value), nil
}

// noteHandOver remembers that an event was handed over to this partition.
func (s *state) noteHandOver(batch *store.Batch, moved domain.Moved) error {
	known, err := s.knowsHandOver(batch, moved)
	if err != nil || known || moved.Number == 0 {
		return err
	}
	return batch.Set(handOverKey(moved.FromPartition),
		binary.BigEndian.AppendUint64(nil, moved.Number))
}

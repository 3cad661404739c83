package engine

import (
	"encoding/binary"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// Notifications from one endpoint to another use the same path (docs/decisions/notices.md).
//
// The sending partition numbers each handover, and the receiving one remembers the highest number
// from each partition. A handover with no higher number is a repeat, however late it arrives: the
// delivery itself may already be forgotten.
//
// A partition's numbers arrive in order: they increase with each fact, and transactions do not
// overlap. A new owner's numbers are above those of an aborted turn, because aborted records also
// take up journal offsets.

// handOver sends a moved event to its new endpoint's partition as a match.
func (m *machine) handOver(t *task.Turn, endpointID string, moved domain.DeliveryMoved) error {
	delivery, err := m.state.delivery(t.Batch, moved.EventID)
	if err != nil || delivery.EndpointID != endpointID { // stays here
		return err
	}
	in := delivery.HandOver(moved.Body)
	in.Moved.FromPartition, in.Moved.Number = m.cfg.PartitionOf(endpointID), moved.Number
	t.AppendTo(m.cfg.PartitionOf(in.EndpointID), handedOver(in))
	return nil
}

// notify sends the event that notifies another endpoint of a fact to that endpoint's partition, as
// a match. It is deduplicated like a handover.
func (m *machine) notify(t *task.Turn, f domain.Fact) error {
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

func handedOver(in domain.MatchInput) kafka.Record {
	m := schemas.EncodeHandOver(in)
	return kafka.NewRecord(schemas.TopicMatches, in.EndpointID, m.Value, m.EachHeader)
}

// handOverNumber returns the number for a handover that becomes the turn's next fact: the offset
// that the fact would have without other records in between.
func (m *machine) handOverNumber(t *task.Turn) uint64 {
	return uint64(t.Next) + uint64(len(m.facts))
}

// handOverKey is the key of the highest number received from a partition:
//
//	0x1b | partition, 4 bytes, big endian → number, 8 bytes, big endian
func handOverKey(partition int32) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceHandOver}, uint32(partition))
}

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

func (s *state) noteHandOver(batch *store.Batch, moved domain.Moved) error {
	known, err := s.knowsHandOver(batch, moved)
	if err != nil || known || moved.Number == 0 {
		return err
	}
	return batch.Set(handOverKey(moved.FromPartition),
		binary.BigEndian.AppendUint64(nil, moved.Number))
}

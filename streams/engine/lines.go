package engine

import (
	"encoding/binary"
	"strings"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/store"
)

// A line is the sequence of pending deliveries of one wallet at one endpoint that were created
// while the endpoint had [domain.OrderingWallet]. Only its head is due. When the head is done, the
// same fold makes the next delivery the head (docs/decisions/ordering.md).
//
//	0x1c | endpoint id | 0x00 | wallet -> sequence of the last in the line, 8 bytes, big endian
//	0x1d | endpoint id | 0x00 | wallet | 0x00 | sequence, 8 bytes, big endian -> event id,
//	       for each one behind the head
//
// So a line of one delivery, the usual case, is a single key. The next head of a long line is one
// seek forward from the key of the previous head, which does not rescan tombstones. The lines of a
// deleted endpoint do not advance: their deliveries are cancelled in place.

// behindGroup is the timer group of the deliveries behind another in their line. It is claimed only
// if the endpoint is deleted.
func behindGroup(endpointID string) string { return endpointID + behindSuffix }

const behindSuffix = store.ParkedSuffix

func isBehindGroup(group string) bool { return strings.HasSuffix(group, behindSuffix) }

func groupOf(d domain.Delivery) string {
	if d.Behind {
		return behindGroup(d.EndpointID)
	}
	return deliveryGroup(d.EndpointID, d.EndpointEpoch)
}

// lineKey returns the key of a line, or the prefix of the keys of deliveries behind its head.
func lineKey(space byte, endpointID, wallet string) []byte {
	return append(append(keyOf(space, endpointID), 0), wallet...)
}

func behindKey(d domain.Delivery, sequence uint64) []byte {
	key := append(lineKey(spaceBehind, d.EndpointID, d.Line), 0)
	return binary.BigEndian.AppendUint64(key, sequence)
}

func (s *state) join(batch *store.Batch, d domain.Delivery) (domain.Delivery, error) {
	key := lineKey(spaceLine, d.EndpointID, d.Line)
	last, err := batch.Get(key)
	if err != nil {
		return d, err
	}
	if d.Behind = last != nil; d.Behind {
		if err := batch.Set(behindKey(d, d.Sequence), []byte(d.EventID)); err != nil {
			return d, err
		}
	}
	return d, batch.Set(key, binary.BigEndian.AppendUint64(nil, d.Sequence))
}

// leaveLine removes a delivery from its line. If it was the head, the next one becomes due.
func (s *state) leaveLine(batch *store.Batch, d domain.Delivery, atMillis int64) error {
	if d.Behind {
		return batch.Delete(behindKey(d, d.Sequence))
	}
	key := lineKey(spaceLine, d.EndpointID, d.Line)
	last, err := batch.Get(key)
	if err != nil {
		return err
	}
	endpoint, err := s.endpoint(batch, d.EndpointID)
	if err != nil {
		return err
	}
	if len(last) != 8 || binary.BigEndian.Uint64(last) == d.Sequence || endpoint.Deleted() {
		return batch.Delete(key)
	}
	next, err := s.nextOf(batch, d)
	switch {
	case err != nil:
		return err
	case next == "":
		return batch.Delete(key)
	}
	return s.advance(batch, next, endpoint.Epoch, atMillis)
}

func (s *state) nextOf(batch *store.Batch, d domain.Delivery) (event string, err error) {
	end := append(lineKey(spaceBehind, d.EndpointID, d.Line), 1)
	err = batch.Scan(behindKey(d, d.Sequence), end, func(_, value []byte) (bool, error) {
		event = string(value)
		return false, nil
	})
	return event, err
}

// advance makes a delivery the head of its line. It is due now, not at its creation time, because
// the clock may have been set back since.
func (s *state) advance(
	batch *store.Batch, eventID string, epoch uint32, atMillis int64,
) error {
	before, err := s.delivery(batch, eventID)
	if err != nil {
		return err
	}
	after := before
	after.Behind, after.EndpointEpoch, after.NextAttemptAtMillis = false, epoch, atMillis
	var body []byte
	if unattempted(before) {
		if body, err = s.body(batch, before); err != nil {
			return err
		}
	}
	if err := batch.Delete(behindKey(before, before.Sequence)); err != nil {
		return err
	}
	if err := s.clearTimer(batch, before); err != nil {
		return err
	}
	s.deliveries.changed[eventID] = after
	return s.setTimer(batch, after, body)
}

func (s *state) clearTimer(batch *store.Batch, d domain.Delivery) error {
	return batch.ClearTimer(groupOf(d), d.NextAttemptAtMillis, d.EventID)
}

// setTimer adds a pending delivery's timer entry, which carries it and its body until the first
// attempt.
func (s *state) setTimer(batch *store.Batch, d domain.Delivery, body []byte) error {
	if unattempted(d) {
		return batch.SetTimerCarrying(groupOf(d), d.NextAttemptAtMillis, d.EventID, carried(d), body)
	}
	return batch.SetTimer(groupOf(d), d.NextAttemptAtMillis, d.EventID)
}

// dissolve makes the deliveries behind others at a deleted endpoint due, to cancel them.
func (s *state) dissolve(batch *store.Batch, endpointID string) error {
	stand := false
	from := lineKey(spaceBehind, endpointID, "")
	end := append(keyOf(spaceBehind, endpointID), 1)
	err := batch.Scan(from, end, func(_, _ []byte) (bool, error) {
		stand = true
		return false, nil
	})
	if err != nil || !stand {
		return err
	}
	return batch.MakeDue(behindGroup(endpointID))
}

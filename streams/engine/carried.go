package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/store"
)

// The body of an event is stored
//
//   - before the first attempt, in the delivery's timer entry, with a copy of the delivery. Claims
//     then read them in key order. Most deliveries need one attempt, so their bodies are stored
//     nowhere else;
//   - afterwards, while the delivery may be attempted again, in a separate record (spaceBody),
//     which retries do not rewrite;
//   - once the delivery is settled, only in the history.

// unattempted reports whether the timer entry carries the delivery and its body.
func unattempted(d domain.Delivery) bool { return d.State.Pending() && d.Attempts == 0 }

// carried returns the value of a timer entry up to the body:
//
//	length of the delivery, varint | delivery | body
func carried(d domain.Delivery) []byte {
	delivery := schemas.MarshalDelivery(d)
	value := make([]byte, 0, binary.MaxVarintLen32+len(delivery))
	return append(binary.AppendUvarint(value, uint64(len(delivery))), delivery...)
}

func splitCarried(value []byte) (delivery, body []byte, err error) {
	n, size := binary.Uvarint(value)
	if size <= 0 || n > uint64(len(value)-size) {
		return nil, nil, errors.New("engine: a timer entry contains an incomplete delivery: " +
			"delete the state folder to rebuild it")
	}
	end := size + int(n) // #nosec G115 -- at most len(value)
	if body = value[end:]; len(body) == 0 {
		body = nil
	}
	return value[size:end:end], body, nil
}

func (s *state) claimed(
	r reader, c store.Claimed,
) (d domain.Delivery, body []byte, err error) {
	if len(c.Value) == 0 {
		if d, err = s.delivery(r, c.ID); err != nil {
			return d, nil, err
		}
		body, err = s.body(r, d)
		return d, body, err
	}
	delivery, body, err := splitCarried(c.Value)
	if err != nil {
		return d, nil, err
	}
	if d, cached := s.deliveries.clean.Get(c.ID); cached {
		return d, body, nil
	}
	if d, err = schemas.UnmarshalDelivery(delivery); err != nil {
		return d, nil, fmt.Errorf("engine: decoding the timer entry of %s: %w", c.ID, err)
	}
	s.deliveries.clean.Add(c.ID, d)
	return d, body, nil
}

func (s *state) body(r reader, d domain.Delivery) ([]byte, error) {
	if body, ok := s.bodies.Get(d.EventID); ok {
		return body, nil
	}
	if !unattempted(d) {
		return r.Get(keyOf(spaceBody, d.EventID))
	}
	value, err := r.Get(store.TimerKey(groupOf(d), d.NextAttemptAtMillis, d.EventID))
	if err != nil || len(value) == 0 {
		return nil, err
	}
	_, body, err := splitCarried(value)
	return body, err
}

// moveBody moves an event's body to where the delivery after the fact needs it. It returns the body
// if that is the timer entry.
func (s *state) moveBody(
	batch *store.Batch, f domain.Fact, before, after domain.Delivery,
) (body []byte, err error) {
	if !after.Exists() {
		return nil, nil
	}
	own := keyOf(spaceBody, after.EventID)
	hadOwn := before.Exists() && !before.State.Settled() && !unattempted(before)
	if after.State.Settled() {
		s.bodies.Remove(after.EventID)
		if hadOwn {
			return nil, batch.Delete(own)
		}
		return nil, nil
	}
	if body = bodyIn(f.Body); len(body) > 0 {
		s.bodies.Add(after.EventID, body)
	} else if hadOwn && !unattempted(after) {
		return nil, nil // its record does not change
	} else if body, err = s.body(batch, before); err != nil {
		return nil, err
	}
	switch {
	case !unattempted(after) && body != nil:
		return nil, batch.Set(own, body)
	case hadOwn:
		return body, batch.Delete(own)
	}
	return body, nil
}

func bodyIn(body domain.FactBody) []byte {
	switch b := body.(type) {
	case domain.DeliveryCreated:
		return b.Event.Body
	case domain.DeliveryRequeued:
		return b.Body
	default:
		return nil
	}
}

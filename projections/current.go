package projections

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/intake"
)

// endpointRow is the row of an endpoint, or its absence.
type endpointRow struct {
	domain.Endpoint
	gone bool
}

// watchRow is the row of a watch, or its absence.
type watchRow struct {
	domain.Watch
	gone bool
}

// addPayment collects the row of a payment, or of a move of a balance.
func (b *block) addPayment(r streams.Record) error {
	if m, is, err := intake.Move(r); is {
		if err == nil {
			b.moves.add(placed(r, m))
		}
		return err
	}
	p, err := intake.Payment(r)
	if err == nil {
		b.payments.add(placed(r, p))
	}
	return err
}

// addEndpoint collects a row of the table topic.
func (b *block) addEndpoint(r streams.Record) error {
	e, gone, err := intake.Endpoint(r)
	if gone {
		e.ID = string(r.Key)
	}
	if err == nil {
		b.endpoints.add(placed(r, endpointRow{e, gone}))
	}
	return err
}

// addWatch collects a row of the table topic, as addEndpoint does.
func (b *block) addWatch(r streams.Record) error {
	w, gone, err := intake.Watch(r)
	if gone {
		w.ID = string(r.Key)
	}
	if err == nil {
		b.watches.add(placed(r, watchRow{w, gone}))
	}
	return err
}

func placed[B any](r streams.Record, body B) row[B] {
	return row[B]{body: body, partition: r.Partition, offset: r.Offset}
}

package projections

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// endpointRow is the row of an endpoint, or that there is none any more.
type endpointRow struct {
	domain.Endpoint
	gone bool
}

// watchRow is the row of a watch, or that there is none any more.
type watchRow struct {
	domain.Watch
	gone bool
}

func (b *block) addPayment(r streams.Record) error {
	p, err := schemas.DecodePaymentObserved(schemas.Read(r.Value, r))
	b.payments.add(placed(r, p))
	return err
}

// addEndpoint gathers a row of the table topic. A record without a value says
// that the endpoint is gone.
func (b *block) addEndpoint(r streams.Record) (err error) {
	e := endpointRow{Endpoint: domain.Endpoint{ID: string(r.Key)}, gone: true}
	if len(r.Value) > 0 {
		e.gone = false
		e.Endpoint, err = schemas.DecodeEndpoint(schemas.Read(r.Value, r))
	}
	b.endpoints.add(placed(r, e))
	return err
}

// addWatch gathers a row of the table topic, as addEndpoint does.
func (b *block) addWatch(r streams.Record) (err error) {
	w := watchRow{Watch: domain.Watch{ID: string(r.Key)}, gone: true}
	if len(r.Value) > 0 {
		w.gone = false
		w.Watch, err = schemas.DecodeWatch(schemas.Read(r.Value, r))
	}
	b.watches.add(placed(r, w))
	return err
}

func placed[B any](r streams.Record, body B) row[B] {
	return row[B]{body: body, partition: r.Partition, offset: r.Offset}
}

package writer

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// endpointRow is the row of an endpoint, or its absence.
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

// watchRow is the row of a watch, or its absence.
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

// addCurrent collects the row of a payment, of a balance move, or of a table topic.
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

// addOne collects the row of a decoded record.
func addOne[B any](
	to *rows[B], r kafka.Record, decode func(kafka.Record) (B, error),
) error {
	body, err := decode(r)
	if err == nil {
		to.add(row[B]{body: body, partition: r.Partition, offset: r.Offset})
	}
	return err
}

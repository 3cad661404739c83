package intake

import (
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Endpoint decodes a row of the table "endpoints", or returns why it is invalid. gone means that
// the record has no value, because the endpoint is deleted.
func Endpoint(r kafka.Record) (e domain.Endpoint, gone bool, err error) {
	return Row(r, schemas.DecodeEndpoint, func(e domain.Endpoint) string { return e.ID })
}

// Watch decodes a row of the table "watches", like [Endpoint].
func Watch(r kafka.Record) (w domain.Watch, gone bool, err error) {
	return Row(r, schemas.DecodeWatch, func(w domain.Watch) string { return w.ID })
}

// Row decodes a table row with decode. keyOf returns the key that a row must have. The row is zero
// if it is gone, and after an error.
func Row[T any](
	r kafka.Record, decode func(schemas.Message) (T, error), keyOf func(T) string,
) (row T, gone bool, err error) {
	var none T
	if len(r.Key) == 0 {
		return none, false, errors.New("the record has no key")
	}
	if len(r.Value) == 0 {
		return none, true, nil
	}
	row, err = decode(schemas.Read(r.Value, r))
	switch {
	case err != nil:
		return none, false, err
	case keyOf(row) != string(r.Key):
		return none, false, fmt.Errorf("the key is %.80q, but the row is of %.80q", r.Key, keyOf(row))
	}
	return row, false, nil
}

// Move decodes a balance move of the topic "payments" ([schemas.IsBalanceMoved]), or returns why it
// is invalid.
func Move(r kafka.Record) (schemas.BalanceMoved, error) {
	m, err := schemas.DecodeBalanceMoved(schemas.Read(r.Value, r))
	if err != nil {
		return schemas.BalanceMoved{}, err
	}
	if m.Move.Wallet != string(r.Key) {
		return schemas.BalanceMoved{}, fmt.Errorf("the key is %.80q, but the move is of %.80q",
			r.Key, m.Move.Wallet)
	}
	return m, m.Move.WellFormed()
}

// Payment decodes any other record of the topic "payments", or returns why it is invalid.
func Payment(r kafka.Record) (schemas.PaymentObserved, error) {
	if len(r.Value) == 0 {
		return schemas.PaymentObserved{}, errors.New("the record has no value")
	}
	p, err := schemas.DecodePaymentObserved(schemas.Read(r.Value, r))
	if err != nil {
		return schemas.PaymentObserved{}, err
	}
	if p.Payment.To != string(r.Key) {
		return schemas.PaymentObserved{}, fmt.Errorf("the key is %.80q, but the payment is to %.80q",
			r.Key, p.Payment.To)
	}
	return p, p.Payment.WellFormed()
}

// DeadLetter returns the dead letter of an invalid record.
func DeadLetter(r kafka.Record, why error, nowMillis int64) schemas.DeadLetter {
	letter := schemas.DeadLetter{
		Topic:            r.Topic,
		Partition:        r.Partition,
		Offset:           r.Offset,
		Reason:           why.Error(),
		SetAsideAtMillis: nowMillis,
		Key:              r.Key,
		Value:            r.Value,
		ValueBytes:       len(r.Value),
	}
	for _, h := range r.Headers {
		letter.Headers = append(letter.Headers, [2]string{h.Key, string(h.Value)})
	}
	return letter
}

// DeadLetterRecord returns the record of a dead letter. Its key is the position of the invalid
// record, so that repeats are equal.
func DeadLetterRecord(letter schemas.DeadLetter) kafka.Record {
	m := schemas.EncodeDeadLetter(letter)
	key := fmt.Sprintf("%s/%d/%d", letter.Topic, letter.Partition, letter.Offset)
	return kafka.NewRecord(schemas.TopicDeadLetters, key, m.Value, m.EachHeader)
}

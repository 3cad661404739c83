package intake

import (
	"fmt"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// DeadLetter describes an invalid record, with the reason.
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

// DeadLetterRecord returns the record of a dead letter. Its key is the position of the
// invalid record, so that repeats of it are equal.
func DeadLetterRecord(letter schemas.DeadLetter) kafka.Record {
	m := schemas.EncodeDeadLetter(letter)
	key := fmt.Sprintf("%s/%d/%d", letter.Topic, letter.Partition, letter.Offset)
	return kafka.NewRecord(schemas.TopicDeadLetters, key, m.Value, m.EachHeader)
}

package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is one record of a topic. Topic does not include the deployment's prefix. Do not modify a
// record that was read.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp time.Time
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is one header of a record.
type Header = kgo.RecordHeader

// Header returns the value of the first header with the name, or "".
func (r Record) Header(name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

const (
	// HeaderInputs contains input positions, as topic=offset,topic=offset.
	HeaderInputs = "inputs"
	// HeaderStart marks the first record that an owner writes (restore.go).
	HeaderStart = "start"
	// headerFiller marks records that fill offsets in a copy ([NewFiller]).
	headerFiller = "filler"
)

// headerType is on every record except a task's own.
const headerType = "type"

// IsNote reports whether a record contains only a task's notes for itself. Readers skip notes like
// control records.
func IsNote(r Record) bool {
	return len(r.Value) == 0 &&
		r.Header(HeaderInputs)+r.Header(HeaderStart)+r.Header(headerFiller) != "" &&
		r.Header(headerType) == ""
}

// Size returns the approximate size of the record in its topic, in bytes.
func (r Record) Size() int64 {
	size := recordOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return int64(size)
}

const recordOverhead = 16

// NewRecord returns a record to append. eachHeader iterates over header names and values.
func NewRecord(
	topic, key string, value []byte,
	eachHeader func(yield func(name, value string) bool),
) Record {
	r := Record{Topic: topic, Key: []byte(key), Value: value}
	for name, text := range eachHeader {
		r.Headers = append(r.Headers, Header{Key: name, Value: []byte(text)})
	}
	return r
}

func (c Cluster) fromKafka(k *kgo.Record) Record {
	return Record{
		Topic:     c.shortName(k.Topic),
		Partition: k.Partition,
		Offset:    k.Offset,
		Timestamp: k.Timestamp,
		Key:       k.Key,
		Value:     k.Value,
		Headers:   k.Headers,
	}
}

func (c Cluster) toKafka(records []Record) []*kgo.Record {
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = &kgo.Record{
			Topic:     c.fullName(r.Topic),
			Partition: r.Partition,
			Key:       r.Key,
			Value:     r.Value,
			Headers:   r.Headers,
		}
	}
	return out
}

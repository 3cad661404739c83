package schemas

import (
	"bytes"

	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// Limits of the data in a dead letter. The topic retains the complete record.
const (
	deadKeyBytes    = 1 << 10
	deadValueBytes  = 4 << 10
	deadHeaders     = 16
	deadHeaderBytes = 256
	deadReasonBytes = 2 << 10
)

// DeadLetter is an input record that a task set aside because it could not process it.
type DeadLetter struct {
	Topic            string
	Partition        int32
	Offset           int64
	Reason           string
	SetAsideAtMillis int64
	Key, Value       []byte
	Headers          [][2]string // name and value pairs
	ValueBytes       int         // size of the complete value
}

// EncodeDeadLetter encodes a record of the topic "dead-letters".
func EncodeDeadLetter(d DeadLetter) Message {
	m := &kafka.DeadLetter{
		Topic:            d.Topic,
		Partition:        d.Partition,
		Offset:           d.Offset,
		Reason:           printed(d.Reason, deadReasonBytes),
		SetAsideAtMillis: d.SetAsideAtMillis,
		Key:              first(d.Key, deadKeyBytes),
		Value:            first(d.Value, deadValueBytes),
		ValueBytes:       uint32(d.ValueBytes),
	}
	for _, h := range d.Headers[:min(len(d.Headers), deadHeaders)] {
		m.Headers = append(m.Headers,
			&kafka.DeadHeader{
				Name:  printed(h[0], deadHeaderBytes),
				Value: first([]byte(h[1]), deadHeaderBytes),
			})
	}
	return pack("DeadLetter", "", m)
}

// DecodeDeadLetter decodes a record of the topic "dead-letters".
func DecodeDeadLetter(m Message) (DeadLetter, error) {
	var b kafka.DeadLetter
	err := unpackAs(m, "DeadLetter", &b)
	d := DeadLetter{
		Topic:            b.GetTopic(),
		Partition:        b.GetPartition(),
		Offset:           b.GetOffset(),
		Reason:           b.GetReason(),
		SetAsideAtMillis: b.GetSetAsideAtMillis(),
		Key:              b.GetKey(),
		Value:            b.GetValue(),
		ValueBytes:       int(b.GetValueBytes()),
	}
	for _, h := range b.GetHeaders() {
		d.Headers = append(d.Headers, [2]string{h.GetName(), string(h.GetValue())})
	}
	return d, err
}

// CommandHead decodes the fields that all versions of commands start with, for commands that can't
// be decoded. If the value has no command ID, it falls back to the headers.
func CommandHead(m Message) (commandID string, bodyHash []byte) {
	var head kafka.CommandHead
	if err := proto.Unmarshal(m.Value, &head); err != nil || head.GetMeta().GetCommandId() == "" {
		return m.Cause, nil
	}
	return head.GetMeta().GetCommandId(), head.GetMeta().GetBodyHash()
}

func first(b []byte, most int) []byte { return b[:min(len(b), most)] }

// printed returns the first most bytes of s, with invalid UTF-8 replaced.
func printed(s string, most int) string {
	return string(bytes.ToValidUTF8([]byte(s[:min(len(s), most)]), []byte("\uFFFD")))
}

package schemas

import (
	"hash/maphash"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lumenhook/lumenhook/domain"
)

// Two facts of each delivery are nearly all of the journal, so they are decoded here
// without the generated code, which took a fifth of a rebuild. A value that is not exactly
// as EncodeFact writes it, each field at most once and in the order of its number, is left
// to the generated code. A test checks that both decode alike.

// quickFact decodes a DeliveryCreated or an AttemptMade, whose byte fields share the
// record's memory.
func quickFact(m Message) (f domain.Fact, ok bool) {
	if m.Version != firstVersion {
		return f, false
	}
	fields := quickFields{rest: m.Value}
	switch m.Type {
	case "DeliveryCreated":
		f.Body = quickDeliveryCreated(&fields, &f)
	case "AttemptMade":
		f.Body = quickAttemptMade(&fields, &f)
	default:
		return f, false
	}
	f.Cause = m.Cause
	return f, fields.read()
}

func quickDeliveryCreated(fields *quickFields, f *domain.Fact) domain.DeliveryCreated {
	quickMeta(fields, f)
	body := domain.DeliveryCreated{
		AccountID:     fields.name(2),
		EndpointID:    fields.name(3),
		WatchID:       fields.name(4),
		WalletAddress: fields.name(5),
	}
	event := fields.message(6)
	body.Event = domain.Event{
		ID:              event.text(1),
		Type:            domain.EventType(event.text(2)),
		CreatedAtMillis: int64(event.number(3)),
		Body:            event.bytes(4),
	}
	fields.bad = fields.bad || !event.read()
	body.TestBodyHash = fields.bytes(7)
	body.Moved = domain.Moved{
		Moves:    int(uint32(fields.number(8))),
		Attempts: int(uint32(fields.number(9))),
		Runs:     int(uint32(fields.number(10))),
	}
	body.Sequence = fields.number(14)
	body.Ordered = fields.number(15) != 0
	return body
}

func quickAttemptMade(fields *quickFields, f *domain.Fact) domain.AttemptMade {
	quickMeta(fields, f)
	made := domain.AttemptMade{
		EventID:   fields.text(2),
		EventType: domain.EventType(fields.text(3)),
		Number:    int(uint32(fields.number(4))),
		Run:       int(uint32(fields.number(5))),
		Result: domain.AttemptResult{
			SentAtMillis:   int64(fields.number(6)),
			DurationMillis: int64(fields.number(7)),
			StatusCode:     int(uint32(fields.number(8))),
			Error:          domain.AttemptError(fields.text(9)),
			ResponseBody:   fields.bytes(10),
		},
		State:               domain.DeliveryState(fields.text(11)),
		NextAttemptAtMillis: int64(fields.number(12)),
	}
	entry := fields.message(13)
	made.Entry = domain.LogEntry{
		From:            entry.number(1),
		Number:          entry.number(2),
		BodySHA256:      entry.bytes(3),
		SignatureSHA256: entry.bytes(4),
		Hashes:          entry.bytes(5),
	}
	fields.bad = fields.bad || !entry.read()
	trouble := fields.message(14)
	made.Trouble = domain.Trouble{
		SinceMillis: int64(trouble.number(1)),
		Attempts:    int(uint32(trouble.number(2))),
		Told:        trouble.number(3) != 0,
	}
	telling := fields.message(15)
	made.Telling = domain.Telling{
		EndpointID: telling.text(1),
		EventID:    telling.text(2),
		Number:     telling.number(3),
	}
	fields.bad = fields.bad || !trouble.read() || !telling.read()
	made.Result.ErrorDetail = fields.text(16)
	return made
}

func quickMeta(fields *quickFields, f *domain.Fact) {
	meta := fields.message(1)
	f.Aggregate, f.Version, f.AtMillis = meta.name(1), meta.number(2), int64(meta.number(3))
	fields.bad = fields.bad || !meta.read()
}

// quickFields reads the fields of a message one after the other.
type quickFields struct {
	rest []byte
	bad  bool // the bytes are not what EncodeFact writes
}

// next reports whether the field comes next, and moves past its tag.
func (q *quickFields) next(field protowire.Number, as protowire.Type) bool {
	tag := protowire.EncodeTag(field, as)
	size := 1
	if tag >= 1<<7 {
		size = 2 // no field has a number above 2047
		tag = tag&0x7f | 0x80 | tag>>7<<8
	}
	if q.bad || len(q.rest) < size || q.rest[0] != byte(tag) ||
		size == 2 && q.rest[1] != byte(tag>>8) {
		return false
	}
	q.rest = q.rest[size:]
	return true
}

func (q *quickFields) number(field protowire.Number) uint64 {
	if !q.next(field, protowire.VarintType) {
		return 0
	}
	v, n := protowire.ConsumeVarint(q.rest)
	if n < 0 {
		q.bad = true
		return 0
	}
	q.rest = q.rest[n:]
	return v
}

func (q *quickFields) bytes(field protowire.Number) []byte {
	if !q.next(field, protowire.BytesType) {
		return nil
	}
	v, n := protowire.ConsumeBytes(q.rest)
	if n < 0 {
		q.bad = true
		return nil
	}
	q.rest = q.rest[n:]
	if len(v) == 0 {
		return nil
	}
	return v[:len(v):len(v)]
}

func (q *quickFields) text(field protowire.Number) string {
	v := q.bytes(field)
	q.bad = q.bad || !utf8.Valid(v)
	return quickName(v)
}

// name is a text that many facts have.
func (q *quickFields) name(field protowire.Number) string {
	v := q.bytes(field)
	q.bad = q.bad || !utf8.Valid(v)
	return latestNames.of(v)
}

func (q *quickFields) message(field protowire.Number) quickFields {
	return quickFields{rest: q.bytes(field)}
}

// read reports whether everything was read, and was as EncodeFact writes it.
func (q *quickFields) read() bool { return !q.bad && len(q.rest) == 0 }

// quickName returns a string; frequent ones are not allocated.
func quickName(v []byte) string {
	switch string(v) {
	case string(domain.StateDelivered):
		return string(domain.StateDelivered)
	case string(domain.StateWaiting):
		return string(domain.StateWaiting)
	case string(domain.PaymentReceived):
		return string(domain.PaymentReceived)
	}
	return string(v)
}

// names interns recently read texts, so that a repeated one is not allocated again: of the facts of
// a block, which are in memory together, thousands name the same endpoint. Each text has one slot,
// and another text with the same slot replaces it.
type names struct {
	seed   maphash.Seed
	places [namesPlaces]atomic.Pointer[string]
}

const (
	namesPlaces = 4096
	// longestName bounds the size of a slot's text.
	longestName = 64
)

var latestNames = names{seed: maphash.MakeSeed()}

// of returns a text. It may be called from any goroutine.
func (n *names) of(v []byte) string {
	if len(v) == 0 || len(v) > longestName {
		return string(v)
	}
	place := &n.places[maphash.Bytes(n.seed, v)%namesPlaces]
	if known := place.Load(); known != nil && *known == string(v) {
		return *known
	}
	text := string(v)
	place.Store(&text)
	return text
}

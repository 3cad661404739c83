package schemas

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
)

// sameAsGenerated checks that the generated code decodes everything that the quick decoder accepts,
// to the same fact.
func sameAsGenerated(t interface{ Fatalf(string, ...any) }, m Message) (quick bool) {
	fact, ok := quickFact(m)
	if !ok {
		return false
	}
	want, err := decodeFact(m)
	if err != nil || !reflect.DeepEqual(fact, want) {
		t.Fatalf("%s %x is read as\n%#v\nand by the generated code as\n%#v, %v", m.Type, m.Value, fact,
			want, err)
	}
	return true
}

// TestQuickFactsAreTheGenerated: the quick decoder accepts what EncodeFact writes, and
// every decoder returns the original fact; a modified record is decoded as the generated
// code does, or left to it.
func TestQuickFactsAreTheGenerated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fact := drawHotFact(t)
		m := EncodeFact(fact)
		if !sameAsGenerated(t, m) {
			t.Fatalf("%s %x is not read quickly", m.Type, m.Value)
		}
		for name, decode := range map[string]func(Message) (domain.Fact, error){
			"DecodeFact":        DecodeFact,
			"DecodeFactInPlace": DecodeFactInPlace,
		} {
			if got, err := decode(m); err != nil || !reflect.DeepEqual(got, fact) {
				t.Fatalf("%s gives %#v, %v, and not %#v", name, got, err, fact)
			}
		}
		m.Value = mangled(t, m.Value)
		sameAsGenerated(t, m)
		quick, faulty := DecodeFactInPlace(m)
		want, fault := decodeFact(m)
		if !reflect.DeepEqual(quick, want) || (faulty == nil) != (fault == nil) {
			t.Fatalf("%s %x is read as %#v, %v, and by the generated code as %#v, %v", m.Type, m.Value, quick,
				faulty, want, fault)
		}
	})
}

// TestDecodedFactsAreTheirOwn: a fact from DecodeFact shares no memory with the record.
func TestDecodedFactsAreTheirOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fact := drawHotFact(t)
		m := EncodeFact(fact)
		got, err := DecodeFact(m)
		clear(m.Value)
		if err != nil || !reflect.DeepEqual(got, fact) {
			t.Fatalf("when its record is overwritten the fact becomes %#v, %v", got, err)
		}
	})
}

// FuzzQuickFacts does the same with arbitrary bytes.
func FuzzQuickFacts(f *testing.F) {
	for _, body := range []domain.FactBody{
		domain.DeliveryCreated{
			AccountID:    "acc_1",
			EndpointID:   "ep_1",
			Event:        domain.Event{ID: "evt_1", Body: []byte("{}")},
			TestBodyHash: []byte{1},
		},
		domain.AttemptMade{
			EventID:             "evt_1",
			Number:              3,
			Run:                 2,
			State:               domain.StateWaiting,
			NextAttemptAtMillis: 5,
			Entry: domain.LogEntry{
				From:            7,
				Number:          2,
				BodySHA256:      []byte{1},
				SignatureSHA256: []byte{2},
				Hashes:          []byte{3, 4},
			},
		},
	} {
		f.Add(EncodeFact(domain.Fact{Aggregate: "ep_1", Version: 1, Body: body}).Value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, name := range []string{"DeliveryCreated", "AttemptMade"} {
			sameAsGenerated(t, Message{Type: name, Version: firstVersion, Value: value})
		}
	})
}

func drawHotFact(t *rapid.T) domain.Fact {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringN(100, 200, -1))
	some := rapid.Custom(func(t *rapid.T) []byte {
		if b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"); len(b) > 0 {
			return b
		}
		return nil
	})
	number := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
	small := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 1<<32-1))
	fact := domain.Fact{
		Aggregate: text.Draw(t, "aggregate"),
		Version:   rapid.Uint64().Draw(t, "version"),
		AtMillis:  number.Draw(t, "at"),
		Cause:     text.Draw(t, "cause"),
	}
	kind := domain.EventType(rapid.OneOf(rapid.Just(string(domain.PaymentReceived)), text).Draw(t,
		"type"))
	if rapid.Bool().Draw(t, "attempt") {
		var entry domain.LogEntry
		if rapid.Bool().Draw(t, "logged") {
			entry = domain.LogEntry{
				From:            rapid.Uint64().Draw(t, "from"),
				Number:          rapid.Uint64Min(1).Draw(t, "leaf"),
				BodySHA256:      some.Draw(t, "body's hash"),
				SignatureSHA256: some.Draw(t, "signature's hash"),
				Hashes:          some.Draw(t, "hashes"),
			}
		}
		fact.Body = domain.AttemptMade{
			Entry:     entry,
			EventID:   text.Draw(t, "event"),
			EventType: kind,
			Number:    small.Draw(t, "number"),
			Run:       small.Draw(t, "run"),
			Result: domain.AttemptResult{
				SentAtMillis:   number.Draw(t, "sent"),
				DurationMillis: number.Draw(t, "duration"),
				StatusCode:     small.Draw(t, "status"),
				Error:          domain.AttemptError(text.Draw(t, "error")),
				ErrorDetail:    text.Draw(t, "detail"),
				ResponseBody:   some.Draw(t, "answer"),
			},
			State: domain.DeliveryState(rapid.OneOf(rapid.Just(string(domain.StateDelivered)),
				rapid.Just(string(domain.StateWaiting)), text).Draw(t, "state")),
			NextAttemptAtMillis: number.Draw(t, "next"),
		}
		return fact
	}
	fact.Body = domain.DeliveryCreated{
		AccountID:     text.Draw(t, "account"),
		EndpointID:    text.Draw(t, "endpoint"),
		WatchID:       text.Draw(t, "watch"),
		WalletAddress: text.Draw(t, "wallet"),
		Event: domain.Event{
			ID:              text.Draw(t, "event"),
			Type:            kind,
			CreatedAtMillis: number.Draw(t, "created"),
			Body:            some.Draw(t, "body"),
		},
		TestBodyHash: some.Draw(t, "hash"),
		Sequence:     rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, "sequence"),
		Ordered:      rapid.Bool().Draw(t, "ordered"),
	}
	return fact
}

// mangled modifies a value: a byte, its length, or a repeated part.
func mangled(t *rapid.T, value []byte) []byte {
	value = bytes.Clone(value)
	if len(value) == 0 {
		return append(value, rapid.Byte().Draw(t, "only"))
	}
	at := rapid.IntRange(0, len(value)-1).Draw(t, "at byte")
	switch rapid.IntRange(0, 3).Draw(t, "change") {
	case 0:
		value[at] = rapid.Byte().Draw(t, "byte")
	case 1:
		value = value[:at]
	case 2:
		value = append(value, value[at:]...)
	case 3:
		value = slices.Insert(value, at, rapid.SliceOfN(rapid.Byte(), 1, 4).Draw(t, "more")...)
	}
	return value
}

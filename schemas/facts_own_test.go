package schemas

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
)

// DecodeFact must return the encoded fact and share no memory with the record.
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

// drawHotFact draws one of the two fact types that make up most of the journal.
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

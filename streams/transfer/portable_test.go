package transfer

import (
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A copied handover loses only its number, because the number would be compared with those of
// another journal. Anything else is unchanged.
func TestAHandOverLeavesItsNumber(t *testing.T) {
	in := domain.MatchInput{
		AccountID:  "acc_1",
		EndpointID: "ep_2",
		WatchID:    "wat_1",
		Event: domain.Event{
			ID:              "evt_1",
			Type:            domain.PaymentReceived,
			CreatedAtMillis: 5,
			Body:            []byte("{}"),
		},
		Moved: domain.Moved{
			Moves:             1,
			Attempts:          2,
			Runs:              1,
			FormerEndpointIDs: []string{"ep_1"},
			FromPartition:     3,
			Number:            77,
		},
	}
	m := schemas.EncodeHandOver(in)
	r := kafka.NewRecord(schemas.TopicMatches, in.EndpointID, m.Value, m.EachHeader)
	portable := portableRecord(r)
	got, err := schemas.DecodePaymentMatched(schemas.Read(portable.Value, portable))
	in.Moved.FromPartition, in.Moved.Number = 0, 0
	if err != nil || !reflect.DeepEqual(got, in) || string(portable.Key) != in.EndpointID {
		t.Errorf("goes along as %+v (%v), want %+v", got, err, in)
	}
	if again := portableRecord(portable); !reflect.DeepEqual(again, portable) {
		t.Errorf("without a number it goes along as %+v", again)
	}
}

// Additional headers of other writers are kept.
func TestOtherHeadersGoAlong(t *testing.T) {
	m := schemas.EncodeCommand(domain.Command{
		ID:        "cmd_1",
		AccountID: "acc_1",
		Body: domain.ResendEvent{
			EndpointID: "ep_1",
			EventID:    "evt_1",
			Remembered: &domain.Remembered{AsOf: 7},
		},
	})
	r := kafka.NewRecord(schemas.TopicCommands, "ep_1", m.Value, m.EachHeader)
	r.Headers = append(r.Headers, kafka.Header{Key: "traceparent", Value: []byte("00-1-2-01")})
	portable := portableRecord(r)
	if reflect.DeepEqual(portable.Value, r.Value) {
		t.Error("the resend still names an offset of the old journal")
	}
	if !reflect.DeepEqual(portable.Headers, r.Headers) {
		t.Errorf("its headers are %q, want %q", portable.Headers, r.Headers)
	}
}

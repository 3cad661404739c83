package receiver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"testing"
	"time"
)

// published reads what Lumenhook publishes to hold receivers against.
func published(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("../../../schemas/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyDoesAsThePublishedVectorsSay(t *testing.T) {
	var vectors struct {
		Checks []struct {
			Name, Secret, Signature, Timestamp, Body string
			Clock                                    int64
			Accepted                                 bool
		}
	}
	published(t, "signature.json", &vectors)
	if len(vectors.Checks) == 0 {
		t.Fatal("there are no checks")
	}
	for _, c := range vectors.Checks {
		header := http.Header{}
		header.Set("Webhook-Timestamp", c.Timestamp)
		header.Set("Webhook-Signature", c.Signature)
		err := Verify(header, []byte(c.Body), []string{"whsec_another", c.Secret}, time.Unix(c.Clock, 0))
		if (err == nil) != c.Accepted {
			t.Errorf("%s: %v, and accepted is to be %t", c.Name, err, c.Accepted)
		}
	}
}

// TestTypesHoldEveryField: each published event comes out of the types as it went in.
func TestTypesHoldEveryField(t *testing.T) {
	var events, notices []json.RawMessage
	published(t, "events.json", &events)
	published(t, "notices.json", &notices)
	if len(events) == 0 || len(notices) == 0 {
		t.Fatal("there are no events")
	}
	for _, text := range append(events, notices...) {
		event, err := ParseEvent(text)
		if err != nil {
			t.Fatal(err)
		}
		data, err := typed(event)
		if err != nil {
			t.Fatal(err)
		}
		if event.Data, err = json.Marshal(data); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := decoded(t, again), decoded(t, text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s came out as\n%s", text, again)
		}
	}
}

// typed is the data of an event, in the type that the event's type asks for.
func typed(event Event) (any, error) {
	switch event.Type {
	case PaymentReceived, PaymentRejected:
		return event.Payment()
	case TestPing:
		return event.Ping()
	case EndpointFailing:
		return event.Failing()
	case EndpointDisabled:
		return event.Disabled()
	}
	return nil, fmt.Errorf("the kit has no type for %s", event.Type)
}

// TestDataOfAnotherTypeIsRefused: the data of a type of later is no data of a type of today, and
// the event is readable all the same.
func TestDataOfAnotherTypeIsRefused(t *testing.T) {
	event, err := ParseEvent([]byte(`{"id":"evt_1","type":"endpoint.moved","apiVersion":"2026-11-01",` +
		`"createdAt":"2026-11-02T12:00:01.456Z","data":{"endpoint":{"id":"ep_1"},"new":true}}`))
	if err != nil || event.Type != "endpoint.moved" || len(event.Data) == 0 {
		t.Fatalf("%+v, %v", event, err)
	}
	if d, err := event.Failing(); err == nil {
		t.Errorf("it is taken for %+v", d)
	}
	if d, err := event.Disabled(); err == nil {
		t.Errorf("it is taken for %+v", d)
	}
	if d, err := event.Payment(); err == nil {
		t.Errorf("it is taken for %+v", d)
	}
}

func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

package receiver

import (
	"encoding/json"
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
	var events []json.RawMessage
	published(t, "events.json", &events)
	if len(events) == 0 {
		t.Fatal("there are no events")
	}
	for _, text := range events {
		event, err := ParseEvent(text)
		if err != nil {
			t.Fatal(err)
		}
		var data any
		if event.Type == TestPing {
			data, err = event.Ping()
		} else {
			data, err = event.Payment()
		}
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

func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

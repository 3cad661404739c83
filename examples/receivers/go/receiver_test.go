package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// published reads the vectors that Lumenhook publishes.
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

// Each published event must survive decoding into the kit's types and encoding again.
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

// typed returns the data of an event in the Go type for the event's type.
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

// An event of a type that the kit doesn't know is readable, but its data must not decode as a
// known type.
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

// A secret that is empty or malformed must not verify anything, because anyone can sign with it.
func TestSecretsThatAreNoneAreRefused(t *testing.T) {
	body := []byte(`{"id":"evt_1","type":"payment.received"}`)
	now := time.Now()
	for name, secrets := range map[string][]string{
		"none":               nil,
		"empty":              {""},
		"the prefix alone":   {"whsec_"},
		"without its prefix": {"q8x2v5c7n1m9k3j6"},
		"quoted":             {`"whsec_1"`},
		"one of two":         {"whsec_1", "whsec"},
	} {
		forged := http.Header{}
		stamp := strconv.FormatInt(now.Unix(), 10)
		forged.Set("Webhook-Timestamp", stamp)
		for _, secret := range secrets {
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write([]byte(stamp + "." + string(body)))
			forged.Add("Webhook-Signature", "v1="+hex.EncodeToString(mac.Sum(nil)))
		}
		if err := Verify(forged, body, secrets, now); !errors.Is(err, ErrSecret) {
			t.Errorf("%s: verified with %v", name, err)
		}
		if _, err := NewSecrets(secrets...); !errors.Is(err, ErrSecret) {
			t.Errorf("%s: taken as secrets with %v", name, err)
		}
		if _, err := SecretsFromFile(secretFile(t, secrets...)); !errors.Is(err, ErrSecret) {
			t.Errorf("%s: taken from a file with %v", name, err)
		}
	}
	if _, err := SecretsFromFile(""); err == nil {
		t.Error("secrets are taken from no file")
	}
}

// The secrets file is read again once a second. An invalid file changes nothing.
func TestARotationNeedsNoRestart(t *testing.T) {
	file := secretFile(t, "whsec_old")
	secrets, err := SecretsFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ text, want string }{
		{"whsec_old\nwhsec_new\n", "whsec_old whsec_new"},
		{"whsec_new\n", "whsec_new"},
		{"", "whsec_new"},
	} {
		now := time.Unix(1_793_620_801+int64(i), 0)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(secrets.Current(now), " "); got != c.want {
			t.Errorf("of %q it holds %q", c.text, got)
		}
		if err := os.WriteFile(file, []byte("whsec_of_the_same_second"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(secrets.Current(now), " "); got != c.want {
			t.Errorf("it reads twice in a second: %q", got)
		}
	}
}

func secretFile(t *testing.T, secrets ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(file, []byte(strings.Join(secrets, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A handler in front of the receiver may have read the body. The response must say so.
func TestABodyThatWasReadBeforeIsSaid(t *testing.T) {
	secrets, err := NewSecrets("whsec_1")
	if err != nil {
		t.Fatal(err)
	}
	service := New(secrets, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		service.ServeHTTP(w, r)
	}))
	defer server.Close()
	request, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(`{"id":"evt_1"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	says, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 500 || !strings.Contains(string(says), "raw bytes") {
		t.Errorf("answered %d: %s (%v)", response.StatusCode, says, err)
	}
}

func TestASampleIsToldFromAPayment(t *testing.T) {
	if !(PaymentData{Watch: Watch{ID: "wat_00000000000000000000000000"}}).IsSample() {
		t.Error("a sample is none")
	}
	if (PaymentData{Watch: Watch{ID: "wat_bjmqh07gqszfmw2m747570fy7w"}}).IsSample() {
		t.Error("a payment is a sample")
	}
}

func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

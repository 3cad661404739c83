package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// changeByThemselves lists the read-only fields whose values a PATCH ignores.
var changeByThemselves = []string{
	"updatedAt", "consecutiveFailures", "health", "healthUnavailable", "warnings", "backfill",
	"warningDetails", "previousSecretUntil",
}

// A complete object must be accepted after it was read and changed, in any state. A change of a
// read-only field must be refused.
func TestWhatWasReadCanBeSentBack(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	other := w.newEndpoint(k)
	rich := wantStatus(t, w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example",
		"headers":{"X-A":"1"},"rateLimitPerSecond":5,"signatures":["standard-webhooks"],
		"ordering":"wallet","noticesTo":"`+other+`"}`), 201)
	disabled := w.newEndpoint(k)
	wantStatus(t, w.call("POST", "/v1/endpoints/"+disabled+"/disable", k, ""), 200)
	e := in(t, rich.body, "id").(string)
	watch := func(endpoint, more string) string {
		made := wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(endpoint, more)), 201)
		return "/v1/watches/" + in(t, made.body, "id").(string)
	}
	orphan := watch(disabled, "")
	backfilled := watch(e, `,"once":true,"expiresAt":"2099-01-01T00:00:00Z"`)
	wantStatus(t, w.call("POST", backfilled+"/backfill", k, `{"from":1,"to":2}`), 200)
	rules := watch(e, `,"amountRule":{"kind":"range","min":"1","max":"2"},
		"memoRule":{"kind":"equals","type":"id","value":"7"},"senderAllowlist":["`+payer+`"],
		"eventTypes":["payment.received","payment.rejected"]`)
	paths := []string{
		"/v1/endpoints/" + e, "/v1/endpoints/" + other, "/v1/endpoints/" + disabled,
		orphan, backfilled, rules,
	}
	for _, path := range paths {
		w.sendsBack(k, path)
	}
	w.historyErr = readmodel.ErrUnavailable
	w.sendsBack(k, "/v1/endpoints/"+e)
	w.historyErr = nil
	// A value that was valid when it was set must still be accepted when it is sent back.
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+other, k, ""), 200)
	w.sendsBack(k, "/v1/endpoints/"+e)
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+disabled, k, ""), 200)
	w.sendsBack(k, orphan)
}

// sendsBack sends an object back as it was read, and with each read-only field changed.
func (w *world) sendsBack(k, path string) {
	w.t.Helper()
	name := "description"
	if strings.Contains(path, "watches") {
		name = "label"
	}
	object := decode[map[string]any](w.t, wantStatus(w.t, w.call("GET", path, k, ""), 200).body)
	writable := strings.Fields("url description headers rateLimitPerSecond signatures ordering " +
		"noticesTo label endpointId assets amountRule memoRule senderAllowlist eventTypes expiresAt")
	for i := range 3 {
		object[name] = fmt.Sprint("changed ", i)
		w.now = w.now.Add(time.Second)
		answer := wantStatus(w.t, w.call("PATCH", path, k, asJSON(w.t, object)), 200)
		if in(w.t, answer.body, name) != object[name] {
			w.t.Errorf("%s", answer.body)
		}
		now := decode[map[string]any](w.t, answer.body)
		if object["updatedAt"] == now["updatedAt"] {
			w.t.Errorf("%s: the test changes nothing", answer.body)
		}
		object["warnings"], object["warningDetails"] = now["warnings"], now["warningDetails"]
		if object["consecutiveFailures"] != nil {
			object["consecutiveFailures"] = 17
		}
	}
	for field, value := range object {
		if slices.Contains(writable, field) || slices.Contains(changeByThemselves, field) {
			continue
		}
		changed := map[string]any{field: "another", name: "no"}
		if value == nil {
			changed[field] = map[string]any{}
		}
		answer := w.call("PATCH", path, k, asJSON(w.t, changed))
		p := decode[problem.Problem](w.t, answer.body)
		if answer.StatusCode != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != "/"+field ||
			p.Errors[0].Code != problem.FaultCannotChange {
			w.t.Errorf("%s with another %s was answered %d %s", path, field, answer.StatusCode, answer.body)
		}
	}
	after := wantStatus(w.t, w.call("GET", path, k, ""), 200)
	if got := in(w.t, after.body, name); got != "changed 2" {
		w.t.Errorf("%s has the %s %v after changes that were refused", path, name, got)
	}
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The change that a request made must not make its own repeat fail.
func TestARepeatOfAWholeObjectIsTheFirstAnswer(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	made := wantStatus(t, w.call("POST", "/v1/watches", k,
		watchBody(w.newEndpoint(k), `,"expiresAt":"2020-01-01T00:00:00Z"`)), 201)
	path := "/v1/watches/" + in(t, made.body, "id").(string)
	object := decode[map[string]any](t, wantStatus(t, w.call("GET", path, k, ""), 200).body)
	if object["status"] != "expired" {
		t.Fatalf("%v", object)
	}
	object["expiresAt"] = "2099-01-01T00:00:00.000Z"
	first := wantStatus(t, w.call("PATCH", path, k, asJSON(t, object), "Idempotency-Key", "1"), 200)
	again := wantStatus(t, w.call("PATCH", path, k, asJSON(t, object), "Idempotency-Key", "1"), 200)
	if in(t, first.body, "status") != "active" || string(again.body) != string(first.body) ||
		again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s\n%s", first.body, again.body)
	}
	// Without the key it is a new request, about a watch that has changed since it was read.
	stale := wantStatus(t, w.call("PATCH", path, k, asJSON(t, object)), 422)
	if !strings.Contains(string(stale.body), "status: is read-only and has another value now") {
		t.Errorf("%s", stale.body)
	}
}

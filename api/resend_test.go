package api_test

import (
	"fmt"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// moving returns an account whose only event was delivered to an endpoint that has been deleted.
func moving(t *testing.T) (w *world, apiKey, resend string, watch func(endpointID string)) {
	w = newWorld(t)
	apiKey = w.newKey(account("a"), domain.Permissions()...)
	a := w.newEndpoint(apiKey)
	e := w.delivered(account("a"), a, domain.StateCancelled)
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+a, apiKey, ""), 200)
	watch = func(endpointID string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		id := domain.DeriveID(domain.WatchPrefix, "1")
		w.watches[id] = domain.Watch{
			ID:         id,
			AccountID:  account("a"),
			EndpointID: endpointID,
			Version:    1,
			Revision:   1,
		}
	}
	watch(a)
	return w, apiKey, "/v1/events/" + e.ID + "/resend", watch
}

// cancel deletes the endpoint of the only event, so that its delivery is cancelled.
func (w *world) cancel(apiKey string) {
	w.t.Helper()
	var at string
	w.mu.Lock()
	for id, r := range w.history {
		at, r.record.State = r.record.EndpointID, domain.StateCancelled
		w.history[id] = r
	}
	w.mu.Unlock()
	wantStatus(w.t, w.call("DELETE", "/v1/endpoints/"+at, apiKey, ""), 200)
}

// A cancelled event must move from endpoint to endpoint. A repeat must get the first response,
// wherever the event is by then.
func TestACancelledEventGoesOnAtTheWatchsEndpoint(t *testing.T) {
	w, k, resend, watch := moving(t)
	wantProblem(t, w.call("POST", resend, k, ""), 409, "NO_ENDPOINT")
	var answers []string
	for n := range 3 {
		to := w.newEndpoint(k)
		watch(to) // the request waits until this node has read it
		asked := wantStatus(t, w.call("POST", resend, k, "", "Idempotency-Key", fmt.Sprint(n)), 200)
		if in(t, asked.body, "delivery", "endpointId") != to ||
			in(t, asked.body, "delivery", "state") != "QUEUED" {
			t.Errorf("move %d: %s", n, asked.body)
		}
		answers = append(answers, string(asked.body))
		if again := wantStatus(t, w.call("POST", resend, k, ""), 200); in(t, again.body, "delivery",
			"endpointId") != to {
			t.Errorf("asked anew after move %d: %s", n, again.body)
		}
		w.cancel(k)
	}
	for n, first := range answers {
		again := wantStatus(t, w.call("POST", resend, k, "", "Idempotency-Key", fmt.Sprint(n)), 200)
		if string(again.body) != first || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("a repeat of move %d: %s", n, again.body)
		}
	}
}

// An event that has not arrived is on its way. An event that is settled at its new endpoint must
// start another run there.
func TestAMovedEventIsAskedForWhereItIs(t *testing.T) {
	w, k, resend, watch := moving(t)
	b := w.newEndpoint(k)
	watch(b)
	wantStatus(t, w.call("POST", resend, k, ""), 200)
	for _, state := range []domain.DeliveryState{domain.StateFailed, domain.StateDelivered} {
		for id, r := range w.history {
			r.record.State = state
			w.history[id] = r
		}
		if got := wantStatus(t, w.call("POST", resend, k, ""), 200); in(t, got.body, "delivery",
			"endpointId") != b || in(t, got.body, "delivery", "state") != "QUEUED" {
			t.Errorf("%s: %s", state, got.body)
		}
	}
	for id, r := range w.history { // the receiving partition has not processed it
		r.record.EndpointID = "ep_elsewhere"
		w.history[id] = r
	}
	if got := wantStatus(t, w.call("POST", resend, k, ""), 200); in(t, got.body, "delivery",
		"endpointId") != b || in(t, got.body, "delivery", "state") != "QUEUED" {
		t.Errorf("under way: %s", got.body)
	}
}

func TestWhatCannotGoOn(t *testing.T) {
	w, k, resend, watch := moving(t)
	watch(w.newEndpoint(k))
	id := domain.DeriveID(domain.WatchPrefix, "1")
	w.watches[id] = domain.Watch{
		ID:         id,
		AccountID:  account("b"),
		EndpointID: w.watches[id].EndpointID,
		Version:    1,
		Revision:   1,
	}
	wantProblem(t, w.call("POST", resend, k, ""), 409, "NO_ENDPOINT")
	delete(w.watches, id)
	wantProblem(t, w.call("POST", resend, k, ""), 409, "NO_ENDPOINT")
	for event, r := range w.history {
		r.record.State = domain.StateWaiting
		w.history[event] = r
	}
	wantProblem(t, w.call("POST", resend, k, ""), 409, "DELIVERY_ENDING")
}

// The engine forgets settled deliveries, so the history must be used, which also knows to which
// endpoint an event moved. If the history is too far behind, the request must be refused.
func TestAForgottenEventIsSentFromTheHistory(t *testing.T) {
	w, k, resend, watch := moving(t)
	w.forgets = true
	b := w.newEndpoint(k)
	watch(b)
	for range 2 { // the event is handed over, then found at the new endpoint
		got := wantStatus(t, w.call("POST", resend, k, ""), 200)
		if in(t, got.body, "delivery", "endpointId") != b ||
			in(t, got.body, "delivery", "state") != "QUEUED" {
			t.Errorf("sent again as %s", got.body)
		}
		for id, r := range w.history {
			r.record.State = domain.StateDelivered
			w.history[id] = r
		}
	}
	w.behind = true
	behind := w.call("POST", resend, k, "")
	wantProblem(t, behind, 503, "HISTORY_BEHIND")
	if behind.Header.Get("Retry-After") == "" {
		t.Error("it does not say when to repeat the request")
	}
}

// The history has the event, but the engine has lost it.
func TestAnEventThatTheEngineLostIsExpired(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.delivered(account("a"), w.newEndpoint(k), domain.StateFailed)
	w.forgets = true
	wantProblem(t, w.call("POST", "/v1/events/"+e.ID+"/resend", k, ""), 410, "EVENT_EXPIRED")
}

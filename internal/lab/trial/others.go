package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// eventView is an event as lists show it, with its attempts if it is read by its id.
type eventView struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	CreatedAt string `json:"createdAt"`
	Data      struct {
		Payment struct {
			ID string `json:"id"`
		} `json:"payment"`
		Watch struct {
			ID string `json:"id"`
		} `json:"watch"`
	} `json:"data"`
	Delivery struct {
		State         string  `json:"state"`
		Held          bool    `json:"held"`
		EndpointID    string  `json:"endpointId"`
		NextAttemptAt *string `json:"nextAttemptAt"`
	} `json:"delivery"`
	Attempts []attemptView `json:"attempts"`
}

type attemptView struct {
	Number       int     `json:"number"`
	Run          int     `json:"run"`
	SentAt       string  `json:"sentAt"`
	DurationMs   int64   `json:"durationMs"`
	StatusCode   *int    `json:"statusCode"`
	Error        *string `json:"error"`
	ResponseBody string  `json:"responseBody"`
}

// events reads a list of events, whose ids must differ.
func (w *world) events(ctx context.Context, key string, filter url.Values, page int) ([]eventView,
	error) {
	path := "/v1/events"
	if len(filter) > 0 {
		path += "?" + filter.Encode()
	}
	var events []eventView
	seen := map[string]bool{}
	err := w.list(ctx, key, path, page, func(item json.RawMessage) error {
		var e eventView
		if err := json.Unmarshal(item, &e); err != nil {
			return fmt.Errorf("%s: %w", item, err)
		}
		if seen[e.ID] {
			w.violate("LISTED-TWICE", "%s has %s twice", path, e.ID)
		}
		seen[e.ID] = true
		events = append(events, e)
		return nil
	})
	return events, err
}

// resend resends any event, or one whose delivery was cancelled.
func (w *worker) resend(ctx context.Context, op Op, once string) error {
	var filter url.Values
	if op.Mode == "cancelled" {
		filter = url.Values{"state": {"CANCELLED"}}
	}
	events, err := w.events(ctx, w.account.key, filter, 100)
	if err != nil || len(events) == 0 {
		return err
	}
	e := events[op.N%len(events)]
	a, err := w.change(ctx, op, request{method: "POST", path: "/v1/events/" + e.ID + "/resend",
		once: once})
	if err != nil {
		return err
	}
	switch code := a.code(); {
	case e.Delivery.State == "CANCELLED" && e.Type != "test.ping":
		return w.goesOn(op, e, a)
	case code == "DELIVERY_CANCELLED" && e.Type == "test.ping", code == "ENDPOINT_DELETED",
		code == "DELIVERY_ENDING", code == "NO_ENDPOINT": // deleted since it was read
		return nil
	}
	w.expect(op, a, http.StatusOK)
	return nil
}

// goesOn checks that an event whose delivery was cancelled continues at an endpoint that
// its watch has named, unless the watch has none now.
func (w *worker) goesOn(op Op, e eventView, a answer) error {
	k := w.account.watchOf(e.Data.Watch.ID)
	named := k != nil && !k.now().gone && k.now().endpoint != nil && !k.now().endpoint.ended()
	switch {
	case a.code() == "NO_ENDPOINT" && !named, a.code() == "DELIVERY_ENDING":
		return nil
	case !w.expect(op, a, http.StatusOK):
		return nil
	}
	var got eventView
	if err := a.into(&got); err != nil {
		return err
	}
	from, to := e.Delivery.EndpointID, got.Delivery.EndpointID
	if got.ID != e.ID || to == from || !k.hasNamed(to) {
		w.violate("MOVES", "%s of %s, cancelled at %s, goes on at %s", e.ID, k.slot, from, to)
	}
	w.model.movedFrom(e.ID, from)
	return nil
}

// replay replays all FAILED deliveries of an endpoint (0), those created in the exact
// millisecond of a listed one (1), or those of the last second (2).
func (w *worker) replay(ctx context.Context, op Op, r request, e *endpoint) error {
	failed, err := w.events(ctx, w.account.key, url.Values{"endpointId": {e.id},
		"state": {"FAILED"}}, 50)
	if err != nil {
		return err
	}
	body, least := map[string]any{"since": w.began.UTC().Format(time.RFC3339)}, 0
	switch {
	case op.N == 1 && len(failed) > 0:
		since, err := time.Parse(time.RFC3339Nano, failed[0].CreatedAt)
		if err != nil {
			return err
		}
		body["since"] = failed[0].CreatedAt
		body["until"] = since.Add(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
		for _, f := range failed {
			if f.CreatedAt == failed[0].CreatedAt && f.Type != "test.ping" {
				least++
			}
		}
	case op.N == 2:
		body["since"] = time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano)
	}
	r.body = body
	a, err := w.change(ctx, op, r)
	if err != nil || !w.expect(op, a, http.StatusOK) {
		return err
	}
	var got struct{ Queued, Matched int }
	if err := a.into(&got); err != nil {
		return err
	}
	// FAILED remains FAILED unless this lane changes it: none of the listed ones may be
	// missing.
	if got.Matched < least {
		w.violate("REPLAY", "a replay of %v matched %d where %d are listed as FAILED: %s",
			body, got.Matched, least, e.id)
	}
	return nil
}

var permissionSets = [][]string{{"read"}, {"read", "write"}, {"read", "write", "operate"}}

func (w *worker) onKey(ctx context.Context, op Op, once string) error {
	if op.Do == "key.create" {
		body := map[string]any{"name": "trial " + op.Key, "permissions": permissionSets[op.N]}
		a, err := w.change(ctx, op, request{method: "POST", path: "/v1/api-keys", body: body, once: once})
		if err != nil || !w.expect(op, a, http.StatusCreated) {
			return err
		}
		k := &apiKey{permissions: permissionSets[op.N]}
		w.account.keys[op.Key] = k
		return w.keyMade(ctx, a, k)
	}
	k := w.account.keys[op.Key]
	if k == nil || k.gone {
		return nil
	}
	if op.Do == "key.revoke" {
		a, err := w.change(ctx, op, request{method: "DELETE", path: "/v1/api-keys/" + k.id, once: once})
		if err != nil || !w.expect(op, a, http.StatusNoContent) {
			return err
		}
		k.gone = true
		return w.keyRefused(ctx, k)
	}
	old := *k
	a, err := w.change(ctx, op, request{
		method: "POST",
		path:   "/v1/api-keys/" + k.id + "/roll",
		once:   once,
		body:   map[string]any{"graceSeconds": 0},
	})
	if err != nil || !w.expect(op, a, http.StatusCreated) {
		return err
	}
	if err := w.keyMade(ctx, a, k); err != nil {
		return err
	}
	return w.keyRefused(ctx, &old)
}

// keyMade records a new key, which must work.
func (w *worker) keyMade(ctx context.Context, a answer, k *apiKey) error {
	var made struct{ ID, Key string }
	if err := a.into(&made); err != nil {
		return err
	}
	k.id, k.text = made.ID, made.Key
	got, err := w.call(ctx, request{method: "GET", path: "/v1/endpoints", key: k.text})
	if err == nil && got.status != http.StatusOK {
		w.violate("KEYS", "the new key %s was answered %d: %s", k.id, got.status, got.body)
	}
	if len(k.permissions) > 1 || err != nil {
		return err
	}
	got, err = w.call(ctx, request{method: "POST", path: "/v1/endpoints", key: k.text,
		body: map[string]any{}})
	if err == nil && got.status != http.StatusForbidden {
		w.violate("KEYS", "a key that only reads wrote: %d", got.status)
	}
	return err
}

func (w *worker) keyRefused(ctx context.Context, k *apiKey) error {
	got, err := w.call(ctx, request{method: "GET", path: "/v1/endpoints", key: k.text})
	if err == nil && got.status != http.StatusUnauthorized {
		w.violate("KEYS", "the ended key %s was answered %d", k.id, got.status)
	}
	return err
}

// badRequests must be refused, and have no effect.
var badRequests = []struct {
	r      request
	status int
}{
	{request{method: "POST", path: "/v1/endpoints", raw: []byte(`{"url":`)}, 400},
	{request{method: "POST", path: "/v1/endpoints", raw: []byte(`{"url":"http://x.example/"}`)}, 422},
	{request{method: "POST", path: "/v1/endpoints", raw: []byte(`{"url":"https://10.0.0.1/"}`)}, 422},
	{request{method: "POST", path: "/v1/endpoints",
		raw: []byte(`{"url":"https://x.example/","force":1}`)}, 422},
	{request{method: "POST", path: "/v1/endpoints", raw: []byte(`{}`), mime: "text/plain"}, 415},
	{request{method: "POST", path: "/v1/watches", raw: []byte(`{"walletAddress":"GABC"}`)}, 422},
	{request{method: "GET", path: "/v1/endpoints/ep_00000000000000000000000000"}, 404},
	{request{method: "GET", path: "/v1/events?state=LOST"}, 400},
	{request{method: "GET", path: "/v1/events?limit=100000"}, 400},
	{request{method: "PUT", path: "/v1/endpoints"}, 405},
	{request{method: "GET", path: "/v1/nowhere"}, 404},
	{request{method: "GET", path: "/v1/endpoints", key: "whk_test_nothing"}, 401},
}

func (w *worker) beRefused(ctx context.Context, op Op) error {
	bad := badRequests[op.N%len(badRequests)]
	r := bad.r
	if r.key == "" {
		r.key = w.account.key
	}
	a, err := w.call(ctx, r)
	if err == nil {
		w.expect(op, a, bad.status)
	}
	return err
}

// reachOver requests another account's objects, which must not be found.
func (w *worker) reachOver(ctx context.Context, op Op, once string) error {
	w.model.mu.Lock()
	var others []string
	for _, o := range w.model.owned {
		if o.account != w.account.id {
			others = append(others, o.path)
		}
	}
	w.model.mu.Unlock()
	if len(others) == 0 {
		return nil
	}
	path := others[op.N%len(others)]
	for _, r := range []request{
		{method: "GET", path: path},
		{method: "PATCH", path: path, body: map[string]any{"label": "mine"}, once: once + "-patch"},
		{method: "DELETE", path: path, once: once + "-delete"},
	} {
		r.key = w.account.key
		a, err := w.call(ctx, r)
		if err != nil {
			return err
		}
		unknownField := strings.Contains(path, "endpoints") && a.status == http.StatusUnprocessableEntity
		if a.status != http.StatusNotFound && !unknownField {
			w.violate("FOREIGN", "%s %s of another account was answered %d: %s", r.method, path, a.status,
				a.body)
		}
	}
	return nil
}

// readLists reads lists during all other operations: none may fail or show an event twice.
func (w *worker) readLists(ctx context.Context, op Op) error {
	var err error
	switch op.N {
	case 0:
		_, err = w.events(ctx, w.account.key, nil, 37)
	case 1:
		for _, state := range states {
			if _, err = w.events(ctx, w.account.key, url.Values{"state": {state}}, 50); err != nil {
				return err
			}
		}
	default:
		for _, path := range []string{"/v1/endpoints", "/v1/watches", "/v1/api-keys"} {
			if err = w.list(ctx, w.account.key, path, 3,
				func(json.RawMessage) error { return nil }); err != nil {
				return err
			}
		}
	}
	return err
}

var states = []string{"QUEUED", "WAITING", "DELIVERED", "FAILED", "CANCELLED"}

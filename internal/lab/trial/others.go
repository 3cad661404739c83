package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// eventView is an event as in lists, with its attempts if it is read individually.
type eventView struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		Payment struct {
			ID string `json:"id"`
		} `json:"payment"`
		Watch struct {
			ID string `json:"id"`
		} `json:"watch"`
	} `json:"data"`
	Delivery struct {
		State      string `json:"state"`
		Held       bool   `json:"held"`
		EndpointID string `json:"endpointId"`
	} `json:"delivery"`
	Attempts []attemptView `json:"attempts"`
}

type attemptView struct {
	Number     int   `json:"number"`
	Run        int   `json:"run"`
	DurationMs int64 `json:"durationMs"`
	StatusCode *int  `json:"statusCode"`
}

// events reads a list of events and checks that it contains each id once.
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
	case e.Delivery.State == "CANCELLED":
		return w.goesOn(op, e, a)
	case code == "ENDPOINT_DELETED", code == "DELIVERY_ENDING", code == "NO_ENDPOINT":
		// deleted since it was read
		return nil
	}
	w.expect(op, a, http.StatusOK)
	return nil
}

// goesOn checks that an event whose delivery was cancelled continues at an endpoint that its watch
// has named, unless the watch now has no endpoint.
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

// replay replays all FAILED deliveries of an endpoint or, if op.N is 2, those of the last second.
func (w *worker) replay(ctx context.Context, op Op, r request) error {
	since := w.began
	if op.N == 2 {
		since = time.Now().Add(-time.Second)
	}
	r.body = map[string]any{"since": since.UTC().Format(time.RFC3339Nano)}
	a, err := w.change(ctx, op, r)
	if err == nil {
		w.expect(op, a, http.StatusOK)
	}
	return err
}

var states = []string{"QUEUED", "WAITING", "DELIVERED", "FAILED", "CANCELLED"}

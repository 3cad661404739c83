package engine_test

import (
	"bytes"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/store"
)

// carrying returns the events whose timer index entry carries a value that ends with the event's
// body. In these tests, an event's body is its ID.
func (c *core) carrying() (events []string) {
	c.t.Helper()
	err := c.Store().ScanTimers(func(e store.Claimed) error {
		if bytes.HasSuffix(e.Value, []byte(e.ID)) {
			events = append(events, e.ID)
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return events
}

// wantBody checks where the event's body is stored: in its timer index entry, in a separate record,
// or nowhere. It also checks that the latest attempts had the body. It then restarts the process to
// empty its memory.
func (c *core) wantBody(after, event string, carried, own bool) {
	c.t.Helper()
	if got := c.carrying(); (len(got) == 1) != carried {
		c.t.Errorf("%s: the timer index carries %q", after, got)
	}
	if got := c.held(bodies); (len(got) == 1) != own {
		c.t.Errorf("%s: %q have a record", after, got)
	}
	for _, a := range c.attempts {
		if a.EventID != event || string(a.Body) != event {
			c.t.Errorf("%s: attempt %d of %s has the body %q", after, a.Number, a.EventID, a.Body)
		}
	}
	c.attempts, c.done = nil, nil
	c.reopen(false)
}

// The timer index carries the body until the first attempt. A retry must not write it again, and
// the next reader must find it with or without a cache.
func TestABodyIsWhereItIsReadNext(t *testing.T) {
	c := newCore(t)
	c.turn(creation(endpointID))
	command := func(id string, body domain.CommandBody) {
		c.turn(domain.Command{ID: id, AccountID: accountID, Body: body})
	}
	answered := func(status, attempts int) {
		t.Helper()
		c.now += 2 * hour
		c.turn()
		if len(c.done) != 1 || c.attempts[0].Number != attempts {
			t.Fatalf("%d attempts have begun, and not one with number %d", len(c.done), attempts)
		}
		c.answerAll(domain.AttemptResult{StatusCode: status})
	}
	const event = "evt_1"
	c.pay(endpointID, event)
	c.wantBody("created", event, true, false)
	command("cmd_disable", domain.DisableEndpoint{EndpointID: endpointID})
	c.wantBody("disabled", event, true, false)
	command("cmd_enable", domain.EnableEndpoint{EndpointID: endpointID})
	c.wantBody("enabled", event, true, false)
	answered(500, 1)
	c.wantBody("attempted", event, false, true)
	answered(200, 2)
	c.wantBody("delivered", event, false, false)
}

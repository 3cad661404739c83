package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
)

// TestACancelledEventIsSentToTheWatchsPresentEndpoint resends a cancelled event through the real
// program. It is sent to the watch's present endpoint, which may belong to another partition. The
// history must say so before and after a rebuild, and so must an engine that has lost its state.
func TestACancelledEventIsSentToTheWatchsPresentEndpoint(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms",
		"--retry-schedule", "1h", "--attempt-timeout", "2s")
	h := startHooks(t, s.dir)
	c, ctx := s.client(s.file.APIKey), t.Context()
	var gone, present client.Endpoint
	s.cli(&gone, "endpoints", "create", "--url", "https://127.0.0.1:1025/nobody")
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	var watch client.Watch
	s.cli(&watch, "watches", "create", "--wallet", wallet.Address, "--endpoint", gone.ID)
	s.devnet(nil, "pay", "--to", wallet.Address, "--amount", "2")
	var events client.List[client.Event]
	s.eventually("an event that waits", func() bool {
		s.cli(&events, "events", "list", "--state", "WAITING")
		return len(events.Data) == 1
	})
	id := events.Data[0].ID
	s.cli(nil, "endpoints", "delete", gone.ID)
	s.eventually("its cancelling", func() bool {
		event, err := c.GetEvent(ctx, id)
		return err == nil && event.Delivery.State == "CANCELLED"
	})
	_, err := c.ResendEvent(ctx, id)
	s.wantCode(err, "NO_ENDPOINT")

	s.cli(&present, "endpoints", "create", "--url", h.url)
	h.mu.Lock()
	h.secret = present.Secret
	h.mu.Unlock()
	s.cli(&watch, "watches", "update", watch.ID, "--endpoint", present.ID)
	first, err := c.ResendEvent(ctx, id, client.IdempotencyKey("move"))
	if err != nil || first.ID != id || first.Delivery.EndpointID != present.ID ||
		first.Delivery.State != "QUEUED" {
		t.Fatalf("%v %+v", err, first)
	}
	var event client.Event
	s.eventually("its delivery", func() bool {
		event, err = c.GetEvent(ctx, id)
		return err == nil && event.Delivery.State == "DELIVERED"
	})
	post, posted := h.events()[id]
	if !posted || !bytes.Contains(post.Body, []byte(id)) || event.Delivery.EndpointID != present.ID {
		t.Errorf("%+v %s", event.Delivery, post.Body)
	}
	if a := event.Attempts; len(a) != 2 || a[0].Number != 1 || a[1].Number != 2 || a[1].Run != 2 {
		t.Errorf("attempts %+v", a)
	}
	if again, err := c.ResendEvent(ctx, id, client.IdempotencyKey("move")); err != nil ||
		!reflect.DeepEqual(again, first) {
		t.Errorf("a repeat: %v %+v", err, again)
	}
	s.agrees(c, id, event)
	s.interrupt()
	if err := os.RemoveAll(filepath.Join(s.dir, "state")); err != nil {
		t.Fatal(err)
	}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms")
	s.agrees(s.client(s.file.APIKey), id, event)
	if n := h.count(); n != 1 {
		t.Errorf("the event was posted %d times", n)
	}
	s.interrupt()
}

// listed returns a delivery of a list without the fields that only lists have.
func listed(d client.Delivery) client.Delivery {
	d.Attempts, d.LastStatusCode, d.LastError = 0, nil, nil
	return d
}

// agrees checks that the history has one event, equal to want, before and after a rebuild.
func (s *testService) agrees(c *client.Client, id string, want client.Event) {
	s.t.Helper()
	for range 2 {
		var got client.Event
		s.eventually("the event as it was", func() bool { // the history may be behind at first
			var err error
			got, err = c.GetEvent(s.t.Context(), id)
			return err == nil && !got.HistoryBehind
		})
		if !reflect.DeepEqual(got, want) {
			s.t.Errorf("%+v, want %+v", got, want)
		}
		var events client.List[client.Event]
		if s.cli(&events, "events", "list"); len(events.Data) != 1 ||
			!reflect.DeepEqual(listed(events.Data[0].Delivery), want.Delivery) {
			s.t.Errorf("listed as %+v", events.Data)
		}
		if out := s.must("verify-projection", "--all"); !strings.Contains(out,
			"the history matches the topics") {
			s.t.Errorf("verify-projection said %q", out)
		}
		s.must("rebuild", "--all")
	}
}

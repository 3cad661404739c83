package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
)

// A backfill delivers payments from before a watch existed, each under one event, even if it is
// requested repeatedly or the service is killed.
func TestABackfillDeliversThePastOnce(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms"}
	s.start(flags...)
	h := startHooks(t, s.dir)
	var wallet struct{ Address, Secret string }
	s.devnet(&wallet, "account", "--json")
	var past []string
	for n := range 3 {
		var paid struct{ ID string }
		s.devnet(&paid, "pay", "--to", wallet.Address, "--amount", fmt.Sprint(n+1), "--json")
		past = append(past, paid.ID)
	}
	var endpoint struct{ ID, Secret string }
	status := s.call("POST", "/v1/endpoints", map[string]any{"url": h.url}, &endpoint)
	if status != http.StatusCreated {
		t.Fatalf("the endpoint was answered %d", status)
	}
	h.mu.Lock()
	h.secret = endpoint.Secret
	h.mu.Unlock()
	var watch client.Watch
	if status := s.call("POST", "/v1/watches", map[string]any{
		"walletAddress": wallet.Address,
		"endpointId":    endpoint.ID, "assets": []map[string]any{{"code": "XLM", "issuer": nil}},
	}, &watch); status != http.StatusCreated || watch.Backfill != nil {
		t.Fatalf("the watch was answered %d: %+v", status, watch)
	}

	status = s.call("POST", "/v1/watches/"+watch.ID+"/backfill", map[string]any{"from": 1}, &watch)
	if status != http.StatusOK || watch.Backfill == nil {
		t.Fatalf("the backfill was answered %d: %+v", status, watch)
	}
	s.kill() // before, during, or after the backfill
	s.start(flags...)
	s.eventually("the end of the backfill", func() bool {
		return s.call("GET", "/v1/watches/"+watch.ID, nil, &watch) == http.StatusOK && watch.Backfill.Done
	})
	for _, id := range past {
		s.eventually("a webhook of payment "+id, func() bool { return h.has(id) })
	}
	var live struct{ ID string }
	s.devnet(&live, "pay", "--to", wallet.Address, "--amount", "9", "--json")
	s.eventually("a webhook of the live payment", func() bool { return h.has(live.ID) })

	// The account's creation counts as a payment.
	const events = 1 + 3 + 1
	s.eventually("five events, all delivered", func() bool {
		var list client.List[client.Event]
		status := s.call("GET", "/v1/events?state=DELIVERED&watchId="+watch.ID, nil, &list)
		return status == http.StatusOK && len(list.Data) == events && len(h.events()) == events
	})
	posts := h.count()
	out := s.must("backfill", "--watch", watch.ID, "--from", "2")
	if !strings.Contains(out, "done") || !strings.Contains(out, wallet.Address) {
		t.Errorf("printed %s", out)
	}
	var again client.Watch
	s.cli(&again, "backfill", "--watch", watch.ID, "--from", "3", "--to", "5", "--json")
	if again.Backfill == nil || !again.Backfill.Done || *again.Backfill.To != 5 ||
		again.Backfill.Next != 6 {
		t.Errorf("asked again: %+v", again.Backfill)
	}
	if _, err := s.tryCLI("backfill", "--watch", watch.ID, "--from", "1000000"); err == nil ||
		!strings.Contains(err.Error(), "ledger 1000000 is yet to be read") {
		t.Errorf("from a ledger to come: %v", err)
	}
	for name, args := range map[string][]string{
		"backwards":    {"--from", "9", "--to", "3"},
		"from nowhere": {"--from", "0"},
	} {
		_, err := s.tryCLI(append([]string{"backfill", "--watch", watch.ID}, args...)...)
		if err == nil || !strings.Contains(err.Error(), "--from") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var after struct{ ID string }
	s.devnet(&after, "pay", "--to", wallet.Address, "--amount", "10", "--json")
	s.eventually("a webhook of a payment after that", func() bool { return h.has(after.ID) })
	if h.count() != posts+1 || len(h.events()) != events+1 {
		t.Errorf("%d posts of %d events, want %d of %d: what was delivered is not delivered again",
			h.count(), len(h.events()), posts+1, events+1)
	}
	s.interrupt()
}

// An event stays with the endpoint that its watch had when the payment was matched. After the watch
// has moved, a backfill must not send the event to the new endpoint.
func TestABackfillLeavesEventsOfAMovedWatch(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms")
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	var all []*hooks
	var watch client.Watch
	paid := make(map[string]*hooks) // the only receiver that must get a payment, by payment ID
	for n := range 4 {
		h := startHooks(t, s.dir)
		all = append(all, h)
		var endpoint struct{ ID, Secret string }
		status := s.call("POST", "/v1/endpoints", map[string]any{"url": h.url}, &endpoint)
		if status != http.StatusCreated {
			t.Fatalf("the endpoint was answered %d", status)
		}
		h.mu.Lock()
		h.secret = endpoint.Secret
		h.mu.Unlock()
		if n == 0 {
			s.call("POST", "/v1/watches", map[string]any{
				"walletAddress": wallet.Address,
				"endpointId":    endpoint.ID, "assets": []map[string]any{{"code": "XLM", "issuer": nil}},
			}, &watch)
		} else {
			if status := s.call("PATCH", "/v1/watches/"+watch.ID, map[string]any{"endpointId": endpoint.ID},
				&watch); status != http.StatusOK {
				t.Fatalf("the move was answered %d", status)
			}
			s.cli(&watch, "backfill", "--watch", watch.ID, "--from", "1", "--json")
		}
		// If the backfill sent anything to this endpoint, it arrived before this payment.
		var live struct{ ID string }
		s.devnet(&live, "pay", "--to", wallet.Address, "--amount", fmt.Sprint(n+1), "--json")
		s.eventually("a webhook of the live payment", func() bool { return h.has(live.ID) })
		paid[live.ID] = h
	}
	for id, to := range paid {
		for n, h := range all {
			if h.has(id) != (h == to) {
				t.Errorf("endpoint %d was told of payment %s: %t", n, id, h.has(id))
			}
		}
	}
	// The first backfill found the account's creation.
	s.eventually("each event once in the list", func() bool {
		var list client.List[client.Event]
		status := s.call("GET", "/v1/events?state=DELIVERED&watchId="+watch.ID, nil, &list)
		return status == http.StatusOK && len(list.Data) == len(paid)+1
	})
}

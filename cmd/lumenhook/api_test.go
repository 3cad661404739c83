package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
)

// cli runs a subcommand against the service and decodes its JSON output.
func (s *testService) cli(into any, args ...string) {
	s.t.Helper()
	out, err := s.tryCLI(append(args, "--json")...)
	if err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(out), into); err != nil {
			s.t.Fatalf("%v: %v in %s", args, err, out)
		}
	}
}

func (s *testService) tryCLI(args ...string) (string, error) {
	c := program(append(args, "--data-dir", s.dir)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, &stderr)
	}
	return string(out), nil
}

func (s *testService) client(key string) *client.Client {
	s.t.Helper()
	c, err := client.New(s.file.APIURL, key, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *testService) wantCode(err error, code string) {
	s.t.Helper()
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != code {
		s.t.Errorf("got %v, want %s", err, code)
	}
}

// TestTheAPIFromEndToEnd exercises the whole API through the real program: command line, client,
// engine, receiver, and history.
func TestTheAPIFromEndToEnd(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms",
		"--retry-schedule", "50ms", "--attempt-timeout", "2s")
	h := startHooks(t, s.dir)
	ctx := t.Context()

	s.accountsAndKeys()

	var e client.Endpoint
	s.cli(&e, "endpoints", "create", "--url", h.url, "--description", "shop", "--header",
		"X-Tenant: one")
	h.mu.Lock()
	h.secret = e.Secret
	h.mu.Unlock()
	if e.Status != "active" || e.Headers["X-Tenant"] != "[redacted]" {
		t.Fatalf("%+v", e)
	}
	var test client.TestResult
	s.cli(&test, "endpoints", "test", e.ID)
	if test.Attempt.StatusCode == nil || *test.Attempt.StatusCode != 200 || test.Attempt.Error != nil {
		t.Errorf("%+v", test)
	}
	c := s.client(s.file.APIKey)
	event, err := c.GetEvent(ctx, test.EventID) // waits instead of returning 404
	if err != nil || event.Type != "test.ping" {
		t.Errorf("%v %+v", err, event)
	}
	// On a busy machine, the event may appear before its attempt.
	s.eventually("the attempt is in the history", func() bool {
		event, err = c.GetEvent(ctx, test.EventID)
		return err == nil && event.Delivery.State == "DELIVERED" && len(event.Attempts) == 1
	})

	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	var watch client.Watch
	s.cli(&watch, "watches", "create", "--wallet", wallet.Address, "--endpoint", e.ID,
		"--label", "one", "--amount", "min:2",
		"--event-type", "payment.received,payment.rejected")
	if watch.AmountRule.Amount != "2.0000000" || len(watch.Warnings) != 0 {
		t.Errorf("%+v", watch)
	}
	s.cli(&watch, "watches", "update", watch.ID, "--amount", "max:1.5")
	var check client.WatchCheck
	s.cli(&check, "watches", "check", watch.ID, "--amount", "2", "--memo", "text:inv-42")
	if check.EventType == nil || *check.EventType != "payment.rejected" {
		t.Errorf("%+v", check)
	}
	var paid struct{ ID string }
	s.devnet(&paid, "pay", "--to", wallet.Address, "--amount", "2", "--json")
	s.eventually("a webhook", func() bool { return h.has(paid.ID) })
	var delivered string
	for id := range h.events() {
		if id != test.EventID {
			delivered = id
		}
	}
	s.eventually("its history", func() bool {
		event, err = c.GetEvent(ctx, delivered)
		return err == nil && event.Delivery.State == "DELIVERED"
	})
	if event.Type != "payment.rejected" {
		t.Errorf("the rule was changed to max 1.5, and a payment of 2 gave %s", event.Type)
	}
	var events client.List[client.Event]
	s.cli(&events, "events", "list", "--endpoint", e.ID, "--since", "1h")
	if len(events.Data) != 2 || events.Data[0].ID != delivered || events.Data[1].ID != test.EventID ||
		events.Data[0].Delivery.State != "DELIVERED" {
		t.Errorf("%+v", events)
	}
	s.cli(&events, "events", "list", "--wallet", wallet.Address, "--type", "payment.rejected",
		"--state", "DELIVERED", "--watch", watch.ID, "--limit", "1")
	if len(events.Data) != 1 || events.Data[0].ID != delivered || events.NextCursor != nil {
		t.Errorf("%+v", events)
	}
	s.cli(&events, "events", "list", "--limit", "1")
	s.cli(&events, "events", "list", "--limit", "1", "--cursor", *events.NextCursor)
	if len(events.Data) != 1 || events.Data[0].ID != test.EventID {
		t.Errorf("%+v", events)
	}
	posts := h.count()
	var resent client.Resent
	s.cli(&resent, "events", "resend", delivered)
	s.eventually("the event again", func() bool { return h.count() == posts+1 })

	s.cli(&e, "endpoints", "disable", e.ID)
	if e.Status != "disabled" || *e.DisabledReason != "manual" {
		t.Errorf("%+v", e)
	}
	_, err = c.TestEndpoint(ctx, e.ID, client.Test{})
	s.wantCode(err, "ENDPOINT_DISABLED")
	s.cli(&resent, "events", "resend", delivered)
	if event, err = c.GetEvent(ctx, delivered); err != nil || !resent.Delivery.Held ||
		event.Delivery.State != "QUEUED" || !event.Delivery.Held {
		t.Errorf("%v %+v %+v", err, event.Delivery, resent)
	}
	s.cli(&e, "endpoints", "enable", e.ID)
	s.eventually("what was held", func() bool { return h.count() == posts+2 })

	s.failing(c)
	s.racing(c, h.url)

	if out, err := s.tryCLI("endpoints", "list"); err != nil || !strings.Contains(out, e.ID) ||
		!strings.Contains(out, "HEALTH") {
		t.Errorf("%v %s", err, out)
	}
	// Without a data folder, the address and the key are enough. Without both, the error is clear.
	far := program("endpoints", "list", "--json", "--data-dir", t.TempDir(),
		"--api-url", s.file.APIURL)
	far.Env = append(far.Env, "LUMENHOOK_API_KEY="+s.file.APIKey)
	if out, err := far.CombinedOutput(); err != nil || !strings.Contains(string(out), e.ID) {
		t.Errorf("%v %s", err, out)
	}
	out, err := program("endpoints", "list", "--data-dir", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--api-url") {
		t.Errorf("%v %s", err, out)
	}
	s.cli(nil, "endpoints", "delete", e.ID)
	s.cli(&watch, "watches", "get", watch.ID)
	if watch.Status != "endpoint_deleted" {
		t.Errorf("%+v", watch)
	}
	_, err = c.ResendEvent(ctx, delivered)
	if err == nil {
		t.Error("an event of a deleted endpoint was taken")
	}
	s.cli(nil, "watches", "delete", watch.ID)
	_, err = c.GetWatch(ctx, watch.ID)
	s.wantCode(err, "NOT_FOUND")
	s.interrupt()
}

func (s *testService) accountsAndKeys() {
	t, ctx := s.t, s.t.Context()
	var other, narrow apicli.MadeKey
	s.cli(&other, "accounts", "create", "--email", "b@example.com")
	s.cli(nil, "accounts", "update", "--account", other.AccountID, "--email", "c@example.com",
		"--email", "d@example.com")
	s.cli(nil, "accounts", "update", "--account", other.AccountID, "--quota", "watches=5,reads=2")
	s.eventually("another email of an account", func() bool {
		var accounts apicli.Accounts
		s.cli(&accounts, "accounts", "list")
		i := slices.IndexFunc(accounts.Data,
			func(a apicli.Account) bool { return a.ID == other.AccountID })
		return i > 0 && accounts.Data[i].Email == "c@example.com" && accounts.Data[i].Keys == 1 &&
			slices.Equal(accounts.Data[i].Emails, []string{"c@example.com", "d@example.com"}) &&
			accounts.Data[i].Quotas["watches"] == 5 && accounts.Data[i].Quotas["endpoints"] == 10_000
	})
	b := s.client(other.Key)
	mine, err := b.GetAccount(ctx)
	if reads := mine.Quotas[4]; err != nil || mine.ID != other.AccountID ||
		reads != (client.Quota{Name: "reads", Used: 1, Limit: 2}) {
		t.Errorf("%v %+v", err, mine)
	}
	if list, err := b.ListKeys(ctx, client.Page{}); err != nil || len(list.Data) != 1 {
		t.Fatalf("%v %+v", err, list)
	}
	s.cli(&narrow, "keys", "create", "--account", other.AccountID, "--permission", "read", "--name",
		"reader", "--allow-cidr", "127.0.0.1", "--expires-in", "1h")
	var asked apicli.MadeKey // belongs to the account of --api-key, not to the data folder's
	s.cli(&asked, "keys", "create", "--api-url", s.file.APIURL, "--api-key", other.Key,
		"--permission", "read", "--expires-in", "1h")
	if k, err := b.GetKey(ctx, asked.KeyID); err != nil || k.ExpiresAt == nil ||
		!slices.Equal(k.Permissions, []string{"read"}) {
		t.Errorf("a key by the API: %v %+v", err, k)
	}
	byAsked := s.client(asked.Key)
	if _, err := byAsked.ListWatches(ctx, client.WatchFilter{}, client.Page{}); err != nil {
		t.Error(err)
	}
	reader := s.client(narrow.Key)
	if _, err := reader.ListWatches(ctx, client.WatchFilter{}, client.Page{}); err != nil {
		t.Error(err)
	}
	_, err = reader.CreateKey(ctx, client.KeyCreate{Permissions: []string{"read"}})
	s.wantCode(err, "MISSING_PERMISSION")
	s.eventually("the last use of a key", func() bool {
		k, err := b.GetKey(ctx, narrow.KeyID)
		return err == nil && k.LastUsedAt != nil
	})
	grace := 0
	rolled, err := b.RollKey(ctx, narrow.KeyID, client.KeyRoll{GraceSeconds: &grace},
		client.IdempotencyKey("roll"))
	if err != nil || rolled.Key == nil {
		t.Fatal(err)
	}
	_, err = reader.ListWatches(ctx, client.WatchFilter{}, client.Page{})
	s.wantCode(err, "UNAUTHENTICATED")
	if again, err := b.RollKey(ctx, narrow.KeyID, client.KeyRoll{GraceSeconds: &grace},
		client.IdempotencyKey("roll")); err != nil || again.Key == nil || *again.Key != *rolled.Key {
		t.Errorf("%v %+v", err, again)
	}
	if err := b.RevokeKey(ctx, rolled.ID); err != nil {
		t.Error(err)
	}
	_, err = s.client(*rolled.Key).ListWatches(ctx, client.WatchFilter{}, client.Page{})
	s.wantCode(err, "UNAUTHENTICATED")
	s.cli(nil, "keys", "revoke", other.KeyID, "--account", other.AccountID)
	s.eventually("the end of a key that was revoked without the API", func() bool {
		_, err := b.ListKeys(ctx, client.Page{})
		return err != nil
	})
	out, err := s.tryCLI("accounts", "create", "--email", "nobody", "--permission", "all")
	if err == nil {
		t.Errorf("%s", out)
	}
}

// failing sends a test that fails. A replay skips it, but a resend sends it again.
func (s *testService) failing(c *client.Client) {
	t, ctx := s.t, s.t.Context()
	e, err := c.CreateEndpoint(ctx, client.EndpointCreate{URL: "https://127.0.0.1:1025/nobody"})
	if err != nil {
		t.Fatal(err)
	}
	since := time.Now().Add(-time.Minute)
	test, err := c.TestEndpoint(ctx, e.ID, client.Test{})
	if err != nil || test.Attempt.StatusCode != nil || test.Attempt.Error == nil ||
		*test.Attempt.Error != "CONN_REFUSED" {
		t.Errorf("%v %+v", err, test)
	}
	s.eventually("both attempts have failed", func() bool {
		event, err := c.GetEvent(ctx, test.EventID)
		return err == nil && event.Delivery.State == "FAILED" && len(event.Attempts) == 2
	})
	all := client.Replay{EventFilter: client.EventFilter{Since: since}}
	replay, err := c.ReplayEndpoint(ctx, e.ID, all, client.IdempotencyKey("replay"))
	if err != nil || replay != (client.ReplayResult{}) {
		t.Errorf("%v %+v", err, replay)
	}
	if again, err := c.ReplayEndpoint(ctx, e.ID, all,
		client.IdempotencyKey("replay")); err != nil || again != replay {
		t.Errorf("%v %+v", err, again)
	}
	s.sampled(c, e.ID, since)
	if _, err := c.ResendEvent(ctx, test.EventID); err != nil {
		t.Error(err)
	}
	s.eventually("a second run", func() bool {
		event, err := c.GetEvent(ctx, test.EventID)
		return err == nil && event.Delivery.State == "FAILED" && len(event.Attempts) == 4 &&
			event.Attempts[3].Run == 2
	})
	if _, err := c.DeleteEndpoint(ctx, e.ID); err != nil {
		t.Error(err)
	}
}

// sampled sends a sample payment that fails. Filters treat it as a test, not as the payment that it
// shows, so no replay selects it.
func (s *testService) sampled(c *client.Client, endpointID string, since time.Time) {
	t, ctx := s.t, s.t.Context()
	sample, err := c.TestEndpoint(ctx, endpointID, client.Test{Type: "payment.received"})
	if err != nil || sample.Attempt.Error == nil || *sample.Attempt.Error != "CONN_REFUSED" {
		t.Errorf("%v %+v", err, sample)
	}
	s.eventually("the sample has failed", func() bool {
		event, err := c.GetEvent(ctx, sample.EventID)
		return err == nil && event.Delivery.State == "FAILED" && event.Type == "payment.received"
	})
	tests, err := c.ListEvents(ctx, client.EventFilter{EndpointID: endpointID, Type: "test.ping"},
		client.Page{})
	if err != nil || len(tests.Data) != 2 {
		t.Errorf("%v, %d tests", err, len(tests.Data))
	}
	paid, err := c.ListEvents(ctx, client.EventFilter{EndpointID: endpointID, Asset: "XLM"},
		client.Page{})
	if err != nil || len(paid.Data) != 0 {
		t.Errorf("%v, %d payments", err, len(paid.Data))
	}
	dry, err := c.ReplayEndpoint(ctx, endpointID, client.Replay{
		EventFilter: client.EventFilter{Since: since}, DryRun: true,
	})
	if err != nil || dry != (client.ReplayResult{DryRun: true}) {
		t.Errorf("%v %+v", err, dry)
	}
	none, err := c.ReplayEndpoint(ctx, endpointID, client.Replay{
		EventFilter: client.EventFilter{Since: since, Asset: "XLM"},
	})
	if err != nil || none != (client.ReplayResult{}) {
		t.Errorf("%v %+v", err, none)
	}
}

// racing has two clients change the same endpoint concurrently. Some order of their requests must
// explain every response and the final state.
func (s *testService) racing(c *client.Client, url string) {
	t := s.t
	for round := range 8 {
		e, err := c.CreateEndpoint(t.Context(), client.EndpointCreate{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		answers := make([][]raced, 2)
		for who := range answers {
			both.Go(func() { answers[who] = race(t.Context(), c, e, who, round%2 == 1) })
		}
		both.Wait()
		s.explain(c, e, slices.Concat(answers...))
	}
}

type raced struct {
	what     string
	revision string // of the returned endpoint; empty if the request failed
	endpoint client.Endpoint
	err      error
}

func race(
	ctx context.Context, c *client.Client, e client.Endpoint, who int, deletes bool,
) (all []raced) {
	note := func(what string, e client.Endpoint, err error) {
		all = append(all, raced{what, e.ETag, e, err})
	}
	for n := range 4 {
		changed, err := c.UpdateEndpoint(ctx, e.ID,
			client.Patch{"description": fmt.Sprintf("%d.%d", who, n)})
		note("patch", changed, err)
		if who == 0 {
			changed, err = c.DisableEndpoint(ctx, e.ID)
			note("disable", changed, err)
		} else {
			changed, err = c.EnableEndpoint(ctx, e.ID)
			note("enable", changed, err)
		}
		changed, err = c.RotateSecret(ctx, e.ID)
		note("rotate", changed, err)
		if deletes && who == 1 && n == 2 {
			_, err = c.DeleteEndpoint(ctx, e.ID)
			note("delete", client.Endpoint{}, err)
		}
	}
	return all
}

// explain checks the responses against the revisions, which order them. Except for its own change,
// each response must show the state that the revision before it left.
func (s *testService) explain(c *client.Client, made client.Endpoint, answers []raced) {
	t := s.t
	deleted := false
	byRevision := map[string][]raced{}
	last := made
	for _, a := range answers {
		var p *client.Problem
		switch {
		case a.what == "delete" && a.err == nil:
			deleted = true
		case a.err == nil:
			byRevision[a.revision] = append(byRevision[a.revision], a)
			if revisionOf(a.revision) > revisionOf(last.ETag) {
				last = a.endpoint
			}
		case !errors.As(a.err, &p) || p.Status != http.StatusNotFound:
			t.Errorf("%s: %v", a.what, a.err)
		}
	}
	previous := made
	for revision := revisionOf(made.ETag) + 1; revision <= revisionOf(last.ETag); revision++ {
		at := byRevision[fmt.Sprintf(`"%d"`, revision)]
		if len(at) == 0 {
			continue // a revision that changed no setting
		}
		changes := 0
		for _, a := range at { // one request made the change; the others found nothing to change
			if a.endpoint.Description != at[0].endpoint.Description ||
				a.endpoint.Status != at[0].endpoint.Status {
				t.Errorf("revision %d has two faces: %+v and %+v", revision, at[0].endpoint, a.endpoint)
			}
			if a.what == "rotate" || a.what == "patch" {
				changes++
			}
		}
		if changes > 1 {
			t.Errorf("revision %d was made by %d changes", revision, changes)
		}
		a := at[0]
		if a.what != "patch" && changes == 0 && a.endpoint.Description != previous.Description {
			t.Errorf("revision %d: a %s changed the description from %q to %q", revision, a.what,
				previous.Description, a.endpoint.Description)
		}
		previous = a.endpoint
	}
	now, err := c.GetEndpoint(t.Context(), made.ID)
	switch {
	case deleted:
		s.wantCode(err, "NOT_FOUND")
	case err != nil || now.ETag != last.ETag || now.Description != last.Description ||
		now.Status != last.Status:
		t.Errorf("it ended as %v %+v, and the last answer was %+v", err, now, last)
	}
}

func revisionOf(etag string) (n int) {
	_, _ = fmt.Sscanf(etag, `"%d"`, &n)
	return n
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/receiver"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

var (
	killsFlag = flag.Int("kills", 5, "how often the running service is killed")
	killsSeed = flag.Uint64("kills.seed", 0, "what the moments of the kills come from; 0: the clock")
)

// TestKillsAtAnyMomentLoseNothing kills the service at random moments, also during startup, while
// payments arrive. In the end, each payment on the ledger was observed once, has one event, and was
// delivered under that event's id.
func TestKillsAtAnyMomentLoseNothing(t *testing.T) {
	testkit.Nightly(t)
	t.Parallel()
	seed := *killsSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-kills.seed %d", seed)
	moments := rand.New(rand.NewPCG(seed, 0))
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms"}
	s.start(flags...)
	h := startHooks(t, s.dir)
	wallet := s.watchedWallet(h)
	payers := make([]string, 3)
	for i := range payers {
		var account struct{ Secret string }
		s.devnet(&account, "account", "--json")
		payers[i] = account.Secret
	}
	for range *killsFlag {
		stop := s.payAllTheTime(payers, wallet)
		<-time.After(time.Duration(moments.IntN(1500)) * time.Millisecond)
		s.kill()
		stop()
		if moments.IntN(4) == 0 { // also during startup
			s.launch(flags...)
			<-time.After(time.Duration(moments.IntN(700)) * time.Millisecond)
			s.kill()
		}
		s.start(flags...)
	}
	var last devclient.Payment
	s.devnet(&last, "pay", "--to", wallet, "--amount", "7", "--json")
	s.eventually("a webhook of the last payment", func() bool { return h.has(last.ID) })
	s.account(h, last.Ledger)
	s.interrupt()
}

// The service dies after a ledger's matches are committed, but before the ledger is recorded as
// read. It reads the ledger again after the watch has moved. The existing match must keep its
// endpoint and body, and the payment must cause nothing else.
func TestALedgerReadAgainAfterItsWatchMovedTellsNobodyElse(t *testing.T) {
	testkit.Nightly(t)
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	holds := filepath.Join(t.TempDir(), "hold")
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms",
		"--fault-hold-file", holds}
	s.start(flags...)
	first, second := startHooks(t, s.dir), startHooks(t, s.dir)
	toFirst, toSecond := s.endpointAt(first), s.endpointAt(second)
	wallet := s.watchedWalletOf(toFirst)

	// The webhook is delivered before the ledger is recorded as read, so there may only ever be one
	// post. The watch moves as soon as the service is back.
	one := s.payUpToTheCursor(holds, wallet, "1m")
	s.eventually("the first event in the history", func() bool { return s.delivered(1) })
	killed := time.Now()
	s.kill()
	s.start(flags...)
	s.moveWatch(toSecond)
	s.wasReadAgain(one, killed)

	// The watch moves before the service dies, so every later read sees it moved.
	two := s.payUpToTheCursor(holds, wallet, "1m")
	s.moveWatch(toFirst)
	killed = time.Now()
	s.kill()
	s.start(flags...)
	s.wasReadAgain(two, killed)

	var three devclient.Payment
	s.devnet(&three, "pay", "--to", wallet, "--amount", "3", "--json")
	s.eventually("three events in the history", func() bool { return s.delivered(3) })
	if !first.has(one.ID) || !second.has(two.ID) || !first.has(three.ID) || first.count() != 2 {
		t.Errorf("the first endpoint got %d posts, and should get those of the first and the "+
			"third payment: %v", first.count(), slices.Collect(maps.Keys(first.events())))
	}
	for _, w := range second.posts() { // the kill may have interrupted the first post
		if again := second.posts()[0]; w.ID != again.ID || !bytes.Equal(w.Body, again.Body) {
			t.Errorf("two events, or two bodies:\n%s\n%s", again.Body, w.Body)
		}
	}
	if out := s.must("verify-projection", "--all"); !strings.Contains(out, "as the topics say") {
		t.Errorf("verify-projection said %q", out)
	}
	s.interrupt()
}

// payUpToTheCursor pays a wallet, and returns once the matches of the ledger are committed and the
// broker holds back the record that the ledger was read.
func (s *testService) payUpToTheCursor(holds, wallet, length string) (paid devclient.Payment) {
	s.t.Helper()
	s.order(holds, "append matches 5s") // time for the next order: every ledger writes a cursor
	s.devnet(&paid, "pay", "--to", wallet, "--amount", "1", "--json")
	s.taken(holds)
	s.order(holds, "append ledgers "+length)
	s.taken(holds)
	return paid
}

// order has the broker hold the next request of a kind.
func (s *testService) order(holds, line string) {
	s.t.Helper()
	draft := holds + ".new"
	if err := os.WriteFile(draft, []byte(line), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(draft, holds); err != nil {
		s.t.Fatal(err)
	}
}

// taken waits until the broker holds the request.
func (s *testService) taken(holds string) {
	s.t.Helper()
	s.eventually("a request is held", func() bool {
		_, err := os.Stat(holds)
		return errors.Is(err, os.ErrNotExist)
	})
}

func (s *testService) moveWatch(endpointID string) {
	s.t.Helper()
	var watches struct{ Data []struct{ ID string } }
	if status := s.call("GET", "/v1/watches", nil, &watches); status != http.StatusOK ||
		len(watches.Data) != 1 {
		s.t.Fatalf("the watches were answered %d: %v", status, watches)
	}
	if status := s.call("PATCH", "/v1/watches/"+watches.Data[0].ID,
		map[string]any{"endpointId": endpointID}, nil); status != http.StatusOK {
		s.t.Fatalf("the move was answered %d", status)
	}
}

// wasReadAgain waits until a payment's ledger is recorded as read, which must be after the kill,
// and checks that the only match is from before it.
func (s *testService) wasReadAgain(p devclient.Payment, killed time.Time) {
	s.t.Helper()
	type record struct {
		Time  time.Time
		Value struct {
			Sequence  uint32
			PaymentID string
		}
	}
	find := func(topic string, is func(record) bool) (found []record) {
		for line := range strings.Lines(s.must("topics", "cat", topic)) {
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				s.t.Fatalf("%s: %v", line, err)
			}
			if is(r) {
				found = append(found, r)
			}
		}
		return found
	}
	var reads []record
	s.eventually("the ledger is read again", func() bool {
		reads = find("ledgers", func(r record) bool { return r.Value.Sequence == p.Ledger })
		return len(reads) > 0
	})
	matches := find("matches", func(r record) bool { return r.Value.PaymentID == p.ID })
	if len(reads) != 1 || len(matches) != 1 ||
		!matches[0].Time.Before(killed) || !reads[0].Time.After(killed) {
		s.t.Errorf("killed at %s: read %+v, matched %+v", killed, reads, matches)
	}
}

// delivered reports whether the history has exactly n events, all of them delivered.
func (s *testService) delivered(n int) bool {
	states := slices.Collect(maps.Values(s.eventStates()))
	return len(states) == n && !slices.ContainsFunc(states, func(state string) bool {
		return state != "DELIVERED"
	})
}

func (h *hooks) posts() []receiver.Webhook {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

func (s *testService) endpointAt(h *hooks) (id string) {
	s.t.Helper()
	var endpoint struct{ ID, Secret string }
	status := s.call("POST", "/v1/endpoints", map[string]any{"url": h.url}, &endpoint)
	if status != http.StatusCreated {
		s.t.Fatalf("the endpoint was answered %d", status)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.secret = endpoint.Secret
	return endpoint.ID
}

// watchedWallet creates an endpoint at the receiver and a wallet whose payments are reported to it.
func (s *testService) watchedWallet(h *hooks) string {
	s.t.Helper()
	return s.watchedWalletOf(s.endpointAt(h))
}

// watchedWalletOf creates a wallet whose payments are reported to an endpoint.
func (s *testService) watchedWalletOf(endpointID string) string {
	s.t.Helper()
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	if status := s.call("POST", "/v1/watches", map[string]any{
		"walletAddress": wallet.Address,
		"endpointId":    endpointID, "assets": []map[string]any{{"code": "XLM", "issuer": nil}},
	}, nil); status != http.StatusCreated {
		s.t.Fatalf("the watch was answered %d", status)
	}
	return wallet.Address
}

// payAllTheTime pays a wallet from several accounts until stop is called. A payment that a kill
// interrupts may or may not be on the ledger.
func (s *testService) payAllTheTime(payers []string, wallet string) (stop func()) {
	s.t.Helper()
	client, err := devclient.New(s.file.Stellar.RPCURL, s.file.Stellar.FriendbotURL)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var paying sync.WaitGroup
	for _, payer := range payers {
		paying.Go(func() {
			for ctx.Err() == nil {
				_, err := client.Pay(ctx, devclient.PayRequest{From: payer, To: wallet, Amount: "1"})
				if err != nil {
					return
				}
			}
		})
	}
	return func() {
		cancel()
		paying.Wait()
		if err := client.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

// account compares the ledger with the facts, the history, and what the receiver got.
func (s *testService) account(h *hooks, last uint32) {
	s.t.Helper()
	check, err := program("ledger", "check", "--data-dir", s.dir, "--from", "2", "--to",
		strconv.FormatUint(uint64(last), 10)).CombinedOutput()
	if err != nil {
		s.t.Fatalf("ledger check: %v\n%s", err, check)
	}
	var observed map[string]bool
	s.eventually("every event of the history is delivered", func() bool {
		observed = s.observedPayments() // the last payments may not be there yet
		states := s.eventStates()
		return len(states) == len(observed) &&
			!slices.ContainsFunc(slices.Collect(maps.Values(states)),
				func(state string) bool { return state != "DELIVERED" })
	})
	eventOf, states := make(map[string]string), s.eventStates()
	for id, w := range h.events() {
		var event struct {
			Data struct{ Payment struct{ ID string } }
		}
		if err := json.Unmarshal(w.Body, &event); err != nil {
			s.t.Fatal(err)
		}
		payment := event.Data.Payment.ID
		if other, twice := eventOf[payment]; twice {
			s.t.Errorf("payment %s came under two ids, %s and %s", payment, other, id)
		}
		eventOf[payment] = id
		if !w.Verified || !observed[payment] || states[id] == "" {
			s.t.Errorf("event %s of payment %s: verified %v (%s), observed %v, state in the history %q", id,
				payment, w.Verified, w.Reason, observed[payment], states[id])
		}
	}
	for payment := range observed {
		if eventOf[payment] == "" {
			s.t.Errorf("payment %s never came", payment)
		}
	}
	s.t.Logf("%s%d payments, %d posts", check, len(observed), h.count())
}

func (s *testService) observedPayments() map[string]bool {
	s.t.Helper()
	out, err := program("topics", "cat", "payments", "--data-dir", s.dir).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	ids := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		var record struct {
			Value struct{ Payment struct{ ID string } }
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		ids[record.Value.Payment.ID] = true
	}
	return ids
}

// eventStates returns the states of the deliveries as the API lists them, or nil if the history is
// behind.
func (s *testService) eventStates() map[string]string {
	s.t.Helper()
	states := make(map[string]string)
	for cursor := ""; ; {
		var page struct {
			Data []struct {
				ID       string
				Delivery struct{ State string }
			}
			NextCursor *string
		}
		if status := s.call("GET", "/v1/events?limit=100"+cursor, nil, &page); status != http.StatusOK {
			return nil // the history is behind; the caller retries
		}
		for _, e := range page.Data {
			if states[e.ID] != "" {
				s.t.Errorf("event %s is listed twice", e.ID)
			}
			states[e.ID] = e.Delivery.State
		}
		if page.NextCursor == nil {
			return states
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
}

package main

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/devnet/devclient"
)

var (
	killsFlag = flag.Int("kills", 5, "how often the running service is killed")
	killsSeed = flag.Uint64("kills.seed", 0, "what the moments of the kills come from; 0: the clock")
)

// Payments come all the time, and the service dies at any moment of its life,
// while it is starting too. In the end each payment on the ledger was observed
// once, has one event, and that event was delivered under its one id.
func TestKillsAtAnyMomentLoseNothing(t *testing.T) {
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
		if moments.IntN(4) == 0 { // at its start
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

// watchedWallet makes an endpoint at the receiver and a wallet that it is told of.
func (s *testService) watchedWallet(h *hooks) string {
	s.t.Helper()
	var endpoint struct{ ID, Secret string }
	if status := s.call("POST", "/v1/endpoints", map[string]any{"url": h.url}, &endpoint); status != http.StatusCreated {
		s.t.Fatalf("the endpoint was answered %d", status)
	}
	h.mu.Lock()
	h.secret = endpoint.Secret
	h.mu.Unlock()
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	if status := s.call("POST", "/v1/watches", map[string]any{
		"walletAddress": wallet.Address, "endpointId": endpoint.ID, "assets": []map[string]any{{"code": "XLM", "issuer": nil}},
	}, nil); status != http.StatusCreated {
		s.t.Fatalf("the watch was answered %d", status)
	}
	return wallet.Address
}

// payAllTheTime pays a wallet from several accounts until the returned function
// is called. Payments that the kill cuts short may be on the ledger or not.
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
				if _, err := client.Pay(ctx, devclient.PayRequest{From: payer, To: wallet, Amount: "1"}); err != nil {
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

// account holds what is on the ledger against the facts, the history and what
// the receiver got.
func (s *testService) account(h *hooks, last uint32) {
	s.t.Helper()
	check, err := program("ledger", "check", "--data-dir", s.dir, "--from", "2", "--to", strconv.FormatUint(uint64(last), 10)).CombinedOutput()
	if err != nil {
		s.t.Fatalf("ledger check: %v\n%s", err, check)
	}
	observed := s.observedPayments()
	s.eventually("every event of the history is delivered", func() bool {
		states := s.eventStates()
		return len(states) == len(observed) && !slices.ContainsFunc(slices.Collect(maps.Values(states)), func(state string) bool { return state != "DELIVERED" })
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
			s.t.Errorf("event %s of payment %s: verified %v (%s), observed %v, state in the history %q", id, payment, w.Verified, w.Reason, observed[payment], states[id])
		}
	}
	for payment := range observed {
		if eventOf[payment] == "" {
			s.t.Errorf("payment %s never came", payment)
		}
	}
	s.t.Logf("%s%d payments, %d posts", check, len(observed), h.count())
}

// observedPayments are the ids in the payments topic.
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

// eventStates are the states of the deliveries as the API lists them.
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
			return nil // the history is behind; it is asked again
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

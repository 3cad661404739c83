//go:build kafka

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
)

// turnMax is the longest time before an answer is recorded, which is the duration of a transaction.
const turnMax = 10 * time.Second

// payGone pays a wallet whose endpoint answers 410. The payment is posted once and never accepted.
func (s *site) payGone(wallet string) {
	s.t.Helper()
	_, payer, err := s.pays.CreateAccount(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	request := devclient.PayRequest{From: payer, To: wallet, Amount: "0.1"}
	made, err := s.pays.Pay(s.t.Context(), request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.gone = append(s.gone, made.ID)
}

type attempt struct {
	EventID string  `json:"event_id"`
	SentAt  float64 `json:"sent"` // Unix milliseconds
	Took    float64 `json:"took"` // milliseconds
	Status  *int    `json:"status"`
}

// account compares what was received with the ledger, the topics, and the history.
func (s *site) account(p *paying, blows []*blow) {
	s.t.Helper()
	paid := p.made()
	s.until("every payment is taken", func() bool {
		events, _ := s.receipts.accepted()
		return events >= len(paid)
	})
	for _, one := range paid {
		if _, told := s.receipts.first(one.id); !told {
			s.t.Errorf("payment %s of ledger %d was told of to nobody", one.id, one.ledger)
		}
	}
	observed := s.observed(len(paid))
	s.checkLedgers(p.last())
	s.checkHistory()
	s.checkAttempts(blows)
	verified := s.as("history", "verify-projection", "--all", "--clickhouse-dsn", s.history)
	if !strings.Contains(string(verified), "as the topics say") {
		s.t.Errorf("verify-projection said %q", verified)
	}
	if out := s.as("inspect", "topics", "cat", "dead-letters"); len(out) > 0 {
		s.t.Errorf("records were set aside:\n%s", out)
	}
	s.announce(paid, observed, blows)
}

// observed returns the times at which payments were recorded, in order, one per payment.
func (s *site) observed(n int) (times []time.Time) {
	s.t.Helper()
	seen := make(map[string]bool)
	for line := range strings.Lines(string(s.as("inspect", "topics", "cat", "payments"))) {
		var record struct {
			Time  time.Time
			Value struct{ Payment struct{ ID string } }
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		id := record.Value.Payment.ID
		if seen[id] {
			s.t.Errorf("payment %s stands in the topic twice", id)
		}
		seen[id] = true
		times = append(times, record.Time)
	}
	if want := n + len(s.gone); len(seen) != want {
		s.t.Errorf("%d payments were observed, and %d were made", len(seen), want)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// checkLedgers reads the ledgers again and checks that none was skipped.
func (s *site) checkLedgers(last uint32) {
	s.t.Helper()
	s.as("check", "ledger", "check", "--from", "2", "--to", strconv.FormatUint(uint64(last), 10),
		"--network", s.devnet.Passphrase(), "--stellar-rpc-url", s.devnet.RPCURL(),
		"--ledger-poll-interval", "50ms")
}

// checkHistory compares the events that the API lists with those that were received.
func (s *site) checkHistory() {
	s.t.Helper()
	var states, wanted map[string]string
	s.lacking = func() string { return s.unlike(states, wanted) }
	s.until("the history has every event as it ended", func() bool {
		states, wanted = s.listEvents(), s.endings()
		return maps.Equal(states, wanted)
	})
}

// endings returns the required final states of the events. An endpoint that is gone has answered
// 410 once, so its delivery waits until the endpoint is enabled.
func (s *site) endings() map[string]string {
	s.receipts.mu.Lock()
	defer s.receipts.mu.Unlock()
	states := make(map[string]string)
	for id, e := range s.receipts.events {
		states[id] = "DELIVERED"
		if slices.Contains(s.gone, e.payment) {
			states[id] = "WAITING"
		}
	}
	return states
}

// unlike describes the events whose state differs from the wanted one, with their facts.
func (s *site) unlike(states, wanted map[string]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d events are listed, and %d were received", len(states), len(wanted))
	differs := func(id string) bool { return states[id] != wanted[id] }
	both := maps.Clone(wanted)
	maps.Copy(both, states)
	for id := range both {
		if differs(id) {
			fmt.Fprintf(&text, "\n%s is %q, and should be %q", id, states[id], wanted[id])
		}
	}
	for line := range strings.Lines(string(s.as("inspect", "topics", "cat", "journal"))) {
		for id := range both {
			if differs(id) && strings.Contains(line, id) {
				fmt.Fprintf(&text, "\n%.300s", strings.TrimSpace(line))
			}
		}
	}
	return text.String()
}

// listEvents returns the states of all events as the API lists them, or nil if the history is
// behind.
func (s *site) listEvents() map[string]string {
	c, states := s.api(), make(map[string]string)
	for cursor := ""; ; {
		at := client.Page{Limit: 100, Cursor: cursor}
		page, err := c.ListEvents(s.t.Context(), client.EventFilter{}, at)
		if err != nil {
			return nil
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
		cursor = *page.NextCursor
	}
}

// checkAttempts compares the attempts in the history with the received posts. Each attempt with an
// answer must match one post with that answer. A post without an attempt must have been in flight,
// or not yet recorded, when its process was killed or stopped.
func (s *site) checkAttempts(blows []*blow) {
	s.t.Helper()
	out := s.program("sql", "--clickhouse-dsn", s.history, "--format", "json", "--max-rows", "1000000",
		`SELECT event_id, toUnixTimestamp64Milli(sent_at) AS sent, duration_ms AS took,
		 status_code AS status FROM attempts FINAL`)
	by := make(map[string][]attempt)
	for line := range strings.Lines(string(out)) {
		var a attempt
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		by[a.EventID] = append(by[a.EventID], a)
	}
	s.receipts.mu.Lock()
	defer s.receipts.mu.Unlock()
	for id, e := range s.receipts.events {
		for _, lost := range match(s.t, id, by[id], e.posts) {
			s.charge(blows, id, lost)
		}
	}
}

// match finds the post of each attempt and returns the posts without an attempt.
func match(t *testing.T, id string, attempts []attempt, posts []post) (others []post) {
	t.Helper()
	others = slices.Clone(posts)
	for _, a := range attempts {
		sent, took := int64(a.SentAt), int64(a.Took)
		i := slices.IndexFunc(others, func(p post) bool {
			at := p.at.UnixMilli()
			return sent-1 <= at && at <= sent+took+1
		})
		switch {
		case i >= 0 && (a.Status == nil || *a.Status == others[i].status):
			others = slices.Delete(others, i, i+1)
		case a.Status != nil:
			t.Errorf("event %s has an attempt of %d ms that was answered %d, and came %v",
				id, sent, *a.Status, posts)
		}
	}
	return others
}

// charge attributes a post that is missing from the history to the blow that lost it.
func (s *site) charge(blows []*blow, id string, p post) {
	s.t.Helper()
	for _, b := range blows {
		if b.mayLose(p.began) {
			b.lost++
			return
		}
	}
	s.t.Errorf("event %s was posted at %s, and no attempt in the history says so",
		id, p.at.Format(time.StampMilli))
}

// announce logs the figures that are known only at the end.
func (s *site) announce(paid []payment, observed []time.Time, blows []*blow) {
	events, posts := s.receipts.accepted()
	s.t.Logf("%d payments observed, %d events taken, %d posts", len(observed), events, posts)
	for _, b := range blows {
		s.t.Logf("%-45s longest time between two observed payments %4.1f s; "+
			"%d attempts were lost and made again", b.name, longestGap(observed, b).Seconds(), b.lost)
		if strings.Contains(b.name, "an engine") {
			s.t.Log(s.failOverOf(b, paid))
		}
	}
	for _, r := range s.order {
		s.t.Logf("%s had %d MiB in memory at most since its last start, and complained: %v",
			r.name, s.mostMemory(r), s.complaints(r))
	}
}

// settling is the time for webhooks that are already on their way when a process is killed.
const settling = 200 * time.Millisecond

// firstToEach returns the time from a blow until every wallet had a first attempt.
func (s *site) firstToEach(paid []payment, b *blow) (longest time.Duration) {
	first := make(map[int]time.Duration)
	for _, one := range paid {
		told, _ := s.receipts.first(one.id)
		after := told.Sub(b.from)
		if had, found := first[one.wallet]; after > settling && (!found || after < had) {
			first[one.wallet] = after
		}
	}
	for _, after := range first {
		longest = max(longest, after)
	}
	return longest
}

// longestWait returns the longest time from a payment to its first attempt, among the payments that
// were waiting during a blow.
func (s *site) longestWait(paid []payment, b *blow) (longest time.Duration) {
	for _, one := range paid {
		told, _ := s.receipts.first(one.id)
		if told.After(b.from) && one.paid.Before(b.to) {
			longest = max(longest, told.Sub(one.paid))
		}
	}
	return longest
}

// longestGap returns the longest time during a blow in which no payment was observed.
func longestGap(observed []time.Time, b *blow) (longest time.Duration) {
	last := b.from
	for _, at := range observed {
		if at.After(b.from) && at.Before(b.to) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest
}

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

type shop struct {
	*testService
	hooks    *hooks
	wallet   string
	endpoint string
	watch    string
	sold     int // number of delivered payments
}

// TestTheShopsEverydayAccidents goes through a shop's everyday accidents on one service. Each
// payment without an event must be explained, and each must be delivered in the end, under one id.
func TestTheShopsEverydayAccidents(t *testing.T) {
	t.Parallel()
	s := &shop{testService: &testService{t: t, dir: t.TempDir()}}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms"}
	s.start(flags...)
	s.hooks = startHooks(t, s.dir)
	s.endpoint = s.endpointAt(s.hooks)
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	s.wallet = wallet.Address

	t.Log("the customer pays before the shop watches")
	early := s.pay("12.5")
	s.explains(early, "NOT_WATCHED", "")
	s.watch = s.field("watches", "create", "--wallet", s.wallet, "--endpoint", s.endpoint,
		"--amount", "exact:13")
	s.explains(early, "NOT_TAKEN", "WATCHED_LATER AMOUNT_MISMATCH")

	t.Log("the rule is wrong")
	wrong := s.pay("12.5")
	s.explains(wrong, "NOT_TAKEN", "AMOUNT_MISMATCH")
	if out := s.must("events", "list", "--tx", wrong.TxHash); !strings.Contains(out,
		"lumenhook explain "+wrong.TxHash) {
		t.Errorf("an empty list says nothing: %s", out)
	}
	_, hint, err := s.command("watches", "update", s.watch, "--amount", "exact:12.5")
	if err != nil || !strings.Contains(hint, "lumenhook backfill --watch "+s.watch) {
		t.Errorf("a change of the rules says nothing of earlier payments: %v %s", err, hint)
	}
	s.explains(wrong, "NOT_TAKEN", "RULES_CHANGED")
	s.backfill(early)
	s.delivers(early)
	s.delivers(wrong)

	t.Log("the customer pays too late")
	s.must("watches", "update", s.watch, "--expires-at", time.Now().UTC().Add(-time.Hour).
		Format(time.RFC3339))
	late := s.pay("12.5")
	s.explains(late, "NOT_TAKEN", "EXPIRED")
	s.must("watches", "update", s.watch, "--expires-at", "none")
	s.backfill(late)
	s.delivers(late)

	t.Log("somebody deletes the endpoint")
	s.must("endpoints", "delete", s.endpoint)
	gone := s.pay("12.5")
	s.explains(gone, "NOT_TAKEN", "ENDPOINT_DELETED")
	s.endpoint = s.endpointAt(s.hooks)
	s.must("watches", "update", s.watch, "--endpoint", s.endpoint)
	s.backfill(gone)
	s.delivers(gone)

	t.Log("the secret is rotated; the shop takes the new one later")
	var rotated struct{ Secret string }
	s.cli(&rotated, "endpoints", "rotate-secret", s.endpoint)
	s.delivers(s.pay("12.5"))
	s.hooks.trust(rotated.Secret)
	s.delivers(s.pay("12.5"))

	t.Log("the shop refuses everything, and the service is killed meanwhile")
	s.hooks.trust("whsec_" + strings.Repeat("A", 43) + "=")
	down := s.pay("12.5")
	s.eventually("an attempt at the shop that is down", func() bool { return s.hooks.has(down.ID) })
	s.kill()
	s.hooks.trust(rotated.Secret)
	s.start(flags...)
	id := s.delivers(down)

	t.Log("a webhook comes twice")
	s.must("events", "resend", id)
	s.eventually("the same event again", func() bool {
		posts := 0
		for _, post := range s.hooks.posts() {
			if post.ID == id && post.Verified {
				posts++
			}
		}
		return posts == 2
	})
	if ids := s.hooks.events(); len(ids) != s.sold {
		t.Errorf("%d events for %d payments", len(ids), s.sold)
	}
	s.interrupt()
}

type paid struct {
	ID, TxHash string
	Ledger     uint32
}

func (s *shop) pay(amount string) (p paid) {
	s.t.Helper()
	s.devnet(&p, "pay", "--to", s.wallet, "--amount", amount, "--json")
	s.eventually("the ledger of the payment is read", func() bool { return s.cursor() >= p.Ledger })
	return p
}

func (s *shop) field(args ...string) string {
	s.t.Helper()
	var made struct{ ID, Secret string }
	s.cli(&made, args...)
	return made.ID
}

func (s *shop) explains(p paid, outcome, reasons string) {
	s.t.Helper()
	testkit.EventuallyNil(s.t, "the explanation of "+p.TxHash, func() error {
		var e client.Explanation
		s.cli(&e, "explain", p.TxHash)
		var codes []string
		for _, payment := range e.Payments {
			for _, watch := range payment.Watches {
				for _, reason := range watch.Reasons {
					codes = append(codes, reason.Code)
				}
			}
		}
		if got := strings.Join(codes, " "); e.Outcome != outcome || got != reasons {
			return fmt.Errorf("%s (%s), want %s (%s)", e.Outcome, got, outcome, reasons)
		}
		return nil
	})
}

// delivers waits until a payment has exactly one delivered event.
func (s *shop) delivers(p paid) (eventID string) {
	s.t.Helper()
	s.explains(p, "REPORTED", "")
	s.eventually("the delivery of "+p.TxHash, func() bool {
		var list client.List[client.Event]
		s.cli(&list, "events", "list", "--tx", p.TxHash, "--state", "DELIVERED")
		if len(list.Data) != 1 {
			return false
		}
		eventID = list.Data[0].ID
		return true
	})
	s.sold++
	return eventID
}

func (s *shop) backfill(p paid) {
	s.t.Helper()
	s.must("backfill", "--watch", s.watch, "--from", fmt.Sprint(p.Ledger))
}

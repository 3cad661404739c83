package domain_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func paidAt(id string, closedAtMillis int64) domain.Payment {
	return domain.Payment{
		ID:             id,
		Ledger:         7,
		ClosedAtMillis: closedAtMillis,
		From:           "GA",
		To:             "GWALLET",
		Asset:          domain.NativeAsset(),
		AmountStroops:  1,
		Memo:           domain.Memo{Type: domain.MemoText, Raw: []byte("x")},
	}
}

// A watch matches payments in ledgers that close up to its expiry, to the millisecond, and none
// in later ledgers.
func TestAWatchExpires(t *testing.T) {
	expiry := domain.WatchUpdated{Change: domain.WatchChange{ExpiresAtMillis: new(int64(1000))}}
	never := domain.WatchUpdated{Change: domain.WatchChange{ExpiresAtMillis: new(int64(0))}}
	for name, c := range map[string]struct {
		watch   domain.Watch
		at      int64
		matches bool
	}{
		"at its end":         {givenWatch(expiry), 1000, true},
		"after it":           {givenWatch(expiry), 1001, false},
		"without an end":     {givenWatch(), 1 << 40, true},
		"its end taken away": {givenWatch(expiry, never), 1001, true},
	} {
		if _, matches := domain.MatchPayment(c.watch, paidAt("1", c.at)); matches != c.matches {
			t.Errorf("%s: taken: %t", name, matches)
		}
	}
	pinned := givenWatch(live, expiry, domain.PartBegun{From: 2, To: 9}, never)
	if _, matches := domain.MatchPayment(pinned.Pinned(pinned.Parts[0]), paidAt("1", 1001)); matches {
		t.Error("a part does not pin when the watch expires")
	}
}

// A watch for one payment is fulfilled by the first payment claimed under its current settings.
// After that it matches only this payment, however its rules change.
func TestAWatchForOnePayment(t *testing.T) {
	w := givenWatch()
	w.Once = true
	first, second := paidAt("1", 5), paidAt("2", 5)
	claim := func(w domain.Watch, p domain.Payment, revision uint64) domain.Watch {
		t.Helper()
		made, rejection := domain.DecideWatch(w, domain.Command{AccountID: ownAccount,
			Body: domain.RecordCoverage{Fulfils: domain.FulfilledBy(p), IfRevision: revision}}, 9)
		if rejection != nil {
			t.Fatal(rejection)
		}
		for _, body := range made {
			w = domain.EvolveWatch(w, domain.Fact{Version: w.Version + 1, AtMillis: 9, Body: body})
		}
		return w
	}
	if stale := claim(w, first, 2); stale.Fulfilled.Is() {
		t.Error("a payment that was judged by other settings fulfils the watch")
	}
	if _, matches := domain.MatchPayment(w, first); !matches || !w.MustClaim() {
		t.Error("a payment that fits is not to be claimed")
	}
	w = claim(w, first, w.Revision)
	if w.Fulfilled != domain.FulfilledBy(first) || w.MustClaim() || w.Revision != 1 {
		t.Errorf("after its payment the watch is %+v", w)
	}
	if again := claim(claim(w, second, 1), first, 1); again.Version != w.Version {
		t.Errorf("it is fulfilled again: %+v", again)
	}
	w.Rules.Memo.Value.Raw = []byte("y")
	w.ExpiresAtMillis = 1
	m, matches := domain.MatchPayment(w, first)
	if !matches || m.Type != domain.PaymentReceived || len(m.Verification.Reasons) != 0 ||
		m.Verification.Outcome != domain.OutcomeVerified {
		t.Errorf("the payment that fulfilled it is %+v, %t, when its ledger is read again", m, matches)
	}
	if _, matches := domain.MatchPayment(w, second); matches {
		t.Error("it takes another payment")
	}
}

// A watch for all payments can't be fulfilled, and a watch for one payment doesn't match a
// payment that fails its rules.
func TestWhatFulfilsNoWatch(t *testing.T) {
	made, rejection := domain.DecideWatch(givenWatch(), domain.Command{AccountID: ownAccount,
		Body: domain.RecordCoverage{Fulfils: domain.FulfilledBy(paidAt("1", 5)), IfRevision: 1}}, 9)
	if len(made) != 0 || rejection != nil {
		t.Errorf("a watch for all payments: %+v, %v", made, rejection)
	}
	w := givenWatch()
	w.Once, w.EventTypes = true, append(w.EventTypes, domain.PaymentRejected)
	p := paidAt("1", 5)
	p.Memo.Raw = []byte("y")
	if _, matches := domain.MatchPayment(w, p); matches {
		t.Error("a watch for one payment takes one that fails its rules")
	}
}

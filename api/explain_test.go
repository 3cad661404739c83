package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

const explained = "/v1/transactions/"

func (w *world) explain(key string) (answer client.Explanation) {
	w.t.Helper()
	body := wantStatus(w.t, w.call("GET", explained+strings.Repeat("ab", 32), key, ""), 200).body
	if err := json.Unmarshal(body, &answer); err != nil {
		w.t.Fatal(err)
	}
	return answer
}

func TestATransactionIsExplained(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	path := explained + strings.Repeat("ab", 32)
	w.followed = api.Followed{Ledger: 90}
	explain := func(want string) client.Explanation {
		t.Helper()
		answer := w.explain(k)
		if answer.Outcome != want || answer.Detail == "" {
			t.Fatalf("outcome %s (%s), want %s", answer.Outcome, answer.Detail, want)
		}
		return answer
	}
	wantProblem(t, w.call("GET", explained+"AB", k, ""), 404, "NOT_FOUND")

	explain("TRANSACTION_NOT_FOUND")
	w.network = &domain.Transaction{Ledger: 60, Failed: true}
	explain("TRANSACTION_FAILED")
	w.network = &domain.Transaction{Ledger: 60}
	explain("NO_PAYMENT")
	w.network.Payments = []domain.Payment{paidIn(60, 20_000_000).Payment}
	explain("NOT_WATCHED")

	strict := w.watching(k, e, 70, `,"amountRule":{"kind":"min","amount":"5"}`)
	reasons := func(answer client.Explanation) string {
		t.Helper()
		var codes []string
		for _, watch := range answer.Payments[0].Watches {
			for _, reason := range watch.Reasons {
				if codes = append(codes, reason.Code); reason.Detail == "" {
					t.Errorf("%s has no words", reason.Code)
				}
			}
		}
		return strings.Join(codes, " ")
	}
	if got := reasons(explain("NOT_TAKEN")); got != "WATCHED_LATER AMOUNT_TOO_LOW" {
		t.Errorf("reasons %q", got)
	}
	w.network.Ledger, w.network.Payments[0].Ledger = 91, 91
	if got := reasons(explain("LEDGER_NOT_READ")); got != "LEDGER_NOT_READ" {
		t.Errorf("reasons %q", got)
	}

	event := domain.DeriveID(domain.EventPrefix, "1")
	w.paid = []readmodel.Paid{paidIn(80, 20_000_000)}
	if got := reasons(explain("NOT_TAKEN")); got != "AMOUNT_TOO_LOW" {
		t.Errorf("reasons %q", got)
	}
	w.paid[0].Events = []readmodel.PaidEvent{
		{ID: event, WatchID: strict, Type: domain.PaymentReceived},
	}
	if got := explain("REPORTED").Payments[0].Watches[0].EventID; got == nil || *got != event {
		t.Errorf("event %v", got)
	}
	w.paid[0].Events[0].Type = domain.PaymentRejected
	w.paid[0].Events[0].Reasons = []string{"AMOUNT_TOO_LOW"}
	if got := reasons(explain("REJECTED")); got != "AMOUNT_TOO_LOW" {
		t.Errorf("a rejected payment: reasons %q", got)
	}
	w.paid[0].Events[0].Type, w.paid[0].Events[0].Reasons = domain.PaymentReceived, nil
	w.paid[0].Events[0].WatchID = domain.DeriveID(domain.WatchPrefix, "deleted")
	if got := reasons(explain("REPORTED")); got != "AMOUNT_TOO_LOW" {
		t.Errorf("reasons %q beside the event of a deleted watch", got)
	}

	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+e, k, ""), 200)
	if got := reasons(explain("REPORTED")); got != "ENDPOINT_DELETED AMOUNT_TOO_LOW" {
		t.Errorf("reasons %q after the endpoint's end", got)
	}
	w.historyErr = readmodel.ErrBehind
	wantProblem(t, w.call("GET", path, k, ""), 503, "HISTORY_BEHIND")
}

func TestAnExplanationIsOfOneAccount(t *testing.T) {
	w := newWorld(t)
	mine, theirs := w.newKey(account("a"), domain.Permissions()...),
		w.newKey(account("b"), domain.Permissions()...)
	w.watching(theirs, w.newEndpoint(theirs), 40, "")
	w.followed = api.Followed{Ledger: 90}
	w.paid = []readmodel.Paid{paidIn(80, 20_000_000)}
	if answer := w.explain(mine); answer.Outcome != "TRANSACTION_NOT_FOUND" || answer.Ledger != nil ||
		len(answer.Payments) > 0 {
		t.Errorf("another account's payment is shown: %+v", answer)
	}
}

// If the network doesn't respond, the request must not fail, because the history was read.
func TestAnExplanationWithoutTheNetwork(t *testing.T) {
	for _, change := range []func(*api.Config){
		func(c *api.Config) { c.Transactions = nil },
		func(c *api.Config) { c.Transactions = silent{} },
	} {
		w := newWorld(t, change)
		k := w.newKey(account("a"), domain.Permissions()...)
		if answer := w.explain(k); answer.Outcome != "UNKNOWN" {
			t.Errorf("%+v", answer)
		}
	}
}

type silent struct{}

func (silent) Transaction(context.Context, string) (domain.Transaction, error) {
	return domain.Transaction{}, errors.New("it does not answer")
}

// A lookup may cost the operator three requests to a provider and keeps a ledger in memory. An
// account gets 20 at once and one more per second, and other accounts have their own limit.
func TestLookupsInTheNetworkAreBounded(t *testing.T) {
	w := newWorld(t)
	a := w.newKey(account("a"), domain.Permissions()...)
	b := w.newKey(account("b"), domain.Permissions()...)
	ask := func(key string, n int) answer {
		return w.call("GET", fmt.Sprintf("%s%064x", explained, n), key, "")
	}
	for n := range 20 {
		wantStatus(t, ask(a, n), 200)
	}
	refused := ask(w.newKey(account("a"), domain.Permissions()...), 21)
	wantProblem(t, refused, 429, "RATE_LIMITED")
	if refused.Header.Get("Retry-After") != "1" {
		t.Errorf("%v", refused.Header)
	}
	wantStatus(t, ask(b, 1), 200)
	w.now = w.now.Add(time.Second)
	wantStatus(t, ask(a, 22), 200)
	wantProblem(t, ask(a, 23), 429, "RATE_LIMITED")
}

type looking struct {
	pass    chan struct{}
	running atomic.Int32
}

func (l *looking) Transaction(context.Context, string) (domain.Transaction, error) {
	l.running.Add(1)
	defer l.running.Add(-1)
	<-l.pass
	return domain.Transaction{}, domain.ErrNoTransaction
}

// Two lookups may run at once per account, and four in total.
func TestFewLookupsRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looking{pass: make(chan struct{})}
		w := assemble(t, func(c *api.Config) { c.Transactions = l })
		var all sync.WaitGroup
		for i, most := range []int32{2, 4, 4} {
			key := w.newKey(account(fmt.Sprint(i)), domain.PermissionRead)
			for n := range 5 {
				all.Go(func() {
					path := fmt.Sprintf("%s%064x", explained, n)
					if out := w.direct("GET", path, key, ""); out.Code != 200 {
						t.Errorf("%d: %s", out.Code, out.Body)
					}
				})
			}
			synctest.Wait()
			if running := l.running.Load(); running != most {
				t.Errorf("%d lookups run at once, want %d", running, most)
			}
		}
		close(l.pass)
		all.Wait()
	})
}

// The service stores a test and retries it for days if it fails, so an account could fill the
// state. An account gets 100 tests at once.
func TestTestsOfAnAccountAreBounded(t *testing.T) {
	w := newWorld(t)
	a := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(a)
	for range 100 {
		wantStatus(t, w.call("POST", "/v1/endpoints/"+e+"/test", a, ""), 200)
	}
	wantProblem(t, w.call("POST", "/v1/endpoints/"+e+"/test", a, ""), 429, "RATE_LIMITED")
	b := w.newKey(account("b"), domain.Permissions()...)
	wantStatus(t, w.call("POST", "/v1/endpoints/"+w.newEndpoint(b)+"/test", b, ""), 200)
}

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stellar/go-stellar-sdk/keypair"

	"github.com/lumenhook/lumenhook/domain"
)

// TestAnAccountHasNoMoreThanItsQuotas: what exceeds one is refused with the limit and how to raise
// it. A repeat of what was done at the limit is answered, other accounts are not concerned, and
// what is deleted makes room.
func TestAnAccountHasNoMoreThanItsQuotas(t *testing.T) {
	w := newWorld(t)
	k, other := w.newKey(account("a"), domain.Permissions()...),
		w.newKey(account("b"), domain.Permissions()...)
	w.mu.Lock()
	a := w.accounts[account("a")]
	a.Quotas = domain.Counts{Endpoints: 1, Watches: 2, Senders: 3, Backfills: 1}
	w.accounts[account("a")] = a
	w.mu.Unlock()
	refused := func(quota string, got answer) {
		t.Helper()
		wantProblem(t, got, 403, "QUOTA_EXCEEDED")
		raise := "`lumenhook accounts update --account " + account("a") + " --quota " + quota
		if detail := in(t, got.body, "detail").(string); !strings.Contains(detail, raise) {
			t.Errorf("%q does not say %q", detail, raise)
		}
	}
	endpoint := func(key string) answer {
		return w.call("POST", "/v1/endpoints", key, `{"url":"https://a.example"}`, "Idempotency-Key", "1")
	}
	e := in(t, wantStatus(t, endpoint(k), 201).body, "id").(string)
	wantStatus(t, endpoint(k), 201) // the repeat
	refused("endpoints=2", w.call("POST", "/v1/endpoints", k, `{"url":"https://b.example"}`))
	wantStatus(t, endpoint(other), 201)

	senders := func(n int) string {
		var list []string
		for range n {
			list = append(list, fmt.Sprintf("%q", keypair.MustRandom().Address()))
		}
		return `"senderAllowlist":[` + strings.Join(list, ",") + `]`
	}
	var watches []string
	for range 2 {
		made := w.call("POST", "/v1/watches", k, watchBody(e, ","+senders(1)))
		watches = append(watches, "/v1/watches/"+in(t, wantStatus(t, made, 201).body, "id").(string))
	}
	refused("watches=4", w.call("POST", "/v1/watches", k, watchBody(e, "")))
	wantStatus(t, w.call("PATCH", watches[0], k, `{`+senders(2)+`}`), 200)
	refused("senders=6", w.call("PATCH", watches[0], k, `{`+senders(3)+`}`))
	wantStatus(t, w.call("PATCH", watches[0], k, `{"label":"at the limit"}`), 200)

	backfill := func(watch string) answer { return w.call("POST", watch+"/backfill", k, `{"from":2}`) }
	wantStatus(t, backfill(watches[0]), 200)
	wantStatus(t, backfill(watches[0]), 200) // in place of the first
	refused("backfills=2", backfill(watches[1]))
	wantStatus(t, w.call("DELETE", watches[0], k, ""), 204)
	wantStatus(t, backfill(watches[1]), 200)
	wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, ","+senders(2))), 201)
}

// TestARepeatAtAQuotaGetsItsAnswer: what was carried out is answered again, also for a portal link
// of one endpoint, and after others have used up the quota.
func TestARepeatAtAQuotaGetsItsAnswer(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	w.mu.Lock()
	a := w.accounts[account("a")]
	a.Quotas = domain.Counts{Watches: 2, Backfills: 1}
	w.accounts[account("a")] = a
	w.mu.Unlock()
	link := w.credential(k, fmt.Sprintf(`{%s,"endpointId":%q}`, mayAll, e))
	ask := func(path, key, body, idempotencyKey string) answer {
		return w.call("POST", path, key, body, "Idempotency-Key", idempotencyKey)
	}
	var watches []string
	for i := range 2 {
		made := wantStatus(t, ask("/v1/watches", link, watchBody(e, ""), fmt.Sprint(i)), 201)
		watches = append(watches, "/v1/watches/"+in(t, made.body, "id").(string))
	}
	first := func(a answer, status int) {
		t.Helper()
		if wantStatus(t, a, status); a.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%v is not the first answer: %s", a.Header, a.body)
		}
	}
	for _, key := range []string{link, k} {
		first(ask("/v1/watches", key, watchBody(e, ""), "0"), 201)
		wantProblem(t, ask("/v1/watches", key, watchBody(e, ""), "2"), 403, "QUOTA_EXCEEDED")
	}

	const all = `{"from":2}`
	wantStatus(t, ask(watches[0]+"/backfill", k, all, "b"), 200)
	id := strings.TrimPrefix(watches[0], "/v1/watches/")
	w.mu.Lock()
	ended := w.watches[id]
	ended.Backfill.EndedAtMillis = 1
	w.watches[id] = ended
	w.mu.Unlock()
	wantStatus(t, ask(watches[1]+"/backfill", k, all, "b"), 200)
	first(ask(watches[0]+"/backfill", k, all, "b"), 200)
	wantProblem(t, ask(watches[0]+"/backfill", k, all, "c"), 403, "QUOTA_EXCEEDED")
}

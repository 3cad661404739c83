package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"

	"github.com/lumenhook/lumenhook/domain"
)

// A refusal must name the quota and how to raise it. A repeat at the limit gets its first response,
// other accounts aren't affected, and a deletion makes room.
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
	wantStatus(t, endpoint(k), 201) // a repeat
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
	wantStatus(t, backfill(watches[0]), 200) // replaces the first
	refused("backfills=2", backfill(watches[1]))
	wantStatus(t, w.call("DELETE", watches[0], k, ""), 204)
	wantStatus(t, backfill(watches[1]), 200)
	wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, ","+senders(2))), 201)
}

// A refusal must say what makes room: fulfilled and expired watches count until they are deleted.
func TestARefusalSaysWhatMakesRoom(t *testing.T) {
	for _, q := range domain.QuotaList() {
		if q.Name == "reads" {
			continue // only their end makes room: see TestReadsOfAnAccountTakeTurns
		}
		t.Run(q.Name, func(t *testing.T) {
			w := newWorld(t)
			k := w.newKey(account("a"), domain.Permissions()...)
			e := w.newEndpoint(k)
			made := w.call("POST", "/v1/watches", k, watchBody(e, fmt.Sprintf(
				`,"senderAllowlist":[%q],"once":true,"expiresAt":"2026-11-21T10:16:00Z"`,
				keypair.MustRandom().Address())))
			id := in(t, wantStatus(t, made, 201).body, "id").(string)
			w.mu.Lock()
			full := w.watches[id]
			full.Backfill = domain.Backfill{Request: 1, From: 2, Next: 2}
			w.watches[id] = full
			a := w.accounts[account("a")]
			*q.Of(&a.Quotas) = 1
			w.accounts[account("a")] = a
			w.now = w.now.Add(time.Hour)
			w.mu.Unlock()
			another := watchBody(e, fmt.Sprintf(`,"senderAllowlist":[%q]`,
				keypair.MustRandom().Address()))
			path, body := "/v1/watches", another
			switch q.Name {
			case "endpoints":
				path, body = "/v1/endpoints", `{"url":"https://b.example"}`
			case "keys":
				path, body = "/v1/api-keys", `{"permissions":["read"]}`
			case "backfills":
				made := wantStatus(t, w.call("POST", path, k, another), 201)
				path += "/" + in(t, made.body, "id").(string) + "/backfill"
				body = `{"from":2}`
			}
			got, code := w.call("POST", path, k, body), "QUOTA_EXCEEDED"
			if q.Name == "keys" {
				code = "TOO_MANY_KEYS"
			}
			wantProblem(t, got, 403, code)
			want := map[string]string{
				"endpoints":   "have 1. Delete some, or ask",
				"watches":     "have 1. Delete some: fulfilled and expired ones count until you delete them, or",
				"senders":     "or watches: fulfilled and expired ones count until you delete them, or",
				"backfills":   "have 1. Let one end, or delete its watch, or ask",
				"keys":        "have 1. Revoke some, or ask",
				"storedBytes": "have 1. Delete endpoints or watches, or ask",
			}[q.Name]
			if detail := in(t, got.body, "detail").(string); !strings.Contains(detail, want) {
				t.Errorf("%q does not say %q", detail, want)
			}
			wantStatus(t, w.call("DELETE", "/v1/watches/"+id, k, ""), 204)
			if q.Name == "watches" || q.Name == "senders" {
				wantStatus(t, w.call("POST", path, k, body), 201)
			}
		})
	}
}

func (w *world) setQuotas(accountID string, quotas domain.Counts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.accounts[accountID]
	a.Quotas = quotas
	w.accounts[accountID] = a
}

// An account's quotas must be shown to its keys, but not to its portal links.
func TestAnAccountShowsItsQuotas(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.Permissions()...)
	w.newKey(account("a"), domain.PermissionRead)
	w.newEndpoint(w.newKey(account("b"), domain.PermissionWrite))
	e := w.newEndpoint(k)
	wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, `,"senderAllowlist":[`+
		fmt.Sprintf("%q,%q]", keypair.MustRandom().Address(), keypair.MustRandom().Address()))), 201)
	w.setQuotas(account("a"), domain.Counts{Watches: 7, Reads: 3})
	used, _, _ := w.Counts(account("a"))
	got := wantStatus(t, w.call("GET", "/v1/account", k, ""), 200)
	want := fmt.Sprintf(`[map[limit:10000 name:endpoints used:1] map[limit:7 name:watches used:1] `+
		`map[limit:1e+06 name:senders used:2] map[limit:100 name:keys used:2] `+
		`map[limit:3 name:reads used:1] map[limit:1000 name:backfills used:0] `+
		`map[limit:1.073741824e+09 name:storedBytes used:%d]]`, used.StoredBytes)
	if quotas := fmt.Sprint(in(t, got.body, "quotas")); quotas != want ||
		in(t, got.body, "id") != account("a") {
		t.Errorf("%s\n%s, want\n%s", got.body, quotas, want)
	}
	link := w.credential(k, `{"permissions":["read"]}`)
	wantProblem(t, w.call("GET", "/v1/account", link, ""), 403, "MISSING_PERMISSION")
	d := newDesk(t, w)
	d.signIn(k)
	if text := d.open("/console"); !strings.Contains(text, ">storedBytes<") ||
		!strings.Contains(text, fmt.Sprintf(">%d<", used.StoredBytes)) {
		t.Errorf("the console shows no quotas: %s", text)
	}
	atPortal, _ := atThePortal(t, w, `{"permissions":["read"]}`)
	if text := atPortal.open("/portal"); strings.Contains(text, "storedBytes") {
		t.Errorf("the portal shows quotas: %s", text)
	}
}

// An account that has used up its storage may make changes that need fewer bytes, but none that
// need more.
func TestStoredBytesAreBounded(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	watch := in(t, wantStatus(t, w.call("POST", "/v1/watches", k,
		watchBody(e, `,"label":"seven"`)), 201).body, "id").(string)
	used, _, _ := w.Counts(account("a"))
	w.setQuotas(account("a"), domain.Counts{StoredBytes: used.StoredBytes})
	for _, c := range [][2]string{
		{"/v1/watches/" + watch, `{"label":"longer"}`},
		{"/v1/endpoints/" + e, `{"description":"longer"}`},
		{"/v1/endpoints/" + e, `{"headers":{"X-Key":"value"}}`},
	} {
		wantProblem(t, w.call("PATCH", c[0], k, c[1]), 403, "QUOTA_EXCEEDED")
	}
	wantStatus(t, w.call("PATCH", "/v1/watches/"+watch, k, `{"label":"four"}`), 200)
	wantStatus(t, w.call("PATCH", "/v1/endpoints/"+e, k, `{"description":"x"}`), 403)
	wantStatus(t, w.call("DELETE", "/v1/watches/"+watch, k, ""), 204)
	wantStatus(t, w.call("PATCH", "/v1/endpoints/"+e, k, `{"description":"longer"}`), 200)
}

// A repeat must get its first response after others have used up the quota, even through a portal
// link that is confined to an endpoint.
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

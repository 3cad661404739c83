package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
)

// withLinks makes the node sign portal links with a key that the test knows.
func withLinks(c *api.Config) { c.PortalLinks = linkSigner() }

func linkSigner() *domain.PortalSigner { return domain.NewPortalSigner([32]byte{5}) }

// credential creates a portal link with a key and returns its credential.
func (w *world) credential(apiKey, body string) string {
	w.t.Helper()
	made := wantStatus(w.t, w.call("POST", "/v1/portal-links", apiKey, body), 200)
	link, ours := strings.CutPrefix(in(w.t, made.body, "path").(string), "/portal/link?to=")
	text, _, ok := linkSigner().Open(link, w.now.UnixMilli())
	if !ours || !ok {
		w.t.Fatalf("%s", made.body)
	}
	wantProblem(w.t, w.call("GET", "/v1/endpoints", link, ""), 401, "UNAUTHENTICATED")
	return text
}

func TestAPortalLink(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.PermissionRead)
	made := wantStatus(t, w.call("POST", "/v1/portal-links", k, `{"permissions":["read"]}`), 200)
	if in(t, made.body, "opensUntil") != "2026-11-21T10:25:30.123Z" ||
		in(t, made.body, "expiresAt") != "2026-11-21T11:15:30.123Z" ||
		fmt.Sprint(in(t, made.body, "permissions")) != "[read]" {
		t.Errorf("%s", made.body)
	}
	for body, want := range map[string]string{
		`{}`:                        "/permissions REQUIRED",
		`{"permissions":["admin"]}`: "/permissions/0 INVALID_VALUE",
		`{"permissions":["read"],"expiresInSeconds":59}`:     "/expiresInSeconds OUT_OF_RANGE",
		`{"permissions":["read"],"expiresInSeconds":86401}`:  "/expiresInSeconds OUT_OF_RANGE",
		`{"permissions":["read"],"expiresAt":"2027-01-01Z"}`: "/expiresAt UNKNOWN_FIELD",
	} {
		p := wantProblem(t, w.call("POST", "/v1/portal-links", k, body), 422, "VALIDATION_FAILED")
		if got := fmt.Sprint(pointers(p)); got != "["+want+"]" {
			t.Errorf("%s: %s", body, got)
		}
	}
}

// A link must give access to one account only, with the permissions of its key or fewer, and to
// nothing that outlives it.
func TestAPortalLinkGivesNoMoreThanItsKey(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.PermissionRead, domain.PermissionWrite)
	e := w.newEndpoint(k)
	theirs := w.newEndpoint(w.newKey(account("b"), domain.PermissionWrite))
	wantProblem(t, w.call("POST", "/v1/portal-links", k, `{"permissions":["read","operate"]}`), 403,
		"MISSING_PERMISSION")

	reader := w.credential(k, `{"permissions":["read"]}`)
	wantStatus(t, w.call("GET", "/v1/endpoints/"+e, reader, ""), 200)
	wantProblem(t, w.call("GET", "/v1/endpoints/"+theirs, reader, ""), 404, "NOT_FOUND")
	wantProblem(t, w.call("DELETE", "/v1/endpoints/"+e, reader, ""), 403, "MISSING_PERMISSION")
	wantProblem(t, w.call("POST", "/v1/endpoints/"+e+"/disable", reader, ""), 403,
		"MISSING_PERMISSION")

	short := in(t, wantStatus(t, w.call("POST", "/v1/api-keys", k,
		`{"permissions":["read"],"expiresAt":"2026-11-21T10:20:00Z"}`), 201).body, "key").(string)
	if made := wantStatus(t, w.call("POST", "/v1/portal-links", short, `{"permissions":["read"]}`),
		200); in(t, made.body, "expiresAt") != "2026-11-21T10:20:00.000Z" {
		t.Errorf("a link that would outlive its key: %s", made.body)
	}

	writer := w.credential(k, `{"permissions":["read","write"]}`)
	id := domain.DeriveID(domain.KeyPrefix, k)
	for _, c := range [][3]string{
		{"POST", "/v1/api-keys", `{"permissions":["read"]}`},
		{"GET", "/v1/api-keys", ""},
		{"GET", "/v1/api-keys/" + id, ""},
		{"POST", "/v1/api-keys/" + id + "/roll", ""},
		{"DELETE", "/v1/api-keys/" + id, ""},
		{"POST", "/v1/portal-links", `{"permissions":["read"]}`},
	} {
		p := w.call(c[0], c[1], writer, c[2])
		wantProblem(t, p, 403, "MISSING_PERMISSION")
		if !strings.Contains(string(p.body), "A portal link gives no access to API keys") {
			t.Errorf("%s", p.body)
		}
	}
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+e, writer, ""), 200)
}

func TestAPortalLinkEndsAtItsTimeAndWithItsKey(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.Permissions()...)
	short := w.credential(k, `{"permissions":["read"],"expiresInSeconds":60}`)
	long := w.credential(k, `{"permissions":["read","operate"],"expiresInSeconds":86400}`)
	w.now = w.now.Add(time.Minute - time.Millisecond)
	wantStatus(t, w.call("GET", "/v1/endpoints", short, ""), 200)
	w.now = w.now.Add(time.Millisecond)
	wantProblem(t, w.call("GET", "/v1/endpoints", short, ""), 401, "UNAUTHENTICATED")
	wantStatus(t, w.call("GET", "/v1/endpoints", long, ""), 200)

	e := w.newEndpoint(k)
	done := w.awaits(e, long, "?waitSeconds=30")
	id := domain.DeriveID(domain.KeyPrefix, k)
	wantStatus(t, w.call("DELETE", "/v1/api-keys/"+id, k, ""), 204)
	w.number(e, numberedEvent(1))
	wantProblem(t, <-done, 401, "UNAUTHENTICATED")
	wantProblem(t, w.call("GET", "/v1/endpoints", long, ""), 401, "UNAUTHENTICATED")
}

// Visitors must use up the requests of the account's links, not those of its keys. The networks of
// the key also apply to the browser, and using the link counts as using the key.
func TestAPortalLinkHasALimitOfItsOwn(t *testing.T) {
	w := newWorld(t, withLinks, func(c *api.Config) {
		c.RateLimit = api.RateLimit{PerSecond: 1, Burst: 2}
	})
	k := w.newKey(account("a"), domain.PermissionRead)
	id := domain.DeriveID(domain.KeyPrefix, k)
	one := w.credential(k, `{"permissions":["read"]}`)
	two := w.credential(k, `{"permissions":["read"]}`)
	wantProblem(t, w.call("GET", "/v1/endpoints", k, ""), 429, "RATE_LIMITED")
	got := wantStatus(t, w.call("GET", "/v1/endpoints", one, ""), 200)
	if limit := got.Header.Get("RateLimit"); limit != `"links";r=1;t=1` {
		t.Errorf("a link has %s left", limit)
	}
	wantStatus(t, w.call("GET", "/v1/endpoints", two, ""), 200)
	wantProblem(t, w.call("GET", "/v1/endpoints", two, ""), 429, "RATE_LIMITED")
	if w.used[id] != w.now.UnixMilli() {
		t.Error("its use is not its key's")
	}
	text := w.log.String()
	for _, secret := range []string{one, two} {
		if strings.Contains(text, secret) || strings.Contains(text, secret[:20]) {
			t.Error("a credential is in the log")
		}
	}
	if !strings.Contains(text, `"key":"`+id+`","byPortalLink":true`) {
		t.Error("the log does not tell a link's requests from its key's")
	}

	w.mu.Lock()
	a := w.accounts[account("a")]
	a.Keys[0].AllowedCIDRs = []string{"10.0.0.0/8"}
	w.mu.Unlock()
	wantProblem(t, w.call("GET", "/v1/endpoints", one, ""), 401, "UNAUTHENTICATED")
}

// Text that looks like a link or a credential must be masked everywhere.
func TestAPortalLinkIsStruckOut(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.PermissionRead)
	text := w.credential(k, `{"permissions":["read"]}`)
	got := w.call("GET", "/v1/endpoints?"+text+"=1", k, "", "X-Request-Id", text)
	wantProblem(t, got, 400, "INVALID_PARAMETER")
	said := string(got.body) + w.log.String() + got.Header.Get("X-Request-Id")
	if strings.Contains(said, text[4:24]) || !strings.Contains(said, "[secret]") {
		t.Errorf("%s", said)
	}
}

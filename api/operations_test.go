package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// in returns a member of a response, by its path of names.
func in(t testing.TB, body []byte, names ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, name := range names {
		v = v.(map[string]any)[name]
	}
	return v
}

func wantStatus(t testing.TB, got answer, status int) answer {
	t.Helper()
	if got.StatusCode != status {
		t.Fatalf("%s %s: got %d, want %d\n%s", got.Request.Method, got.Request.URL.Path, got.StatusCode,
			status, got.body)
	}
	return got
}

func TestAnEndpointsLife(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	made := wantStatus(t,
		w.call("POST", "/v1/endpoints", k,
			`{"url":"https://a.example/","headers":{"x-tenant":"shop","X-B":"2"},"rateLimitPerSecond":50}`),
		201)
	id := in(t, made.body, "id").(string)
	path := "/v1/endpoints/" + id
	read := wantStatus(t, w.call("GET", path, k, ""), 200)
	want := fmt.Sprintf(`{"id":%q,"url":"https://a.example/","description":"","headers":{"X-B":"[redacted]","X-Tenant":"[redacted]"},"rateLimitPerSecond":50,"status":"active","disabledReason":null,`+
		`"disabledAt":null,"consecutiveFailures":0,"createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`,
		id)
	const none = `{"attempts":0,"delivered":0,"successRate":null}`
	want = want[:len(want)-1] + `,"health":{"state":"idle","lastSuccessAt":null,"lastFailureAt":null,"oldestPendingAt":null,"pendingKnown":true,` +
		`"hour":` + none + `,"day":` + none + `,"week":` + none +
		`,"sparkline":[` + strings.Repeat(none+",", 23) + none + `],"slowedDown":""}}`
	if string(read.body) != want || read.Header.Get("ETag") != `"1"` ||
		made.Header.Get("ETag") != `"1"` {
		t.Errorf("%s %s\nwant %s", read.Header.Get("ETag"), read.body, want)
	}

	w.now = w.now.Add(time.Second)
	changed := wantStatus(t,
		w.call("PATCH", path, k,
			`{"description":"mine","headers":{"X-B":null,"X-C":"3"},"rateLimitPerSecond":null}`, "If-Match",
			`"1"`, "Content-Type", "application/merge-patch+json"),
		200)
	if changed.Header.Get("ETag") != `"2"` || in(t, changed.body, "description") != "mine" ||
		fmt.Sprint(in(t, changed.body, "headers")) != "map[X-C:[redacted] X-Tenant:[redacted]]" ||
		in(t, changed.body, "rateLimitPerSecond") != nil ||
		in(t, changed.body, "updatedAt") != "2026-11-21T10:15:31.123Z" ||
		in(t, changed.body, "url") != "https://a.example/" {
		t.Errorf("%s", changed.body)
	}
	wantProblem(t, w.call("PATCH", path, k, `{"description":"theirs"}`, "If-Match", `"1"`), 412,
		"PRECONDITION_FAILED")
	wantProblem(t, w.call("PATCH", path, k, `{"description":"theirs"}`, "If-Match", `W/"2"`), 412,
		"PRECONDITION_FAILED")
	wantProblem(t, w.call("DELETE", path, k, "", "If-Match", `"1"`), 412, "PRECONDITION_FAILED")
	wantProblem(t, w.call("POST", path+"/disable", k, "", "If-Match", `"1"`), 412,
		"PRECONDITION_FAILED")
	wantProblem(t, w.call("PATCH", path, k, `{}`, "If-Match", `2`), 400, "INVALID_HEADER")
	// A script with an unset variable must not change what it did not read.
	for _, none := range []string{" ", ",", `"2",`} {
		wantProblem(t, w.call("PATCH", path, k, `{"description":"blind"}`, "If-Match", none), 400,
			"INVALID_HEADER")
	}
	same := wantStatus(t, w.call("PATCH", path, k, `{}`, "If-Match", `"1", "2"`), 200)
	if same.Header.Get("ETag") != `"2"` {
		t.Errorf("nothing changed, and the ETag is %s", same.Header.Get("ETag"))
	}
	wantStatus(t, w.call("PATCH", path, k, `{}`, "If-Match", `*`), 200)
	reset := wantStatus(t, w.call("PATCH", path, k, `{"description":null,"headers":null}`), 200)
	if in(t, reset.body, "description") != "" || fmt.Sprint(in(t, reset.body, "headers")) != "map[]" {
		t.Errorf("%s", reset.body)
	}

	disabled := wantStatus(t, w.call("POST", path+"/disable", k, ""), 200)
	if in(t, disabled.body, "status") != "disabled" ||
		in(t, disabled.body, "disabledReason") != "manual" || in(t, disabled.body, "disabledAt") == nil {
		t.Errorf("%s", disabled.body)
	}
	wantProblem(t, w.call("POST", path+"/test", k, ""), 409, "ENDPOINT_DISABLED")
	enabled := wantStatus(t, w.call("POST", path+"/enable", k, `{}`), 200)
	if in(t, enabled.body, "status") != "active" || in(t, enabled.body, "disabledReason") != nil {
		t.Errorf("%s", enabled.body)
	}
	rotated := wantStatus(t, w.call("POST", path+"/rotate-secret", k, "", "Idempotency-Key", "r"), 200)
	again := wantStatus(t, w.call("POST", path+"/rotate-secret", k, "", "Idempotency-Key", "r"), 200)
	if in(t, rotated.body, "secret") == in(t, made.body, "secret") ||
		string(rotated.body) != string(again.body) || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s\n%s", rotated.body, again.body)
	}
	if strings.Contains(string(w.call("GET", path, k, "").body), "whsec_") {
		t.Error("a read shows the secret")
	}

	gone := wantStatus(t, w.call("DELETE", path, k, ""), 200)
	if in(t, gone.body, "leftWatches", "total") != 0.0 {
		t.Errorf("%s", gone.body)
	}
	for _, call := range []struct{ method, path string }{
		{"GET", ""}, {"PATCH", ""}, {"DELETE", ""}, {"POST", "/enable"}, {"POST", "/disable"},
		{"POST", "/rotate-secret"}, {"POST", "/test"}, {"POST", "/replay"},
	} {
		wantProblem(t, w.call(call.method, path+call.path, k, ""), 404, "NOT_FOUND")
	}
	late := wantStatus(t, w.call("POST", path+"/rotate-secret", k, "", "Idempotency-Key", "r"), 200)
	if string(late.body) != string(rotated.body) {
		t.Errorf("the repeat after the deletion: %s", late.body)
	}
	wantProblem(t, w.call("POST", path+"/rotate-secret", k, "", "Idempotency-Key", "other"), 404,
		"NOT_FOUND")
}

func TestEndpointPatchFaults(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	path := "/v1/endpoints/" + w.newEndpoint(k)
	long := strings.Repeat("x", 2000)
	for body, want := range map[string][]string{
		`{"url":null}`:                             {"/url REQUIRED"},
		`{"url":"https://127.0.0.1/"}`:             {"/url SSRF_BLOCKED"},
		`{"status":"disabled"}`:                    {"/status CANNOT_CHANGE"},
		`{"rateLimitPerSecond":0}`:                 {"/rateLimitPerSecond OUT_OF_RANGE"},
		`{"rateLimitPerSecond":1e400}`:             {"/rateLimitPerSecond OUT_OF_RANGE"},
		`{"rateLimitPerSecond":10000.000001}`:      {"/rateLimitPerSecond OUT_OF_RANGE"},
		`{"headers":{"http2-settings":"x"}}`:       {"/headers/http2-settings HEADER_REFUSED"},
		`{"rateLimitPerSecond":1.5}`:               {"/rateLimitPerSecond OUT_OF_RANGE"},
		`{"rateLimitPerSecond":"5"}`:               {"/rateLimitPerSecond INVALID_TYPE"},
		`{"headers":[]}`:                           {"/headers INVALID_TYPE"},
		`{"headers":{"a b":"x"}}`:                  {"/headers/a b INVALID_VALUE"},
		`{"headers":{"Webhook-Signature":"x"}}`:    {"/headers/Webhook-Signature HEADER_REFUSED"},
		`{"headers":{"connection":"close"}}`:       {"/headers/connection HEADER_REFUSED"},
		`{"headers":{"Proxy-Authorization":"x"}}`:  {"/headers/Proxy-Authorization HEADER_REFUSED"},
		`{"headers":{"X-A":"a\nb"}}`:               {"/headers/X-A INVALID_VALUE"},
		`{"headers":{"X-A":1}}`:                    {"/headers/X-A INVALID_TYPE"},
		`{"headers":{"X-A":"1","x-a":"2"}}`:        {"/headers/x-a DUPLICATE"},
		`{"headers":{"X-A":"` + long + `"}}`:       {"/headers/X-A TOO_LONG"},
		`{"description":"` + w.secretSeed() + `"}`: {"/description SECRET_REFUSED"},
	} {
		got := w.call("PATCH", path, k, body)
		p := decode[problem.Problem](t, got.body)
		if got.StatusCode != 422 || !slices.Equal(pointers(p), want) {
			t.Errorf("%.60s: %d %v, want %v", body, got.StatusCode, pointers(p), want)
		}
	}
	wantProblem(t, w.call("PATCH", path, k, ``), 400, "MALFORMED_JSON")
	wantProblem(t, w.call("PATCH", path, k, `{}`, "Content-Type", "text/plain"), 415,
		"UNSUPPORTED_MEDIA_TYPE")
	wantProblem(t, w.call("POST", path+"/enable", k, `{"now":true}`), 422, "VALIDATION_FAILED")
	wantProblem(t, w.call("POST", path+"/enable", k, `[`), 400, "MALFORMED_JSON")
	if w.endpoints[strings.TrimPrefix(path, "/v1/endpoints/")].Version != 1 {
		t.Error("a refused change changed something")
	}
	// A whole number must be accepted in every notation.
	for _, five := range []string{"5", "5.0", "5e0", "0.05e2"} {
		if got := wantStatus(t, w.call("PATCH", path, k, `{"rateLimitPerSecond":`+five+`}`), 200); in(t,
			got.body, "rateLimitPerSecond") != 5.0 {
			t.Errorf("%s: %s", five, got.body)
		}
	}
}

func TestTestReplayAndResend(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	path := "/v1/endpoints/" + e
	test := wantStatus(t, w.call("POST", path+"/test", k, "", "Idempotency-Key", "t"), 200)
	event := in(t, test.body, "eventId").(string)
	if want := fmt.Sprintf(`{"eventId":%q,"attempt":{"statusCode":204,"durationMs":12,"error":null,"errorDetail":null,"responseBody":""}}`,
		event); string(test.body) != want {
		t.Errorf("%s", test.body)
	}
	again := w.call("POST", path+"/test", k, "", "Idempotency-Key", "t")
	if string(again.body) != string(test.body) {
		t.Errorf("%s", again.body)
	}
	read := wantStatus(t, w.call("GET", "/v1/events/"+event, k, ""), 200)
	if in(t, read.body, "type") != "test.ping" || in(t, read.body, "data", "endpoint", "id") != e ||
		in(t, read.body, "delivery", "state") != "DELIVERED" {
		t.Errorf("%s", read.body)
	}
	w.attempt = domain.AttemptResult{
		SentAtMillis:   1,
		DurationMillis: 10_000,
		Error:          domain.AttemptTLS,
		ErrorDetail:    "TLS handshake: x509: certificate has expired",
	}
	silent := wantStatus(t, w.call("POST", path+"/test", k, ""), 200)
	if in(t, silent.body, "attempt", "statusCode") != nil ||
		in(t, silent.body, "attempt", "error") != "TLS" ||
		in(t, silent.body, "attempt", "errorDetail") != "TLS handshake: x509: certificate has expired" {
		t.Errorf("%s", silent.body)
	}

	failed := w.delivered(account("a"), e, domain.StateFailed,
		domain.AttemptResult{SentAtMillis: 1, StatusCode: 500})
	since := `{"since":"2026-11-21T10:15:30.123Z"}`
	replayed := wantStatus(t, w.call("POST", path+"/replay", k, since), 200)
	if string(replayed.body) != `{"queued":1,"matched":1,"truncated":false}` ||
		w.history[failed.ID].record.State != domain.StateQueued {
		t.Errorf("%s", replayed.body)
	}
	none := w.call("POST", path+"/replay", k, since)
	if string(none.body) != `{"queued":0,"matched":0,"truncated":false}` {
		t.Errorf("%s", none.body)
	}
	for body, want := range map[string][]string{
		`{}`:                                    {"/since REQUIRED"},
		`{"since":null}`:                        {"/since REQUIRED"},
		`{"since":17}`:                          {"/since INVALID_TYPE"},
		`{"since":"yesterday"}`:                 {"/since INVALID_TIME"},
		`{"since":"2026-11-21"}`:                {"/since INVALID_TIME"},
		`{"since":"2026-11-21T10:15:30+01:00"}`: {"/since INVALID_TIME"},
		`{"since":"2026-11-21T10:15:30Z","until":"2026-11-21T10:15:30Z"}`:  {"/until RANGE_IS_EMPTY"},
		`{"since":"2026-11-21T10:15:30Z","before":"2026-11-21T10:15:30Z"}`: {"/before UNKNOWN_FIELD"},
	} {
		p := wantProblem(t, w.call("POST", path+"/replay", k, body), 422, "VALIDATION_FAILED")
		if !slices.Equal(pointers(p), want) {
			t.Errorf("%s: %v", body, pointers(p))
		}
	}

	resend := "/v1/events/" + event + "/resend"
	resent := wantStatus(t, w.call("POST", resend, k, ""), 200)
	if want := fmt.Sprintf(`{"id":%q,"delivery":{"state":"QUEUED","held":false,"endpointId":%q,"sequence":13,"nextAttemptAt":"2026-11-21T10:15:30.123Z"}}`, event, e); string(
		resent.body,
	) != want {
		t.Errorf("%s", resent.body)
	}
	wantStatus(t, w.call("POST", path+"/disable", k, ""), 200)
	if held := wantStatus(t, w.call("POST", resend, k, ""), 200); in(t, held.body, "delivery",
		"held") != true {
		t.Errorf("%s", held.body)
	}
	wantProblem(t, w.call("POST", "/v1/events/"+domain.EventID("no", "where")+"/resend", k, ""), 404,
		"NOT_FOUND")
	w.historyErr = readmodel.ErrExpired
	wantProblem(t, w.call("POST", resend, k, ""), 410, "EVENT_EXPIRED")
	w.historyErr = nil
	r := w.history[event]
	r.record.State = domain.StateCancelled
	w.history[event] = r
	wantProblem(t, w.call("POST", resend, k, ""), 409, "DELIVERY_CANCELLED")
	w.historyErr = readmodel.ErrUnavailable
	wantProblem(t, w.call("POST", resend, k, ""), 503, "HISTORY_UNAVAILABLE")
}

func TestAWatchsLife(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e, other := w.newEndpoint(k), w.newEndpoint(k)
	made := wantStatus(t,
		w.call("POST", "/v1/watches", k,
			watchBody(e,
				`,"label":"one","amountRule":{"kind":"range","min":"1","max":"5"},"memoRule":{"kind":"equals","type":"text","value":"x"}`)),
		201)
	path := "/v1/watches/" + in(t, made.body, "id").(string)
	read := wantStatus(t, w.call("GET", path, k, ""), 200)
	want := strings.Replace(string(made.body), `,"warnings":["ACCOUNT_NOT_FOUND"],"warningDetails":[`+
		`"The wallet's account does not exist yet: it must exist before it can receive."]`, "", 1)
	if string(read.body) != want || read.Header.Get("ETag") != `"1"` {
		t.Errorf("%s\n%s", read.body, want)
	}
	changed := wantStatus(t,
		w.call("PATCH", path, k,
			`{"label":null,"amountRule":{"max":"9"},"memoRule":{"kind":"present"},"eventTypes":["payment.rejected"],"endpointId":"`+other+`","walletAddress":"`+wallet+`"}`),
		200)
	for name, want := range map[string]string{
		"label":      "",
		"amountRule": "map[kind:range max:9.0000000 min:1.0000000]",
		"memoRule":   "map[kind:present]", "eventTypes": "[payment.rejected]",
		"endpointId": other, "warnings": "[ACCOUNT_NOT_FOUND]", "status": "active",
	} {
		if got := fmt.Sprint(in(t, changed.body, name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	whole := wantStatus(t,
		w.call("PATCH", path, k,
			`{"amountRule":{"kind":"min","amount":"2"},"memoRule":null,"senderAllowlist":["`+payer+`"],"assets":[{"code":"EUR","issuer":"`+issuer+`"}]}`,
			"If-Match", `"2"`),
		200)
	if fmt.Sprint(in(t, whole.body, "amountRule")) != "map[amount:2.0000000 kind:min]" ||
		fmt.Sprint(in(t, whole.body, "memoRule")) != "map[kind:any]" {
		t.Errorf("%s", whole.body)
	}
	for body, want := range map[string][]string{
		`{"walletAddress":"` + payer + `"}`:          {"/walletAddress CANNOT_CHANGE"},
		`{"walletAddress":null}`:                     {"/walletAddress CANNOT_CHANGE"},
		`{"walletAddress":"` + w.secretSeed() + `"}`: {"/walletAddress SECRET_KEY_REFUSED"},
		`{"assets":null}`:                            {"/assets REQUIRED"},
		`{"endpointId":null}`:                        {"/endpointId REQUIRED"},
		`{"endpointId":"` + domain.DeriveID(domain.EndpointPrefix, "x") + `"}`: {
			"/endpointId ENDPOINT_NOT_FOUND",
		},
		`{"amountRule":{"max":"9"}}`: {"/amountRule/max NOT_ALLOWED"},
		`{"id":"x","warnings":[]}`:   {"/id CANNOT_CHANGE"},
		`{"ident":"x"}`:              {"/ident UNKNOWN_FIELD"},
		`{"eventTypes":[]}`:          {"/eventTypes EMPTY"},
	} {
		got := w.call("PATCH", path, k, body)
		if p := decode[problem.Problem](t, got.body); got.StatusCode != 422 ||
			!slices.Equal(pointers(p), want) {
			t.Errorf("%s: %d %v", body, got.StatusCode, pointers(p))
		}
	}
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+other, k, ""), 200)
	orphan := wantStatus(t, w.call("GET", path, k, ""), 200)
	list := wantStatus(t, w.call("GET", "/v1/watches", k, ""), 200)
	if in(t, orphan.body, "status") != "endpoint_deleted" ||
		!strings.Contains(string(list.body), `"status":"endpoint_deleted"`) {
		t.Errorf("%s\n%s", orphan.body, list.body)
	}
	wantStatus(t, w.call("DELETE", path, k, ""), 204)
	wantProblem(t, w.call("GET", path, k, ""), 404, "NOT_FOUND")
	wantProblem(t, w.call("DELETE", path, k, ""), 404, "NOT_FOUND")
}

// If part of a rule was merged into the watch as it was read, the change must be refused if the
// watch has changed since.
func TestAPartOfARuleIsMergedIntoWhatWasRead(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	made := w.call("POST", "/v1/watches", k,
		watchBody(w.newEndpoint(k), `,"amountRule":{"kind":"min","amount":"1"}`))
	id := in(t, made.body, "id").(string)
	stale := staleWatches{w, w.watches[id]}
	changed := w.watches[id]
	changed.Version, changed.Revision = 2, 2
	w.watches[id], w.seen[id] = changed, 2
	second := newWorld(t, func(c *api.Config) { c.Directory, c.Commands = stale, w })
	second.accounts, second.endpoints = w.accounts, w.endpoints
	wantProblem(t, second.call("PATCH", "/v1/watches/"+id, k, `{"amountRule":{"amount":"2"}}`), 412,
		"PRECONDITION_FAILED")
	wantStatus(t,
		second.call("PATCH", "/v1/watches/"+id, k, `{"amountRule":{"kind":"max","amount":"2"}}`), 200)
}

type staleWatches struct {
	*world
	watch domain.Watch
}

func (s staleWatches) Watch(string) (domain.Watch, bool, error) { return s.watch, true, nil }

// A repeat must get the first response, whatever has changed since.
func TestARepeatIsNotHeldAgainstAWorldThatHasChanged(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	urls := &turning{URLPolicy: w}
	other := newWorld(t,
		func(c *api.Config) { c.URLs, c.Commands, c.Directory, c.Wallets = urls, w, w, w })
	body := `{"url":"https://a.invalid"}`
	first := wantStatus(t, other.call("POST", "/v1/endpoints", k, body, "Idempotency-Key", "1"), 201)
	e := in(t, first.body, "id").(string)
	watch := watchBody(e, "")
	firstWatch := wantStatus(t, other.call("POST", "/v1/watches", k, watch, "Idempotency-Key", "1"),
		201)
	urls.refuse = true
	w.wallets[wallet] = nil
	wantStatus(t, other.call("DELETE", "/v1/endpoints/"+e, k, ""), 200)
	for path, c := range map[string]struct {
		body  string
		first answer
	}{"/v1/endpoints": {body, first}, "/v1/watches": {watch, firstWatch}} {
		again := wantStatus(t, other.call("POST", path, k, c.body, "Idempotency-Key", "1"), 201)
		if string(again.body) != string(c.first.body) ||
			again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s\n%s", again.body, c.first.body)
		}
		wantProblem(t, other.call("POST", path, k, c.body, "Idempotency-Key", "2"), 422,
			map[string]string{"/v1/endpoints": "SSRF_BLOCKED", "/v1/watches": "VALIDATION_FAILED"}[path])
	}
	// Another node doesn't have the response, but must find the watch that was created.
	again := wantStatus(t, w.call("POST", "/v1/watches", k, watch, "Idempotency-Key", "1"), 201)
	if in(t, again.body, "id") != in(t, firstWatch.body, "id") {
		t.Errorf("%s", again.body)
	}
}

// turning refuses every URL once refuse is set.
type turning struct {
	api.URLPolicy
	refuse bool
}

func (u *turning) Check(ctx context.Context, raw string) (string, []string, []api.URLFault) {
	if u.refuse {
		return "", nil, []api.URLFault{{Code: "SSRF_BLOCKED", Detail: "leads to an internal address"}}
	}
	return u.URLPolicy.Check(ctx, raw)
}

// An object that another node has just created must be found: the lookup waits until the tables
// have caught up.
func TestWhatAnotherNodeMadeIsFound(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	w.seen[e] = 0 // this node has not read it
	wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, "")), 201)
	w.seen[e] = 0
	wantStatus(t, w.call("GET", "/v1/endpoints/"+e, k, ""), 200)
	w.seen[e] = 0
	w.catchUpErr = errors.New("the tables' ends are far")
	wantProblem(t, w.call("GET", "/v1/endpoints/"+e, k, ""), 503, "DIRECTORY_BEHIND")
	wantProblem(t, w.call("POST", "/v1/watches", k, watchBody(e, "")), 503, "DIRECTORY_BEHIND")
}

func TestKeys(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionRead, domain.PermissionWrite)
	made := wantStatus(t,
		w.call("POST", "/v1/api-keys", k,
			`{"name":"shop","permissions":["read"],"expiresAt":"2026-11-22T00:00:00Z","allowedCidrs":["127.0.0.1","10.1.2.3/8"]}`),
		201)
	text, id := in(t, made.body, "key").(string), in(t, made.body, "id").(string)
	if !domain.WellFormedAPIKey(text) || !strings.HasPrefix(text, "whk_test_") ||
		fmt.Sprint(in(t, made.body, "allowedCidrs")) != "[127.0.0.1/32 10.0.0.0/8]" ||
		in(t, made.body, "lastUsedAt") != nil {
		t.Errorf("%s", made.body)
	}
	path := "/v1/api-keys/" + id
	if got := made.Header.Get("Location"); got != path {
		t.Errorf("location %s", got)
	}
	wantStatus(t, w.call("GET", "/v1/endpoints", text, ""), 200)
	read := wantStatus(t, w.call("GET", path, k, ""), 200)
	if in(t, read.body, "lastUsedAt") != "2026-11-21T10:15:30.123Z" ||
		strings.Contains(string(read.body), text) || strings.Contains(w.log.String(), text) {
		t.Errorf("%s", read.body)
	}
	list := wantStatus(t, w.call("GET", "/v1/api-keys", k, ""), 200)
	if got := in(t, list.body, "data").([]any); len(got) != 2 ||
		strings.Contains(string(list.body), "hash") {
		t.Errorf("%s", list.body)
	}

	// No key may grant more permissions than it has.
	wantProblem(t, w.call("POST", "/v1/api-keys", k, `{"permissions":["read","operate"]}`), 403,
		"MISSING_PERMISSION")
	strong := w.newKey(account("a"), domain.Permissions()...)
	wantProblem(t,
		w.call("POST", "/v1/api-keys/"+domain.DeriveID(domain.KeyPrefix, strong)+"/roll", k, ""), 403,
		"MISSING_PERMISSION")
	wantProblem(t, w.call("POST", "/v1/api-keys", text, `{"permissions":["read"]}`), 403,
		"MISSING_PERMISSION")

	for body, want := range map[string][]string{
		`{}`:                 {"/permissions REQUIRED"},
		`{"permissions":[]}`: {"/permissions EMPTY"},
		`{"permissions":["admin","read","read"]}`: {
			"/permissions/0 INVALID_VALUE", "/permissions/2 DUPLICATE",
		},
		`{"permissions":["read"],"expiresAt":"2026-11-21T10:15:30Z"}`: {"/expiresAt OUT_OF_RANGE"},
		`{"permissions":["read"],"expiresAt":5}`:                      {"/expiresAt INVALID_TYPE"},
		`{"permissions":["read"],"allowedCidrs":["10.0.0.0/33","x",7,"10.0.0.0/8","10.1.0.0/8"]}`: {
			"/allowedCidrs/0 INVALID_CIDR", "/allowedCidrs/1 INVALID_CIDR",
			"/allowedCidrs/2 INVALID_TYPE", "/allowedCidrs/4 DUPLICATE",
		},
		`{"permissions":["read"],"account":"x"}`: {"/account UNKNOWN_FIELD"},
	} {
		p := wantProblem(t, w.call("POST", "/v1/api-keys", k, body), 422, "VALIDATION_FAILED")
		if !slices.Equal(pointers(p), want) {
			t.Errorf("%s: %v", body, pointers(p))
		}
	}

	// A rolled key works during its grace period and can be rolled once.
	rolled := wantStatus(t,
		w.call("POST", path+"/roll", k, `{"graceSeconds":60}`, "Idempotency-Key", "roll"), 201)
	next := in(t, rolled.body, "key").(string)
	if in(t, rolled.body, "name") != "shop" ||
		in(t, rolled.body, "expiresAt") != "2026-11-22T00:00:00.000Z" ||
		fmt.Sprint(in(t, rolled.body, "permissions")) != "[read]" {
		t.Errorf("%s", rolled.body)
	}
	if former := wantStatus(t, w.call("GET", path, k, ""), 200); in(t, former.body,
		"rolledTo") != in(t,
		rolled.body, "id") || in(t, former.body, "expiresAt") != "2026-11-21T10:16:30.123Z" {
		t.Errorf("%s", former.body)
	}
	wantProblem(t, w.call("POST", path+"/roll", k, ``), 409, "KEY_ROLLED")
	wantStatus(t, w.call("GET", "/v1/endpoints", text, ""), 200)
	wantStatus(t, w.call("GET", "/v1/endpoints", next, ""), 200)
	w.now = w.now.Add(time.Minute)
	wantProblem(t, w.call("GET", "/v1/endpoints", text, ""), 401, "UNAUTHENTICATED")
	wantStatus(t, w.call("GET", "/v1/endpoints", next, ""), 200)
	again := wantStatus(t,
		w.call("POST", path+"/roll", k, `{"graceSeconds":60}`, "Idempotency-Key", "roll"), 201)
	if in(t, again.body, "key") != next || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s", again.body)
	}

	wantStatus(t, w.call("DELETE", "/v1/api-keys/"+in(t, rolled.body, "id").(string), k, ""), 204)
	wantProblem(t, w.call("GET", "/v1/endpoints", next, ""), 401, "UNAUTHENTICATED")
	wantProblem(t, w.call("DELETE", "/v1/api-keys/"+in(t, rolled.body, "id").(string), k, ""), 404,
		"NOT_FOUND")
}

// A repeated creation must return the same key, even the next day, but not later.
func TestARepeatShowsTheSameKey(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	body := `{"permissions":["read"]}`
	w.loseAnswer = true
	wantProblem(t, w.call("POST", "/v1/api-keys", k, body, "Idempotency-Key", "1"), 503,
		"COMMAND_UNANSWERED")
	w.loseAnswer = false
	if err := w.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(23 * time.Hour)
	again := wantStatus(t, w.call("POST", "/v1/api-keys", k, body, "Idempotency-Key", "1"), 201)
	text, _ := in(t, again.body, "key").(string)
	if got := w.call("GET", "/v1/endpoints", text, ""); got.StatusCode != 200 {
		t.Errorf("%s", again.body)
	}
	w.now = w.now.Add(72 * time.Hour)
	late := wantStatus(t, w.call("POST", "/v1/api-keys", k, body, "Idempotency-Key", "1"), 201)
	if in(t, late.body, "key") != nil {
		t.Errorf("%s", late.body)
	}
}

func TestWhereAndUntilWhenAKeyWorks(t *testing.T) {
	w := newWorld(t)
	var n byte
	key := func(k domain.Key) string {
		n++
		text := domain.NewAPIKey(false, [32]byte{n})
		k.ID, k.Hash, k.Permissions = domain.DeriveID(domain.KeyPrefix, text), domain.APIKeyHash(text),
			domain.Permissions()
		w.addKey(account("a"), k)
		return text
	}
	now := w.now.UnixMilli()
	refused := string(w.call("GET", "/v1/endpoints", domain.NewAPIKey(false, [32]byte{99}), "",
		"X-Request-Id", "r").body)
	for _, c := range []struct {
		key    domain.Key
		status int
	}{
		{domain.Key{}, 200},
		{domain.Key{ExpiresAtMillis: now + 1}, 200},
		{domain.Key{ExpiresAtMillis: now}, 401},
		{domain.Key{AllowedCIDRs: []string{"127.0.0.0/8"}}, 200},
		{domain.Key{AllowedCIDRs: []string{"10.0.0.0/8", "::1/128", "127.0.0.1/32"}}, 200},
		{domain.Key{AllowedCIDRs: []string{"10.0.0.0/8"}}, 401},
	} {
		got := w.call("GET", "/v1/endpoints", key(c.key), "", "X-Request-Id", "r", "X-Forwarded-For",
			"10.0.0.1")
		if got.StatusCode != c.status || c.status == 401 && string(got.body) != refused {
			t.Errorf("%+v: %d %s", c.key, got.StatusCode, got.body)
		}
	}
}

// Behind trusted proxies, a key is used from the address that they report. The header of any other
// client must not be trusted.
func TestWhereAKeyIsUsedFromBehindProxies(t *testing.T) {
	proxies := []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("fd00::/8"),
	}
	w := newWorld(t, func(c *api.Config) { c.TrustedProxies = proxies })
	open := newWorld(t, func(c *api.Config) { c.Directory = w })
	text := domain.NewAPIKey(false, [32]byte{1})
	w.addKey(account("a"), domain.Key{
		ID:           domain.DeriveID(domain.KeyPrefix, text),
		Hash:         domain.APIKeyHash(text),
		Permissions:  domain.Permissions(),
		AllowedCIDRs: []string{"203.0.113.0/24", "2001:db8::/32"},
	})
	for forwarded, status := range map[string]int{
		"":                 401,
		"203.0.113.7":      200,
		"203.0.113.7:4711": 200, "[2001:db8::1]:443": 200, "2001:db8::1": 200, "::ffff:203.0.113.7": 200,
		"203.0.113.7, 10.1.2.3": 200, "198.51.100.1, 203.0.113.7, fd00::1 ,127.0.0.1": 200,
		"203.0.113.7, 198.51.100.1":           401,
		"203.0.113.7, 198.51.100.1, 10.1.2.3": 401,
		"203.0.113.7, unknown":                401,
		"203.0.113.7,":                        401, "10.1.2.3": 401, "for=203.0.113.7": 401,
	} {
		got := w.call("GET", "/v1/endpoints", text, "", "X-Forwarded-For", forwarded)
		if got.StatusCode != status {
			t.Errorf("%q: %d, want %d", forwarded, got.StatusCode, status)
		}
		got = open.call("GET", "/v1/endpoints", text, "", "X-Forwarded-For", forwarded)
		if got.StatusCode != 401 {
			t.Errorf("%q was believed: %d", forwarded, got.StatusCode)
		}
	}
	request, err := http.NewRequest(http.MethodGet, w.server.URL+"/v1/endpoints", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{
		"Authorization":   {"Bearer " + text},
		"X-Forwarded-For": {"198.51.100.1", "203.0.113.7"},
	}
	wantStatus(t, w.send(request, ""), 200)
}

func TestLastUseIsKeptOnceAMinute(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionRead)
	id := domain.DeriveID(domain.KeyPrefix, k)
	began := w.now.UnixMilli()
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{{0, 0}, {59 * time.Second, 0}, {time.Second, 60_000}, {time.Minute, 120_000}} {
		w.now = w.now.Add(c.after)
		w.call("GET", "/v1/endpoints", k, "")
		if got := w.used[id] - began; got != c.want {
			t.Errorf("used at %d, want %d", got, c.want)
		}
	}
	w.now = w.now.Add(2 * time.Minute)
	w.used[id] = w.now.UnixMilli() - 30_000 // another node has recorded it
	w.call("GET", "/v1/endpoints", k, "")
	if w.used[id] != w.now.UnixMilli()-30_000 {
		t.Error("kept twice within a minute")
	}
}

func TestRateLimitsArePerAccount(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.RateLimit = api.RateLimit{PerSecond: 2, Burst: 4} })
	k, other := w.newKey(account("a"), domain.PermissionRead),
		w.newKey(account("a"), domain.PermissionRead)
	foreign := w.newKey(account("b"), domain.PermissionRead)
	for i, want := range []string{
		`"account";r=3;t=1`, `"account";r=2;t=1`, `"account";r=1;t=2`, `"account";r=0;t=2`,
	} {
		got := wantStatus(t, w.call("GET", "/v1/endpoints", []string{k, other}[i%2], ""), 200)
		if got.Header.Get("RateLimit") != want ||
			got.Header.Get("RateLimit-Policy") != `"account";q=4;w=2` {
			t.Errorf("%d: %v", i, got.Header)
		}
	}
	limited := w.call("POST", "/v1/endpoints", k, `{`)
	wantProblem(t, limited, 429, "RATE_LIMITED")
	if limited.Header.Get("Retry-After") != "1" ||
		limited.Header.Get("RateLimit") != `"account";r=0;t=2` {
		t.Errorf("%v", limited.Header)
	}
	wantProblem(t, w.call("GET", "/v1/endpoints", other, ""), 429, "RATE_LIMITED")
	wantStatus(t, w.call("GET", "/v1/endpoints", foreign, ""), 200)
	wantStatus(t, w.call("GET", "/healthz", k, ""), 200)
	w.now = w.now.Add(500 * time.Millisecond)
	wantStatus(t, w.call("GET", "/v1/endpoints", k, ""), 200)
	wantProblem(t, w.call("GET", "/v1/endpoints", k, ""), 429, "RATE_LIMITED")
}

func TestTraceparentIsLogged(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionRead)
	w.call("GET", "/v1/endpoints", k, "", "traceparent",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	w.call("GET", "/v1/endpoints", k, "", "traceparent", "nonsense")
	if text := w.log.String(); strings.Count(text,
		`"trace":"0af7651916cd43dd8448eb211c80319c"`) != 1 || strings.Contains(text, "nonsense") {
		t.Error(text)
	}
}

// If a concurrent request has the same Idempotency-Key but another body, it must be refused.
func TestAnotherBodyAtTheSameTimeIsRefused(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	shared := newWorld(t, func(c *api.Config) { c.Commands, c.Directory = &together{world: w}, w })
	wantStatus(t,
		shared.call("POST", "/v1/endpoints", k, `{"url":"https://a.example"}`, "Idempotency-Key", "1"),
		201)
	wantProblem(t,
		shared.call("POST", "/v1/endpoints", k, `{"url":"https://b.example"}`, "Idempotency-Key", "1"),
		422, "IDEMPOTENCY_KEY_REUSED")
}

// together answers all requests as if they had arrived at the same time.
type together struct{ *world }

func (s *together) Submit(ctx context.Context, c domain.Command) (domain.Result, error) {
	result, err := s.world.Submit(ctx, c)
	result.Replayed = false
	return result, err
}

// A repeat must get the first response, whatever its method, even if the object is gone.
func TestARepeatAfterTheDeletion(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	watch := in(t, wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e,
		"")), 201).body, "id").(string)
	created := wantStatus(t, w.call("POST", "/v1/api-keys", k, `{"permissions":["read"]}`), 201)
	key := in(t, created.body, "id").(string)
	for _, c := range []struct{ path, patch string }{
		{"/v1/watches/" + watch, `{"label":"x","amountRule":{"kind":"min","amount":"1"}}`},
		{"/v1/endpoints/" + e, `{"description":"x","headers":{"X-A":"1"}}`},
		{"/v1/api-keys/" + key, ""},
	} {
		var patched answer
		if c.patch != "" {
			patched = wantStatus(t, w.call("PATCH", c.path, k, c.patch, "Idempotency-Key", "p"), 200)
		}
		status := w.call("DELETE", c.path, k, "", "Idempotency-Key", "d").StatusCode
		again := wantStatus(t, w.call("DELETE", c.path, k, "", "Idempotency-Key", "d"), status)
		if again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %v", c.path, again.Header)
		}
		wantProblem(t, w.call("DELETE", c.path, k, ""), 404, "NOT_FOUND")
		wantProblem(t, w.call("DELETE", c.path, k, "", "Idempotency-Key", "other"), 404, "NOT_FOUND")
		if c.patch == "" {
			continue
		}
		repeat := wantStatus(t, w.call("PATCH", c.path, k, c.patch, "Idempotency-Key", "p"), 200)
		if string(repeat.body) != string(patched.body) ||
			repeat.Header.Get("Idempotent-Replayed") != "true" ||
			repeat.Header.Get("ETag") != patched.Header.Get("ETag") {
			t.Errorf("%s\n%s", repeat.body, patched.body)
		}
		wantProblem(t, w.call("PATCH", c.path, k, c.patch, "Idempotency-Key", "other"), 404, "NOT_FOUND")
		wantProblem(t,
			w.call("PATCH", c.path, k, `{"amountRule":{"amount":"1"},"url":null}`,
				"Idempotency-Key", "more"),
			404, "NOT_FOUND")
		wantProblem(t,
			w.call("PATCH", c.path, w.newKey(account("b"), domain.Permissions()...), c.patch,
				"Idempotency-Key", "p"),
			404, "NOT_FOUND")
	}
}

// A repeated change must not be checked against state that has changed since the first response.
func TestARepeatedChangeIsNotJudgedAgain(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	urls := &turning{URLPolicy: w}
	node := newWorld(t,
		func(c *api.Config) { c.URLs, c.Commands, c.Directory, c.Wallets = urls, w, w, w })
	e, next := w.newEndpoint(k), w.newEndpoint(k)
	watch := in(t, wantStatus(t, node.call("POST", "/v1/watches", k, watchBody(e,
		"")), 201).body, "id").(string)
	wantStatus(t,
		node.call("PATCH", "/v1/endpoints/"+e, k, `{"url":"https://b.example"}`, "Idempotency-Key", "1"),
		200)
	wantStatus(t,
		node.call("PATCH", "/v1/watches/"+watch, k, `{"endpointId":"`+next+`"}`, "Idempotency-Key", "1"),
		200)
	wantStatus(t, node.call("PATCH", "/v1/watches/"+watch, k, `{"endpointId":"`+e+`"}`), 200)
	wantStatus(t, node.call("DELETE", "/v1/endpoints/"+next, k, ""), 200)
	urls.refuse = true
	wantStatus(t,
		node.call("PATCH", "/v1/endpoints/"+e, k, `{"url":"https://b.example"}`, "Idempotency-Key", "1"),
		200)
	wantStatus(t,
		node.call("PATCH", "/v1/watches/"+watch, k, `{"endpointId":"`+next+`"}`, "Idempotency-Key", "1"),
		200)
	// A request that the engine has forgotten is no longer a repeat and must have no effect.
	clear(w.answers)
	wantProblem(t,
		node.call("PATCH", "/v1/endpoints/"+e, k, `{"url":"https://10.0.0.1"}`, "Idempotency-Key", "1"),
		412, "PRECONDITION_FAILED")
	wantProblem(t,
		node.call("PATCH", "/v1/watches/"+watch, k, `{"endpointId":"`+next+`"}`, "Idempotency-Key", "1"),
		412, "PRECONDITION_FAILED")
	wantProblem(t,
		node.call("PATCH", "/v1/endpoints/"+e, k, `{"url":"https://c.example"}`, "Idempotency-Key", "2"),
		422, "SSRF_BLOCKED")
	wantProblem(t,
		node.call("PATCH", "/v1/watches/"+watch, k, `{"endpointId":"`+next+`"}`, "Idempotency-Key", "2"),
		422, "VALIDATION_FAILED")
}

// A key with an expiry or networks must not create, roll or revoke keys without them, not even by
// repeating another key's request.
func TestALimitedKeyMakesNoStrongerOne(t *testing.T) {
	w := newWorld(t)
	all := w.newKey(account("a"), domain.Permissions()...)
	limits := `{"permissions":["read","write"],"expiresAt":"2026-11-22T00:00:00Z",
		"allowedCidrs":["127.0.0.0/8"]}`
	limited := in(t, wantStatus(t, w.call("POST", "/v1/api-keys", all, limits), 201).body,
		"key").(string)
	id := domain.DeriveID(domain.KeyPrefix, all)
	own := ""
	for _, k := range in(t, w.call("GET", "/v1/api-keys", limited, "").body, "data").([]any) {
		if got := k.(map[string]any)["id"].(string); got != id {
			own = got
		}
	}
	for _, c := range [][3]string{
		{"POST", "/v1/api-keys", `{"permissions":["read"]}`},
		{"POST", "/v1/api-keys", `{"permissions":["read"],"expiresAt":"2026-11-22T00:00:00Z"}`},
		{"POST", "/v1/api-keys", `{"permissions":["read"],"allowedCidrs":["127.0.0.1"]}`},
		{"POST", "/v1/api-keys", `{"permissions":["read"],"allowedCidrs":["127.0.0.1"],
			"expiresAt":"2026-11-22T00:00:00.001Z"}`},
		{"POST", "/v1/api-keys/" + own + "/roll", `{"expiresAt":"2027-11-22T00:00:00Z"}`},
	} {
		p := wantProblem(t, w.call(c[0], c[1], limited, c[2]), 403, "KEY_LIMIT_EXCEEDED")
		if !strings.Contains(p.Detail, "The key") || !strings.Contains(p.Detail, "or use an API key") {
			t.Errorf("%s", p.Detail)
		}
	}
	wantProblem(t, w.call("DELETE", "/v1/api-keys/"+id, limited, ""), 403, "MISSING_PERMISSION")
	narrow := `{"permissions":["read"],"allowedCidrs":["127.0.0.1"],
		"expiresAt":"2026-11-21T12:00:00Z"}`
	wantStatus(t, w.call("POST", "/v1/api-keys", limited, narrow), 201)

	// The response to another key's request contains no key.
	body := `{"permissions":["read","write"]}`
	made := wantStatus(t, w.call("POST", "/v1/api-keys", all, body, "Idempotency-Key", "1"), 201)
	again := wantStatus(t, w.call("POST", "/v1/api-keys", limited, body, "Idempotency-Key", "1"), 201)
	if in(t, made.body, "key") == nil || in(t, again.body, "key") != nil {
		t.Errorf("%s", again.body)
	}

	// A key that rolls itself keeps its limits, and the repeat gets the first response.
	path := "/v1/api-keys/" + own + "/roll"
	rolled := wantStatus(t, w.call("POST", path, limited, "", "Idempotency-Key", "2"), 201)
	again = wantStatus(t, w.call("POST", path, limited, "", "Idempotency-Key", "2"), 201)
	if in(t, rolled.body, "expiresAt") != "2026-11-22T00:00:00.000Z" ||
		in(t, rolled.body, "key") != in(t, again.body, "key") {
		t.Errorf("%s\n%s", rolled.body, again.body)
	}
}

// A key must not revoke or roll a key with more permissions.
func TestAWriteOnlyKeyRevokesNoStrongerOne(t *testing.T) {
	w := newWorld(t)
	writer := w.newKey(account("a"), domain.PermissionWrite)
	for _, p := range []domain.Permission{domain.PermissionRead, domain.PermissionOperate} {
		stronger := domain.DeriveID(domain.KeyPrefix, w.newKey(account("a"), domain.PermissionWrite, p))
		for _, c := range [][2]string{{"DELETE", ""}, {"POST", "/roll"}} {
			got := w.call(c[0], "/v1/api-keys/"+stronger+c[1], writer, "")
			wantProblem(t, got, 403, "MISSING_PERMISSION")
		}
	}
	equal := domain.DeriveID(domain.KeyPrefix, w.newKey(account("a"), domain.PermissionWrite))
	wantStatus(t, w.call("DELETE", "/v1/api-keys/"+equal, writer, ""), 204)
}

// A repeated roll must return the key that it created, but not to a caller that could not have
// created it.
func TestTheRepeatOfARollGivesNobodyMorePowers(t *testing.T) {
	w := newWorld(t)
	all := w.newKey(account("a"), domain.Permissions()...)
	weak := w.newKey(account("a"), domain.PermissionWrite)
	created := w.call("POST", "/v1/api-keys", all, `{"permissions":["read","operate"]}`)
	id := in(t, wantStatus(t, created, 201).body, "id").(string)
	path, body := "/v1/api-keys/"+id+"/roll", `{"graceSeconds":0}`
	rolled := wantStatus(t, w.call("POST", path, all, body, "Idempotency-Key", "1"), 201)
	wantProblem(t, w.call("POST", path, weak, body, "Idempotency-Key", "1"), 403, "MISSING_PERMISSION")
	if again := wantStatus(t, w.call("POST", path, all, body, "Idempotency-Key", "1"), 201); in(t,
		again.body, "key") != in(t, rolled.body, "key") {
		t.Errorf("%s", again.body)
	}
}

// Parameters that an operation doesn't use must be refused, because ignoring them would change the
// meaning of the request.
func TestWhatAnOperationDoesNotTakeIsRefused(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	path := "/v1/endpoints/" + e
	event := in(t, wantStatus(t, w.call("POST", path+"/test", k, ""), 200).body, "eventId").(string)
	watch := "/v1/watches/" + in(t,
		wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, "")), 201).body, "id").(string)
	wantProblem(t, w.call("POST", path+"/rotate-secret", k, "", "If-Match", `"9"`), 412,
		"PRECONDITION_FAILED")
	if rotated := wantStatus(t,
		w.call("POST", path+"/rotate-secret", k, "", "If-Match", `"1"`, "Idempotency-Key", "r"),
		200); rotated.Header.Get("ETag") != `"2"` {
		t.Errorf("%v", rotated.Header)
	}
	wantStatus(t,
		w.call("POST", path+"/rotate-secret", k, "", "If-Match", `"1"`, "Idempotency-Key", "r"), 200)
	for at, body := range map[string]string{
		path + "/test":   "",
		path + "/replay": `{"since":"2026-11-21T00:00:00Z"}`, "/v1/events/" + event + "/resend": "",
		"/v1/endpoints":     `{"url":"https://a.example"}`,
		watch + "/backfill": `{"from":1}`, "/v1/api-keys": `{"permissions":["read"]}`,
	} {
		wantProblem(t, w.call("POST", at, k, body, "If-Match", `"1"`), 400, "INVALID_HEADER")
		if got := w.call("POST", at, k, body, "If-Match", `*`); got.StatusCode > 201 {
			t.Errorf("%s: %s", at, got.body)
		}
		p := wantProblem(t, w.call("POST", at+"?dry=1", k, body), 400, "INVALID_PARAMETER")
		if len(p.Errors) != 1 || p.Errors[0].Parameter != "dry" ||
			p.Errors[0].Code != "UNKNOWN_PARAMETER" {
			t.Errorf("%+v", p)
		}
	}
	for _, at := range []string{path, watch, "/v1/events/" + event} {
		wantProblem(t, w.call("GET", at+"?limit=1&cursor=x", k, ""), 400, "INVALID_PARAMETER")
	}
	wantProblem(t, w.call("PATCH", path, k, `{}`, "If-Match", `"1" "2"`), 400, "INVALID_HEADER")
	wantProblem(t, w.call("DELETE", path+"?force=true", k, ""), 400, "INVALID_PARAMETER")
	wantStatus(t, w.call("GET", "/healthz?at=1", "", ""), 200)
}

// A sample looks like a payment to its receiver only. Everything else must treat it as a test.
func TestASampleIsWorthNothing(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	path := "/v1/endpoints/" + w.newEndpoint(k) + "/test"
	sent := wantStatus(t, w.call("POST", path, k, `{"type":"payment.received"}`), 200)
	event := in(t, sent.body, "eventId").(string)
	read := wantStatus(t, w.call("GET", "/v1/events/"+event, k, ""), 200)
	for want, at := range map[string][]string{
		"payment.received":   {"type"},
		"0.0000000":          {"data", "payment", "amount"},
		"0":                  {"data", "payment", "id"},
		domain.SampleAccount: {"data", "watch", "walletAddress"},
		"VERIFIED":           {"data", "verification", "outcome"},
	} {
		if got := in(t, read.body, at...); got != want {
			t.Errorf("%v is %v, not %s", at, got, want)
		}
	}
	w.forgets = true // so that the engine learns the event's type from the history
	wantStatus(t, w.call("POST", "/v1/events/"+event+"/resend", k, ""), 200)
	for _, answered := range w.answers {
		d := answered.Answer.Delivery
		if d != nil && (d.EventType != domain.TestPing || d.WatchID != "") {
			t.Errorf("resent, it is a %s of the watch %q", d.EventType, d.WatchID)
		}
	}
	w.forgets = false
	ping := wantStatus(t, w.call("POST", path, k, `{"type":"test.ping"}`), 200)
	read = wantStatus(t, w.call("GET", "/v1/events/"+in(t, ping.body, "eventId").(string), k, ""), 200)
	if in(t, read.body, "type") != "test.ping" {
		t.Errorf("%s", read.body)
	}
	for _, body := range []string{
		`{"type":"payment.rejected"}`, `{"type":""}`, `{"type":1}`, `{"x":1}`,
	} {
		wantProblem(t, w.call("POST", path, k, body), 422, "VALIDATION_FAILED")
	}
}

// The response must list the watches that lose their endpoint, and the deletion must be refused if
// the client asks for that.
func TestADeletionSaysWhichWatchesItLeaves(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	endpoint := w.newEndpoint(k)
	path := "/v1/endpoints/" + endpoint
	made := wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(endpoint, "")), 201)
	watch := in(t, made.body, "id").(string)
	wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(w.newEndpoint(k), "")), 201)

	wantProblem(t, w.call("DELETE", path+"?ifWatched=keep", k, ""), 400, "INVALID_PARAMETER")
	refused := w.call("DELETE", path+"?ifWatched=refuse", k, "")
	wantProblem(t, refused, 409, "ENDPOINT_WATCHED")
	if !strings.Contains(string(refused.body), watch) {
		t.Errorf("%s does not name the watch", refused.body)
	}
	wantStatus(t, w.call("GET", path, k, ""), 200)
	want := fmt.Sprintf(`{"id":%q,"leftWatches":{"total":1,"ids":[%q]}}`, endpoint, watch)
	for range 2 { // the second request is a repeat
		got := wantStatus(t, w.call("DELETE", path, k, "", "Idempotency-Key", "one"), 200)
		if strings.TrimSpace(string(got.body)) != want {
			t.Errorf("%s, want %s", got.body, want)
		}
	}
	unwatched := w.newEndpoint(k)
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+unwatched+"?ifWatched=refuse", k, ""), 200)
}

// A watch with an expiry in the past serves a backfill. Neither its creation nor a change may call
// it active.
func TestAWatchThatHasExpiredSaysSo(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	endpoint := w.newEndpoint(k)
	made := wantStatus(t, w.call("POST", "/v1/watches", k,
		watchBody(endpoint, `,"expiresAt":"2020-01-01T00:00:00Z"`)), 201)
	other := wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(endpoint, "")), 201)
	changed := wantStatus(t, w.call("PATCH", "/v1/watches/"+in(t, other.body, "id").(string), k,
		`{"expiresAt":"2020-01-01T00:00:00Z"}`), 200)
	for what, got := range map[string]answer{"the creation": made, "the change": changed} {
		if status := in(t, got.body, "status"); status != "expired" {
			t.Errorf("%s says %v", what, status)
		}
	}
}

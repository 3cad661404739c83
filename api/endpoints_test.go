package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
)

type endpointAnswer struct {
	ID, URL, Description, Status string
	DisabledReason, DisabledAt   *string
	ConsecutiveFailures          int
	CreatedAt, UpdatedAt, Secret string
	Warnings                     []string
}

func TestCreateEndpoint(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	got := w.call("POST", "/v1/endpoints", k,
		`{"url":"https://Shop.Example/hooks?a=1","description":"Läden"}`, "Content-Type",
		"application/json; charset=UTF-8")
	if got.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	e := decode[endpointAnswer](t, got.body)
	if got.Header.Get("Location") != "/v1/endpoints/"+e.ID ||
		!domain.IsID(domain.EndpointPrefix, e.ID) {
		t.Errorf("id %s, location %s", e.ID, got.Header.Get("Location"))
	}
	if e.URL != "https://shop.example/hooks?a=1" || e.Description != "Läden" ||
		e.Status != "active" || e.DisabledAt != nil || e.DisabledReason != nil || len(e.Warnings) != 0 {
		t.Errorf("%+v", e)
	}
	if e.CreatedAt != "2026-11-21T10:15:30.123Z" || e.UpdatedAt != e.CreatedAt {
		t.Errorf("created %s, updated %s", e.CreatedAt, e.UpdatedAt)
	}
	if !strings.HasPrefix(e.Secret, "whsec_") || len(e.Secret) != len("whsec_")+52 {
		t.Errorf("secret %q", e.Secret)
	}
	stored := w.endpoints[e.ID]
	if stored.AccountID != account("a") ||
		strings.Contains(string(stored.Secrets[0].Sealed), e.Secret) {
		t.Error("the secret is not sealed, or the account is wrong")
	}
	if strings.Contains(w.log.String(), e.Secret) {
		t.Error("the secret is in the log")
	}
	if _, visible, _ := w.Endpoint(e.ID); !visible {
		t.Error("the next request does not see the endpoint")
	}
}

func TestCreateEndpointWarnsOfAHostThatDoesNotResolve(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	got := w.call("POST", "/v1/endpoints", k, `{"url":"https://shop.invalid","description":null}`)
	if e := decode[endpointAnswer](t, got.body); got.StatusCode != 201 ||
		!slices.Equal(e.Warnings, []string{"DNS"}) || e.Description != "" {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
}

func TestEndpointFaults(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	for _, c := range []struct {
		body   string
		code   string
		faults []string
	}{
		{`{}`, "VALIDATION_FAILED", []string{"/url REQUIRED"}},
		{`{"url":null}`, "VALIDATION_FAILED", []string{"/url REQUIRED"}},
		{`{"url":7}`, "VALIDATION_FAILED", []string{"/url INVALID_TYPE"}},
		{`{"url":""}`, "VALIDATION_FAILED", []string{"/url INVALID_URL"}},
		{`{"url":"http://a.example"}`, "VALIDATION_FAILED", []string{"/url INVALID_URL"}},
		{`{"url":"https://127.0.0.1/x"}`, "SSRF_BLOCKED", []string{"/url SSRF_BLOCKED"}},
		{
			`{"url":"https://127.0.0.1/x","extra":1}`, "SSRF_BLOCKED",
			[]string{"/extra UNKNOWN_FIELD", "/url SSRF_BLOCKED"},
		},
		{
			`{"url":"https://a.example/` + strings.Repeat("a", 2048) + `"}`,
			"VALIDATION_FAILED", []string{"/url TOO_LONG"},
		},
		{
			`{"url":"https://a.example","description":["x"]}`, "VALIDATION_FAILED",
			[]string{"/description INVALID_TYPE"},
		},
		{
			`{"url":"https://a.example","description":"` + strings.Repeat("ä", 1025) + `"}`,
			"VALIDATION_FAILED", []string{"/description TOO_LONG"},
		},
		{
			`{"url":"https://a.example","secret":"whsec_mine","a/b~c":1}`, "VALIDATION_FAILED",
			[]string{"/a~1b~0c UNKNOWN_FIELD", "/secret UNKNOWN_FIELD"},
		},
		{
			`{"url":"https://a.example/` + w.secretSeed() + `"}`, "VALIDATION_FAILED",
			[]string{"/url SECRET_REFUSED"},
		},
		{
			`{"url":true,"description":false,"x":null}`, "VALIDATION_FAILED",
			[]string{"/description INVALID_TYPE", "/url INVALID_TYPE", "/x UNKNOWN_FIELD"},
		},
		{`[]`, "VALIDATION_FAILED", []string{" INVALID_TYPE"}},
		{`null`, "VALIDATION_FAILED", []string{" INVALID_TYPE"}},
		{`"x"`, "VALIDATION_FAILED", []string{" INVALID_TYPE"}},
	} {
		p := wantProblem(t, w.call("POST", "/v1/endpoints", k, c.body), 422, c.code)
		if !slices.Equal(pointers(p), c.faults) {
			t.Errorf("%.80s: %v, want %v", c.body, pointers(p), c.faults)
		}
	}
	if w.facts != 0 {
		t.Error("a refused request left facts")
	}
}

func TestBodiesThatAreNoJSON(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	for _, c := range []struct{ body, fault string }{
		{``, " SYNTAX"},
		{`   `, " SYNTAX"},
		{`{`, " SYNTAX"},
		{`{"url":`, "/url SYNTAX"},
		{`{"url":"https://a`, "/url SYNTAX"},
		{`{'url':1}`, " SYNTAX"},
		{`{"url":"a",}`, " SYNTAX"},
		{`{"url":01}`, " SYNTAX"},
		{`{"url":NaN}`, "/url SYNTAX"},
		{"\ufeff{}", " SYNTAX"},
		{`{"url":"a","url":"b"}`, "/url DUPLICATE_NAME"},
		{`{"url":"a","ur\u006c":"b"}`, "/url DUPLICATE_NAME"},
		{`{"a":{"b":[0,{"c":1,"c":2}]}}`, "/a/b/1/c DUPLICATE_NAME"},
		{"{\"url\":\"\xff\"}", "/url INVALID_UTF8"},
		{"{\"\xff\":1}", " INVALID_UTF8"},
		{`{"url":"\ud800"}`, "/url INVALID_UTF8"},
		{`{"url":"a"} {}`, " TRAILING_DATA"},
		{`{"url":"a"}x`, " TRAILING_DATA"},
		{`{"url":` + strings.Repeat("[", 100_000), "/url" + strings.Repeat("/0", 31) + " TOO_DEEP"},
		{strings.Repeat("[", 33) + strings.Repeat("]", 33), strings.Repeat("/0", 32) + " TOO_DEEP"},
		{"[" + strings.Repeat("0,", 20_000) + "0]", "/9998 TOO_MANY_VALUES"},
	} {
		p := wantProblem(t, w.call("POST", "/v1/endpoints", k, c.body), 400, "MALFORMED_JSON")
		if got := pointers(p); len(got) != 1 || got[0] != c.fault {
			t.Errorf("%.60q: %q, want %q (%s)", c.body, got, c.fault, p.Errors[0].Detail)
		}
	}
}

func TestBodyBounds(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	padded := func(size int) string {
		body := `{"url":"https://a.example"}`
		return body + strings.Repeat(" ", size-len(body))
	}
	if got := w.call("POST", "/v1/endpoints", k, padded(256<<10)); got.StatusCode != 201 {
		t.Errorf("256 KiB: %d %s", got.StatusCode, got.body)
	}
	wantProblem(t, w.call("POST", "/v1/endpoints", k, padded(256<<10+1)), 413, "REQUEST_TOO_LARGE")

	request, err := http.NewRequest("POST", w.server.URL+"/v1/endpoints",
		struct{ *strings.Reader }{strings.NewReader(padded(256<<10 + 1))})
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = -1 // chunked, so the size is known only after reading
	request.Header.Set("Authorization", "bearer "+k)
	request.Header.Set("Content-Type", "application/json")
	wantProblem(t, w.send(request, ""), 413, "REQUEST_TOO_LARGE")

	var names strings.Builder
	for i := range 150 {
		names.WriteString(`"x` + strings.Repeat("y", i) + `":1,`)
	}
	p := wantProblem(t,
		w.call("POST", "/v1/endpoints", k, `{`+names.String()+`"`+strings.Repeat("z", 5000)+`":1}`), 422,
		"VALIDATION_FAILED")
	if len(p.Errors) != 100 || !strings.Contains(p.Detail, "And 151 more") {
		t.Errorf("%d faults: %s", len(p.Errors), p.Detail)
	}
	p = wantProblem(t, w.call("POST", "/v1/endpoints", k, `{"`+strings.Repeat("z", 5000)+`":1}`), 422,
		"VALIDATION_FAILED")
	if len(p.Errors[0].Pointer) > 300 {
		t.Errorf("a pointer of %d bytes", len(p.Errors[0].Pointer))
	}
}

func TestIdempotency(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	body := `{"url":"https://a.example"}`
	first := w.call("POST", "/v1/endpoints", k, body, "Idempotency-Key", "order 1")
	again := w.call("POST", "/v1/endpoints", k, body, "Idempotency-Key", "order 1")
	if first.StatusCode != 201 || again.StatusCode != 201 || string(first.body) != string(again.body) {
		t.Fatalf("%s\n%s", first.body, again.body)
	}
	if first.Header.Get("Idempotent-Replayed") != "" ||
		again.Header.Get("Idempotent-Replayed") != "true" ||
		again.Header.Get("Location") != first.Header.Get("Location") {
		t.Errorf("%v\n%v", first.Header, again.Header)
	}
	wantProblem(t, w.call("POST", "/v1/endpoints", k, body+" ", "Idempotency-Key", "order 1"), 422,
		"IDEMPOTENCY_KEY_REUSED")
	if w.facts != 1 {
		t.Errorf("%d facts", w.facts)
	}
	id := decode[endpointAnswer](t, first.body).ID
	for name, other := range map[string]answer{
		"another key": w.call("POST", "/v1/endpoints", k, body, "Idempotency-Key", "order 2"),
		"no key":      w.call("POST", "/v1/endpoints", k, body),
		"another account": w.call("POST", "/v1/endpoints", w.newKey(account("b"), domain.PermissionWrite),
			body, "Idempotency-Key", "order 1"),
		"another path": w.call("POST", "/v1/watches", k, watchBody(id, ""), "Idempotency-Key", "order 1"),
	} {
		if other.StatusCode != 201 || decode[endpointAnswer](t, other.body).ID == id ||
			other.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %d %s", name, other.StatusCode, other.body)
		}
	}
}

func TestAKeyWhoseAnswerIsForgottenIsAConflict(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	body := `{"url":"https://a.example"}`
	w.call("POST", "/v1/endpoints", k, body, "Idempotency-Key", "1")
	clear(w.answers)
	p := wantProblem(t, w.call("POST", "/v1/endpoints", k, body, "Idempotency-Key", "1"), 409,
		domain.CodeAlreadyExists)
	if !strings.HasPrefix(p.Detail, "The endpoint exists;") {
		t.Error(p.Detail)
	}
	got := w.call("POST", "/v1/endpoints", k, body, "Idempotency-Key", "1")
	if got.StatusCode != 409 || got.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %v", got.StatusCode, got.Header)
	}
}

func TestAnAnswerThatIsLostIsFoundByARepeat(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	body := `{"url":"https://a.example"}`
	w.loseAnswer = true
	got := w.call("POST", "/v1/endpoints", k, body, "Idempotency-Key", "1")
	p := wantProblem(t, got, 503, "COMMAND_UNANSWERED")
	if !domain.IsID(domain.CommandPrefix, p.CommandID) || got.Header.Get("Retry-After") == "" ||
		!strings.Contains(p.Detail, "same Idempotency-Key") {
		t.Errorf("%v %s", got.Header, got.body)
	}
	without := wantProblem(t, w.call("POST", "/v1/endpoints", k, body), 503, "COMMAND_UNANSWERED")
	if without.CommandID == p.CommandID ||
		strings.Contains(without.Detail, "Repeat the request with the same") {
		t.Errorf("%+v", without)
	}
	w.loseAnswer = false
	again := w.call("POST", "/v1/endpoints", k, body, "Idempotency-Key", "1")
	if again.StatusCode != 201 || again.Header.Get("Idempotent-Replayed") != "true" ||
		!strings.HasPrefix(decode[endpointAnswer](t, again.body).Secret, "whsec_") {
		t.Fatalf("%d %s", again.StatusCode, again.body)
	}
}

func TestFailuresBehindTheAPI(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	w.submitErr = api.ErrWritesRefused
	wantProblem(t, w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example"}`), 503,
		"WRITES_REFUSED")
	w.submitErr = fmt.Errorf("%w: 3 MiB free", api.ErrDiskFull)
	full := w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example"}`)
	wantProblem(t, full, 503, "WRITES_REFUSED")
	if text := string(full.body); !strings.Contains(text, "disk is almost full") ||
		strings.Contains(text, "3 MiB") {
		t.Errorf("a full disk: %s", text)
	}
	w.submitErr = errors.New("pipe " + w.secretSeed() + " broke")
	wantProblem(t, w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example"}`), 500, "INTERNAL")
	if text := w.log.String(); !strings.Contains(text, "pipe [secret] broke") ||
		!strings.Contains(text, `"command":"cmd_`) {
		t.Error(text)
	}
	w.directoryErr = errors.New("disk")
	wantProblem(t, w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example"}`), 500, "INTERNAL")
}

func TestARejectionOfANewerEngineIsAConflict(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.Commands = newer{} })
	k := w.newKey(account("a"), domain.PermissionWrite)
	request, err := http.NewRequest("POST", w.server.URL+"/v1/endpoints",
		strings.NewReader(`{"url":"https://a.example"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+k)
	request.Header.Set("Content-Type", "application/json")
	response, err := w.server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusConflict {
		t.Errorf("%d", response.StatusCode)
	}
}

// If the engine sets a command aside, the request may be repeated: it must not use up the
// Idempotency-Key, although its result lacks the hash of the body.
func TestACommandThatWasSetAsideIsAskedAgain(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.Commands = older{} })
	k := w.newKey(account("a"), domain.PermissionWrite)
	a := w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example"}`)
	wantProblem(t, a, http.StatusServiceUnavailable, domain.CodeCommandUnreadable)
	if a.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", a.Header)
	}
}

// stalled is a policy whose name server never answers.
type stalled struct{}

func (stalled) Check(ctx context.Context, raw string) (string, []string, []api.URLFault) {
	<-ctx.Done()
	return raw, nil, nil
}

func TestAPartThatStallsCostsBoundedTimeAndLeavesNoCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := assemble(t, func(c *api.Config) { c.URLs = stalled{} })
		body := `{"url":"https://a.example"}`
		request := httptest.NewRequest("POST", "/v1/endpoints", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+w.newKey(account("a"), domain.PermissionWrite))
		request.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		began := time.Now() //nolint:forbidigo // virtual
		w.api.ServeHTTP(out, request)
		checkAgainstOpenAPI(t, request, body, out.Result(), out.Body.Bytes())
		wantProblem(t, answer{out.Result(), out.Body.Bytes()}, 503, "WRITES_REFUSED")
		took := time.Since(began) //nolint:forbidigo // virtual
		if took > 15*time.Second || len(w.answers) != 0 {
			t.Errorf("after %v, %d commands", took, len(w.answers))
		}
	})
}

// BenchmarkReadEndpoint measures an authenticated read in the API itself. Everything behind the API
// is in memory.
func BenchmarkReadEndpoint(b *testing.B) {
	w := newWorld(b, func(c *api.Config) { c.Log = slog.New(slog.DiscardHandler) })
	k := w.newKey(account("a"), domain.Permissions()...)
	path := "/v1/endpoints/" + w.newEndpoint(k)
	b.ReportAllocs()
	for b.Loop() {
		request := httptest.NewRequest("GET", path, nil)
		request.Header.Set("Authorization", "Bearer "+k)
		out := httptest.NewRecorder()
		if w.api.ServeHTTP(out, request); out.Code != http.StatusOK {
			b.Fatalf("%d %s", out.Code, out.Body)
		}
		w.now = w.now.Add(time.Second) // so that the key's limit is never reached
	}
}

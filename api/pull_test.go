package api_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// numberedEvent returns an event whose body differs from what a JSON encoder would write.
func numberedEvent(sequence uint64) readmodel.NumberedEvent {
	id := domain.DeriveID(domain.EventPrefix, fmt.Sprint(sequence))
	return readmodel.NumberedEvent{
		ID:       id,
		Sequence: sequence,
		// seconds after 1970 began, which is long ago
		CreatedAtMillis: int64(sequence) * 1000,
		Body:            fmt.Appendf(nil, "{\"id\": %q, \"note\":\"<é&>\u2028\"}", id),
	}
}

type pulled struct {
	Data []struct {
		Sequence uint64
		Headers  map[string]string
		Body     string
	}
	Missing   []struct{ From, To uint64 }
	NextAfter uint64
}

func (w *world) pull(endpointID, apiKey, query string) pulled {
	w.t.Helper()
	got := wantStatus(w.t, w.call("GET", "/v1/endpoints/"+endpointID+"/events"+query, apiKey, ""), 200)
	return decode[pulled](w.t, got.body)
}

func (p pulled) numbers() (list []uint64) {
	for _, e := range p.Data {
		list = append(list, e.Sequence)
	}
	return list
}

// A pulled event must verify with each valid secret, but only around the time of its creation: a
// receiver must refuse an old event that a client pulled and posts.
func TestPulledEventsAreSigned(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	made := wantStatus(t, w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example"}`), 201)
	e, first := in(t, made.body, "id").(string), in(t, made.body, "secret").(string)
	for n := range uint64(5) {
		w.number(e, numberedEvent(n+1))
	}
	rotated := wantStatus(t, w.call("POST", "/v1/endpoints/"+e+"/rotate-secret", k, ""), 200)
	second := in(t, rotated.body, "secret").(string)
	got := w.pull(e, k, "?after=1&limit=3")
	if !slices.Equal(got.numbers(), []uint64{2, 3, 4}) || got.NextAfter != 4 || len(got.Missing) != 0 {
		t.Fatalf("%+v", got)
	}
	for _, one := range got.Data {
		want := numberedEvent(one.Sequence)
		if one.Body != string(want.Body) || one.Headers["Webhook-Id"] != want.ID ||
			one.Headers["Webhook-Sequence"] != fmt.Sprint(one.Sequence) {
			t.Errorf("%+v, not %s", one, want.Body)
		}
		for _, secret := range []string{first, second} {
			verify := func(nowSeconds int64) error {
				return domain.Verify(one.Headers["Webhook-Signature"], one.Headers["Webhook-Timestamp"],
					[]byte(one.Body), []domain.Secret{domain.Secret(secret)}, nowSeconds)
			}
			if err := verify(want.CreatedAtMillis / 1000); err != nil {
				t.Errorf("number %d: %v", one.Sequence, err)
			}
			if err := verify(w.now.Unix()); !errors.Is(err, domain.ErrTimestampTooFar) {
				t.Errorf("number %d of 1970 is accepted today: %v", one.Sequence, err)
			}
		}
	}
	if got := w.pull(e, k, ""); len(got.Data) != 5 || got.NextAfter != 5 {
		t.Errorf("%+v", got)
	}
	empty := wantStatus(t, w.call("GET", "/v1/endpoints/"+e+"/events?after=7", k, ""), 200)
	if string(empty.body) != `{"data":[],"missing":[],"nextAfter":7}` {
		t.Errorf("%s", empty.body)
	}
}

// A pulled event must have the additional signatures that its endpoint asks for. If the key for
// them is missing, nothing may be returned, as nothing would be sent.
func TestPulledEventsHaveTheSignaturesOfTheirEndpoint(t *testing.T) {
	keys := &signingKeys{signs: true}
	w := newWorld(t, func(c *api.Config) { c.SigningKeys = keys })
	k := w.newKey(account("a"), domain.Permissions()...)
	made := wantStatus(t, w.call("POST", "/v1/endpoints", k,
		`{"url":"https://a.example","signatures":["standard-webhooks","standard-webhooks-ed25519"]}`), 201)
	e := in(t, made.body, "id").(string)
	w.number(e, numberedEvent(1))
	wantProblem(t, w.call("GET", "/v1/endpoints/"+e+"/events", k, ""), 500, "INTERNAL")
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys.private = []domain.Secret{domain.Secret(private)}
	got := w.pull(e, k, "").Data[0]
	want := domain.Attempt{
		EventID:     numberedEvent(1).ID,
		Secrets:     []domain.Secret{domain.Secret(in(t, made.body, "secret").(string))},
		Body:        numberedEvent(1).Body,
		Signatures:  domain.StandardWebhooks | domain.StandardWebhooksEd25519,
		SigningKeys: keys.private,
	}.SignatureHeader(1)
	if got.Headers["Webhook-Signature"] != want {
		t.Errorf("%s, not %s", got.Headers["Webhook-Signature"], want)
	}
}

// A client without a number may give a time. Events begin there or, if no event was created since
// then, after the last one.
func TestPullingBeginsAtATime(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	for n := range uint64(4) {
		w.number(e, numberedEvent(n+1))
	}
	got := w.pull(e, k, "?since=1970-01-01T00:00:02.5Z")
	if !slices.Equal(got.numbers(), []uint64{3, 4}) || got.NextAfter != 4 {
		t.Errorf("%+v", got)
	}
	if got := w.pull(e, k, "?since=2026-01-01T00:00:00Z"); len(got.Data) != 0 || got.NextAfter != 4 {
		t.Errorf("%+v", got)
	}
	done := w.awaits(e, k, "?since=2026-01-01T00:00:00Z&waitSeconds=30")
	w.number(e, numberedEvent(5))
	got = decode[pulled](t, wantStatus(t, <-done, 200).body)
	if !slices.Equal(got.numbers(), []uint64{5}) {
		t.Errorf("%+v", got)
	}
	w.historyErr = readmodel.ErrBehind
	wantProblem(t, w.call("GET", "/v1/endpoints/"+e+"/events?since=1970-01-01T00:00:02Z", k, ""), 503,
		"HISTORY_BEHIND")
}

func TestPullingSaysWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionOperate, domain.PermissionWrite)
	e := w.newEndpoint(k)
	w.number(e, numberedEvent(17))
	page := w.numbered[e]
	page.Missing = []readmodel.Numbers{{From: 1, To: 16}}
	w.numbered[e] = page
	got := w.pull(e, k, "?after=9")
	if len(got.Missing) != 1 || got.Missing[0].From != 10 || got.Missing[0].To != 16 ||
		got.NextAfter != 17 {
		t.Errorf("%+v", got)
	}
}

func TestPullingIsRefused(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	path := "/v1/endpoints/" + e + "/events"
	for query, parameter := range map[string]string{
		"?after=-1": "after", "?after=x": "after", "?after=9007199254740992": "after",
		"?limit=0": "limit", "?limit=251": "limit", "?waitSeconds=31": "waitSeconds",
		"?waitSeconds=-1": "waitSeconds", "?cursor=x": "cursor", "?after=": "after",
		"?since=": "since", "?since=1h": "since", "?after=0&since=2026-11-21T10:00:00Z": "since",
	} {
		got := wantProblem(t, w.call("GET", path+query, k, ""), 400, "INVALID_PARAMETER")
		if !slices.ContainsFunc(got.Errors,
			func(f problem.Fault) bool { return f.Parameter == parameter }) {
			t.Errorf("%s: %+v", query, got)
		}
	}
	// A client could post to the receiver with an endpoint's signatures, so the permission to read
	// isn't enough.
	few := w.newKey(account("a"), domain.PermissionRead, domain.PermissionWrite)
	refused := wantProblem(t, w.call("GET", path, few, ""), 403, "MISSING_PERMISSION")
	if !strings.Contains(refused.Detail, `"operate"`) {
		t.Errorf("%+v", refused)
	}
	wantStatus(t, w.call("GET", "/v1/events?endpointId="+e, few, ""), 200)
	wantProblem(t, w.call("GET", path, w.newKey(account("b"), domain.PermissionOperate), ""), 404,
		"NOT_FOUND")
	w.historyErr = readmodel.ErrBehind
	wantProblem(t, w.call("GET", path+"?waitSeconds=30", k, ""), 503, "HISTORY_BEHIND")
	w.historyErr = nil
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+e, k, ""), 200)
	wantProblem(t, w.call("GET", path, k, ""), 404, "NOT_FOUND")
}

// awaits sends a request and waits until the API holds it. It returns a channel for the response.
func (w *world) awaits(endpointID, apiKey, query string) <-chan answer {
	w.t.Helper()
	before := w.waiters()
	done := make(chan answer, 1)
	go func() { done <- w.call("GET", "/v1/endpoints/"+endpointID+"/events"+query, apiKey, "") }()
	testkit.Eventually(w.t, "the request waits", func() bool { return w.waiters() > before })
	return done
}

func (w *world) waiters() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}

func TestAPullWaitsForTheNextEvent(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	w.number(e, numberedEvent(1))
	if got := w.pull(e, k, "?waitSeconds=30"); len(got.Data) != 1 { // there is nothing to wait for
		t.Fatalf("%+v", got)
	}
	done := w.awaits(e, k, "?after=1&waitSeconds=30")
	w.number(e, numberedEvent(2))
	got := decode[pulled](t, wantStatus(t, <-done, 200).body)
	if !slices.Equal(got.numbers(), []uint64{2}) {
		t.Errorf("%+v", got)
	}
	if got := w.pull(e, k, "?after=2&waitSeconds=1"); len(got.Data) != 0 || got.NextAfter != 2 {
		t.Errorf("%+v", got)
	}
}

// A wait may last longer than a client has to send its request, and must not be ended by that
// timeout.
func TestAWaitOutlastsTheReadTimeout(t *testing.T) {
	w := assemble(t)
	w.server = httptest.NewUnstartedServer(nil)
	w.server.Config = api.NewServer(w.api, w.api.Log)
	w.server.Config.ReadTimeout = 100 * time.Millisecond
	w.server.Start()
	t.Cleanup(w.server.Close)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	for range 2 { // on one connection
		if got := w.pull(e, k, "?after=2&waitSeconds=1"); len(got.Data) != 0 || got.NextAfter != 2 {
			t.Errorf("%+v", got)
		}
	}
}

// A client that hangs up while it waits, like a stopped listener, isn't the service's fault. The
// request must not be logged as an error or a 5xx.
func TestAPullWhoseClientHasGoneIsNoFault(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	ctx, hangUp := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		w.server.URL+"/v1/endpoints/"+e+"/events?waitSeconds=30", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+k)
	ended := make(chan error, 1)
	go func() {
		response, err := w.server.Client().Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		ended <- err
	}()
	testkit.Eventually(t, "the request waits", func() bool { return w.waiters() > 0 })
	w.log.Reset()
	hangUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client has %v", err)
	}
	testkit.Eventually(t, "it is logged", func() bool {
		return strings.Contains(w.log.String(), `"route":"/v1/endpoints/{id}/events"`)
	})
	text := w.log.String()
	if !strings.Contains(text, `"status":499`) || strings.Contains(text, `"level":"ERROR"`) {
		t.Error(text)
	}
}

// The state after the wait must count: a revoked key gets nothing, a deleted endpoint is gone, and
// a rotated secret signs.
func TestAPullThatHasWaitedIsLookedAtAgain(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	waiter := w.newKey(account("a"), domain.PermissionOperate)
	e := w.newEndpoint(k)
	done := w.awaits(e, waiter, "?waitSeconds=30")
	rotated := wantStatus(t, w.call("POST", "/v1/endpoints/"+e+"/rotate-secret", k, ""), 200)
	w.number(e, numberedEvent(1))
	got := decode[pulled](t, wantStatus(t, <-done, 200).body).Data[0]
	err := domain.Verify(got.Headers["Webhook-Signature"], got.Headers["Webhook-Timestamp"],
		[]byte(got.Body), []domain.Secret{domain.Secret(in(t, rotated.body, "secret").(string))},
		1)
	if err != nil {
		t.Error(err)
	}
	done = w.awaits(e, waiter, "?after=1&waitSeconds=30")
	id := domain.DeriveID(domain.KeyPrefix, waiter)
	wantStatus(t, w.call("DELETE", "/v1/api-keys/"+id, k, ""), 204)
	w.number(e, numberedEvent(2))
	wantProblem(t, <-done, 401, "UNAUTHENTICATED")
	done = w.awaits(e, k, "?after=2&waitSeconds=30")
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+e, k, ""), 200)
	w.number(e, numberedEvent(3))
	wantProblem(t, <-done, 404, "NOT_FOUND")
}

// A server that stops must answer all waiting requests and let no other wait.
func TestAServerThatStopsEndsWaits(t *testing.T) {
	w := newWorld(t)
	w.server.Config.RegisterOnShutdown(w.api.EndWaits)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	done := w.awaits(e, k, "?waitSeconds=30")
	if err := w.server.Config.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := decode[pulled](t, wantStatus(t, <-done, 200).body); len(got.Data) != 0 {
		t.Errorf("%+v", got)
	}
	out := httptest.NewRecorder()
	w.api.ServeHTTP(out, pullRequest(e, k))
	if out.Code != 200 {
		t.Errorf("%d %s", out.Code, out.Body)
	}
}

func pullRequest(endpointID, apiKey string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/endpoints/"+endpointID+"/events?waitSeconds=30", nil)
	r.Header.Set("Authorization", "Bearer "+apiKey)
	return r
}

// 16 requests per account may wait, and 256 in total. Any other must be told to come back, but
// requests that don't wait are answered. A place that becomes free goes to the next request.
func TestFewRequestsWait(t *testing.T) {
	w := newWorld(t)
	keys, endpoints := make([]string, 17), make([]string, 17)
	for i := range keys {
		keys[i] = w.newKey(account(fmt.Sprint(i)), domain.Permissions()...)
		endpoints[i] = w.newEndpoint(keys[i])
	}
	ended := make(chan int, 256)
	begin := func(i int) {
		go func() {
			out := httptest.NewRecorder()
			w.api.ServeHTTP(out, pullRequest(endpoints[i], keys[i]))
			ended <- out.Code
		}()
	}
	for i := range 16 {
		for range 16 {
			begin(i)
		}
		testkit.Eventually(t, "they wait", func() bool { return w.waiters() == 16*(i+1) })
		refused := w.call("GET", "/v1/endpoints/"+endpoints[i]+"/events?waitSeconds=30", keys[i], "")
		wantProblem(t, refused, 429, "TOO_MANY_WAITING")
		if refused.Header.Get("Retry-After") == "" {
			t.Error("it does not say when to come back")
		}
	}
	last := "/v1/endpoints/" + endpoints[16] + "/events?waitSeconds=30"
	wantProblem(t, w.call("GET", last, keys[16], ""), 429, "TOO_MANY_WAITING")
	if got := w.pull(endpoints[16], keys[16], ""); len(got.Data) != 0 {
		t.Errorf("%+v", got)
	}
	w.number(endpoints[0], numberedEvent(1))
	for range 16 {
		if status := <-ended; status != 200 {
			t.Errorf("one that waited got %d", status)
		}
	}
	begin(16)
	testkit.Eventually(t, "the next waits", func() bool { return w.waiters() == 241 })
	w.api.EndWaits()
	for range 241 {
		<-ended
	}
}

func TestPortalLinksUseNoPlaceOfTheKeys(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	link := w.credential(k, `{"permissions":["operate"]}`)
	ended := make(chan int, 17)
	wait := func(credential string) {
		go func() {
			out := httptest.NewRecorder()
			w.api.ServeHTTP(out, pullRequest(e, credential))
			ended <- out.Code
		}()
	}
	for range 16 {
		wait(link)
	}
	testkit.Eventually(t, "the links wait", func() bool { return w.waiters() == 16 })
	wait(k)
	testkit.Eventually(t, "the key waits", func() bool { return w.waiters() == 17 || len(ended) > 0 })
	w.api.EndWaits()
	for range 17 {
		if status := <-ended; status != 200 {
			t.Errorf("one that waited got %d", status)
		}
	}
}

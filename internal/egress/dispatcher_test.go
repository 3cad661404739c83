package egress

import (
	"context"
	"crypto/sha256"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

type recorder struct {
	requests chan Request
	answers  chan Result // if there is none, the request hangs
	dropped  []string
}

func newRecorder() *recorder {
	return &recorder{requests: make(chan Request, 1), answers: make(chan Result, 1)}
}

func (h *recorder) Post(ctx context.Context, r Request) (Result, error) {
	h.requests <- r
	select {
	case result := <-h.answers:
		return result, nil
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}

func (h *recorder) DropIdle(url string) { h.dropped = append(h.dropped, url) }

var attempt = domain.Attempt{
	EventID:    "evt_1",
	EndpointID: "ep_1",
	Number:     3,
	Sequence:   17,
	URL:        "https://shop.example/hooks",
	Body:       []byte(`{"id":"evt_1","memo":"ü"}`),
	Headers:    []domain.SentHeader{{Name: "X-Till", Value: "7"}},
	Secrets:    []domain.Secret{"whsec_new", "whsec_old"},
}

// TestTheRequest checks that a request has the unchanged body, the event's id, the sending time in
// seconds and one signature per secret (specification, "Delivery request" and "Signature"). The
// signatures were made with openssl:
//
//	printf '1793500000.{"id":"evt_1","memo":"ü"}' | openssl dgst -sha256 -hmac whsec_new
func TestTheRequest(t *testing.T) {
	h := newRecorder()
	d := NewDispatcher(t.Context(), h, func() time.Time { return time.UnixMilli(1_793_500_000_999) })
	h.answers <- Result{}
	d.Dispatch(attempt, func(domain.AttemptResult) {})
	want := Request{URL: attempt.URL, Body: attempt.Body, Header: []Field{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Webhook-Id", Value: "evt_1"},
		{Name: "Webhook-Timestamp", Value: "1793500000"},
		{
			Name: "Webhook-Signature",
			Value: "v1=3b866770af6381131d067dec8835f71f04a7bc571c4d143e97bcbe765689bc0f," +
				"v1=0976afafb631664bb327c526614433a0104fa0e9bfb4bd73a909f27d97932f47",
		},
		{Name: "Webhook-Sequence", Value: "17"},
		{Name: "X-Till", Value: "7"},
	}}
	if got := <-h.requests; !reflect.DeepEqual(got, want) {
		t.Errorf("\n%+v, not\n%+v", got, want)
	}
}

func TestTheOutcome(t *testing.T) {
	h := newRecorder()
	d := NewDispatcher(t.Context(), h, time.Now)
	h.answers <- Result{
		SentAt:     time.UnixMilli(1_793_500_000_123),
		Duration:   1_234_567 * time.Microsecond,
		StatusCode: 503,
		Error:      BodyTooLarge,
		Detail:     "read the response body: timed out",
		Body:       []byte("later\xff"),
		RetryAfter: 90 * time.Second,
	}
	told := make(chan domain.AttemptResult, 1)
	d.Dispatch(attempt, func(r domain.AttemptResult) { told <- r })
	sent := <-h.requests
	body, signature := sha256.Sum256(sent.Body), sha256.Sum256([]byte(sent.Header[3].Value))
	want := domain.AttemptResult{
		SentAtMillis:     1_793_500_000_123,
		DurationMillis:   1234,
		StatusCode:       503,
		Error:            domain.AttemptBodyTooLarge,
		ErrorDetail:      "read the response body: timed out",
		ResponseBody:     []byte("later\xff"),
		RetryAfterMillis: 90_000,
		BodySHA256:       body[:],
		SignatureSHA256:  signature[:],
	}
	if got := <-told; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// The client and the domain must use the same error codes.
func TestEveryCodeIsTheSpecifications(t *testing.T) {
	for code, want := range map[Code]domain.AttemptError{
		"":          "",
		Timeout:     domain.AttemptTimeout,
		DNS:         domain.AttemptDNS,
		ConnRefused: domain.AttemptConnRefused, TLS: domain.AttemptTLS,
		Redirect:    domain.AttemptRedirect,
		SSRFBlocked: domain.AttemptSSRFBlocked, BodyTooLarge: domain.AttemptBodyTooLarge,
	} {
		if got := outcome(Result{Error: code}).Error; got != want {
			t.Errorf("%q is named %q, not %q", code, got, want)
		}
	}
}

// A command that the API did not check may contain a header that the client refuses. The attempt
// must fail without stopping the engine.
func TestAMalformedHeaderFailsItsAttemptOnly(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, name := range []string{"Host", "user-agent", "a(b"} {
		bad := attempt
		bad.Headers = []domain.SentHeader{{Name: name, Value: domain.Secret("x")}}
		told := make(chan domain.AttemptResult, 1)
		NewDispatcher(t.Context(), c, time.Now).Dispatch(bad,
			func(r domain.AttemptResult) { told <- r })
		if got := <-told; got.Error != domain.AttemptConnRefused || got.ErrorDetail == "" ||
			got.SentAtMillis == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// An attempt that our own shutdown cancels says nothing about its receiver. It must report no
// result, so that it is made again.
func TestWhatIsBrokenOffIsNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		NewDispatcher(ctx, newRecorder(), time.Now).Dispatch(attempt,
			func(r domain.AttemptResult) { t.Errorf("it was told: %+v", r) })
		synctest.Wait()
		stop()
		synctest.Wait()
	})
}

// A receiver may echo request headers in its response, and everyone with access to the history can
// read that response. Header values must be masked in it.
func TestAnEchoShowsNoHeaderValue(t *testing.T) {
	h := newRecorder()
	d := NewDispatcher(t.Context(), h, time.Now)
	echoing := attempt
	echoing.Headers = []domain.SentHeader{
		{Name: "Authorization", Value: "Bearer till-secret"}, {Name: "X-Till", Value: "7"},
	}
	for body, want := range map[string]string{
		"":       "",
		"7 paid": "7 paid",
		`{"a":"Bearer till-secret","b":"till-secret"}`: `{"a":"Bearer ***********","b":"***********"}`,
		"cut off: Bearer till-sec":                     "cut off: Bearer ********",
	} {
		h.answers <- Result{Body: []byte(body)}
		got := make(chan domain.AttemptResult, 1)
		d.Dispatch(echoing, func(made domain.AttemptResult) { got <- made })
		<-h.requests
		if made := <-got; string(made.ResponseBody) != want {
			t.Errorf("%s is kept as %s", body, made.ResponseBody)
		}
	}
}

// TestOverlappingHeaderValuesAreMasked checks values that contain or overlap one another, and
// response bodies that end in the middle of a value.
func TestOverlappingHeaderValuesAreMasked(t *testing.T) {
	headers := []domain.SentHeader{
		{Name: "X-Tenant", Value: "acme-prod"},
		{Name: "Authorization", Value: "Bearer acme-prod-9f8s7d6fa1"},
		{Name: "X-Till", Value: "9f8s7d6fa1.till-0001"},
		{Name: "X-Round", Value: "abababab"},
	}
	stars := func(n int) string { return strings.Repeat("*", n) }
	for body, want := range map[string]string{
		`{"a":"Bearer acme-prod-9f8s7d6fa1","t":"acme-prod"}`: `{"a":"Bearer ` + stars(20) +
			`","t":"` + stars(9) + `"}`,
		"acme-prod-9f8s7d6fa1.till-0001!": stars(30) + "!",
		"cut: acme-prod-9f8s7d6f":         "cut: " + stars(18),
		"cut: acme-prod-9f8s7d6fa1.til":   "cut: " + stars(24),
		"ababababab!":                     stars(10) + "!",
	} {
		if got := string(withoutValues([]byte(body), headers)); got != want {
			t.Errorf("%s is kept as %s, not %s", body, got, want)
		}
	}
}

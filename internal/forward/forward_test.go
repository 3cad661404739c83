package forward_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/forward"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

const body = `{"id":"evt_1","type":"payment.received","data":{}}`

var event = client.PulledEvent{
	Sequence: 17,
	Headers: client.DeliveryHeaders{
		ID: "evt_1", Timestamp: "1793620801", Signature: "v1=c800", Sequence: "17",
	},
	Body: body,
}

type receiver struct {
	mu   sync.Mutex
	got  []string // bodies, each with the error that ended reading it
	with []http.Header
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	text, err := io.ReadAll(in.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		text = fmt.Append(text, " ", err)
	}
	r.got, r.with = append(r.got, string(text)), append(r.with, in.Header)
	switch in.URL.Path {
	case "/refuses":
		http.Error(w, "the signature\x1b is wrong", http.StatusUnauthorized)
	case "/moves":
		http.Redirect(w, in, "/elsewhere", http.StatusTemporaryRedirect)
	}
}

func (r *receiver) bodies() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// forwarder forwards to a URL and writes its messages to out.
func forwarder(url string) (f *forward.Forwarder, out *testkit.Buffer) {
	out = &testkit.Buffer{}
	return forward.New(url, &forward.Report{Out: out, Tell: out, Now: func() time.Time {
		return time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	}}), out
}

func TestAnEventIsPostedAsTheServiceWould(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	f, out := forwarder(server.URL)
	f.Header = http.Header{"Authorization": {"Bearer mine"}}
	if err := f.Handle(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if got := r.bodies(); !slices.Equal(got, []string{body}) {
		t.Fatalf("it got %q", got)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Webhook-Id": "evt_1", "Webhook-Timestamp": "1793620801",
		"Webhook-Signature": "v1=c800", "Webhook-Sequence": "17", "Authorization": "Bearer mine",
	} {
		if got := r.with[0].Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if got := out.String(); !strings.HasPrefix(got,
		"10:00:00  17  payment.received  evt_1  200 OK in ") {
		t.Error(got)
	}
}

// A pulled event is signed for the time when it was created. With the receiver's secret, each post
// is signed for the current time instead, so that the receiver accepts old events as well.
func TestAnOldEventIsSignedAgain(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	f, _ := forwarder(server.URL)
	f.Secrets = []domain.Secret{"whsec_own"}
	if err := f.Handle(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	got, now := r.with[0], f.Report.Now().Unix()
	if err := domain.Verify(got.Get("Webhook-Signature"), got.Get("Webhook-Timestamp"), []byte(body),
		f.Secrets, now); err != nil || got.Get("Webhook-Id") != "evt_1" ||
		got.Get("Webhook-Sequence") != "17" {
		t.Errorf("%v: %v", err, got)
	}
}

func TestWhatIsNotAcceptedIsShown(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	for path, want := range map[string]string{
		"/refuses": "NOT ACCEPTED: the signature  is wrong",
		"/moves":   "307 Temporary Redirect",
	} {
		f, out := forwarder(server.URL + path)
		if err := f.Handle(t.Context(), event); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || f.Report.Refused != 1 || f.Report.Events != 0 {
			t.Errorf("%+v, and it says %s", f.Report, out)
		}
	}
	if got := r.bodies(); len(got) != 2 {
		t.Errorf("a redirect was followed: %q", got)
	}
}

func TestFailuresOnPurpose(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	f, out := forwarder(server.URL)
	var err error
	if f.Faults, err = forward.ParseFaults([]string{"503", "timeout", "reset"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Handle(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	// The server may still be reading half of a body when the next request has been answered.
	testkit.Eventually(t, "half a body", func() bool { return len(r.bodies()) == 3 })
	got := r.bodies()
	slices.Sort(got)
	if !strings.HasPrefix(got[0], body[:len(body)/2]+" unexpected EOF") || got[1] != body ||
		got[2] != body {
		t.Errorf("it got %q", got)
	}
	for _, want := range []string{
		"503 on purpose, not posted", "response lost on purpose: 200 OK",
		"connection broken on purpose, after half of the body", "  200 OK in ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q: %s", want, out)
		}
	}
	if f.Report.Events != 1 || f.Report.Refused != 0 {
		t.Errorf("%+v", f.Report)
	}
	tooMany := slices.Repeat([]string{"503"}, 9)
	for _, wrong := range [][]string{{"x"}, {"200"}, {"600"}, {""}, tooMany} {
		if _, err := forward.ParseFaults(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// A receiver that is still starting must be waited for, and a failure that was caused on purpose
// before must not be repeated.
func TestAReceiverThatIsNotThereIsWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	f, out := forwarder("http://" + at)
	if f.Faults, err = forward.ParseFaults([]string{"503"}); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	handled := make(chan error, 1)
	go func() { handled <- f.Handle(ended, event) }()
	testkit.Eventually(t, "it waits", func() bool {
		return strings.Contains(out.String(), "nothing listens at http://"+at)
	})
	end()
	if err := <-handled; !errors.Is(err, client.ErrPullAgain) {
		t.Fatalf("it ended with %v", err)
	}
	go func() { handled <- f.Handle(t.Context(), event) }()
	r := &receiver{}
	server := &httptest.Server{Config: &http.Server{Handler: r}}
	if server.Listener, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Close)
	if err := <-handled; err != nil || !slices.Equal(r.bodies(), []string{body}) {
		t.Errorf("it ended with %v, and the receiver got %q", err, r.bodies())
	}
	if n := strings.Count(out.String(), "503 on purpose"); n != 1 {
		t.Errorf("it failed on purpose %d times: %s", n, out)
	}
}

func TestEventsThatArePostedNowhereAreShown(t *testing.T) {
	f, out := forwarder("")
	f.Types = []string{"payment.rejected"}
	if err := f.Handle(t.Context(), event); err != nil || out.String() != "" {
		t.Errorf("%v: %s", err, out)
	}
	f.Types = []string{"payment.rejected", "payment.received"}
	if err := f.Handle(t.Context(), event); err != nil || !strings.Contains(out.String(), body) {
		t.Errorf("%v: %s", err, out)
	}
	out.Reset()
	f.Report.JSON = true
	if err := f.Handle(t.Context(), event); err != nil || out.String() !=
		`{"time":"2026-11-24T10:00:00Z","sequence":17,"id":"evt_1","type":"payment.received",`+
			`"body":"{\"id\":\"evt_1\",\"type\":\"payment.received\",\"data\":{}}"}`+"\n" {
		t.Errorf("%v: %s", err, out)
	}
}

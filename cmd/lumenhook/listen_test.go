package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// onLaptop is a receiver that a developer has just written. It verifies and counts.
type onLaptop struct {
	secret domain.Secret

	mu    sync.Mutex
	times map[string]int // posts by event ID
	bad   int
}

func (l *onLaptop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = domain.Verify(r.Header.Get("Webhook-Signature"), r.Header.Get("Webhook-Timestamp"), body,
			[]domain.Secret{l.secret}, time.Now().Unix())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.bad++
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	l.times[r.Header.Get("Webhook-Id")]++
}

// got counts the events, their posts, and the posts that did not verify.
func (l *onLaptop) got() (events, posts, bad int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.times {
		posts += n
	}
	return len(l.times), posts, l.bad
}

// TestAReceiverOnALaptopListens forwards events to a developer's receiver without a public address.
// What is paid while it listens must arrive with a valid signature, even if the receiver starts
// later or the service is away, and twice if its answer is lost.
func TestAReceiverOnALaptopListens(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--ledger-interval", "100ms"}
	s.start(flags...)
	flags = append(flags, "--api-listen", strings.TrimPrefix(s.file.APIURL, "http://"))
	var endpoint struct{ ID, Secret string }
	s.cli(&endpoint, "endpoints", "create", "--url", "https://127.0.0.1:8443/nobody")
	s.must("endpoints", "disable", endpoint.ID)
	wallet := s.watchedWalletOf(endpoint.ID)
	s.must("devnet", "pay", "--to", wallet, "--amount", "1") // before it listens for events
	s.eventually("the first is numbered", func() bool { return s.pulled(endpoint.ID) == 1 })

	laptop := &onLaptop{secret: domain.Secret(endpoint.Secret), times: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	p := s.listen("--forward-to", "http://"+at+"/webhooks", "--fail", "503,timeout,reset")
	s.eventually("it listens", func() bool {
		return strings.Contains(p.said.String(), "listening for")
	})
	s.must("devnet", "pay", "--to", wallet, "--amount", "2")
	s.eventually("it waits for the receiver", func() bool {
		return strings.Contains(p.said.String(), "nothing listens at http://"+at)
	})
	server := httptest.NewUnstartedServer(laptop)
	server.Listener.Close()
	if server.Listener, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Close)
	has := func(want int) func() bool {
		return func() bool {
			events, posts, bad := laptop.got()
			return events == want && posts == 2*want && bad == want
		}
	}
	s.eventually("what was paid since, twice, and half of it", has(1))

	s.kill()
	s.eventually("it says that the service is away", func() bool {
		return strings.Contains(p.said.String(), "once the service answers")
	})
	s.start(flags...)
	s.must("devnet", "pay", "--to", wallet, "--amount", "3")
	s.eventually("it goes on", has(2))
	s.eventually("and says so", func() bool {
		return strings.Count(p.said.String(), "  200 OK in ") == 2
	})
	p.end(t, syscall.SIGINT)
	for _, once := range []string{"once the service answers", "the service answers again"} {
		if strings.Count(p.said.String(), once) != 1 {
			t.Errorf("it does not say %q once:\n%s", once, p.said)
		}
	}
	if strings.Contains(p.said.String(), "dial tcp") {
		t.Errorf("it says what no person asks for:\n%s", p.said)
	}
	if !strings.Contains(p.said.String(), "events accepted: 2, not accepted: 0") {
		t.Errorf("it says\n%s", p.said)
	}

	again := s.listen("--since", "1h", "--events", "payment.received", "--json")
	s.eventually("all three", func() bool {
		return strings.Count(again.said.String(), `"sequence":`) == 3
	})
	again.end(t, syscall.SIGINT)
	s.cli(nil, "endpoints", "create", "--url", "https://127.0.0.1:8443/another")
	_, err = s.tryCLI("listen")
	if err == nil || !strings.Contains(err.Error(), "several endpoints") {
		t.Errorf("of two endpoints it says %v", err)
	}
	s.interrupt()
}

func (s *testService) pulled(endpointID string) int {
	s.t.Helper()
	out, err := s.tryCLI("events", "pull", "--endpoint", endpointID)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Count(out, "\n")
}

func (s *testService) listen(flags ...string) puller {
	s.t.Helper()
	args := append([]string{"listen", "--data-dir", s.dir, "--api-url", s.file.APIURL, "--api-key",
		s.file.APIKey}, flags...)
	p := puller{program(args...), &testkit.Buffer{}}
	p.Stderr, p.Stdout = p.said, p.said
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	return p
}

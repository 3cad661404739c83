package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

// counted counts the queries for IPv4 addresses that reach answer.
func counted(n *atomic.Int32, answer answers) answers {
	return func(name string, qtype dnsmessage.Type) ([]string, bool) {
		if qtype == dnsmessage.TypeA {
			n.Add(1)
		}
		return answer(name, qtype)
	}
}

func newResolver(t *testing.T, server string) *cachingResolver {
	t.Helper()
	return must(newCachingResolver(server, 5*time.Second))
}

func (r *cachingResolver) cached(host string) *lookup {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, _ := r.names.Peek(host)
	return l
}

// keepUntil changes the time until which a name's answer is cached.
func (r *cachingResolver) keepUntil(t *testing.T, host string, until time.Time) {
	t.Helper()
	l := r.cached(host)
	if l == nil {
		t.Fatalf("no answer for %s is kept", host)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.until = until
}

func lookupAddrs(t *testing.T, r *cachingResolver, host string) ([]netip.Addr, error) {
	t.Helper()
	return r.LookupNetIP(context.Background(), "ip", host)
}

// TestResolverKeepsAnswers checks that each kind of answer is cached for its time without further
// queries, and queried again afterwards.
func TestResolverKeepsAnswers(t *testing.T) {
	var asked atomic.Int32
	server := serveDNS(t, func(q query) *dnsmessage.Message {
		if q.Name.String() == "broken.test." {
			return q.reply(dnsmessage.RCodeServerFailure)
		}
		there := zone(map[string][]string{"there.test.": {"A 127.0.0.1"}})
		return replyWith(q, counted(&asked, there))
	})
	for host, want := range map[string]time.Duration{
		"there.test.":   answerTTL,
		"unknown.test.": answerTTL,
		"broken.test.":  failureTTL,
	} {
		t.Run(host, func(t *testing.T) {
			r := newResolver(t, server)
			asked.Store(0)
			began := time.Now()
			_, err := lookupAddrs(t, r, host)
			ended := time.Now()
			l, kept := r.names.Get(host)
			if !kept || l.until.Sub(began) < want || l.until.Sub(ended) > want {
				t.Fatalf("kept: %v, until %s, which is not %s", kept, l.until.Sub(ended), want)
			}
			first := asked.Load()
			l.until = l.until.Add(time.Minute) // so that it doesn't expire on a slow machine
			for range 100 {
				if _, again := lookupAddrs(t, r, host); (again == nil) != (err == nil) {
					t.Fatalf("first %v, then %v", err, again)
				}
			}
			if asked.Load() != first {
				t.Errorf("asked %d times for 101 lookups, and %d times for one", asked.Load(), first)
			}
			l.until = time.Now()
			if _, _ = lookupAddrs(t, r, host); r.cached(host) == l {
				t.Error("it is kept when its time is over")
			}
		})
	}
}

// However many attempts need a name at the same time, the name server must be queried once, even if
// the first of them is cancelled.
func TestResolverAsksOnceForMany(t *testing.T) {
	var asked atomic.Int32
	release := make(chan struct{})
	answer := func(name string, qtype dnsmessage.Type) ([]string, bool) {
		<-release
		return zone(map[string][]string{"one.test.": {"A 127.0.0.1"}})(name, qtype)
	}
	r := newResolver(t, nameServer(t, counted(&asked, answer)))
	impatient, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := r.LookupNetIP(impatient, "ip", "one.test."); err == nil {
			t.Error("the impatient one was answered")
		}
	})
	testkit.Eventually(t, "the name server is asked", func() bool { return asked.Load() == 1 })
	for range 200 {
		wg.Go(func() {
			addrs, err := lookupAddrs(t, r, "one.test.")
			if err != nil || len(addrs) != 1 {
				t.Errorf("got %v, %v", addrs, err)
			}
		})
	}
	cancel()
	close(release)
	wg.Wait()
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestResolverIsBounded(t *testing.T) {
	r := newResolver(t, nameServer(t, func(name string, qtype dnsmessage.Type) ([]string, bool) {
		if qtype != dnsmessage.TypeA {
			return nil, true
		}
		if !strings.HasPrefix(name, "wide") {
			return []string{name + " 300 IN A 127.0.0.1"}, true
		}
		var list []string
		for i := range maxCachedAddrs + 1 {
			list = append(list, fmt.Sprintf("%s 300 IN A 127.0.1.%d", name, i))
		}
		return list, true
	}))
	// The cache is full of names with a long TTL. New names evict them.
	for i := range maxNames {
		l := &lookup{done: make(chan struct{}), until: time.Now().Add(time.Hour)}
		close(l.done)
		r.names.Add(fmt.Sprintf("n%d.test.", i), l)
	}
	for i := range 10 {
		if _, err := lookupAddrs(t, r, fmt.Sprintf("new%d.test.", i)); err != nil {
			t.Fatal(err)
		}
	}
	if r.names.Len() != maxNames || !r.names.Contains("new9.test.") || r.names.Contains("n0.test.") {
		t.Errorf("%d names, the newest among them: %v, the oldest: %v", r.names.Len(),
			r.names.Contains("new9.test."), r.names.Contains("n0.test."))
	}
	// An answer with many addresses arrives over TCP and isn't cached.
	addrs, err := lookupAddrs(t, r, "wide.test.")
	if err != nil || len(addrs) != maxCachedAddrs+1 || r.names.Contains("wide.test.") {
		t.Errorf("%d addresses, %v; kept: %v", len(addrs), err, r.names.Contains("wide.test."))
	}
}

// A query whose answer doesn't fit a datagram must be repeated over TCP.
func TestResolverOverTCP(t *testing.T) {
	r := newResolver(t, serveDNS(t, func(q query) *dnsmessage.Message {
		m := q.reply(dnsmessage.RCodeSuccess)
		if q.udp {
			m.Truncated = true
		} else if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, record(q.Name.String()+" 40 IN A 127.0.0.1"))
		}
		return m
	}))
	if addrs, err := lookupAddrs(t, r, "big.test."); err != nil || len(addrs) != 1 {
		t.Fatalf("got %v, %v", addrs, err)
	}
}

func TestResolverKnowsTheHostsFile(t *testing.T) {
	r := newResolver(t, nameServer(t, zone(nil)))
	addrs, err := lookupAddrs(t, r, "localhost.")
	if err != nil || len(addrs) == 0 || !addrs[0].IsLoopback() {
		t.Errorf("localhost is %v, %v", addrs, err)
	}
}

func TestDNSServerMustBeAnAddress(t *testing.T) {
	for _, server := range []string{"dns.example:53", "127.0.0.1", "127.0.0.1:99999", "x"} {
		if _, err := New(Config{DNSServer: server}); err == nil ||
			!strings.Contains(err.Error(), "DNSServer") {
			t.Errorf("DNSServer %q: %v", server, err)
		}
	}
}

func TestDNSSixOnly(t *testing.T) {
	server := nameServer(t, zone(map[string][]string{"six.test.": {"AAAA ::1"}}))
	c := newClient(t, func(cfg *Config) { cfg.DNSServer = server })
	addrs, err := c.resolve(context.Background(), "six.test")
	if err != nil || len(addrs) != 1 || addrs[0] != netip.IPv6Loopback() {
		t.Fatalf("six.test is %v, %v", addrs, err)
	}
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil { // without IPv6, the attempt must say so instead of hanging
		wantResult(t, post(t, c, "https://six.test:8443"), 0, ConnRefused)
		return
	}
	url := serveOn(t, l, func(w http.ResponseWriter, r *http.Request) {})
	wantResult(t, post(t, c, strings.Replace(url, "[::1]", "six.test", 1)), 200, "")
}

// TestDNSAnswersRaceTheCheck is the classic rebinding attack: a name has a good address when it is
// checked and a private one when it is dialed.
func TestDNSAnswersRaceTheCheck(t *testing.T) {
	t.Run("uncached", func(t *testing.T) {
		raceTheCheck(t, func(server string) (Resolver, func()) {
			return newDNS(server, time.Second), func() {}
		})
	})
	t.Run("cached", func(t *testing.T) {
		raceTheCheck(t, func(server string) (Resolver, func()) {
			r := newResolver(t, server)
			return r, func() { r.keepUntil(t, "race.test.", time.Time{}) }
		})
	})
}

// raceTheCheck tests the resolver that resolve returns for a name server. The second result of
// resolve expires the resolver's answers.
func raceTheCheck(t *testing.T, resolve func(server string) (Resolver, func())) {
	var reached atomic.Bool
	inside := rawReceiver(t, func(net.Conn) { reached.Store(true) })
	var n atomic.Int32
	server := nameServer(t, func(name string, qtype dnsmessage.Type) ([]string, bool) {
		if qtype != dnsmessage.TypeA {
			return nil, true
		}
		if n.Add(1)%2 == 1 {
			return []string{name + " 0 IN A 203.0.114.1"}, true // public, and never dialed (see below)
		}
		return []string{name + " 0 IN A 127.0.0.1"}, true
	})
	resolver, expire := resolve(server)
	c := newClient(t, func(cfg *Config) { cfg.Resolver, cfg.Policy.Allow = resolver, nil })
	_, port, _ := net.SplitHostPort(inside)
	for range 10 {
		if err := c.CheckHost(context.Background(), "race.test"); err != nil {
			t.Fatal(err) // this is the first answer of each pair
		}
		expire()
		wantResult(t, post(t, c, "https://race.test:"+port), 0, SSRFBlocked) // the second
		expire()
	}
	if reached.Load() {
		t.Error("the inside was reached")
	}
}

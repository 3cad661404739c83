package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

type query struct {
	dnsmessage.Header
	dnsmessage.Question
	udp bool
}

// reply returns a response to a query, without answer records.
func (q query) reply(rcode dnsmessage.RCode) *dnsmessage.Message {
	return &dnsmessage.Message{
		Header:    dnsmessage.Header{ID: q.ID, Response: true, RCode: rcode},
		Questions: []dnsmessage.Question{q.Question},
	}
}

// serveDNS runs a DNS server on loopback, over UDP and TCP, and returns its address. If answer
// returns nil, the server sends nothing.
func serveDNS(t *testing.T, answer func(query) *dnsmessage.Message) string {
	t.Helper()
	l, pc := listenBoth(t)
	var serving sync.WaitGroup
	handle := func(raw []byte, udp bool, send func([]byte)) {
		var m dnsmessage.Message
		if m.Unpack(raw) != nil || len(m.Questions) != 1 {
			return
		}
		if to := answer(query{m.Header, m.Questions[0], udp}); to != nil {
			send(must(to.Pack()))
		}
	}
	serving.Go(func() {
		for datagram := make([]byte, 1<<10); ; {
			n, from, err := pc.ReadFrom(datagram)
			if err != nil {
				return
			}
			raw := bytes.Clone(datagram[:n])
			serving.Go(func() { handle(raw, true, func(to []byte) { _, _ = pc.WriteTo(to, from) }) })
		}
	})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				var size uint16
				for binary.Read(c, binary.BigEndian, &size) == nil {
					raw := make([]byte, size)
					if _, err := io.ReadFull(c, raw); err != nil {
						return
					}
					handle(raw, false, func(to []byte) {
						_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(to))), to...))
					})
				}
			})
		}
	})
	t.Cleanup(func() { _, _ = l.Close(), pc.Close(); serving.Wait() })
	return pc.LocalAddr().String()
}

func listenBoth(t *testing.T) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pc, err := net.ListenPacket("udp", l.Addr().String())
		if err == nil {
			return l, pc
		}
		_ = l.Close()
	}
	t.Fatal("no port is free for UDP and TCP")
	return nil, nil
}

// answers returns the records for a query, or false for NXDOMAIN.
type answers = func(name string, qtype dnsmessage.Type) ([]string, bool)

func nameServer(t *testing.T, answer answers) string {
	t.Helper()
	return serveDNS(t, func(q query) *dnsmessage.Message { return replyWith(q, answer) })
}

func replyWith(q query, answer answers) *dnsmessage.Message {
	m := q.reply(dnsmessage.RCodeSuccess)
	records, ok := answer(strings.ToLower(q.Name.String()), q.Type)
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range records {
		m.Answers = append(m.Answers, record(text))
	}
	if q.udp && len(must(m.Pack())) > 512 {
		m.Truncated, m.Answers = true, nil
	}
	return m
}

// record parses a record such as "good.test. 1 IN A 127.0.0.1".
func record(text string) dnsmessage.Resource {
	fields := strings.Fields(text)
	r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{
		Name:  dnsmessage.MustNewName(fields[0]),
		Class: dnsmessage.ClassINET,
		TTL:   uint32(must(strconv.Atoi(fields[1]))),
	}}
	switch r.Header.Type = types[fields[3]]; r.Header.Type {
	case dnsmessage.TypeA:
		r.Body = &dnsmessage.AResource{A: netip.MustParseAddr(fields[4]).As4()}
	case dnsmessage.TypeAAAA:
		r.Body = &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr(fields[4]).As16()}
	default:
		r.Body = &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(fields[4])}
	}
	return r
}

var types = map[string]dnsmessage.Type{
	"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME,
}

// zone answers from a table that maps names to records, and follows its aliases.
func zone(records map[string][]string) answers {
	return func(name string, qtype dnsmessage.Type) (out []string, ok bool) {
		_, ok = records[name]
		for next := name; next != ""; {
			owner := next
			next = ""
			for _, rr := range records[owner] {
				fields := strings.Fields(rr)
				if kind := types[fields[0]]; kind == qtype || kind == dnsmessage.TypeCNAME {
					out = append(out, owner+" 1 IN "+rr)
					if kind == dnsmessage.TypeCNAME {
						next = fields[1]
					}
				}
			}
		}
		return out, ok
	}
}

func TestDNSAnswersAreJudged(t *testing.T) {
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {})
	port := s.Listener.Addr().(*net.TCPAddr).Port
	server := nameServer(t, zone(map[string][]string{
		"good.test.":      {"A 127.0.0.1"},
		"private.test.":   {"A 10.0.0.1"},
		"metadata.test.":  {"A 169.254.169.254"},
		"mixed.test.":     {"A 127.0.0.1", "A 192.168.1.1"},
		"mixed6.test.":    {"A 127.0.0.1", "AAAA fd00::1"},
		"mapped.test.":    {"AAAA ::ffff:10.0.0.1"},
		"only6.test.":     {"AAAA fe80::1"},
		"alias.test.":     {"CNAME private.test."},
		"goodalias.test.": {"CNAME good.test."},
		"chain.test.":     {"CNAME chain2.test."},
		"chain2.test.":    {"CNAME chain3.test."},
		"chain3.test.":    {"CNAME mixed.test."},
		"rebound.test.":   {"A 168.63.129.16"},
		"nat64.test.":     {"AAAA 64:ff9b::a9fe:a9fe"},
		"last.test.": {
			"A 127.0.0.1", "A 127.0.0.2", "A 127.0.0.3", "A 127.0.0.4", "A 127.0.0.5",
			"A 127.0.0.6", "A 127.0.0.7", "A 127.0.0.8", "A 127.0.0.9", "A 10.0.0.1",
		},
		"empty.test.":        {},
		"unreachable6.test.": {"A 127.0.0.1", "AAAA ::1"},
	}))
	c := newClient(t, func(cfg *Config) { cfg.DNSServer = server })
	for host, k := range map[string]struct {
		status int
		code   Code
		fault  FaultCode
	}{
		"good.test":  {200, "", ""},
		"GOOD.test.": {200, "", ""}, "goodalias.test": {200, "", ""}, "unreachable6.test": {200, "", ""},
		"private.test":  {0, SSRFBlocked, FaultForbidden},
		"metadata.test": {0, SSRFBlocked, FaultForbidden},
		"mixed.test":    {0, SSRFBlocked, FaultForbidden},
		"mixed6.test":   {0, SSRFBlocked, FaultForbidden},
		"mapped.test":   {0, SSRFBlocked, FaultForbidden},
		"only6.test":    {0, SSRFBlocked, FaultForbidden}, "alias.test": {0, SSRFBlocked, FaultForbidden},
		"chain.test": {0, SSRFBlocked, FaultForbidden}, "rebound.test": {0, SSRFBlocked, FaultForbidden},
		// also when the forbidden address is not among those that are tried
		"nat64.test": {0, SSRFBlocked, FaultForbidden}, "last.test": {0, SSRFBlocked, FaultForbidden},
		"empty.test": {0, DNS, FaultDoesNotResolve}, "missing.test": {0, DNS, FaultDoesNotResolve},
	} {
		r := post(t, c, "https://"+net.JoinHostPort(host, itoa(port)))
		wantResult(t, r, k.status, k.code)
		err := c.CheckHost(context.Background(), host)
		var f *Fault
		if (k.fault == "") != (err == nil) || err != nil && (!errors.As(err, &f) || f.Code != k.fault) {
			t.Errorf("CheckHost(%s) = %v, want %q", host, err, k.fault)
		}
	}
	var f *Fault
	if err := c.CheckHost(context.Background(), "10.0.0.1"); !errors.As(err, &f) ||
		f.Code != FaultForbidden {
		t.Errorf("CheckHost of a private literal: %v", err)
	}
}

// TestDNSRebinding checks that a name whose address becomes private is blocked at the next dial.
// The pooled connection to the old address stays in use until it is dropped.
func TestDNSRebinding(t *testing.T) {
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {})
	server, private := rebinding(t)
	c := newClient(t, func(cfg *Config) { cfg.Resolver = newDNS(server, time.Second) }) // uncached
	url := "https://rebind.test:" + itoa(s.Listener.Addr().(*net.TCPAddr).Port)
	if err := c.CheckHost(context.Background(), "rebind.test"); err != nil {
		t.Fatal(err)
	}
	wantResult(t, post(t, c, url), 200, "")
	private.Store(true)
	wantResult(t, post(t, c, url), 200, "") // on the pooled connection to 127.0.0.1
	c.DropIdle(url)
	wantResult(t, post(t, c, url), 0, SSRFBlocked)
}

// rebinding runs a name server that resolves every name to 127.0.0.1, and to 10.0.0.1 once private
// is set. It returns the server's address.
func rebinding(t *testing.T) (server string, private *atomic.Bool) {
	t.Helper()
	private = new(atomic.Bool)
	return nameServer(t, func(name string, qtype dnsmessage.Type) ([]string, bool) {
		switch {
		case qtype != dnsmessage.TypeA:
			return nil, true
		case private.Load():
			return []string{name + " 0 IN A 10.0.0.1"}, true
		}
		return []string{name + " 0 IN A 127.0.0.1"}, true
	}), private
}

// TestDNSRebindingBehindTheCache checks that a cached address is dialed, and checked again, until
// its time is over. Then the name's new address is blocked, even while it is cached.
func TestDNSRebindingBehindTheCache(t *testing.T) {
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {})
	server, private := rebinding(t)
	resolver := newResolver(t, server)
	c := newClient(t, func(cfg *Config) { cfg.Resolver = resolver })
	url := "https://rebind.test:" + itoa(s.Listener.Addr().(*net.TCPAddr).Port)
	wantResult(t, post(t, c, url), 200, "")
	private.Store(true)
	c.DropIdle(url)
	resolver.keepUntil(t, "rebind.test.", time.Now().Add(time.Hour))
	wantResult(t, post(t, c, url), 200, "") // still 127.0.0.1
	c.DropIdle(url)
	resolver.keepUntil(t, "rebind.test.", time.Time{})
	wantResult(t, post(t, c, url), 0, SSRFBlocked)
	resolver.keepUntil(t, "rebind.test.", time.Now().Add(time.Hour))
	private.Store(false)
	wantResult(t, post(t, c, url), 0, SSRFBlocked)
	if err := c.CheckHost(context.Background(), "rebind.test"); err == nil {
		t.Error("a kept address that is forbidden passes the check")
	}
}

// The dialer must refuse a forbidden address itself, in case the resolver lets one through.
func TestDialGuard(t *testing.T) {
	accepted := make(chan struct{}, 1)
	addr := rawReceiver(t, func(net.Conn) { accepted <- struct{}{} })
	c := newClient(t, func(cfg *Config) { cfg.Policy.Allow = nil })
	port := addr[strings.LastIndexByte(addr, ':')+1:]
	for _, a := range addrs("127.0.0.1", "::ffff:127.0.0.1") {
		_, err := connect(context.Background(), c.dialer, []netip.Addr{a}, port)
		if classify(err) != SSRFBlocked {
			t.Errorf("connect to %s: %v", a, err)
		}
	}
	narrow := newClient(t, func(cfg *Config) { cfg.Policy.Ports = DefaultPorts() })
	_, err := connect(context.Background(), narrow.dialer, addrs("127.0.0.1"), port)
	if classify(err) != SSRFBlocked {
		t.Errorf("connect to a port that is not permitted: %v", err)
	}
	err = c.judgeDial(context.Background(), "tcp", "not an address", syscall.RawConn(nil))
	if classify(err) != SSRFBlocked {
		t.Errorf("judgeDial of nonsense: %v", err)
	}
	select {
	case <-accepted:
		t.Error("a forbidden connection was made")
	default:
	}
	wantResult(t, post(t, c, "https://"+addr), 0, SSRFBlocked)
	wantResult(t, post(t, narrow, "https://"+addr), 0, SSRFBlocked)
}

// If no server answers for a name, the attempt must fail with DNS before its time is used up.
func TestDNSThatNeverAnswersIsDNS(t *testing.T) {
	const budget = 6 * time.Second
	var asked atomic.Int32
	server := serveDNS(t, func(q query) *dnsmessage.Message { // no answer, over UDP or TCP
		if q.Type == dnsmessage.TypeA {
			asked.Add(1)
		}
		return nil
	})
	c := newClient(t, func(cfg *Config) { cfg.DNSServer, cfg.AttemptTimeout = server, budget })
	r := post(t, c, "https://silent.test")
	wantResult(t, r, 0, DNS)
	if r.Duration >= budget {
		t.Errorf("took %s, the whole budget", r.Duration)
	}
	if asked.Load() < 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	if again := post(t, c, "https://silent.test"); again.Error != DNS {
		t.Errorf("the next attempt: %+v", again)
	}
}

// A lookup counts toward the attempt's time.
func TestDNSSlowIsTimeout(t *testing.T) {
	c := newClient(t, func(cfg *Config) {
		cfg.Resolver, cfg.AttemptTimeout = untilTheEnd{}, 150*time.Millisecond
	})
	wantResult(t, post(t, c, "https://slow.test"), 0, Timeout)
}

// With many servers that never answer, the lookup's own timeout expires before its queries finish.
// That must not be reported as a timeout of the attempt.
func TestALookupThatRanOutOfItsOwnTimeIsDNS(t *testing.T) {
	c := newClient(t, func(cfg *Config) { cfg.Resolver = ranOut{} })
	wantResult(t, post(t, c, "https://slow.test"), 0, DNS)
}

// ranOut is a resolver whose own timeout expires at once.
type ranOut struct{}

func (ranOut) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 0)
	defer cancel()
	return nil, fmt.Errorf("looking %s up: %w", host, ctx.Err())
}

// untilTheEnd is a resolver that waits until the context ends.
type untilTheEnd struct{}

func (untilTheEnd) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestDNSLostQuestionIsAskedAgain(t *testing.T) {
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {})
	var asked sync.Map
	answer := zone(map[string][]string{"lossy.test.": {"A 127.0.0.1"}})
	server := serveDNS(t, func(q query) *dnsmessage.Message {
		if _, before := asked.LoadOrStore(q.Type, true); !before {
			return nil
		}
		return replyWith(q, answer)
	})
	c := newClient(t, func(cfg *Config) { cfg.DNSServer = server })
	wantResult(t, post(t, c, "https://lossy.test:"+itoa(s.Listener.Addr().(*net.TCPAddr).Port)), 200,
		"")
}

func TestDNSServerDown(t *testing.T) {
	resolver := &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no name server")
		},
	}
	c := newClient(t, func(cfg *Config) { cfg.Resolver = resolver })
	wantResult(t, post(t, c, "https://any.test"), 0, DNS)
}

func TestConnectTriesTheNextAddress(t *testing.T) {
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {})
	port := s.Listener.Addr().(*net.TCPAddr).Port
	resolver := fixed(addrs("127.0.0.99", "127.0.0.1"))
	c := newClient(t, func(cfg *Config) { cfg.Resolver = resolver })
	wantResult(t, post(t, c, "https://two.test:"+itoa(port)), 200, "")
}

type fixed []netip.Addr

func (f fixed) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return append([]netip.Addr(nil), f...), nil
}

type byName map[string]string

func (b byName) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addr, ok := b[host]; ok {
		return addrs(addr), nil
	}
	return nil, errors.New("no such host")
}

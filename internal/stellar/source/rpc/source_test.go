package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/network"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

func newSource(t *testing.T, config rpc.Config) (*rpc.Source, *testkit.Buffer) {
	t.Helper()
	l := &testkit.Buffer{}
	config.Logger = slog.New(slog.NewTextHandler(l, nil))
	return open(t, config), l
}

func open(t *testing.T, config rpc.Config) *rpc.Source {
	t.Helper()
	config.PollInterval, config.BackoffMax = time.Millisecond, 4*time.Millisecond
	if config.Passphrase == "" {
		config.Passphrase = passphrase
	}
	s, err := rpc.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(t))
	t.Cleanup(cancel)
	return ctx
}

// newSources joins servers. When one fails, the next takes over.
func newSources(
	t *testing.T, trust source.Trust, nodes ...*node,
) (*quorum.Source, *testkit.Buffer) {
	t.Helper()
	l := &testkit.Buffer{}
	config := quorum.Config{
		Need:      1,
		Interval:  time.Millisecond,
		LeftFirst: time.Millisecond,
		LeftLast:  4 * time.Millisecond,
		Log:       slog.New(slog.NewTextHandler(l, nil)),
	}
	for i, n := range nodes {
		s := open(t, rpc.Config{URL: n.server.URL, PageSize: 5, Trust: trust, Logger: config.Log})
		config.Members = append(config.Members, quorum.Member{Name: fmt.Sprint("rpc ", i), Source: s})
	}
	s, err := quorum.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

func next(t *testing.T, s source.Source, sequence uint32) []uint32 {
	t.Helper()
	page, err := s.Next(within(t), sequence)
	if err != nil {
		t.Fatalf("ledger %d: %v", sequence, err)
	}
	var got []uint32
	for _, raw := range page {
		header, err := ledger.ReadHeader(raw.XDR)
		if err != nil || header.Sequence != raw.Sequence || header.Hash != raw.Hash {
			t.Fatalf("ledger %d has the header %+v (%v)", raw.Sequence, header, err)
		}
		got = append(got, raw.Sequence)
	}
	return got
}

func TestPagesAndTheTip(t *testing.T) {
	n := newNode(t)
	n.grow(t, 10, 17, 0)
	s, l := newSource(t, rpc.Config{URL: n.server.URL, PageSize: 5})
	if err := s.Check(within(t)); err != nil {
		t.Fatal(err)
	}
	if latest, err := s.Latest(within(t)); err != nil || latest != 17 {
		t.Errorf("the latest ledger is %d (%v), want 17", latest, err)
	}
	if got := next(t, s, 10); !slices.Equal(got, []uint32{10, 11, 12, 13, 14}) {
		t.Errorf("first page %v", got)
	}
	if got := next(t, s, 15); !slices.Equal(got, []uint32{15, 16, 17}) {
		t.Errorf("second page %v", got)
	}
	looks := 0
	n.mu.Lock()
	n.onRequest = func(string) {
		if looks++; looks == 3 { // the ledger closes while the source waits for it
			n.mu.Unlock()
			n.grow(t, 18, 18, 0)
			n.mu.Lock()
		}
	}
	n.mu.Unlock()
	if got := next(t, s, 18); !slices.Equal(got, []uint32{18}) {
		t.Errorf("at the tip %v", got)
	}
	if strings.Count(l.String(), "WARN") != 0 {
		t.Errorf("waiting at the tip was logged: %s", l)
	}
}

func TestRealLedger(t *testing.T) {
	n := newNode(t)
	n.passphrase = network.PublicNetworkPassphrase
	n.addReal(t, 63092988)
	s, _ := newSource(t, rpc.Config{URL: n.server.URL, Passphrase: network.PublicNetworkPassphrase})
	page, err := s.Next(within(t), 63092988)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ledger.NewExtractor(network.PublicNetworkPassphrase)
	if err != nil {
		t.Fatal(err)
	}
	read, err := e.Extract(page[0].XDR)
	if err != nil || len(read.Payments) != 127 || read.Hash != page[0].Hash {
		t.Errorf("read %d payments (%v), want 127", len(read.Payments), err)
	}
}

func TestWrongNetwork(t *testing.T) {
	n := newNode(t)
	n.passphrase = network.TestNetworkPassphrase
	s, _ := newSource(t, rpc.Config{URL: n.server.URL})
	err := s.Check(within(t))
	if !errors.Is(err, domain.ErrWrongNetwork) ||
		!strings.Contains(err.Error(), network.TestNetworkPassphrase) ||
		!strings.Contains(err.Error(), passphrase) {
		t.Errorf("got %v", err)
	}
}

func TestFaultsThatPass(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 3, 0)
	n.faults = []fault{
		unavailable, garbage, noResult, unhealthy, hangUp, none, unavailable, none,
		garbage, none, hangUp,
	}
	s, l := newSource(t, rpc.Config{URL: n.server.URL})
	if got := next(t, s, 1); !slices.Equal(got, []uint32{1, 2, 3}) {
		t.Errorf("got %v", got)
	}
	if strings.Count(l.String(), "WARN") != 1 || strings.Count(l.String(), "INFO") != 1 {
		t.Errorf("want one line for down and one for up, got\n%s", l)
	}
	n.mu.Lock()
	n.faults = []fault{unavailable, unavailable}
	n.mu.Unlock()
	next(t, s, 2)
	if strings.Count(l.String(), "WARN") != 2 || strings.Count(l.String(), "INFO") != 2 {
		t.Errorf("want one line more for each change, got\n%s", l)
	}
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	s, l := newSource(t, rpc.Config{URL: "http://" + address + "/key-of-a-provider"})
	if err := s.Check(within(t)); err == nil || strings.Contains(err.Error(), "key-of-a-provider") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Next(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want to wait until we give up", err)
	}
	if strings.Count(l.String(), "WARN") != 1 || strings.Count(l.String(), "key-of-a-provider") != 0 {
		t.Errorf("got\n%s", l)
	}
}

func TestSkippedLedgerIsWaitedFor(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 6, 0)
	missing := n.ledgers[4]
	delete(n.ledgers, 4)
	s, l := newSource(t, rpc.Config{URL: n.server.URL})
	if got := next(t, s, 1); !slices.Equal(got, []uint32{1, 2, 3}) {
		t.Errorf("before the gap: %v", got)
	}
	looks := 0
	n.mu.Lock()
	n.onRequest = func(string) {
		if looks++; looks == 8 {
			n.ledgers[4] = missing
		}
	}
	n.mu.Unlock()
	if got := next(t, s, 4); !slices.Equal(got, []uint32{4, 5, 6}) {
		t.Errorf("after the gap: %v", got)
	}
	if strings.Count(l.String(), "gave ledger 5 where 4 is due") != 1 {
		t.Errorf("the gap was not logged once:\n%s", l)
	}
}

func TestResetAndFork(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 3, 0)
	s, _ := newSource(t, rpc.Config{URL: n.server.URL, PageSize: 3})
	next(t, s, 1)
	hash := n.ledgers[3].Hash
	n.ledgers = map[uint32]ledger.Raw{}
	n.grow(t, 1, 6, 1)
	if _, err := s.Next(within(t), 4); !errors.Is(err, domain.ErrForked) {
		t.Errorf("another chain: got %v", err)
	}
	restarted, _ := newSource(t, rpc.Config{URL: n.server.URL})
	restarted.Continue(3, hash)
	if _, err := restarted.Next(within(t), 4); !errors.Is(err, domain.ErrForked) ||
		!strings.Contains(err.Error(), hash) {
		t.Errorf("another chain after a restart: got %v", err)
	}
}

func TestForkInsideAPage(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 6, 0)
	other := newNode(t)
	other.grow(t, 1, 6, 1)
	n.ledgers[5] = other.ledgers[5]
	s, _ := newSource(t, rpc.Config{URL: n.server.URL})
	if got := next(t, s, 1); !slices.Equal(got, []uint32{1, 2, 3, 4}) {
		t.Errorf("before the fork: %v", got)
	}
	if _, err := s.Next(within(t), 5); !errors.Is(err, domain.ErrForked) {
		t.Errorf("got %v", err)
	}
}

func TestNodeThatWentBackInTimeIsWaitedFor(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 6, 0)
	s, l := newSource(t, rpc.Config{URL: n.server.URL})
	next(t, s, 1)
	n.mu.Lock()
	n.latest = 2
	looks := 0
	n.onRequest = func(string) {
		if looks++; looks == 25 {
			n.mu.Unlock()
			n.grow(t, 7, 7, 0)
			n.mu.Lock()
		}
	}
	n.mu.Unlock()
	if got := next(t, s, 7); !slices.Equal(got, []uint32{7}) {
		t.Errorf("got %v", got)
	}
	if strings.Count(l.String(), "older than the next ledger to read") != 1 {
		t.Errorf("got\n%s", l)
	}
}

func TestBehindRetention(t *testing.T) {
	n := newNode(t)
	n.grow(t, 100, 120, 0)
	s, _ := newSource(t, rpc.Config{URL: n.server.URL})
	_, err := s.Next(within(t), 99)
	if !errors.Is(err, domain.ErrBehindRetention) ||
		!strings.Contains(err.Error(), "has 100 to 120") {
		t.Errorf("got %v", err)
	}
}

func TestMisnamedAndUnreadableLedgers(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 2, 0)
	right := n.ledgers[1]
	n.ledgers[1] = ledger.Raw{Sequence: 1, Hash: strings.Repeat("0", 64), XDR: right.XDR}
	looks := 0
	n.onRequest = func(string) {
		if looks++; looks == 4 {
			n.ledgers[1] = right
		}
	}
	s, l := newSource(t, rpc.Config{URL: n.server.URL})
	next(t, s, 1)
	if strings.Count(l.String(), "under the name of") != 1 {
		t.Errorf("got\n%s", l)
	}
	n.mu.Lock()
	n.ledgers[2] = ledger.Raw{Sequence: 2, Hash: n.ledgers[2].Hash, XDR: []byte{0, 0, 0, 9}}
	n.mu.Unlock()
	if _, err := s.Next(within(t), 2); err == nil ||
		!strings.Contains(err.Error(), "version 9 is not known") {
		t.Errorf("a ledger of an unknown version: got %v", err)
	}
}

func TestPagesThatAreTooLargeAreHalved(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 8, 0)
	tooLarge := func(w http.ResponseWriter, _ string) bool {
		w.Write(bytes.Repeat([]byte{' '}, 1<<20+1))
		return true
	}
	n.faults = []fault{none, tooLarge, none, none}
	s, _ := newSource(t, rpc.Config{URL: n.server.URL, PageSize: 8})
	s.SetPageSizeBytesMax(1 << 20)
	if got := next(t, s, 1); !slices.Equal(got, []uint32{1, 2, 3, 4}) {
		t.Errorf("got %v", got)
	}
}

// After a response that was too large, pages must grow again as far as the sizes of their ledgers
// allow.
func TestPagesGrowAgain(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 200, 0)
	var limits []uint
	var mu sync.Mutex
	n.onAsk = func(ask protocol.GetLedgersRequest) {
		mu.Lock()
		defer mu.Unlock()
		limits = append(limits, ask.Pagination.Limit)
	}
	tooLarge := func(w http.ResponseWriter, _ string) bool {
		w.Write(bytes.Repeat([]byte{' '}, 1<<20+1))
		return true
	}
	n.faults = []fault{none, tooLarge, none, tooLarge, none, tooLarge}
	s, _ := newSource(t, rpc.Config{URL: n.server.URL, PageSize: 8})
	s.SetPageSizeBytesMax(1 << 20)
	got := next(t, s, 1)
	if len(got) != 1 {
		t.Errorf("after three answers that are too large: %v", got)
	}
	for len(got) < 200 {
		got = append(got, next(t, s, uint32(len(got)+1))...)
	}
	for i, sequence := range got {
		if sequence != uint32(i)+1 {
			t.Fatalf("got %v", got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(limits[:4], []uint{8, 4, 2, 1}) || slices.Max(limits[4:]) != 8 {
		t.Errorf("asked for pages of %v ledgers", limits)
	}
}

// Pages must be requested in advance. The server answers a request for a page only after the
// requests for the next two.
func TestPagesAreFetchedAhead(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 200, 0)
	asked, ended := map[uint32]bool{}, false
	changed := sync.NewCond(&sync.Mutex{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var call struct{ Params protocol.GetLedgersRequest }
		if json.Unmarshal(body, &call) == nil && call.Params.StartLedger > 20 {
			first := call.Params.StartLedger
			changed.L.Lock()
			asked[first] = true
			changed.Broadcast()
			const last = 191
			for !ended && (!asked[min(first+10, last)] || !asked[min(first+20, last)]) {
				changed.Wait()
			}
			changed.L.Unlock()
		}
		n.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		changed.L.Lock()
		ended = true
		changed.L.Unlock()
		changed.Broadcast()
		server.Close()
	})
	s, _ := newSource(t, rpc.Config{URL: server.URL, PageSize: 10})
	var got []uint32
	for len(got) < 200 {
		got = append(got, next(t, s, uint32(len(got)+1))...)
	}
	if health := n.asked(protocol.GetHealthMethodName); health != 1 {
		t.Errorf("the server was asked %d times for its newest ledger", health)
	}
	if pages := n.asked(protocol.GetLedgersMethodName); pages != 20 {
		t.Errorf("20 pages were asked for in %d requests", pages)
	}
}

func TestAPageFetchedAheadIsAskedForAgain(t *testing.T) {
	for name, f := range map[string]fault{
		"away": unavailable, "garbage": garbage, "hangs up": hangUp,
	} {
		n := newNode(t)
		n.grow(t, 1, 60, 0)
		n.faults = []fault{none, none, none, f, f, none, f}
		s, _ := newSource(t, rpc.Config{URL: n.server.URL, PageSize: 5})
		var got []uint32
		for len(got) < 60 {
			got = append(got, next(t, s, uint32(len(got)+1))...)
		}
		for i, sequence := range got {
			if sequence != uint32(i)+1 {
				t.Fatalf("%s: got %v", name, got)
			}
		}
	}
}

// A server that sends Retry-After must not be queried earlier, whether it gives seconds or a
// date. Another server may be.
func TestRetryAfterIsHonoured(t *testing.T) {
	inASecond := func() string { return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) }
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		for _, after := range []func() string{func() string { return "1" }, inASecond} {
			n := newNode(t)
			n.grow(t, 1, 3, 0)
			var until time.Time
			n.faults = []fault{func(w http.ResponseWriter, _ string) bool {
				text := after()
				w.Header().Set("Retry-After", text)
				until, _ = http.ParseTime(text)
				if until.IsZero() {
					until = time.Now().Add(time.Second)
				}
				w.WriteHeader(status)
				return true
			}}
			early := 0
			n.onRequest = func(string) {
				if time.Now().Before(until) {
					early++
				}
			}
			s, l := newSource(t, rpc.Config{URL: n.server.URL})
			if got := next(t, s, 1); len(got) != 3 || early > 0 {
				t.Errorf("%d: got %v, and %d requests before the time", status, got, early)
			}
			if !strings.Contains(l.String(), "asks to wait until") {
				t.Errorf("the log: %s", l)
			}
		}
	}
	busy, other := newNode(t), newNode(t)
	busy.grow(t, 1, 50, 0)
	other.grow(t, 1, 50, 0)
	busy.faults = []fault{func(w http.ResponseWriter, _ string) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}}
	s, _ := newSources(t, source.Trust{}, busy, other)
	var got []uint32
	for len(got) < 50 {
		got = append(got, next(t, s, uint32(len(got)+1))...)
	}
	if _, err := s.Latest(within(t)); err != nil {
		t.Error(err)
	}
	if n := busy.asked(protocol.GetHealthMethodName); n != 1 {
		t.Errorf("the busy server was asked %d times", n)
	}
}

// An impossible newest or oldest ledger of a server may be temporary.
func TestImpossibleHealthMayPass(t *testing.T) {
	for _, says := range []struct{ oldest, latest uint32 }{
		{1, 1<<32 - 1}, {1, 1 << 31}, {0, 0}, {9, 3}, {1<<32 - 1, 3},
	} {
		n := newNode(t)
		n.grow(t, 1, 3, 0)
		n.oldest, n.latest = says.oldest, says.latest
		s, l := newSource(t, rpc.Config{URL: n.server.URL})
		if latest, err := s.Latest(within(t)); err == nil || source.IsPermanent(err) {
			t.Errorf("%+v: got %d, %v", says, latest, err)
		}
		looks := 0
		n.onRequest = func(string) {
			if looks++; looks == 5 {
				n.oldest, n.latest = 1, 3
			}
		}
		if got := next(t, s, 1); len(got) != 3 || strings.Count(l.String(), "WARN") != 1 {
			t.Errorf("%+v: got %v\n%s", says, got, l)
		}
	}
}

func TestStopsWhenTold(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 1, 0)
	s, _ := newSource(t, rpc.Config{URL: n.server.URL})
	ctx, cancel := context.WithCancel(within(t))
	n.onRequest = func(string) { cancel() }
	if _, err := s.Next(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBadConfiguration(t *testing.T) {
	for name, config := range map[string]rpc.Config{
		"no URL": {}, "no scheme": {URL: "localhost:8000"}, "file": {URL: "file:///x"},
		"page":     {URL: "http://localhost", PageSize: 201},
		"interval": {URL: "http://localhost", PollInterval: -1},
	} {
		if _, err := rpc.New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// If one of several servers is down, lags, or has another chain, no ledger may be skipped or
// returned twice.
func TestSeveralServers(t *testing.T) {
	a, b := newNode(t), newNode(t)
	a.grow(t, 1, 40, 0)
	b.grow(t, 1, 40, 0)
	s, l := newSources(t, source.Trust{}, a, b)
	if err := s.Check(within(t)); err != nil {
		t.Fatal(err)
	}
	var got []uint32
	read := func() {
		t.Helper()
		got = append(got, next(t, s, uint32(len(got)+1))...)
	}
	read() // from a
	a.server.Close()
	read() // a is down
	b.mu.Lock()
	b.faults = []fault{none, garbage, unavailable}
	b.mu.Unlock()
	read() // b fails once, and there is no other server
	b.mu.Lock()
	b.faults = nil // a page that was fetched in advance may have missed them
	b.mu.Unlock()
	if _, err := s.Latest(within(t)); err != nil {
		t.Error(err)
	}
	for want := range got {
		if got[want] != uint32(want)+1 {
			t.Fatalf("got %v", got)
		}
	}
	if len(got) != 15 || strings.Count(l.String(), "forked") != 0 {
		t.Errorf("got %v\n%s", got, l)
	}
}

func TestAServerThatLagsOrForksIsLeft(t *testing.T) {
	lagging, forked, right := newNode(t), newNode(t), newNode(t)
	lagging.grow(t, 1, 5, 0)
	forked.grow(t, 1, 9, 1)
	right.grow(t, 1, 9, 0)
	s, _ := newSources(t, source.Trust{}, lagging, forked, right)
	if got := next(t, s, 1); len(got) != 5 {
		t.Fatalf("got %v", got)
	}
	if got := next(t, s, 6); !slices.Equal(got, []uint32{6, 7, 8, 9}) {
		t.Errorf("got %v", got)
	}
	if hash := right.ledgers[9].Hash; hash == forked.ledgers[9].Hash {
		t.Fatal("the chains are the same")
	}
	lagging.grow(t, 6, 12, 0)
	if got := next(t, s, 10); !slices.Equal(got, []uint32{10, 11, 12}) {
		t.Errorf("got %v", got)
	}
}

func TestFinalErrorsNeedEveryServer(t *testing.T) {
	a, b := newNode(t), newNode(t)
	a.grow(t, 100, 120, 0)
	b.grow(t, 50, 120, 0)
	s, _ := newSources(t, source.Trust{}, a, b)
	if got := next(t, s, 60); got[0] != 60 {
		t.Errorf("got %v", got)
	}
	if _, err := s.Next(within(t), 40); !errors.Is(err, domain.ErrBehindRetention) {
		t.Errorf("got %v", err)
	}
	other := newNode(t)
	other.passphrase = network.TestNetworkPassphrase
	mixed, _ := newSources(t, source.Trust{}, a, other)
	if err := mixed.Check(within(t)); !errors.Is(err, domain.ErrWrongNetwork) {
		t.Errorf("a server of another network passed: %v", err)
	}
}

// A consistent chain must be rejected if it does not contain the trusted ledger, and a server
// with the right chain is used instead.
func TestATrustedLedgerIsTheOne(t *testing.T) {
	honest, other := newNode(t), newNode(t)
	honest.grow(t, 1, 6, 0)
	other.grow(t, 1, 6, 1)
	for _, trusted := range []uint32{2, 3} { // the ledger before the first read one, and that one
		anchor, err := source.ParseAnchor(fmt.Sprintf("%d:%s", trusted, honest.ledgers[trusted].Hash))
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		trust := source.Trust{Anchor: anchor, OnRefused: func() { refused++ }}
		s, l := newSources(t, trust, other, honest)
		page, err := s.Next(within(t), 3)
		if err != nil {
			t.Fatal(err)
		}
		if page[0].Hash != honest.ledgers[3].Hash || refused != 1 {
			t.Errorf("got %s, %d refused", page[0].Hash, refused)
		}
		if !strings.Contains(l.String(), "a ledger is refused") ||
			!strings.Contains(l.String(), strings.TrimPrefix(other.server.URL, "http://")) {
			t.Errorf("the log does not name who lied:\n%s", l)
		}
	}
	for _, wrong := range []string{"", "5", "0:" + strings.Repeat("ab", 32), "5:ab"} {
		if _, err := source.ParseAnchor(wrong); err == nil {
			t.Errorf("%q passed", wrong)
		}
	}
}

// A false ledger must be counted each time a server returns it when it is due, but logged only
// once.
func TestRefusalsAreCountedAndLoggedOnce(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 4, 0)
	right := n.ledgers[3]
	damaged := right
	damaged.XDR = bytes.Clone(right.XDR)
	damaged.XDR[100] ^= 1
	n.ledgers[3] = damaged
	var rounds atomic.Int32
	n.onRequest = func(method string) {
		if method == protocol.GetLedgersMethodName && rounds.Add(1) > 9 {
			n.ledgers[3] = right
		}
	}
	refused := 0
	s, l := newSource(t, rpc.Config{
		URL:   n.server.URL,
		Trust: source.Trust{OnRefused: func() { refused++ }},
	})
	if got := next(t, s, 1); !slices.Equal(got, []uint32{1, 2}) || refused != 0 {
		t.Errorf("got %v, and %d refused before they were due", got, refused)
	}
	if got := next(t, s, 3); !slices.Equal(got, []uint32{3, 4}) || refused != 8 {
		t.Errorf("got %v, and %d refused, want 8", got, refused)
	}
	if n := strings.Count(l.String(), "a ledger is refused"); n != 1 {
		t.Errorf("%d lines:\n%s", n, l)
	}
}

func TestADamagedHeaderIsAskedForAgain(t *testing.T) {
	n := newNode(t)
	n.grow(t, 1, 2, 0)
	right := n.ledgers[2]
	damaged := right
	damaged.XDR = bytes.Clone(right.XDR)
	const valueForm = 4 + 4 + 32 + 4 + 32 + 32 + 8 + 4 // of the StellarValue
	damaged.XDR[valueForm] ^= 1
	n.ledgers[2] = damaged
	n.onRequest = func(string) {
		if n.requests[protocol.GetLedgersMethodName] > 3 {
			n.ledgers[2] = right
		}
	}
	s, _ := newSource(t, rpc.Config{URL: n.server.URL})
	if got := next(t, s, 2); !slices.Equal(got, []uint32{2}) {
		t.Errorf("got %v", got)
	}
}

// A single permanent error may be a mistake of the server, so the request must be repeated. Only
// if the server keeps returning it is it final.
func TestOneWrongAnswerIsNotFinal(t *testing.T) {
	other := newNode(t)
	other.grow(t, 1, 9, 1)
	for name, lie := range map[string]func(n *node){
		"oldest ledger ahead": func(n *node) { n.oldest, n.latest = 100, 120 },
		"another chain":       func(n *node) { n.ledgers = maps.Clone(other.ledgers) },
		"wrong discriminant": func(n *node) {
			l := n.ledgers[5]
			l.XDR = append([]byte{0, 0, 0, 9}, l.XDR[4:]...)
			n.ledgers[5] = l
		},
	} {
		n := newNode(t)
		n.grow(t, 1, 9, 0)
		right := n.ledgers
		tell := func(rounds int) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.ledgers, n.oldest, n.latest = maps.Clone(right), 1, 9
			lie(n)
			looks := 0
			n.onRequest = func(method string) {
				if method != protocol.GetHealthMethodName {
					return
				}
				if looks++; looks > rounds {
					n.ledgers, n.oldest, n.latest = right, 1, 9
				}
			}
		}
		tell(2)
		s, l := newSource(t, rpc.Config{URL: n.server.URL})
		s.Continue(4, right[4].Hash)
		if page, err := s.Next(within(t), 5); err != nil || page[0].Hash != right[5].Hash {
			t.Errorf("%s: got %d ledgers, %v", name, len(page), err)
		}
		if strings.Count(l.String(), "level=WARN") != 1 {
			t.Errorf("%s: want one warning:\n%s", name, l)
		}
		tell(1000)
		again, _ := newSource(t, rpc.Config{URL: n.server.URL})
		again.Continue(4, right[4].Hash)
		if _, err := again.Next(within(t), 5); !source.IsPermanent(err) {
			t.Errorf("%s: after a thousand answers: %v", name, err)
		}
	}
}

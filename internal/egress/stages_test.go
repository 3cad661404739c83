package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// endings are what a receiver does at some point of the exchange, the error code of the attempt,
// and the attempt's time. Only a stall may use up that time, even on a slow machine.
var endings = map[string]struct {
	end    func(net.Conn)
	code   Code
	within time.Duration
}{
	"stalls": {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, Timeout, 5 * time.Second},
	"closes": {func(c net.Conn) { hangUp(c, false) }, ConnRefused, time.Hour},
	"resets": {func(c net.Conn) { hangUp(c, true) }, ConnRefused, time.Hour},
}

// subtests runs its tests all at once, regardless of the number of processors, because they mostly
// wait.
type subtests struct {
	*testing.T
	wg sync.WaitGroup
}

func (s *subtests) run(name string, test func(t *testing.T)) {
	s.wg.Go(func() { s.Run(name, test) })
}

// atEachEnding runs attempts against receivers that reach a point of the exchange and then stall,
// close the connection or reset it.
func (s *subtests) atEachEnding(
	point string, status int, stage string, start func(t *testing.T, end func(net.Conn)) string,
) {
	for name, ending := range endings {
		s.run(point+"/"+name, func(t *testing.T) {
			url := "https://" + start(t, ending.end)
			c := newClient(t, func(cfg *Config) { cfg.AttemptTimeout = ending.within })
			r := post(t, c, url)
			if name == "resets" { // a reset may overtake what was sent before it
				wantResult(t, r, r.StatusCode, ending.code)
				return
			}
			wantResult(t, r, status, ending.code)
			if !strings.HasPrefix(r.Detail, stage+": ") {
				t.Errorf("the detail is %q, want one about %q", r.Detail, stage)
			}
		})
	}
}

// Whatever an HTTP/1.1 receiver has sent before it stalls, the error must be TIMEOUT. If it closes
// or resets the connection instead, the error must be CONN_REFUSED.
func TestEveryStallIsATimeout(t *testing.T) {
	t.Parallel()
	all := &subtests{T: t}
	defer all.wg.Wait()
	const ok, chunked = "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n\r\n"
	for point, k := range map[string]struct {
		text   string
		status int
		stage  string
	}{
		"before the response":      {"", 0, stageWait},
		"in the protocol":          {"HTT", 0, stageHeader},
		"in the status":            {"HTTP/1.1 20", 0, stageHeader},
		"in the reason":            {"HTTP/1.1 200 O", 0, stageHeader},
		"in the status line's end": {"HTTP/1.1 200 OK\r", 0, stageHeader},
		"after the status line":    {ok, 0, stageHeader},
		"in a header name":         {ok + "X-Na", 0, stageHeader},
		"in a header value":        {ok + "X-Name: val", 0, stageHeader},
		"in a header line's end":   {ok + "X-Name: value\r", 0, stageHeader},
		"between headers":          {ok + "X-Name: value\r\n", 0, stageHeader},
		"in a continued header":    {ok + "X-Name: value\r\n more", 0, stageHeader},
		"in the header's end":      {ok + "X-Name: value\r\n\r", 0, stageHeader},
		"after a 100":              {"HTTP/1.1 100 Continue\r\n\r\n", 0, stageHeader},
		"in a 103":                 {"HTTP/1.1 103 Early Hints\r\nLink: <", 0, stageHeader},
		"before the body":          {ok + "Content-Length: 9\r\n\r\n", 200, stageBody},
		"in the body":              {ok + "Content-Length: 9\r\n\r\npart", 200, stageBody},
		"before a chunk size":      {ok + chunked, 200, stageBody},
		"in a chunk size":          {ok + chunked + "1", 200, stageBody},
		"in a chunk extension":     {ok + chunked + "1;nam", 200, stageBody},
		"in a chunk":               {ok + chunked + "9\r\npart", 200, stageBody},
		"after a chunk":            {ok + chunked + "4\r\npart", 200, stageBody},
		"in the last chunk":        {ok + chunked + "0\r", 200, stageBody},
		"in a trailer":             {ok + chunked + "0\r\nX-Na", 200, stageBody},
		"between trailers":         {ok + chunked + "0\r\nX-Name: value\r\n", 200, stageBody},
	} {
		all.atEachEnding(point, k.status, k.stage, func(t *testing.T, end func(net.Conn)) string {
			return rawTLS(t, nil, func(c *tls.Conn) {
				if _, err := readRequest(c); err == nil {
					_, _ = io.WriteString(c, k.text)
					end(c.NetConn())
				}
			})
		})
	}
	all.atEachEnding("in the handshake", 0, stageTLS, func(t *testing.T, end func(net.Conn)) string {
		return rawReceiver(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_, _ = c.Write([]byte{22, 3, 3}) // the beginning of a record
			end(c)
		})
	})
}

// A receiver that keeps sending bytes, but never completes a response, must end in TIMEOUT.
func TestSlowAnswersAreTimeouts(t *testing.T) {
	all := &subtests{T: t}
	defer all.wg.Wait()
	for name, k := range map[string]struct{ first, again string }{
		"status line byte by byte": {"HTTP/1.1 200 ", "x"},
		"header name byte by byte": {"HTTP/1.1 200 OK\r\n", "x"},
		"headers one by one":       {"HTTP/1.1 200 OK\r\n", "X-A: b\r\n"},
		"interim answers":          {"", "HTTP/1.1 100 Continue\r\n\r\n"},
	} {
		all.run(name, func(t *testing.T) {
			url := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
				if _, err := readRequest(c); err == nil {
					_, _ = io.WriteString(c, k.first)
					repeatedly(func() error { _, err := io.WriteString(c, k.again); return err })
				}
			})
			c := newClient(t, func(cfg *Config) { cfg.AttemptTimeout = time.Second })
			r := post(t, c, url)
			wantResult(t, r, 0, Timeout)
			if r.Detail != stageHeader+": timed out" {
				t.Errorf("the detail is %q", r.Detail)
			}
		})
	}
}

// repeatedly calls do ten times per second until it fails.
func repeatedly(do func() error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if do() != nil {
			return
		}
	}
}

// This receiver accepts the connection and completes the handshake, but doesn't read the request.
func TestAStallThatReadsNothingIsATimeout(t *testing.T) {
	t.Parallel()
	all := &subtests{T: t}
	defer all.wg.Wait()
	for name, ending := range endings {
		all.run(name, func(t *testing.T) {
			released := make(chan struct{})
			url := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
				if name == "stalls" {
					<-released
					return
				}
				ending.end(c.NetConn())
			})
			t.Cleanup(func() { close(released) }) // runs before the receiver is awaited
			c := newClient(t, func(cfg *Config) { cfg.AttemptTimeout = ending.within })
			r, err := c.Post(context.Background(), Request{URL: url, Body: make([]byte, 32<<20)})
			if err != nil {
				t.Fatal(err)
			}
			wantResult(t, r, 0, ending.code)
		})
	}
}

// deaf listens at an address and accepts no connection: its backlog is full.
func deaf(t *testing.T, address string) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) }); err != nil {
		t.Fatal(err)
	}
	for {
		conn, err := net.DialTimeout("tcp", l.Addr().String(), 200*time.Millisecond)
		if err != nil {
			return l.Addr().(*net.TCPAddr)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

func TestAStallOfConnectIsATimeout(t *testing.T) {
	c := newClient(t, func(cfg *Config) { cfg.AttemptTimeout = time.Second })
	r := post(t, c, "https://"+deaf(t, "127.0.0.1:0").String())
	wantResult(t, r, 0, Timeout)
	if r.Detail != stageConnect+": timed out" {
		t.Errorf("the detail is %q", r.Detail)
	}
}

// A host has one address where nothing answers, as is common with IPv6, and one that works. The
// attempt must not wait for the first: if each address got half of the time, it would fail here.
func TestAnAddressThatIsSilentDelaysLittle(t *testing.T) {
	silent := deaf(t, "127.0.0.99:0")
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", itoa(silent.Port)))
	if err != nil {
		t.Fatal(err)
	}
	_ = serveOn(t, l, func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, func(cfg *Config) {
		cfg.Resolver = fixed(addrs("127.0.0.99", "127.0.0.1"))
		cfg.AttemptTimeout = 2 * time.Second
	})
	wantResult(t, post(t, c, "https://two.test:"+itoa(silent.Port)), 200, "")
}

func TestFamiliesInTurn(t *testing.T) {
	for _, k := range []struct{ found, want string }{
		{"192.0.2.1", "192.0.2.1"},
		{"2001:db8::1 2001:db8::2 192.0.2.1", "2001:db8::1 192.0.2.1 2001:db8::2"},
		{"192.0.2.1 192.0.2.2 192.0.2.3 2001:db8::1", "192.0.2.1 2001:db8::1 192.0.2.2 192.0.2.3"},
		{
			"2001:db8::1 2001:db8::2 2001:db8::3 2001:db8::4 2001:db8::5 2001:db8::6 2001:db8::7 " +
				"2001:db8::8 2001:db8::9 192.0.2.1",
			"2001:db8::1 192.0.2.1 2001:db8::2 2001:db8::3 2001:db8::4 2001:db8::5 2001:db8::6 2001:db8::7",
		},
	} {
		var got bytes.Buffer
		for _, addr := range familiesInTurn(addrs(strings.Fields(k.found)...)) {
			got.WriteString(addr.String() + " ")
		}
		if strings.TrimSpace(got.String()) != k.want {
			t.Errorf("%s is tried as %s, want %s", k.found, got.String(), k.want)
		}
	}
}

// A connection that is a minute old must not be used again. Otherwise a name that has moved would
// lead to its old server as long as that server answers.
func TestAMovedNameIsFollowed(t *testing.T) {
	var old, moved atomic.Int32
	first := receiver(t, func(http.ResponseWriter, *http.Request) { old.Add(1) })
	port := first.Listener.Addr().(*net.TCPAddr).Port
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	_ = serveOn(t, l, func(http.ResponseWriter, *http.Request) { moved.Add(1) })
	where := byName{"shop.test.": "127.0.0.1"}
	c := newClient(t, func(cfg *Config) { cfg.Resolver = where })
	url := "https://shop.test:" + itoa(port)
	wantResult(t, post(t, c, url), 200, "")
	where["shop.test."] = "127.0.0.2"
	for _, host := range c.pool.hosts {
		for _, h := range host {
			h.made = h.made.Add(-time.Minute)
		}
	}
	wantResult(t, post(t, c, url), 200, "")
	if old.Load() != 1 || moved.Load() != 1 {
		t.Errorf("%d requests at the old address, %d at the new one", old.Load(), moved.Load())
	}
}

// If a receiver announces how long it keeps idle connections, a connection that is about that old
// must not be used.
func TestKeepAliveHints(t *testing.T) {
	for _, k := range []struct {
		header string
		limit  time.Duration
	}{
		{"", time.Minute}, {"timeout=5", 4 * time.Second}, {"timeout=5, max=100", 4 * time.Second},
		{"max=7 , Timeout = 20", 19 * time.Second}, {"timeout=3600", time.Minute},
		{"timeout=1", 500 * time.Millisecond}, {"timeout=0", 0},
		{"timeout=-5", time.Minute}, {"timeout=soon", time.Minute}, {"timeout", time.Minute},
		{"timeout=99999999999999999999", time.Minute},
	} {
		if got := idleLimit(k.header, time.Minute); got != k.limit {
			t.Errorf("Keep-Alive: %s lets a connection be idle for %s, want %s", k.header, got, k.limit)
		}
	}
	var conns, requests atomic.Int32
	url := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
		conns.Add(1)
		for {
			if _, err := readRequest(c); err != nil {
				return
			}
			requests.Add(1)
			_, _ = io.WriteString(c, "HTTP/1.1 204 No\r\nKeep-Alive: timeout=5\r\n\r\n")
		}
	})
	c := newClient(t, nil)
	for _, idle := range []time.Duration{0, 3 * time.Second, 4500 * time.Millisecond} {
		if h := newest(c); h != nil {
			h.idleSince = h.idleSince.Add(-idle)
		}
		wantResult(t, post(t, c, url), 204, "")
	}
	if conns.Load() != 2 || requests.Load() != 3 {
		t.Errorf("%d requests on %d connections, want 3 on 2", requests.Load(), conns.Load())
	}
	newest(c).idleSince = time.Now().Add(-5 * time.Second)
	c.pool.expire()
	if c.pool.idle.Len() != 0 {
		t.Error("the sweep leaves a connection that its receiver closes")
	}
}

package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// countingReceiver answers requests on each connection until before or after reports that the
// connection ends: before or after the response to its nth request, counted from 1.
type countingReceiver struct {
	requests, conns atomic.Int32
	before, after   func(n int) bool
	ended           chan struct{} // receives a value for every closed connection
}

func (r *countingReceiver) serve(c *tls.Conn) {
	r.conns.Add(1)
	defer func() { _ = c.Close(); r.ended <- struct{}{} }()
	for n := 1; ; n++ {
		if _, err := readRequest(c); err != nil {
			return
		}
		r.requests.Add(1)
		if r.before != nil && r.before(n) {
			return
		}
		if _, err := io.WriteString(c, okAnswer); err != nil {
			return
		}
		if r.after != nil && r.after(n) {
			return
		}
	}
}

func (r *countingReceiver) start(t *testing.T) string {
	r.ended = make(chan struct{}, 1000)
	return "https://" + rawTLS(t, nil, r.serve)
}

func TestReuseKeepsOneConnection(t *testing.T) {
	r := &countingReceiver{}
	url, c := r.start(t), newClient(t, nil)
	for range 20 {
		wantResult(t, post(t, c, url), 200, "")
	}
	if r.requests.Load() != 20 || r.conns.Load() != 1 {
		t.Errorf("%d requests on %d connections, want 20 on 1", r.requests.Load(), r.conns.Load())
	}
}

// A receiver that closes each connection after its response, without announcing it, must not make
// an attempt fail, and must get each request once.
func TestReuseOfClosedConnections(t *testing.T) {
	r := &countingReceiver{after: func(int) bool { return true }}
	url, c := r.start(t), newClient(t, nil)
	for i := 1; i <= 20; i++ {
		wantResult(t, post(t, c, url), 200, "")
		awaitClose(t, r.ended) // the close has reached the socket, because loopback delivers at once
		if int(r.requests.Load()) != i {
			t.Fatalf("%d requests for %d attempts", r.requests.Load(), i)
		}
	}
}

// A connection must not be reused if its receiver announced a close, even if it stays open, or sent
// more than one response.
func TestReuseOnlyOfWhatIsClean(t *testing.T) {
	for name, first := range map[string]string{
		"says close":       "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"answers in stock": okAnswer + "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int32
			url := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
				conns.Add(1)
				for {
					if _, err := readRequest(c); err != nil {
						return
					}
					_, _ = io.WriteString(c, first)
				}
			})
			c := newClient(t, nil)
			wantResult(t, post(t, c, url), 200, "")
			wantResult(t, post(t, c, url), 200, "")
			if conns.Load() != 2 {
				t.Errorf("%d connections for 2 attempts, want 2", conns.Load())
			}
		})
	}
}

// A request on a reused connection that ends before the first byte of a response is sent again,
// once, on a new connection. It is not sent again if that connection ends the same way, or if a
// response had begun.
func TestReuseSendsOnceMore(t *testing.T) {
	const begun = "HTTP/1.1 200 OK\r\nContent-Le"
	second := func(_, n int) bool { return n == 2 }
	later := func(conn, n int) bool { return conn > 1 || n > 1 }
	for name, k := range map[string]struct {
		end      string // what the receiver sends before it ends a connection
		reset    bool
		on       func(conn, n int) bool // the request at which it ends the connection
		status   int
		requests int32
	}{
		"closes":             {on: second, status: 200, requests: 3},
		"resets":             {on: second, reset: true, status: 200, requests: 3},
		"closes every later": {on: later, requests: 3},
		"resets every later": {on: later, reset: true, requests: 3},
		"response had begun": {on: second, end: begun, requests: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var conns, requests atomic.Int32
			url := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
				conn := int(conns.Add(1))
				for n := 1; ; n++ {
					if _, err := readRequest(c); err != nil {
						return
					}
					requests.Add(1)
					if k.on(conn, n) {
						_, _ = io.WriteString(c, k.end)
						hangUp(c.NetConn(), k.reset)
						return
					}
					_, _ = io.WriteString(c, okAnswer)
				}
			})
			c := newClient(t, nil)
			wantResult(t, post(t, c, url), 200, "")
			want := ConnRefused
			if k.status != 0 {
				want = ""
			}
			wantResult(t, post(t, c, url), k.status, want)
			if requests.Load() != k.requests {
				t.Errorf("%d requests for 2 attempts, want %d", requests.Load(), k.requests)
			}
		})
	}
}

func hangUp(c net.Conn, reset bool) {
	if reset {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
	_ = c.Close()
}

// TestReuseUnderRandomCloses closes every third connection while many attempts run. No attempt may
// fail, and there may be at most two requests per attempt.
func TestReuseUnderRandomCloses(t *testing.T) {
	const workers, each = 8, 60
	var attempts, failed atomic.Int32
	r := &countingReceiver{after: func(n int) bool { return n%3 == 0 }}
	url, c := r.start(t), newClient(t, nil)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				attempts.Add(1)
				if !post(t, c, url).Delivered() {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if r.requests.Load() > 2*attempts.Load() || failed.Load() > 0 {
		t.Errorf("%d requests for %d attempts, %d failed", r.requests.Load(), attempts.Load(),
			failed.Load())
	}
}

// A pooled connection that the probe found open but that accepts no byte must not fail the attempt.
func TestUnwrittenRequestGoesToAnotherConnection(t *testing.T) {
	r := &countingReceiver{}
	url, c := r.start(t), newClient(t, nil)
	wantResult(t, post(t, c, url), 200, "")
	idle := newest(c)
	if err := idle.raw.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	awaitClose(t, r.ended) // the receiver has noticed it and closed the connection
	looked := false
	idle.probe.look.peek = func(uintptr) bool {
		looked = true
		idle.probe.look.err = unix.EAGAIN
		return true
	}
	wantResult(t, post(t, c, url), 200, "")
	if !looked || r.requests.Load() != 2 || r.conns.Load() != 2 {
		t.Errorf("%d requests on %d connections for 2 attempts, probed %v", r.requests.Load(),
			r.conns.Load(), looked)
	}
}

func TestPoolBounds(t *testing.T) {
	gate := make(chan struct{})
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) { <-gate })
	s2 := receiver(t, func(w http.ResponseWriter, r *http.Request) {})
	c := newClient(t, func(cfg *Config) { cfg.MaxIdlePerHost, cfg.MaxIdle = 3, 4 })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { wantResult(t, post(t, c, s.URL), 200, "") })
	}
	close(gate)
	wg.Wait()
	counts := func() (idle, first, second int) {
		c.pool.mu.Lock()
		defer c.pool.mu.Unlock()
		return c.pool.idle.Len(), len(c.pool.hosts[s.Listener.Addr().String()]),
			len(c.pool.hosts[s2.Listener.Addr().String()])
	}
	if idle, first, _ := counts(); idle != first || first > 3 || first < 1 {
		t.Errorf("%d idle, %d to the first host, want 1 to 3", idle, first)
	}
	c.cfg.MaxIdle, c.pool.cfg.MaxIdle = 1, 1
	wantResult(t, post(t, c, s2.URL), 200, "")
	if _, _, second := counts(); second != 1 {
		t.Errorf("the newest connection was not kept")
	}
	c.DropIdle(s2.URL + "/any")
	if _, _, second := counts(); second != 0 {
		t.Errorf("%d connections left after DropIdle", second)
	}
	wantResult(t, post(t, c, s2.URL), 200, "")
	c.Close()
	if idle, _, _ := counts(); idle != 0 {
		t.Errorf("%d connections left after Close", idle)
	}
	wantResult(t, post(t, c, s2.URL), 200, "")
	if idle, _, _ := counts(); idle != 0 {
		t.Errorf("%d connections kept after Close", idle)
	}
}

func TestPoolExpires(t *testing.T) {
	s := receiver(t,
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	c := newClient(t, func(cfg *Config) { cfg.IdleTimeout = 40 * time.Millisecond })
	wantResult(t, post(t, c, s.URL), 200, "")
	testkit.Eventually(t, "the pool is empty", func() bool {
		c.pool.mu.Lock()
		defer c.pool.mu.Unlock()
		return len(c.pool.hosts) == 0 && c.pool.idle.Len() == 0 &&
			c.pool.sweep == nil
	})
	wantResult(t, post(t, c, s.URL), 200, "")
}

// An old connection must not be reused, so that its name is resolved and checked again.
func TestPoolAge(t *testing.T) {
	var conns sync.Map
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) { conns.Store(r.RemoteAddr, true) })
	c := newClient(t, func(cfg *Config) { cfg.MaxConnAge = time.Nanosecond })
	for range 3 {
		wantResult(t, post(t, c, s.URL), 200, "")
	}
	n := 0
	conns.Range(func(any, any) bool { n++; return true })
	if n != 3 {
		t.Errorf("%d connections for 3 attempts", n)
	}
}

// TestManyHostileReceivers keeps many attempts hanging while another receiver works normally.
func TestManyHostileReceivers(t *testing.T) {
	const hostile = 300
	hang := "https://" + rawReceiver(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	good := receiver(t, func(w http.ResponseWriter, r *http.Request) {})
	c := newClient(t, func(cfg *Config) { cfg.AttemptTimeout = 2 * time.Second })
	var wg sync.WaitGroup
	for i := range hostile {
		wg.Go(func() { wantResult(t, post(t, c, fmt.Sprintf("%s/%d", hang, i)), 0, Timeout) })
	}
	for range 50 {
		wantResult(t, post(t, c, good.URL), 200, "")
	}
	wg.Wait()
}

func TestLargeRequestAnsweredEarly(t *testing.T) {
	url := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1024))
		_, _ = io.WriteString(c,
			"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	r, err := newClient(t, nil).Post(context.Background(),
		Request{URL: url, Body: bytes.Repeat([]byte("a"), 256<<10)})
	if err != nil {
		t.Fatal(err)
	}
	wantResult(t, r, 413, "")
}

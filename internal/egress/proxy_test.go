package egress

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tunnels is a proxy on loopback that connects every tunnel to the same address.
type tunnels struct {
	to       string
	secured  *tls.Config // if set, the proxy speaks TLS to the client
	asked    atomic.Int32
	mu       sync.Mutex
	lastAsk  *http.Request
	answerer func(net.Conn) // if set, it answers instead of a tunnel
}

func (p *tunnels) start(t *testing.T) *url.URL {
	t.Helper()
	scheme := "http://"
	if p.secured != nil {
		scheme = "https://"
	}
	addr := rawReceiver(t, func(conn net.Conn) {
		if p.secured != nil {
			conn = tls.Server(conn, p.secured)
		}
		in := bufio.NewReader(conn)
		ask, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		p.asked.Add(1)
		p.mu.Lock()
		p.lastAsk = ask
		p.mu.Unlock()
		if p.answerer != nil {
			p.answerer(conn)
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			return
		}
		defer out.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { _, _ = io.Copy(out, in); _ = out.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(conn, out)
	})
	return must(url.Parse(scheme + addr))
}

// TestProxyTunnels checks that attempts go through the proxy, that the proxy gets the host's name,
// and that a pooled tunnel is reused.
func TestProxyTunnels(t *testing.T) {
	for name, secured := range map[string]*tls.Config{
		"http":  nil,
		"https": {Certificates: []tls.Certificate{ca().issue(nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := receiver(t,
				func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
			p := &tunnels{to: s.Listener.Addr().String(), secured: secured}
			proxy := p.start(t)
			proxy.User = url.UserPassword("user", "pass")
			c := newClient(t, func(cfg *Config) {
				cfg.Proxy, cfg.Resolver = proxy, byName{"hook.test.": "203.0.114.7"}
				cfg.Policy.Allow = nil // the proxy is on loopback, which the operator may choose
			})
			for range 3 {
				wantResult(t, post(t, c, "https://hook.test:8443/x"), 200, "")
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.asked.Load() != 1 || p.lastAsk.Host != "hook.test:8443" ||
				p.lastAsk.Header.Get("Proxy-Authorization") != "Basic dXNlcjpwYXNz" {
				t.Errorf("asked %d times, last %s for %s with %v", p.asked.Load(), p.lastAsk.Method,
					p.lastAsk.Host, p.lastAsk.Header)
			}
		})
	}
}

func TestProxyIsNotAskedForForbiddenHosts(t *testing.T) {
	p := &tunnels{to: "127.0.0.1:1"}
	proxy := p.start(t)
	c := newClient(t, func(cfg *Config) {
		cfg.Proxy, cfg.Policy.Allow = proxy, nil
		cfg.Resolver = byName{"inside.test.": "10.0.0.1"}
	})
	wantResult(t, post(t, c, "https://inside.test"), 0, SSRFBlocked)
	wantResult(t, post(t, c, "https://169.254.169.254"), 0, SSRFBlocked)
	wantResult(t, post(t, c, "https://unknown.test"), 0, DNS)
	if p.asked.Load() != 0 {
		t.Errorf("the proxy was asked %d times", p.asked.Load())
	}
}

func TestProxyFaults(t *testing.T) {
	t.Parallel()
	all := &subtests{T: t}
	defer all.wg.Wait()
	write := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	for name, k := range map[string]struct {
		answerer func(net.Conn)
		code     Code
	}{
		"refuses":          {write("HTTP/1.1 403 Forbidden\r\n\r\n"), ConnRefused},
		"wants a password": {write("HTTP/1.1 407 No\r\n\r\n"), ConnRefused},
		"hangs up":         {func(net.Conn) {}, ConnRefused},
		"no HTTP":          {write("SSH-2.0-x\r\n\r\n"), ConnRefused},
		"endless header":   {write("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 64<<10)), ConnRefused},
		"speaks first":     {write("HTTP/1.1 200 OK\r\n\r\nhello"), ConnRefused},
		"says nothing":     {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, Timeout},
		"stalls in its answer": {
			func(c net.Conn) { write("HTTP/1.1 20")(c); _, _ = io.Copy(io.Discard, c) }, Timeout,
		},
		"tunnel is no TLS": {write("HTTP/1.1 200 OK\r\n\r\n"), ConnRefused},
		"tunnel to nowhere": {
			func(c net.Conn) { write("HTTP/1.1 200 OK\r\n\r\n")(c); _, _ = io.Copy(io.Discard, c) },
			Timeout,
		},
	} {
		all.run(name, func(t *testing.T) {
			p := &tunnels{answerer: k.answerer}
			proxy := p.start(t)
			c := newClient(t, func(cfg *Config) { cfg.Proxy, cfg.AttemptTimeout = proxy, 3*time.Second })
			r := post(t, c, "https://127.0.0.1:8443")
			wantResult(t, r, 0, k.code)
		})
	}
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	_ = closed.Close()
	c := newClient(t,
		func(cfg *Config) { cfg.Proxy = must(url.Parse("http://" + closed.Addr().String())) })
	wantResult(t, post(t, c, "https://127.0.0.1:8443"), 0, ConnRefused)
	untrusted := &tunnels{secured: &tls.Config{Certificates: []tls.Certificate{ca().issue(nil)}}}
	proxy := untrusted.start(t)
	c = newClient(t, func(cfg *Config) { cfg.Proxy, cfg.RootCAs = proxy, nil })
	wantResult(t, post(t, c, "https://127.0.0.1:8443"), 0, ConnRefused)
}

func TestParseProxy(t *testing.T) {
	for _, raw := range []string{
		"http://proxy:3128", "https://u:p@proxy.example:443", "http://[::1]:3128/",
	} {
		if _, err := ParseProxy(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, raw := range []string{
		"", "proxy:3128", "socks5://proxy:1080", "http://secret@proxy", "http://:3128",
		"http://proxy:3128/secret", "http://proxy:3128?secret", "http://secret\n:1",
	} {
		if _, err := ParseProxy(raw); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", raw, err)
		}
	}
	if _, err := New(Config{Proxy: &url.URL{Scheme: "ftp", Host: "x:1"}}); err == nil ||
		!strings.Contains(err.Error(), "Proxy") {
		t.Errorf("New: %v", err)
	}
}

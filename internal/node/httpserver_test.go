package node_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

const goodKey = "Bearer good"

var guarded = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Request-Id", "req_1")
	if r.Header.Get("Authorization") != goodKey {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, "welcome")
})

func newEdge(t *testing.T, change func(*node.HTTPConfig)) *node.Server {
	t.Helper()
	cfg := node.HTTPConfig{
		Server: &http.Server{Handler: guarded, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)},
		Log:    slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := node.NewHTTPServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(t *testing.T, s *node.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// ask sends a request on an open connection and returns the status, or 0 if the connection is
// closed.
func ask(conn net.Conn) int {
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: "+goodKey+"\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The number of connections with a request in progress must be bounded: excess connections are
// closed at once, and a freed place goes to the next connection. Idle connections are replaced.
func TestConnectionsAreBounded(t *testing.T) {
	for name, change := range map[string]func(*node.HTTPConfig){
		"in all":     func(c *node.HTTPConfig) { c.MaxConns = 3 },
		"one client": func(c *node.HTTPConfig) { c.MaxConnsPerClient = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			begun, end := make(chan struct{}), make(chan struct{})
			addr := serve(t, newEdge(t, func(c *node.HTTPConfig) {
				c.Server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/long" {
						begun <- struct{}{}
						<-end
					}
				})
				change(c)
			}))
			for range 3 {
				if status := ask(dial(t, addr)); status != 200 {
					t.Fatalf("status %d", status)
				}
			}
			var busy []*bufio.Reader
			answered := make(chan error, 100)
			for tries := 0; len(busy) < 3; tries++ { // each replaces an idle connection
				if tries == 50 {
					t.Fatal("no connection replaces an idle one")
				}
				conn := dial(t, addr)
				_, _ = io.WriteString(conn, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
				reader := bufio.NewReader(conn)
				go func() {
					_, err := reader.Peek(1)
					answered <- err
				}()
				select {
				case <-begun:
					busy = append(busy, reader)
				case <-answered: // closed, because the server had not noticed an idle connection yet
				}
			}
			for range 20 {
				if status := ask(dial(t, addr)); status != 0 {
					t.Fatalf("a connection too many was answered %d", status)
				}
			}
			close(end)
			for range busy {
				<-answered
			}
			for _, reader := range busy {
				if resp, err := http.ReadResponse(reader, nil); err != nil || resp.StatusCode != 200 {
					t.Errorf("a request in progress was answered %v, %v", resp, err)
				}
			}
			testkit.Eventually(t, "the place is free again", func() bool {
				return ask(dial(t, addr)) == 200
			})
		})
	}
}

// Silent connections, and headers that arrive a byte at a time, must be cut off at the server's
// limit.
func TestSlowClientsAreCutOff(t *testing.T) {
	addr := serve(t, newEdge(t, func(c *node.HTTPConfig) {
		c.Server.ReadHeaderTimeout, c.Server.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond
	}))
	for name, first := range map[string]string{
		"nothing":       "",
		"half a header": "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ",
	} {
		conn := dial(t, addr)
		_, _ = io.WriteString(conn, first)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: not cut off", name)
		}
	}
}

// Requests that net/http itself refuses, before any handler, must be answered in the API's format.
func TestRefusalsOfTheServerAreProblems(t *testing.T) {
	plain := serve(t, newEdge(t, func(c *node.HTTPConfig) { c.Server.MaxHeaderBytes = 4096 }))
	long := func(bytes int) string {
		return "GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("x", bytes) + "\r\n\r\n"
	}
	for name, each := range map[string]struct {
		request, code string
		status        int
	}{
		"no HTTP":         {"nonsense\r\n\r\n", "MALFORMED_REQUEST", 400},
		"TLS":             {"\x16\x03\x01\x00\x05hello\r\n\r\n", "MALFORMED_REQUEST", 400},
		"no host":         {"GET / HTTP/1.1\r\n\r\n", "MALFORMED_REQUEST", 400},
		"bad header":      {"GET / HTTP/1.1\r\nHost: a\r\nX\x00: 1\r\n\r\n", "MALFORMED_REQUEST", 400},
		"another version": {"GET / HTTP/9.9\r\nHost: a\r\n\r\n", "UNSUPPORTED_VERSION", 505},
		"a coding": {
			"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
			"UNSUPPORTED_TRANSFER_CODING", 501,
		},
		"an expectation": {
			"GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n", "EXPECTATION_FAILED", 417,
		},
		"headers too long": {long(5000), "HEADERS_TOO_LARGE", 431},
		"far too long":     {long(200_000), "HEADERS_TOO_LARGE", 431},
	} {
		conn := dial(t, plain)
		// the server refuses some requests while they are still being sent
		go io.WriteString(conn, each.request)
		checkProblem(t, name, conn, each.status, each.code)
	}
	conn := dial(t, plain)
	if status := ask(conn); status != 200 {
		t.Errorf("a good request was answered %d", status)
	}
}

func checkProblem(t *testing.T, name string, conn net.Conn, status int, code string) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	var p struct {
		Status                               int
		Type, Title, Detail, Code, RequestID string
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, json.Unmarshal(body, &p)); err != nil {
		t.Errorf("%s: %v: %s", name, err, body)
		return
	}
	h := resp.Header
	if resp.StatusCode != status || p.Status != status || p.Code != code || p.Title == "" ||
		p.Detail == "" || !strings.HasPrefix(p.RequestID, "req_") {
		t.Errorf("%s: %d, %s", name, resp.StatusCode, body)
	}
	if h.Get("Content-Type") != "application/problem+json" || h.Get("X-Request-Id") != p.RequestID ||
		h.Get("Server") != "" {
		t.Errorf("%s: %v", name, h)
	}
}

// A request without TLS must get a response that says so. Headers that are too long must be refused
// in the API's format, in HTTP/1.1 and HTTP/2.
func TestRefusalsOnAPortWithTLS(t *testing.T) {
	certFile, keyFile, roots := certificate(t, t.TempDir())
	addr := serve(t, newEdge(t, func(c *node.HTTPConfig) {
		c.CertFile, c.KeyFile, c.Server.MaxHeaderBytes = certFile, keyFile, 4096
	}))
	conn := dial(t, addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	checkProblem(t, "no TLS", conn, 400, "TLS_REQUIRED")
	for _, h2 := range []bool{false, true} {
		c := http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: h2,
			TLSClientConfig:   &tls.Config{RootCAs: roots},
		}}
		defer c.CloseIdleConnections()
		request, err := http.NewRequest(http.MethodGet, "https://"+addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Long", strings.Repeat("x", 5000))
		resp, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 431 || !strings.Contains(string(body), `"code":"HEADERS_TOO_LARGE"`) ||
			(resp.ProtoMajor == 2) != h2 {
			t.Errorf("HTTP/%d: %d %s", resp.ProtoMajor, resp.StatusCode, body)
		}
	}
}

func TestAnswersNameNoVersion(t *testing.T) {
	addr := serve(t, newEdge(t, nil))
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
	} {
		conn := dial(t, addr)
		_, _ = io.WriteString(conn, request)
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		if text := strings.ToLower(string(answer)); len(text) == 0 || strings.Contains(text, "server:") ||
			strings.Contains(text, "go1") || strings.Contains(text, "lumenhook/") {
			t.Errorf("%q was answered %q", request, answer)
		}
	}
}

// TestRefusedKeysAreSlowed runs in virtual time. The first refusals are immediate, the next ones
// are delayed longer and longer, and further ones get 429. Good keys from the same address must
// always be accepted at once.
func TestRefusedKeysAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &http.Server{Handler: guarded}
		newEdge(t, func(c *node.HTTPConfig) { c.Server = server })
		request := func(client, key string) (*httptest.ResponseRecorder, time.Duration) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = client
			r.Header.Set("Authorization", key)
			out, began := httptest.NewRecorder(), time.Now()
			server.Handler.ServeHTTP(out, r)
			return out, time.Since(began)
		}
		const guesser, neighbour = "192.0.2.1:1000", "192.0.2.2:1000"
		for n := range 20 {
			if out, took := request(guesser, "Bearer bad"); out.Code != 401 || took != 0 ||
				out.Body.String() != "who?\n" {
				t.Fatalf("refusal %d: %d after %s", n, out.Code, took)
			}
		}
		for n, want := range []time.Duration{
			250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
			4 * time.Second, 4 * time.Second,
		} {
			out, took := request(guesser, "Bearer bad")
			if out.Code != 401 || took != want {
				t.Errorf("refusal %d: %d after %s, want %s", 20+n, out.Code, took, want)
			}
			if out, took := request(guesser, goodKey); out.Code != 200 || took != 0 {
				t.Errorf("a good key of the same address: %d after %s", out.Code, took)
			}
			if out, took := request(neighbour, "Bearer bad"); out.Code != 401 || took != 0 && n == 0 {
				t.Errorf("a neighbour's: %d after %s", out.Code, took)
			}
		}
		// Of many at once, a few wait, and the rest get 429.
		var wg sync.WaitGroup
		var mu sync.Mutex
		codes := map[int]int{}
		for range 100 {
			wg.Go(func() {
				out, _ := request(guesser, "Bearer bad")
				mu.Lock()
				defer mu.Unlock()
				codes[out.Code]++
				if out.Code == 429 {
					checkTooMany(t, out)
				}
			})
		}
		wg.Wait()
		if codes[401] != 16 || codes[429] != 84 {
			t.Errorf("answers by status: %v", codes)
		}
		// An IPv6 network counts as one client.
		for n := range 21 {
			_, took := request(fmt.Sprintf("[2001:db8:1:2::%d]:1", n+1), "Bearer bad")
			if (took > 0) != (n == 20) {
				t.Errorf("refusal %d of the network took %s", n, took)
			}
		}
		// Refusals are forgotten after a while.
		time.Sleep(time.Hour) //nolint:forbidigo // virtual
		if _, took := request(guesser, "Bearer bad"); took != 0 {
			t.Errorf("an hour later: %s", took)
		}
	})
}

func checkTooMany(t *testing.T, out *httptest.ResponseRecorder) {
	t.Helper()
	var p struct {
		Status                int
		Type, Code, RequestID string
	}
	if err := json.Unmarshal(out.Body.Bytes(), &p); err != nil || p.Status != 429 ||
		p.Code != "RATE_LIMITED" || p.RequestID != "req_1" ||
		p.Type != "urn:lumenhook:problem:rate-limited" {
		t.Errorf("%s (%v)", out.Body, err)
	}
	h := out.Header()
	if h.Get("Retry-After") == "" || h.Get("WWW-Authenticate") != "" ||
		h.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%v", h)
	}
}

// A delayed response must end with its request.
func TestACallerWhoLeavesDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &http.Server{Handler: guarded}
		newEdge(t, func(c *node.HTTPConfig) { c.Server = server })
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		began := time.Now()
		for range 60 {
			r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
			server.Handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
	})
}

// certificate writes a certificate for loopback and its key. It returns the file names and roots
// that trust the certificate.
func certificate(t *testing.T, dir string) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	secrets := t.TempDir()
	ca, err := keys.LoadOrCreateCA(secrets, filepath.Join(secrets, "ca.pem"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if certFile, keyFile, err = ca.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	ca.AddTo(roots)
	return certFile, keyFile, roots
}

// TestTLSReloads checks that the server speaks at least TLS 1.2, with HSTS, and that it uses a
// renewed certificate without a restart, but never a broken one.
func TestTLSReloads(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, first := certificate(t, dir)
	log := &testkit.Buffer{}
	s := newEdge(t, func(c *node.HTTPConfig) {
		c.CertFile, c.KeyFile, c.Log = certFile, keyFile, slog.New(slog.NewTextHandler(log, nil))
	})
	if s.Scheme() != "https" {
		t.Errorf("the scheme is %s", s.Scheme())
	}
	addr := serve(t, s)
	get := func(roots *x509.CertPool, version uint16) (*http.Response, error) {
		c := http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{
				RootCAs:    roots,
				MinVersion: tls.VersionTLS10,
				MaxVersion: version,
			},
		}}
		defer c.CloseIdleConnections()
		resp, err := c.Get("https://" + addr)
		if err == nil {
			_ = resp.Body.Close()
		}
		return resp, err
	}
	resp, err := get(first, 0)
	if err != nil || resp.ProtoMajor != 2 ||
		resp.Header.Get("Strict-Transport-Security") != "max-age=31536000" {
		t.Fatalf("%+v, %v", resp, err)
	}
	if _, err := get(first, tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if err := os.WriteFile(certFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the broken certificate is noticed", func() bool {
		if _, err := get(first, 0); err != nil {
			t.Fatalf("a broken file took the certificate away: %v", err)
		}
		return strings.Contains(log.String(), "previous one stays in use")
	})
	other := t.TempDir()
	newCert, newKey, second := certificate(t, other)
	for from, to := range map[string]string{newCert: certFile, newKey: keyFile} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the new certificate is in use",
		func() bool { _, err := get(second, 0); return err == nil })
	if _, err := get(first, 0); err == nil {
		t.Error("the old certificate is still in use")
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	ok := &http.Server{Handler: guarded}
	log := slog.New(slog.DiscardHandler)
	for want, cfg := range map[string]node.HTTPConfig{
		"Server":      {Log: log},
		"Log":         {Server: ok},
		"together":    {Server: ok, Log: log, CertFile: "x"},
		"MaxConns":    {Server: ok, Log: log, MaxConns: -1},
		"missing.pem": {Server: ok, Log: log, CertFile: "missing.pem", KeyFile: "missing.key"},
	} {
		if _, err := node.NewHTTPServer(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

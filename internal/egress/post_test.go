package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

func TestPostCarriesTheRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		got, body = r, must(io.ReadAll(r.Body))
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(202)
		_, _ = io.WriteString(w, "thanks")
	})
	at := time.Unix(1_700_000_000, 0)
	c := newClient(t, func(cfg *Config) { cfg.Now = func() time.Time { return at } })
	r := post(t, c, s.URL+"/hooks?a=b")
	wantResult(t, r, 202, "")
	if !r.Delivered() || string(r.Body) != "thanks" || !r.SentAt.Equal(at) || r.Duration <= 0 ||
		r.RetryAfter != 7*time.Second {
		t.Errorf("result %+v", r)
	}
	if got.Proto != "HTTP/1.1" || got.Method != "POST" || got.RequestURI != "/hooks?a=b" ||
		string(body) != `{"id":"evt_1"}` {
		t.Errorf("request %s %s %s %q", got.Proto, got.Method, got.RequestURI, body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json",
		"Webhook-Id":   "evt_1",
		"User-Agent":   "Lumenhook", "Content-Length": "14", "Accept-Encoding": "",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
	if "https://"+got.Host != s.URL {
		t.Errorf("Host: %s, want that of %s", got.Host, s.URL)
	}
}

func TestPostStatuses(t *testing.T) {
	cases := []struct {
		status    int
		code      Code
		delivered bool
	}{
		{200, "", true}, {204, "", true}, {299, "", true}, {301, Redirect, false}, {302, Redirect, false},
		{304, Redirect, false},
		{307, Redirect, false}, {308, Redirect, false}, {400, "", false}, {404, "", false},
		{410, "", false}, {500, "", false}, {503, "", false},
	}
	var hits atomic.Int32
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.Header().Set("Location", "/200")
		w.WriteHeader(status)
	})
	c := newClient(t, nil)
	for i, k := range cases {
		r := post(t, c, fmt.Sprintf("%s/%d", s.URL, k.status))
		wantResult(t, r, k.status, k.code)
		if r.Delivered() != k.delivered {
			t.Errorf("%d: delivered %v", k.status, r.Delivered())
		}
		if hits.Load() != int32(i+1) {
			t.Fatalf("%d: %d requests after %d attempts", k.status, hits.Load(), i+1)
		}
	}
}

func TestPostBodySizes(t *testing.T) {
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		var status, size int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d/%d", &status, &size)
		w.WriteHeader(status)
		_, _ = w.Write(bytes.Repeat([]byte("a"), size))
	})
	c := newClient(t, nil)
	for _, k := range []struct {
		path      string
		status    int
		stored    int
		code      Code
		delivered bool
	}{
		{"/200/0", 200, 0, "", true}, {"/200/1023", 200, 1023, "", true},
		{"/200/1025", 200, 1024, "", true},
		{"/200/65536", 200, 1024, "", true}, {"/200/65537", 200, 1024, BodyTooLarge, true},
		{"/500/70000", 500, 1024, BodyTooLarge, false}, {"/302/70000", 302, 1024, Redirect, false},
	} {
		r := post(t, c, s.URL+k.path)
		wantResult(t, r, k.status, k.code)
		if len(r.Body) != k.stored || r.Delivered() != k.delivered {
			t.Errorf("%s: %d bytes stored, delivered %v", k.path, len(r.Body), r.Delivered())
		}
	}
}

func TestPostEndlessBodyStops(t *testing.T) {
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 8<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	wantResult(t, post(t, newClient(t, nil), s.URL), 200, BodyTooLarge)
}

func TestPostLeavesGzipAsItIs(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(bytes.Repeat([]byte("bomb"), 1<<20))
	_ = z.Close()
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped.Bytes())
	})
	r := post(t, newClient(t, nil), s.URL)
	wantResult(t, r, 200, "")
	if !bytes.Equal(r.Body, zipped.Bytes()[:1024]) {
		t.Error("the stored body is not what was sent")
	}
}

func TestPostTimesOut(t *testing.T) {
	t.Parallel()
	all := &subtests{T: t}
	defer all.wg.Wait()
	// Long enough to reach the stage where each receiver hangs, even on a busy machine.
	const budget = 3 * time.Second
	short := func(cfg *Config) { cfg.AttemptTimeout = budget }
	answer := func(text string, then func(net.Conn)) func(testing.TB) string {
		return func(t testing.TB) string {
			return rawTLS(t, nil, func(c *tls.Conn) {
				if _, err := readRequest(c); err == nil {
					_, _ = io.WriteString(c, text)
					then(c)
				}
			})
		}
	}
	hang := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	drip := func(c net.Conn) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
		}
	}
	for name, k := range map[string]struct {
		serve  func(testing.TB) string
		status int
		body   string
	}{
		"accepts in silence": {func(t testing.TB) string { return rawReceiver(t, hang) }, 0, ""},
		"silent after TLS":   {answer("", hang), 0, ""},
		"slow headers":       {answer("HTTP/1.1 200 OK\r\nX-Slow: ", drip), 0, ""},
		"body never ends": {
			answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart", hang), 200, "part",
		},
		"error body hangs": {
			answer("HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n", hang),
			503, "part",
		},
		"interim, then hangs": {answer("HTTP/1.1 100 Continue\r\n\r\n", hang), 0, ""},
	} {
		all.run(name, func(t *testing.T) {
			r := post(t, newClient(t, short), "https://"+k.serve(t))
			wantResult(t, r, k.status, Timeout)
			if r.Delivered() || string(r.Body) != k.body || r.Duration < budget*9/10 {
				t.Errorf("result %+v", r)
			}
		})
	}
}

func TestPostConnectionFaults(t *testing.T) {
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	_ = closed.Close()
	answer := func(text string) func(testing.TB) string {
		return func(t testing.TB) string {
			return rawTLS(t, nil, func(c *tls.Conn) {
				if _, err := readRequest(c); err == nil {
					_, _ = io.WriteString(c, text)
				}
			})
		}
	}
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }
	for name, k := range map[string]struct {
		serve  func(testing.TB) string
		status int
	}{
		"refused": {func(testing.TB) string { return closed.Addr().String() }, 0},
		"closed at accept": {
			func(t testing.TB) string { return rawReceiver(t, func(net.Conn) {}) }, 0,
		},
		"reset at accept":      {func(t testing.TB) string { return rawReceiver(t, reset) }, 0},
		"closed before answer": {answer(""), 0},
		"closed in headers":    {answer("HTTP/1.1 200 OK\r\nX-A: b\r\n"), 0},
		"closed in body":       {answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), 200},
		"closed in chunk": {
			answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf"), 200,
		},
		"not HTTP": {answer("SSH-2.0-OpenSSH_9.9\r\n\r\n"), 0},
		"headers of 40 KiB": {
			answer("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 40<<10) + "\r\n\r\n"), 0,
		},
		"flood of interim": {
			answer(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 2000) +
				"HTTP/1.1 200 OK\r\n\r\n"),
			0,
		},
		"two different lengths": {
			answer("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := post(t, newClient(t, nil), "https://"+k.serve(t))
			wantResult(t, r, k.status, ConnRefused)
			if r.Delivered() || r.Detail == "" {
				t.Errorf("result %+v", r)
			}
		})
	}
}

func TestPostAcceptsUnusualAnswers(t *testing.T) {
	for name, text := range map[string]string{
		"HTTP/1.0 until the end": "HTTP/1.0 200 OK\r\n\r\nbody",
		"interim first":          "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
		"31 KiB of headers": "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a",
			31<<10) + "\r\nContent-Length: 4\r\n\r\nbody",
		"chunks with trailer":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-T: 1\r\n\r\n",
		"bytes after the answer":    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodyHTTP/1.1 500 No\r\n\r\n",
		"close after answer":        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody",
		"length of a larger nature": "HTTP/1.1 200 OK\r\n\r\nbody",
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{}, 2)
			url := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
				if _, err := readRequest(c); err == nil {
					_, _ = io.WriteString(c, text)
				}
				_ = c.Close()
				closed <- struct{}{}
			})
			c := newClient(t, nil)
			for range 2 { // the first must leave nothing that affects the second
				r := post(t, c, url)
				awaitClose(t, closed) // otherwise the second attempt may race with the close
				wantResult(t, r, 200, "")
				if string(r.Body) != "body" {
					t.Errorf("body %q", r.Body)
				}
			}
		})
	}
}

// A receiver without HTTP/1.1 agrees on no protocol. (A Go server that offers only h2 would agree.)
func TestHTTP1IsRequired(t *testing.T) {
	cfg := &tls.Config{Certificates: []tls.Certificate{ca().issue(nil)}, NextProtos: []string{"other"}}
	r := post(t, newClient(t, nil), "https://"+rawTLS(t, cfg, func(*tls.Conn) {}))
	wantResult(t, r, 0, TLS)
	if !strings.Contains(r.Detail, "no application protocol") {
		t.Errorf("the detail is %q", r.Detail)
	}
}

func TestPostTLSFaults(t *testing.T) {
	with := func(change func(*x509.Certificate)) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{ca().issue(change)}}
	}
	selfSigned := httptest.NewUnstartedServer(nil) // net/http's own test certificate
	selfSigned.StartTLS()
	defer selfSigned.Close()
	for name, cfg := range map[string]*tls.Config{
		"self-signed":   {Certificates: selfSigned.TLS.Certificates},
		"expired":       with(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }),
		"not yet valid": with(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }),
		"wrong name": with(func(c *x509.Certificate) {
			c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 2)}
		}),
		"other usage": with(func(c *x509.Certificate) {
			c.SerialNumber, c.ExtKeyUsage = big.NewInt(9),
				[]x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}
		}),
		"TLS 1.1": {
			Certificates: with(nil).Certificates,
			MinVersion:   tls.VersionTLS10,
			MaxVersion:   tls.VersionTLS11,
		},
		"wants a client certificate": {
			Certificates: with(nil).Certificates,
			ClientAuth:   tls.RequireAnyClientCert,
			MaxVersion:   tls.VersionTLS12,
		},
		"other protocol": {Certificates: with(nil).Certificates, NextProtos: []string{"smtp"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantResult(t, post(t, newClient(t, nil), "https://"+rawTLS(t, cfg, func(*tls.Conn) {})), 0, TLS)
		})
	}
	t.Run("plain HTTP", func(t *testing.T) {
		s := httptest.NewServer(nil)
		defer s.Close()
		wantResult(t, post(t, newClient(t, nil), strings.Replace(s.URL, "http:", "https:", 1)), 0, TLS)
	})
	t.Run("handshake never ends", func(t *testing.T) {
		url := "https://" + rawReceiver(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		c := newClient(t, func(cfg *Config) { cfg.AttemptTimeout = 100 * time.Millisecond })
		wantResult(t, post(t, c, url), 0, Timeout)
	})
}

func TestPostCancelled(t *testing.T) {
	arrived := make(chan struct{}, 1)
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	c := newClient(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.Post(ctx, Request{URL: s.URL, Body: []byte("{}")})
		done <- err
	}()
	<-arrived
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if _, err := c.Post(ctx, Request{URL: s.URL}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after cancelling, want context.Canceled", err)
	}
}

func TestPostCallersDeadline(t *testing.T) {
	url := "https://" + rawTLS(t, nil, func(c *tls.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	r, err := newClient(t, nil).Post(ctx, Request{URL: url, Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	wantResult(t, r, 0, Timeout)
}

func TestPostRefusesMalformedHeaders(t *testing.T) {
	c := newClient(t, nil)
	for _, f := range []Field{
		{"", "x"}, {"a b", "x"}, {"A:", "x"}, {"A", "x\r\nB: y"}, {"A", "\x00"},
		{"Content-Length", "1"}, {"host", "x"}, {"Connection", "close"},
	} {
		_, err := c.Post(context.Background(), Request{URL: "https://127.0.0.1:1/", Header: []Field{f}})
		if err == nil {
			t.Errorf("field %q: %q is accepted", f.Name, f.Value)
		}
	}
}

func TestPostIgnoresProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {})
	wantResult(t, post(t, newClient(t, nil), s.URL), 200, "")
}

func TestNewRefusesNonsense(t *testing.T) {
	_, err := New(Config{MaxIdle: -1, AttemptTimeout: -1, UserAgent: "a\r\nb"})
	for _, name := range []string{"MaxIdle", "AttemptTimeout", "UserAgent"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not name %s", err, name)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":               0,
		"0":              0,
		"120":            2 * time.Minute,
		"-5":             0,
		"soon":           0,
		"99999999999999": 0, "86401": 24 * time.Hour, "Sun, 01 Nov 2037 12:01:00 GMT": 24 * time.Hour,
		"Sun, 01 Nov 2026 12:01:00 GMT": time.Minute, "Sun, 01 Nov 2026 11:00:00 GMT": 0,
	} {
		if got := retry.After(value, now, maxRetryAfter); got != want {
			t.Errorf("parseRetryAfter(%q) = %s, want %s", value, got, want)
		}
	}
}

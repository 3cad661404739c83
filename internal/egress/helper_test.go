package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

// testCA issues the certificates of the test receivers.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var ca = sync.OnceValue(func() *testCA {
	key := mustKey()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "egress tests"},
		NotBefore:             time.Now().Add(-48 * time.Hour),
		NotAfter:              time.Now().Add(48 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	return &testCA{cert: sign(template, template, key, key), key: key}
})

func mustKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert
}

func (c *testCA) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(c.cert)
	return p
}

// issue creates a certificate for loopback and for the names that the tests resolve.
func (c *testCA) issue(change func(*x509.Certificate)) tls.Certificate {
	key := mustKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		NotBefore:    time.Now().Add(-24 * time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     []string{"localhost", "*.test"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if change != nil {
		change(template)
	}
	cert := sign(template, c.cert, key, c.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// receiver runs an HTTPS server that also offers HTTP/2.
func receiver(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca().issue(nil)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// rawReceiver runs serve on every connection to a listener. It closes a connection when serve
// returns, and all connections at the end of the test.
func rawReceiver(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// rawTLS is rawReceiver with TLS. serve gets connections that have completed the handshake.
func rawTLS(t testing.TB, cfg *tls.Config, serve func(*tls.Conn)) string {
	t.Helper()
	if cfg == nil {
		cfg = &tls.Config{Certificates: []tls.Certificate{ca().issue(nil)}}
	}
	return rawReceiver(t, func(conn net.Conn) {
		secured := tls.Server(conn, cfg)
		if secured.Handshake() == nil {
			serve(secured)
		}
	})
}

// newClient returns a client that permits loopback and every port. change adjusts the rest of its
// configuration.
func newClient(t testing.TB, change func(*Config)) *Client {
	t.Helper()
	ports, err := ParsePorts("1-65535")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Policy:         Policy{Allow: LoopbackPrefixes(), Ports: ports},
		RootCAs:        ca().pool(),
		AttemptTimeout: 5 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func post(t testing.TB, c *Client, url string) Result {
	t.Helper()
	r, err := c.Post(context.Background(), Request{
		URL:    url,
		Body:   []byte(`{"id":"evt_1"}`),
		Header: []Field{{"Content-Type", "application/json"}, {"Webhook-Id", "evt_1"}},
	})
	if err != nil {
		t.Fatalf("post %s: %v", url, err)
	}
	return r
}

func wantResult(t testing.TB, r Result, status int, code Code) {
	t.Helper()
	if r.StatusCode != status || r.Error != code {
		t.Errorf("got status %d, error %q (%s); want %d, %q", r.StatusCode, r.Error, r.Detail, status,
			code)
	}
}

// readRequest reads a complete request from a raw connection and returns its text.
func readRequest(conn net.Conn) (string, error) {
	var text strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		text.Write(buf[:n])
		if strings.HasSuffix(text.String(), `{"id":"evt_1"}`) {
			return text.String(), nil
		}
		if err != nil {
			return text.String(), err
		}
	}
}

func addrs(list ...string) []netip.Addr {
	out := make([]netip.Addr, len(list))
	for i, a := range list {
		out[i] = netip.MustParseAddr(a)
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }

func awaitClose(t testing.TB, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(testkit.Patience(t)):
		t.Fatal("no connection was closed")
	}
}

func serveOn(t testing.TB, l net.Listener, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	_ = s.Listener.Close()
	s.Listener = l
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca().issue(nil)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// newest returns the connection that became idle most recently, or nil.
func newest(c *Client) *connection {
	if front := c.pool.idle.Front(); front != nil {
		return front.Value.(*connection)
	}
	return nil
}

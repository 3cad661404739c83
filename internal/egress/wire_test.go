package egress

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
)

// An absurdly long chain of certificates must not be read to its end.
func TestHandshakeIsMetered(t *testing.T) {
	cert := ca().issue(nil)
	for range 300 {
		cert.Certificate = append(cert.Certificate, cert.Certificate[0])
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}}
	r := post(t, newClient(t, nil), "https://"+rawTLS(t, cfg, func(*tls.Conn) {}))
	wantResult(t, r, 0, TLS)
	if !strings.Contains(r.Detail, errSentTooMuch.Error()) {
		t.Errorf("the detail is %q", r.Detail)
	}
}

// A long-lived connection must not be cut off because of its total traffic.
func TestMeterGrantsWhatIsUsed(t *testing.T) {
	body := make([]byte, 60<<10)
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(body)
	})
	c := newClient(t, nil)
	for range 60 {
		wantResult(t, post(t, c, s.URL), 200, "")
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.pool.idle.Len() != 1 {
		t.Errorf("%d connections after 60 attempts in a row", c.pool.idle.Len())
	}
}

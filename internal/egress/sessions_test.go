package egress

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// resuming runs a receiver on loopback that counts resumed sessions.
func resuming(t *testing.T, resumed *atomic.Int32, change func(*tls.Config)) string {
	cfg := &tls.Config{Certificates: []tls.Certificate{ca().issue(nil)}}
	if change != nil {
		change(cfg)
	}
	return "https://" + rawTLS(t, cfg, func(c *tls.Conn) {
		if c.ConnectionState().DidResume {
			resumed.Add(1)
		}
		if _, err := readRequest(c); err == nil {
			_, _ = c.Write([]byte(okAnswer))
		}
	})
}

// Eight receivers on different ports of one host must each resume their own session.
func TestReconnectsResume(t *testing.T) {
	for name, version := range map[string]uint16{
		"TLS 1.2": tls.VersionTLS12,
		"TLS 1.3": tls.VersionTLS13,
	} {
		t.Run(name, func(t *testing.T) {
			var resumed atomic.Int32
			var urls []string
			for range 8 {
				urls = append(urls, resuming(t, &resumed, func(cfg *tls.Config) { cfg.MaxVersion = version }))
			}
			c := newClient(t, func(cfg *Config) { cfg.MaxConnAge = 1 })
			for range 3 {
				for _, url := range urls {
					wantResult(t, post(t, c, url), 200, "")
				}
			}
			if resumed.Load() != 16 {
				t.Errorf("%d of 16 reconnects resumed", resumed.Load())
			}
		})
	}
}

// A session with a very long chain or ticket must not be stored.
func TestSessionsAreBounded(t *testing.T) {
	for name, change := range map[string]func(*tls.Config){
		"chain": func(cfg *tls.Config) {
			cert := ca().issue(func(c *x509.Certificate) { c.Extensions = nil })
			for range 60 { // not needed for verification, but sent
				cert.Certificate = append(cert.Certificate, ca().issue(nil).Certificate[0])
			}
			cfg.Certificates = []tls.Certificate{cert}
		},
		"ticket": func(cfg *tls.Config) {
			cfg.WrapSession = func(state tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
				session.Extra = append(session.Extra, make([]byte, maxSessionTicketBytes))
				return cfg.EncryptTicket(state, session)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var resumed atomic.Int32
			url := resuming(t, &resumed, change)
			c := newClient(t, func(cfg *Config) { cfg.MaxConnAge = 1 })
			for range 3 {
				wantResult(t, post(t, c, url), 200, "")
			}
			if resumed.Load() != 0 || c.sessions.byAddr.Len() != 0 {
				t.Errorf("%d resumed, %d kept", resumed.Load(), c.sessions.byAddr.Len())
			}
		})
	}
}

// A session that was created with one set of roots must not admit a receiver under another.
func TestNoSessionWithoutTrust(t *testing.T) {
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {})
	trusting := newClient(t, func(cfg *Config) { cfg.MaxConnAge = 1 })
	wantResult(t, post(t, trusting, s.URL), 200, "")
	wary := newClient(t, func(cfg *Config) { cfg.RootCAs = x509.NewCertPool() })
	wary.sessions = trusting.sessions
	if _, found := wary.sessions.byAddr.Get(s.Listener.Addr().(*net.TCPAddr).String()); !found {
		t.Fatal("there is no session to be wary of")
	}
	wantResult(t, post(t, wary, s.URL), 0, TLS)
}

package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/lumenhook/lumenhook/internal/ingress"
)

const (
	defaultMaxConns          = 10_000
	defaultMaxConnsPerClient = 1_000
)

// HTTPConfig configures the server. Zero values mean the defaults named.
type HTTPConfig struct {
	// Server has the handler and the time and header limits. The caller must not use it
	// afterwards.
	Server *http.Server
	// CertFile and KeyFile enable TLS; both or none.
	CertFile, KeyFile string

	MaxConns          int            // 10,000
	MaxConnsPerClient int            // 1,000
	Share             float64        // of the process's descriptors; a third
	Proxies           []netip.Prefix // MaxConnsPerClient does not bound them

	Log *slog.Logger // required
}

// Server serves the API on a listener.
type Server struct {
	http  *http.Server
	pair  *keyPair // nil: no TLS
	conns ingress.Config
}

// NewHTTPServer wraps a server of net/http. Its errors name the wrong field.
func NewHTTPServer(cfg HTTPConfig) (*Server, error) {
	switch {
	case cfg.Server == nil || cfg.Server.Handler == nil || cfg.Log == nil:
		return nil, errors.New("api: Server with a Handler, and Log, are required: set them")
	case cfg.MaxConns < 0 || cfg.MaxConnsPerClient < 0:
		return nil, errors.New("api: MaxConns and MaxConnsPerClient must not be negative")
	case (cfg.CertFile == "") != (cfg.KeyFile == ""):
		return nil, errors.New("api: a certificate and a key are needed, and only one of them is " +
			"set: set both or none")
	}
	s := &Server{
		http: cfg.Server,
		conns: ingress.Config{
			Max:           cmp.Or(cfg.MaxConns, defaultMaxConns),
			MaxPerAddress: cmp.Or(cfg.MaxConnsPerClient, defaultMaxConnsPerClient),
			Share:         cmp.Or(cfg.Share, 1.0/3),
			Proxies:       cfg.Proxies,
			Log:           cfg.Log,
		},
	}
	s.http.ConnState = ingress.ConnState
	handler := boundHeaders(newAuthLimiter().wrap(cfg.Server.Handler),
		cmp.Or(cfg.Server.MaxHeaderBytes, http.DefaultMaxHeaderBytes))
	// A slightly too long header reaches the handler, which answers in the API's form with
	// TLS and HTTP/2 too.
	s.http.MaxHeaderBytes = 2 * cmp.Or(cfg.Server.MaxHeaderBytes, http.DefaultMaxHeaderBytes)
	if cfg.CertFile != "" {
		pair, err := loadKeyPair(cfg.CertFile, cfg.KeyFile, cfg.Log)
		if err != nil {
			return nil, err
		}
		s.pair = pair
		handler = strictTransport(handler)
	}
	s.http.Handler = handler
	return s, nil
}

// Scheme is http or https.
func (s *Server) Scheme() string {
	if s.pair == nil {
		return "http"
	}
	return "https"
}

// Serve answers until Shutdown, then returns nil. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	l = refusingListener{ingress.Listen(l, s.conns)}
	var err error
	if s.pair == nil {
		err = s.http.Serve(l)
	} else {
		s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.pair.get}
		err = s.http.ServeTLS(l, "", "")
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("api: %w", err)
}

// Shutdown lets requests in progress finish, until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("api: requests were cut off: %w", err), s.http.Close())
	}
	return nil
}

// strictTransport makes browsers insist on TLS for a year (RFC 6797).
func strictTransport(next http.Handler) http.Handler {
	value := fmt.Sprintf("max-age=%d", int((365 * 24 * time.Hour).Seconds()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", value)
		next.ServeHTTP(w, r)
	})
}

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

// HTTPConfig configures the server. A zero value means the default in the comment.
type HTTPConfig struct {
	// Server has the handler and the time and header limits. The caller must not use it
	// afterwards.
	Server *http.Server
	// CertFile and KeyFile enable TLS. They must be set together.
	CertFile, KeyFile string

	MaxConns          int            // default 10,000
	MaxConnsPerClient int            // default 1,000
	Share             float64        // of the process's file descriptors; default a third
	Proxies           []netip.Prefix // exempt from MaxConnsPerClient

	Log *slog.Logger // required
}

// Server serves the API on a listener.
type Server struct {
	http  *http.Server
	pair  *keyPair // nil without TLS
	conns ingress.Config
}

// NewHTTPServer wraps a net/http server. Its errors name the invalid field.
func NewHTTPServer(cfg HTTPConfig) (*Server, error) {
	switch {
	case cfg.Server == nil || cfg.Server.Handler == nil || cfg.Log == nil:
		return nil, errors.New("api: Server with a Handler, and Log, are required")
	case cfg.MaxConns < 0 || cfg.MaxConnsPerClient < 0:
		return nil, errors.New("api: MaxConns and MaxConnsPerClient must not be negative")
	case (cfg.CertFile == "") != (cfg.KeyFile == ""):
		return nil, errors.New("api: CertFile and KeyFile must be set " +
			"together")
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
	// The handler sees slightly too long headers, and responds in the API's format with TLS and
	// HTTP/2 as well.
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

// Scheme returns http or https.
func (s *Server) Scheme() string {
	if s.pair == nil {
		return "http"
	}
	return "https"
}

// Serve serves until Shutdown, and returns nil then. It closes the listener.
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

// Shutdown lets requests in progress finish until ctx is done.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("api: requests were interrupted: %w", err), s.http.Close())
	}
	return nil
}

// strictTransport tells browsers to use only TLS for a year (RFC 6797).
func strictTransport(next http.Handler) http.Handler {
	value := fmt.Sprintf("max-age=%d", int((365 * 24 * time.Hour).Seconds()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", value)
		next.ServeHTTP(w, r)
	})
}

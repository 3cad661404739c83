package receiver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/ingress"
)

const (
	// Path is the path of webhooks.
	Path = "/webhooks"

	maxBodyBytes   = 1 << 20
	maxHeaderBytes = 32 << 10
	maxSeen        = 100_000
	maxWaiting     = 1024
	maxConns       = 1024
)

// Webhook is a request with the receiver's verdict.
type Webhook struct {
	ID        string // Webhook-Id; made printable and short when not verified
	Type      string // the event's type, empty unless verified
	Timestamp string // Webhook-Timestamp, as received
	Signature string // Webhook-Signature, as received
	Body      []byte // as received
	Verified  bool
	Reason    string // why it was refused, empty when it was accepted
	Duplicate bool   // verified, and its id was accepted before
}

// Text returns the webhook and its verdict in one line.
func (w Webhook) Text() string {
	switch {
	case w.Duplicate:
		return fmt.Sprintf("received   %s again: its signature is right, and it was handled before", w.ID)
	case w.Verified:
		return fmt.Sprintf("received   %s: %s, %d bytes, its signature is right",
			w.ID, w.Type, len(w.Body))
	}
	return fmt.Sprintf("refused    %s: %s", w.ID, w.Reason)
}

// Config sets up a Receiver. All fields but Now and Logger are required.
type Config struct {
	Listen string // host:port; port 0 picks a free one
	// GetCertificate returns the server's certificate, as tls.Config's.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Secrets returns the endpoint secrets that may have signed, at the time
	// of each request.
	Secrets func() []domain.Secret
	// OnWebhook is called for each webhook, one at a time, in the order of arrival, after
	// its answer was decided. It may keep Body.
	OnWebhook func(Webhook)
	Now       func() time.Time // time.Now
	Logger    *slog.Logger     // discards
}

// Receiver is the demo receiver. Start it once, Close it once.
type Receiver struct {
	cfg      Config
	server   *http.Server
	listener net.Listener
	seen     *lru.Cache[string, struct{}]
	waiting  chan Webhook
	handed   sync.WaitGroup

	mu      sync.RWMutex // read-held while a webhook enters waiting
	stopped bool         // waiting is closed
}

// New checks the configuration; an error names each field at fault.
func New(cfg Config) (*Receiver, error) {
	var faults []error
	need := func(ok bool, field string) {
		if !ok {
			faults = append(faults, fmt.Errorf("receiver: %s is not set", field))
		}
	}
	need(cfg.Listen != "", "Listen")
	need(cfg.GetCertificate != nil, "GetCertificate")
	need(cfg.Secrets != nil, "Secrets")
	need(cfg.OnWebhook != nil, "OnWebhook")
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	seen, err := lru.New[string, struct{}](maxSeen)
	if err != nil {
		return nil, fmt.Errorf("receiver: make the memory of ids: %w", err)
	}
	r := &Receiver{cfg: cfg, seen: seen, waiting: make(chan Webhook, maxWaiting)}
	r.server = r.newServer()
	return r, nil
}

func (r *Receiver) newServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, r.handle)
	s := &http.Server{
		Handler: ingress.Guard{Listen: r.cfg.Listen}.Wrap(mux),
		TLSConfig: &tls.Config{
			GetCertificate: r.cfg.GetCertificate,
			MinVersion:     tls.VersionTLS12,
		},
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(r.cfg.Logger.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		ConnState:         ingress.ConnState,
	}
	// HTTP/1.1 only: for small bodies it costs both sides less than half of HTTP/2, and
	// this server shares a machine with the sender.
	s.Protocols.SetHTTP1(true)
	return s
}

// Start listens and serves; it returns once connections are accepted.
func (r *Receiver) Start() error {
	l, err := net.Listen("tcp", r.cfg.Listen)
	if err != nil {
		return fmt.Errorf("receiver: listen on %s: %w", r.cfg.Listen, err)
	}
	r.listener = ingress.Listen(l, ingress.Config{
		Max:           maxConns,
		MaxPerAddress: maxConns,
		Share:         1.0 / 16,
		Log:           r.cfg.Logger,
	})
	r.handed.Go(func() {
		for w := range r.waiting {
			r.cfg.OnWebhook(w)
		}
	})
	go func() {
		if err := r.server.ServeTLS(r.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			r.cfg.Logger.Error("the receiver stopped serving", "err", err)
		}
	}()
	return nil
}

// Addr returns the address that the receiver listens on, once started.
func (r *Receiver) Addr() net.Addr { return r.listener.Addr() }

// URL returns the URL of webhooks, once started. For a receiver that listens on all
// addresses it is the loopback one.
func (r *Receiver) URL() string {
	addr := r.listener.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(addr.Port)) + Path
}

// Close stops accepting, lets requests in flight end until ctx does, and
// returns when every webhook that was answered has been handed on.
func (r *Receiver) Close(ctx context.Context) error {
	if r.listener == nil {
		return nil
	}
	err := r.server.Shutdown(ctx)
	if err != nil {
		_ = r.server.Close()
		err = fmt.Errorf("receiver: requests were cut off: %w", err)
	}
	r.stopHandingOn()
	return err
}

// handOn queues a webhook for OnWebhook, waiting for room; false means that the
// receiver has stopped.
func (r *Receiver) handOn(w Webhook) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.stopped {
		return false
	}
	r.waiting <- w
	return true
}

// stopHandingOn returns when OnWebhook has had everything.
func (r *Receiver) stopHandingOn() {
	r.mu.Lock()
	if !r.stopped {
		r.stopped = true
		close(r.waiting)
	}
	r.mu.Unlock()
	r.handed.Wait()
}

// maxIDBytes bounds a Webhook-Id; ours have 30.
const maxIDBytes = 128

// verdict is the result of checking a request.
type verdict struct {
	status  int
	webhook Webhook
}

func (r *Receiver) handle(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBodyBytes))
	if err != nil {
		status := http.StatusBadRequest
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		answer(w, status, "the body could not be read whole: at most 1 MiB is accepted")
		return
	}
	v := r.judge(req.Header, body)
	if !r.handOn(v.webhook) {
		answer(w, http.StatusServiceUnavailable, "the receiver is stopping")
		return
	}
	answer(w, v.status, v.webhook.Reason)
}

// judge follows the specification's order: signature over the raw bytes, then whether the
// id was seen, and only then the content of the body.
func (r *Receiver) judge(header http.Header, body []byte) verdict {
	id := header.Get("Webhook-Id")
	signature := strings.Join(header.Values("Webhook-Signature"), ",")
	w := Webhook{Timestamp: header.Get("Webhook-Timestamp"), Signature: signature, Body: body}
	refuse := func(status int, reason string) verdict {
		w.ID, w.Reason = printable(id), reason
		return verdict{status, w}
	}
	if id == "" || len(id) > maxIDBytes {
		return refuse(http.StatusBadRequest, "Webhook-Id is missing or over 128 bytes")
	}
	err := domain.Verify(signature, w.Timestamp, body, r.cfg.Secrets(), r.cfg.Now().Unix())
	switch {
	case errors.Is(err, domain.ErrTimestampSyntax):
		return refuse(http.StatusBadRequest, err.Error())
	case err != nil:
		return refuse(http.StatusUnauthorized, err.Error())
	}
	var event struct{ ID, Type string }
	if err := json.Unmarshal(body, &event); err != nil {
		return refuse(http.StatusBadRequest, "the body is signed but is no JSON object")
	}
	if event.ID != id {
		return refuse(http.StatusBadRequest, "Webhook-Id is not the id of the body")
	}
	w.ID, w.Type, w.Verified = id, event.Type, true
	w.Duplicate, _ = r.seen.ContainsOrAdd(id, struct{}{})
	return verdict{http.StatusOK, w}
}

func answer(w http.ResponseWriter, status int, reason string) {
	if reason == "" {
		reason = "ok"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, reason+"\n")
}

// printable makes an unverified id safe for a terminal and short.
func printable(id string) string {
	id = strings.Map(func(c rune) rune {
		if c > ' ' && c < 0x7f {
			return c
		}
		return '?'
	}, id)
	return id[:min(len(id), maxIDBytes)]
}

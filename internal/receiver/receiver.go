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
	// Path is the URL path of webhooks.
	Path = "/webhooks"

	maxBodyBytes   = 1 << 20
	maxHeaderBytes = 32 << 10
	maxSeen        = 100_000
	maxWaiting     = 1024
	maxConns       = 1024
)

// Webhook is a received request and the result of checking it.
type Webhook struct {
	ID        string // Webhook-Id; truncated and made printable if not verified
	Type      string // event type; empty if not verified
	Timestamp string // Webhook-Timestamp, as received
	Signature string // Webhook-Signature, as received
	Body      []byte // as received
	Verified  bool
	Reason    string // why it was refused; empty if accepted
	Duplicate bool   // verified, but its ID was accepted before
}

// Text returns a one-line description.
func (w Webhook) Text() string {
	switch {
	case w.Duplicate:
		return fmt.Sprintf("received   %s again: valid signature, already handled", w.ID)
	case w.Verified:
		return fmt.Sprintf("received   %s: %s, %d bytes, valid signature",
			w.ID, w.Type, len(w.Body))
	}
	return fmt.Sprintf("refused    %s: %s", w.ID, w.Reason)
}

// Config configures a Receiver. Only Now and Logger are optional.
type Config struct {
	Listen string // host:port; port 0 selects a free port
	// GetCertificate returns the server's certificate; see [tls.Config].
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Secrets returns the endpoint secrets that are valid at the time of a request.
	Secrets func() []domain.Secret
	// OnWebhook is called for each webhook, one at a time and in order of arrival, after the response
	// has been decided. It may retain Body.
	OnWebhook func(Webhook)
	Now       func() time.Time // default: time.Now
	Logger    *slog.Logger     // default: discards logs
}

// Receiver is the demo receiver. Call Start and Close once each.
type Receiver struct {
	cfg      Config
	server   *http.Server
	listener net.Listener
	seen     *lru.Cache[string, struct{}]
	waiting  chan Webhook
	handed   sync.WaitGroup

	mu      sync.RWMutex // read-locked while a webhook is added to waiting
	stopped bool         // waiting is closed
}

// New returns a receiver, or an error that lists the missing fields.
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
		return nil, fmt.Errorf("receiver: create the ID cache: %w", err)
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
	// HTTP/1.1 only: for small bodies, it costs each side less than half as much as HTTP/2, and this
	// server shares a machine with the sender.
	s.Protocols.SetHTTP1(true)
	return s
}

// Start starts the server. It returns once connections are accepted.
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

// Addr returns the address of a started receiver.
func (r *Receiver) Addr() net.Addr { return r.listener.Addr() }

// URL returns the webhook URL, with a loopback address if the receiver listens on all addresses.
func (r *Receiver) URL() string {
	addr := r.listener.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(addr.Port)) + Path
}

// Close stops accepting requests, waits for requests in flight until ctx ends, and returns once
// OnWebhook has been called for all webhooks.
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

// handOn queues a webhook for OnWebhook, unless the receiver has stopped. It waits for room.
func (r *Receiver) handOn(w Webhook) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.stopped {
		return false
	}
	r.waiting <- w
	return true
}

// stopHandingOn closes the queue and waits until it is empty.
func (r *Receiver) stopHandingOn() {
	r.mu.Lock()
	if !r.stopped {
		r.stopped = true
		close(r.waiting)
	}
	r.mu.Unlock()
	r.handed.Wait()
}

// maxIDBytes is the maximum length of a Webhook-Id. Lumenhook's have 30 bytes.
const maxIDBytes = 128

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
		answer(w, status, "cannot read the complete body: at most 1 MiB is accepted")
		return
	}
	v := r.judge(req.Header, body)
	if !r.handOn(v.webhook) {
		answer(w, http.StatusServiceUnavailable, "the receiver is stopping")
		return
	}
	answer(w, v.status, v.webhook.Reason)
}

// judge follows the specification's order: the signature of the raw bytes, the ID, the content.
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
		return refuse(http.StatusBadRequest, "the body is signed but is not a JSON object")
	}
	if event.ID != id {
		return refuse(http.StatusBadRequest, "Webhook-Id differs from the id in the body")
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

func printable(id string) string {
	id = strings.Map(func(c rune) rune {
		if c > ' ' && c < 0x7f {
			return c
		}
		return '?'
	}, id)
	return id[:min(len(id), maxIDBytes)]
}

package trial

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

type post struct {
	n         int
	endpoint  string // slot
	at        time.Time
	id        string // Webhook-Id
	timestamp string
	signature string
	mime      string
	body      []byte
	mode      string
	status    int // of the response; 0 if there was none
}

// repeats reports whether a post repeats the previous one within the same attempt, because that
// connection ended without a response.
func (p post) repeats(before *post) bool {
	return before.mode == "reset" && before.endpoint == p.endpoint &&
		before.timestamp == p.timestamp && before.signature == p.signature
}

// mark returns the first line of the response to a post. It identifies the post of an attempt in
// the history.
func (p post) mark() string { return fmt.Sprintf("post-%d.", p.n) }

// receivers are a run's HTTPS servers. Each endpoint has its own path and behaviour.
type receivers struct {
	mu    sync.Mutex
	modes map[string]string // by endpoint slot
	posts []*post
	// forged are the webhooks of the hostile tenant's endpoint, which it could forward to others.
	forged []forged
	urls   map[string]string // by server: h2, h1, closed, badtls
	stops  []func()
	woken  chan struct{} // closed when the next post arrives
}

func newReceivers() *receivers {
	return &receivers{modes: map[string]string{}, urls: map[string]string{},
		woken: make(chan struct{})}
}

// start starts the servers, with a certificate that the program trusts and one that it doesn't.
func (r *receivers) start(cert tls.Certificate) error {
	for name, certs := range map[string][]tls.Certificate{"h2": {cert}, "h1": {cert}, "badtls": nil} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(r.handle))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		// Without a certificate, httptest uses its own.
		server.TLS = &tls.Config{Certificates: certs, MinVersion: tls.VersionTLS12}
		server.EnableHTTP2 = name != "h1"
		server.StartTLS()
		r.urls[name] = server.URL
		r.stops = append(r.stops, func() { _ = server.Config.Close() })
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.urls["closed"] = "https://" + closed.Addr().String()
	return closed.Close()
}

func (r *receivers) close() {
	for _, stop := range r.stops {
		stop()
	}
}

func (r *receivers) setMode(endpoint, mode string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.modes[endpoint] = mode
}

// healAll makes every receiver respond with 200 from now on.
func (r *receivers) healAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.modes)
}

func (r *receivers) nextPost() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.woken
}

func (r *receivers) all() []*post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*post{}, r.posts...)
}

// handle responds to /hook/SLOT… according to the slot's mode.
func (r *receivers) handle(out http.ResponseWriter, in *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(io.LimitReader(in.Body, 1<<20))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if in.URL.Path == "/hostile" { // it wants to use up attempts, and keeps what it gets
		r.forge(forged{in.Header.Get("Webhook-Id"), in.Header.Get("Webhook-Timestamp"),
			in.Header.Get("Webhook-Signature"), body})
		r.hang(in)
	}
	slot, _, _ := strings.Cut(strings.TrimPrefix(in.URL.Path, "/hook/"), "/")
	p := r.record(&post{
		endpoint:  slot,
		at:        at,
		body:      body,
		id:        in.Header.Get("Webhook-Id"),
		timestamp: in.Header.Get("Webhook-Timestamp"),
		signature: in.Header.Get("Webhook-Signature"),
		mime:      in.Header.Get("Content-Type"),
	})
	r.behave(p, out, in)
}

func (r *receivers) forge(f forged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.forged) < 1000 {
		r.forged = append(r.forged, f)
	}
}

func (r *receivers) record(p *post) *post {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.n, p.mode = len(r.posts), r.modes[p.endpoint]
	if p.mode == "" {
		p.mode = "ok"
	}
	p.status = map[string]int{
		"ok": 200, "slow": 200, "large": 200, "half": 200, "cut": 200,
		"503": 503, "404": 404, "410": 410, "redirect": 302,
	}[p.mode]
	r.posts = append(r.posts, p)
	close(r.woken)
	r.woken = make(chan struct{})
	return p
}

func (*receivers) hang(in *http.Request) {
	select {
	case <-in.Context().Done():
	case <-time.After(3 * attemptTimeout):
	}
	panic(http.ErrAbortHandler)
}

func (r *receivers) behave(p *post, out http.ResponseWriter, in *http.Request) {
	hang := func() { r.hang(in) }
	switch p.mode {
	case "reset":
		panic(http.ErrAbortHandler)
	case "hang":
		hang()
	case "slow":
		time.Sleep(attemptTimeout / 4)
	case "redirect":
		out.Header().Set("Location", "https://127.0.0.1:1/elsewhere")
	case "cut":
		out.Header().Set("Content-Length", "1000")
	}
	out.WriteHeader(p.status)
	_, _ = io.WriteString(out, p.mark())
	switch p.mode {
	case "large":
		_, _ = io.WriteString(out, strings.Repeat("x", 70<<10))
	case "half":
		out.(http.Flusher).Flush()
		hang()
	case "cut":
		out.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

//go:build kafka

package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/keys"
)

type post struct {
	at     time.Time
	began  time.Time // when it was signed, in whole seconds
	status int
}

type told struct {
	payment string
	body    [sha256.Size]byte
	posts   []post
}

// receipts is a receiver that records every request. It answers the first post of an eighth of the
// events with 503, so that retries are due at any time, and every post to gonePath with 410.
type receipts struct {
	t       *testing.T
	url     string
	check   func(body []byte) error
	mu      sync.Mutex
	secrets []domain.Secret
	events  map[string]*told
	of      map[string]string // event IDs by payment ID
	latest  time.Time
}

const (
	gonePath     = "/gone"
	postMaxBytes = 1 << 20
)

func startReceipts(t *testing.T, dir string) *receipts {
	t.Helper()
	secrets, caFile := filepath.Join(dir, "secrets"), filepath.Join(dir, "ca.pem")
	ca, err := keys.LoadOrCreateCA(secrets, caFile, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.Issue()
	if err != nil {
		t.Fatal(err)
	}
	r := &receipts{
		t:      t,
		check:  checkEvents(t),
		events: make(map[string]*told),
		of:     make(map[string]string),
	}
	server := httptest.NewUnstartedServer(r)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receipts) knows(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, domain.Secret(secret))
}

func (r *receipts) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(io.LimitReader(req.Body, postMaxBytes))
	if err != nil {
		return // the sender is gone; nothing was received
	}
	if err := r.check(body); err != nil {
		r.t.Errorf("what was delivered departs from its schema: %v\n%s", err, body)
	}
	w.WriteHeader(r.take(req, body, at))
}

func (r *receipts) take(req *http.Request, body []byte, at time.Time) (status int) {
	id, signed := req.Header.Get("Webhook-Id"), req.Header.Get("Webhook-Timestamp")
	var event struct {
		ID   string
		Data struct{ Payment struct{ ID string } }
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := domain.Verify(req.Header.Get("Webhook-Signature"), signed, body, r.secrets, at.Unix())
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	if err != nil || event.ID != id {
		r.t.Errorf("event %q came as %q: %v", event.ID, id, err)
		return http.StatusBadRequest
	}
	seconds, _ := strconv.ParseInt(signed, 10, 64) // Verify has checked it
	payment, hash := event.Data.Payment.ID, sha256.Sum256(body)
	if first, twice := r.of[payment]; twice && first != id {
		r.t.Errorf("payment %s came under two ids, %s and %s", payment, first, id)
	}
	e := r.events[id]
	if e == nil {
		e = &told{payment: payment, body: hash}
		r.events[id], r.of[payment] = e, id
	}
	if e.body != hash || e.payment != payment {
		r.t.Errorf("event %s came with two bodies, the later one of payment %s", id, payment)
	}
	status = answerTo(req.URL.Path, id, len(e.posts) == 0)
	e.posts = append(e.posts, post{at, time.Unix(seconds, 0), status})
	r.latest = at
	return status
}

func answerTo(path, event string, first bool) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(event)) // never fails
	switch {
	case path == gonePath:
		return http.StatusGone
	case first && h.Sum32()%8 == 0:
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

func (r *receipts) first(payment string) (at time.Time, came bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.events[r.of[payment]]
	if e == nil {
		return at, false
	}
	return e.posts[0].at, true
}

func (r *receipts) posts(payment string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.events[r.of[payment]]
	if e == nil {
		return 0
	}
	return len(e.posts)
}

// accepted counts the accepted events and all posts.
func (r *receipts) accepted() (events, posts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		posts += len(e.posts)
		for _, p := range e.posts {
			if p.status == http.StatusOK {
				events++
				break
			}
		}
	}
	return events, posts
}

func (r *receipts) posted() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

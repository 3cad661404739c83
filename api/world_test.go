package api_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
)

// world is everything behind the API, in memory: the domain's own Decide and
// Evolve behind one lock, a directory that lags until it is awaited, a history,
// a ledger network and a policy for URLs.
type world struct {
	t      testing.TB
	api    *api.API
	server *httptest.Server
	log    *safeBuffer
	now    time.Time

	mu        sync.Mutex
	facts     int
	answers   map[string]domain.Result
	endpoints map[string]domain.Endpoint
	watches   map[string]domain.Watch
	keys      map[string]key
	seen      map[string]uint64 // versions that the directory shows
	history   map[string]record
	wallets   map[string][]domain.Asset

	freshErr, submitErr, historyErr, directoryErr error
	loseAnswer                                    bool // the engine acts, its answer is lost
	gate                                          chan struct{}
	panicking                                     bool
}

type key struct {
	key       domain.Key
	accountID string
}

type record struct {
	accountID string
	record    api.EventRecord
}

// newWorld serves the API on a port of its own.
func newWorld(t testing.TB, change ...func(*api.Config)) *world {
	w := assemble(t, change...)
	w.server = httptest.NewUnstartedServer(nil)
	w.server.Config = api.NewServer(w.api, w.api.Log)
	w.server.Start()
	t.Cleanup(w.server.Close)
	return w
}

// assemble makes the API without a server.
func assemble(t testing.TB, change ...func(*api.Config)) *world {
	w := &world{
		t: t, log: &safeBuffer{}, now: time.Date(2026, 11, 21, 10, 15, 30, 123_456_789, time.UTC),
		answers: map[string]domain.Result{}, endpoints: map[string]domain.Endpoint{}, watches: map[string]domain.Watch{},
		keys: map[string]key{}, seen: map[string]uint64{}, history: map[string]record{}, wallets: map[string][]domain.Asset{},
	}
	config := api.Config{
		Commands: w, Directory: w, History: w, Sealer: newSealer(t), Wallets: w, URLs: w, Entropy: rand.Reader,
		Now: func() time.Time { return w.now }, Log: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: promhttp.HandlerFor(prometheus.NewRegistry(), promhttp.HandlerOpts{}),
	}
	for _, c := range change {
		c(&config)
	}
	a, err := api.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.api = a
	return w
}

// Submit answers as the engine does: a command seen before gets its answer
// again, any other is decided and folded.
func (w *world) Submit(ctx context.Context, c domain.Command) (domain.Result, error) {
	if w.gate != nil {
		select {
		case <-w.gate:
		case <-ctx.Done():
			return domain.Result{}, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.panicking {
		panic("the engine is on fire")
	}
	if w.submitErr != nil {
		return domain.Result{}, w.submitErr
	}
	if before, handled := w.answers[c.ID]; handled {
		before.Replayed = true
		return before, nil
	}
	result := domain.Result{CommandID: c.ID, BodyHash: c.BodyHash, Answer: w.decide(c)}
	w.answers[c.ID] = result
	if w.loseAnswer {
		return domain.Result{}, fmt.Errorf("waiting for %s: %w", c.ID, api.ErrCommandUnanswered)
	}
	return result, nil
}

func (w *world) decide(c domain.Command) domain.Answer {
	nowMillis := w.now.UnixMilli()
	switch body := c.Body.(type) {
	case domain.CreateEndpoint:
		state := w.endpoints[body.EndpointID]
		bodies, rejection := domain.DecideCreateEndpoint(state, body, nowMillis)
		for i, b := range bodies {
			state = domain.EvolveEndpoint(state, domain.Fact{Aggregate: body.EndpointID, Version: state.Version + 1 + uint64(i), AtMillis: nowMillis, Cause: c.ID, Body: b})
			w.facts++
		}
		if rejection != nil {
			return domain.Answer{Rejection: rejection}
		}
		w.endpoints[state.ID] = state
		return domain.Answer{Endpoint: &state}
	case domain.CreateWatch:
		state := w.watches[body.Watch.ID]
		bodies, rejection := domain.DecideCreateWatch(state, body, nowMillis)
		for i, b := range bodies {
			state = domain.EvolveWatch(state, domain.Fact{Aggregate: body.Watch.ID, Version: state.Version + 1 + uint64(i), AtMillis: nowMillis, Cause: c.ID, Body: b})
			w.facts++
		}
		if rejection != nil {
			return domain.Answer{Rejection: rejection}
		}
		w.watches[state.ID] = state
		return domain.Answer{Watch: &state}
	}
	panic(fmt.Sprintf("unexpected command %T", c.Body))
}

func (w *world) Fresh() error { return w.freshErr }

func (w *world) KeyByHash(hash []byte) (domain.Key, string, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, found := w.keys[string(hash)]
	return k.key, k.accountID, found, w.directoryErr
}

func (w *world) Endpoint(id string) (domain.Endpoint, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, found := w.endpoints[id]
	return e, found && w.seen[id] >= e.Version, nil
}

// AwaitEndpoint makes the version visible: without it, it never is.
func (w *world) AwaitEndpoint(_ context.Context, id string, version uint64) error {
	return w.await(id, version)
}

func (w *world) AwaitWatch(_ context.Context, id string, version uint64) error {
	return w.await(id, version)
}

func (w *world) await(id string, version uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[id] = max(w.seen[id], version)
	return nil
}

func (w *world) Event(_ context.Context, accountID, eventID string) (api.EventRecord, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.historyErr != nil {
		return api.EventRecord{}, fmt.Errorf("reading: %w", w.historyErr)
	}
	r, found := w.history[eventID]
	if !found || r.accountID != accountID {
		return api.EventRecord{}, api.ErrEventNotFound
	}
	return r.record, nil
}

func (w *world) Warnings(_ context.Context, wallet string, assets []domain.Asset) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, found := w.wallets[wallet]
	if !found {
		return []string{"ACCOUNT_NOT_FOUND"}
	}
	var warnings []string
	for _, asset := range assets {
		if !asset.IsNative() && !contains(lines, asset) {
			warnings = append(warnings, "NO_TRUSTLINE:"+asset.Code)
		}
	}
	return warnings
}

func contains(assets []domain.Asset, asset domain.Asset) bool {
	for _, a := range assets {
		if a == asset {
			return true
		}
	}
	return false
}

// Check takes https URLs whose host is no address of this machine.
func (w *world) Check(_ context.Context, raw string) (string, []string, []api.URLFault) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return "", nil, []api.URLFault{{Code: "INVALID_URL", Detail: "must be an https URL"}}
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && !ip.IsGlobalUnicast() || u.Hostname() == "localhost" {
		return "", nil, []api.URLFault{{Code: "SSRF_BLOCKED", Detail: "leads to an internal address"}}
	}
	u.Host = strings.ToLower(u.Host)
	if strings.HasSuffix(u.Hostname(), ".invalid") {
		return u.String(), []string{"DNS"}, nil
	}
	return u.String(), nil, nil
}

// newKey adds a key to the directory.
func (w *world) newKey(accountID string, permissions ...domain.Permission) string {
	var entropy [32]byte
	if _, err := rand.Read(entropy[:]); err != nil {
		w.t.Fatal(err)
	}
	text := domain.NewAPIKey(false, entropy)
	w.mu.Lock()
	defer w.mu.Unlock()
	hash := domain.APIKeyHash(text)
	w.keys[string(hash)] = key{accountID: accountID, key: domain.Key{ID: domain.DeriveID(domain.KeyPrefix, text), Hash: hash, Permissions: permissions}}
	return text
}

// account is an account of the tests.
func account(name string) string { return domain.DeriveID(domain.AccountPrefix, name) }

// sealer encrypts with AES-256-GCM, as the real one does.
type sealer struct{ aead cipher.AEAD }

func newSealer(t testing.TB) sealer {
	block, err := aes.NewCipher(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return sealer{aead}
}

func (s sealer) Seal(plaintext []byte, associatedData string) ([]byte, error) {
	nonce := make([]byte, s.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return s.aead.Seal(nonce, nonce, plaintext, []byte(associatedData)), nil
}

func (s sealer) Open(sealed []byte, associatedData string) ([]byte, error) {
	if len(sealed) < s.aead.NonceSize() {
		return nil, errors.New("the sealed secret is too short")
	}
	return s.aead.Open(nil, sealed[:s.aead.NonceSize()], sealed[s.aead.NonceSize():], []byte(associatedData))
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// answer is what came back, read to its end and held against openapi.yaml.
type answer struct {
	*http.Response
	body []byte
}

// call sends a request. Its header lines are name and value in turn.
func (w *world) call(method, path, apiKey, body string, header ...string) answer {
	w.t.Helper()
	request, err := http.NewRequest(method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if apiKey != "" {
		request.Header.Set("Authorization", "Bearer "+apiKey)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			request.Header.Del(header[i])
		}
	}
	return w.send(request, body)
}

func (w *world) send(request *http.Request, body string) answer {
	w.t.Helper()
	response, err := w.server.Client().Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	checkAgainstOpenAPI(w.t, request, body, response, got)
	return answer{response, got}
}

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/ops"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

type listener struct {
	url string
	mu  sync.Mutex
	got []received
}

type received struct {
	header http.Header
	body   []byte
	at     time.Time
}

func startListener(t *testing.T, dir string) *listener {
	t.Helper()
	l := &listener{}
	l.url = serveTLS(t, dir, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got = append(l.got, received{r.Header.Clone(), body, time.Now()})
	})
	return l
}

// serveTLS serves with a certificate of the run's own authority, which the run trusts.
func serveTLS(t *testing.T, dir string, handle http.HandlerFunc) (url string) {
	t.Helper()
	ca, err := keys.LoadOrCreateCA(filepath.Join(dir,
		"secrets"), filepath.Join(dir, "ca.pem"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handle)
	s.TLS = &tls.Config{
		GetCertificate: ca.GetCertificate,
		MinVersion:     tls.VersionTLS12,
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
}

func (l *listener) of(text string) (found []received) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.got {
		if bytes.Contains(r.body, []byte(text)) {
			found = append(found, r)
		}
	}
	return found
}

func (r received) verify(t *testing.T, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if err := domain.Verify(r.header.Get("Webhook-Signature"), r.header.Get("Webhook-Timestamp"),
			r.body, []domain.Secret{domain.Secret(secret)}, r.at.Unix()); err != nil {
			t.Errorf("a secret did not sign: %v", err)
		}
	}
	if n := strings.Count(r.header.Get("Webhook-Signature"), "v1="); n != len(secrets) {
		t.Errorf("%d signatures for %d secrets", n, len(secrets))
	}
}

func (s *testService) rewrap(args ...string) ops.RewrapReport {
	s.t.Helper()
	var report ops.RewrapReport
	s.cli(&report, append([]string{"secrets", "rewrap"}, args...)...)
	return report
}

func (s *testService) ring() []keys.MasterKey {
	s.t.Helper()
	text, err := os.ReadFile(keys.MasterKeyPath(s.dir))
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := keys.MasterKeys(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func (s *testService) rewrapCutShort(steps int64) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	service := config.Service{DataDir: s.dir, Kafka: config.Kafka{Prefix: "lumenhook."}}
	quiet := slog.New(slog.DiscardHandler)
	var taken atomic.Int64
	_, err := ops.Rewrap(ctx, ops.RewrapConfig{
		Key:     keys.MasterKeyPlace{DataDir: s.dir},
		Logger:  quiet,
		Cluster: func() (kafka.Cluster, error) { return service.Cluster(quiet) },
		Progress: func(int64, int64) {
			if taken.Add(1) == steps {
				cancel()
			}
		},
	}, true)
	if !errors.Is(err, context.Canceled) {
		s.t.Fatalf("a rewrap that was cut short ended with %v", err)
	}
}

// TestTheMasterKeyIsReplaced rotates the master key of a running service while secrets are rotated,
// drops the old key, and deletes all state. The pending webhook must then be signed with every
// valid secret and carry its headers. The facts that the old key sealed are folded without being
// opened.
func TestTheMasterKeyIsReplaced(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms"}
	s.start(flags...)
	l := startListener(t, s.dir)
	const token = "Bearer a-token-of-the-receiver"
	create := func(n int) (endpoint struct{ ID, Secret string }) {
		if status := s.call("POST", "/v1/endpoints",
			map[string]any{
				"url":     fmt.Sprintf("%s/%d", l.url, n),
				"headers": map[string]string{"Authorization": token, "X-Shop": fmt.Sprint(n)},
			},
			&endpoint); status != http.StatusCreated {
			t.Fatalf("the endpoint was answered %d", status)
		}
		return endpoint
	}
	const endpoints = 30
	first := create(0)
	for n := 1; n < endpoints; n++ {
		create(n)
	}
	secrets := []string{first.Secret}
	rotate := func() {
		var rotated struct{ Secret string }
		status := s.call("POST", "/v1/endpoints/"+first.ID+"/rotate-secret", struct{}{}, &rotated)
		if status != http.StatusOK {
			t.Errorf("the rotation was answered %d", status)
		}
		secrets = append(secrets, rotated.Secret)
	}
	rotate()
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	if status := s.call("POST", "/v1/watches", watchOf(wallet.Address,
		first.ID), nil); status != http.StatusCreated {
		t.Fatalf("the watch was answered %d", status)
	}
	s.call("POST", "/v1/endpoints/"+first.ID+"/disable", struct{}{}, nil)
	var waits struct{ ID string }
	s.devnet(&waits, "pay", "--to", wallet.Address, "--amount", "1", "--json")

	old := s.ring()[0].ID
	if out, err := s.tryCLI("secrets", "drop", ops.KeyName(old)); err == nil ||
		!strings.Contains(err.Error(), "the one that seals") {
		t.Fatalf("the key that seals was dropped: %s %v", out, err)
	}
	// Rotate only the key: what was sealed before opens only with the old one.
	if _, err := s.tryCLI("secrets", "rewrap", "--key-only"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.tryCLI("secrets", "drop", ops.KeyName(old)); err == nil ||
		!strings.Contains(err.Error(), "is in use") || len(s.ring()) != 2 {
		t.Fatalf("a key in use was dropped: %v", err)
	}
	s.rewrapCutShort(40)
	stop := make(chan struct{})
	var rotating sync.WaitGroup
	rotating.Go(func() {
		for range 40 {
			select {
			case <-stop:
				return
			default:
				rotate()
			}
		}
	})
	done := s.rewrap("--resume")
	close(stop)
	rotating.Wait()
	t.Logf("%d header values were resealed before the rewrap was cut short", done.Headers.AlreadyNew)
	if done.Endpoints != endpoints || done.Headers.Resealed+done.Headers.AlreadyNew != 2*endpoints ||
		done.Headers.Resealed == 0 ||
		done.Secrets.Resealed+done.Secrets.AlreadyNew < endpoints+1 || done.Secrets.Unopened != 0 {
		t.Errorf("rewrapped %+v", done)
	}
	if i := slices.IndexFunc(done.Keys,
		func(k ops.KeyUse) bool { return k.ID == ops.KeyName(old) }); i < 0 ||
		!done.Keys[i].Removable || done.Keys[i].Values != 0 {
		t.Errorf("the old key cannot go: %+v", done.Keys)
	}
	again := s.rewrap("--resume")
	if again.Secrets.Resealed != 0 || again.Headers.Resealed != 0 ||
		again.Secrets.AlreadyNew != endpoints+len(secrets)-1 || again.Headers.AlreadyNew != 2*endpoints {
		t.Errorf("a second time: %+v, with %d secrets", again, len(secrets))
	}
	// Another complete rotation, while the old key still exists.
	if whole := s.rewrap(); whole.Headers != (ops.RewrapCounts{Resealed: 2 * endpoints}) ||
		whole.Secrets.Resealed != endpoints+len(secrets)-1 || len(whole.Keys) != 3 {
		t.Errorf("another rotation: %+v", whole)
	}
	for _, k := range s.ring()[:2] {
		if _, err := s.tryCLI("secrets", "drop", ops.KeyName(k.ID)); err != nil {
			t.Fatal(err)
		}
	}
	if ring := s.ring(); len(ring) != 1 || ring[0].ID == old || !ring[0].Seals {
		t.Fatalf("the ring is %+v", ring)
	}
	s.interrupt()
	if err := os.RemoveAll(filepath.Join(s.dir, "state")); err != nil {
		t.Fatal(err)
	}
	s.start(flags...)
	status := s.call("POST", "/v1/endpoints/"+first.ID+"/enable", struct{}{}, nil)
	if status != http.StatusOK {
		t.Fatalf("enabling was answered %d", status)
	}
	s.eventually("the webhook that waited", func() bool { return len(l.of(waits.ID)) > 0 })
	got := l.of(waits.ID)[0]
	got.verify(t, secrets...)
	if got.header.Get("Authorization") != token || got.header.Get("X-Shop") != "0" {
		t.Errorf("the headers are %v", got.header)
	}
	var shown struct{ Headers map[string]string }
	if status := s.call("GET", "/v1/endpoints/"+first.ID, nil, &shown); status != http.StatusOK ||
		shown.Headers["Authorization"] != "[redacted]" { // shown only if it can be opened
		t.Errorf("shown as %d %v", status, shown)
	}
	s.interrupt()
}

// TestRewrapIsToldWhatIsMissing checks that a value whose key is gone is named, and that nothing is
// rotated without a service.
func TestRewrapIsToldWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535")
	var endpoint struct{ ID string }
	if status := s.call("POST", "/v1/endpoints",
		map[string]any{"url": "https://127.0.0.1:1024/", "headers": map[string]string{"X-A": "1"}},
		&endpoint); status != http.StatusCreated {
		t.Fatalf("the endpoint was answered %d", status)
	}
	other := filepath.Join(t.TempDir(), "key")
	newSealerAt(t, other)
	_, err := s.tryCLI("secrets", "rewrap", "--resume", "--master-key-file", other)
	for _, want := range []string{
		endpoint.ID, "a signing secret", "the header X-A", "2 values open with no key",
		strconv.FormatUint(uint64(s.ring()[0].ID), 10),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	s.interrupt()
	if _, err := s.tryCLI("secrets", "rewrap"); err == nil ||
		!strings.Contains(err.Error(), "was not rotated") || len(s.ring()) != 1 {
		t.Errorf("without a service: %v, %d keys", err, len(s.ring()))
	}
	if _, err := s.tryCLI("secrets", "rewrap", "--kafka-brokers", "127.0.0.1:1"); err == nil ||
		!strings.Contains(err.Error(), "was not rotated") || len(s.ring()) != 1 {
		t.Errorf("without brokers: %v, %d keys", err, len(s.ring()))
	}
}

// A run that gets its master key from a variable must not store one. Two master keys are rejected.
func TestTheMasterKeyOfAVariable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	newSealerAt(t, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(keys.MasterKeyVariable, string(text))
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535"}
	s.start(flags...)
	if _, err := os.Stat(keys.MasterKeyPath(s.dir)); !os.IsNotExist(err) {
		t.Errorf("the run made a key of its own (%v)", err)
	}
	var endpoint struct{ ID string }
	if status := s.call("POST", "/v1/endpoints",
		map[string]any{"url": "https://127.0.0.1:1024/", "headers": map[string]string{"X-A": "1"}},
		&endpoint); status != http.StatusCreated {
		t.Fatalf("the endpoint was answered %d", status)
	}
	rotated, err := s.tryCLI("secrets", "rewrap")
	if err != nil {
		t.Fatal(err)
	}
	s.interrupt()
	t.Setenv(keys.MasterKeyVariable, rotated)
	s.start(flags...)
	if done := s.rewrap("--resume"); done.Secrets.Resealed != 1 || done.Headers.Resealed != 1 {
		t.Errorf("%+v", done)
	}
	list, err := keys.MasterKeys([]byte(rotated))
	if err != nil {
		t.Fatal(err)
	}
	left, err := s.tryCLI("secrets", "drop", ops.KeyName(list[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	s.interrupt()
	t.Setenv(keys.MasterKeyVariable, left)
	s.start(flags...)
	var shown struct{ Headers map[string]string }
	if status := s.call("GET", "/v1/endpoints/"+endpoint.ID, nil, &shown); status != http.StatusOK ||
		shown.Headers["X-A"] != "[redacted]" { // shown only if it can be opened
		t.Errorf("shown as %d %v", status, shown)
	}
	s.interrupt()
	newSealerAt(t, keys.MasterKeyPath(s.dir))
	if out, err := program(anyPorts(s.dir, flags...)...).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "two master keys") {
		t.Errorf("with two keys it ended with %v\n%s", err, out)
	}
	if _, err := s.tryCLI("secrets", "list"); err == nil ||
		!strings.Contains(err.Error(), "two master keys") {
		t.Errorf("the list of two keys: %v", err)
	}
}

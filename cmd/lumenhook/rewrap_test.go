package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/kafkaflags"
	"github.com/lumenhook/lumenhook/internal/pki"
	"github.com/lumenhook/lumenhook/internal/sealing"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// listener is a receiver that keeps whole requests.
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
	ca, err := pki.LoadOrCreateCA(filepath.Join(dir, "secrets"), filepath.Join(dir, "ca.pem"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got = append(l.got, received{r.Header.Clone(), body, time.Now()})
	}))
	s.TLS = &tls.Config{GetCertificate: ca.GetCertificate(pki.DefaultHosts()...), MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	l.url = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	return l
}

// of gives the requests of an event that holds a text.
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

// verify holds that each of the secrets signed a request, and nothing else did.
func (r received) verify(t *testing.T, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if err := domain.Verify(r.header.Get("Webhook-Signature"), r.header.Get("Webhook-Timestamp"), r.body, []domain.Secret{domain.Secret(secret)}, r.at.Unix()); err != nil {
			t.Errorf("a secret did not sign: %v", err)
		}
	}
	if n := strings.Count(r.header.Get("Webhook-Signature"), "v1="); n != len(secrets) {
		t.Errorf("%d signatures for %d secrets", n, len(secrets))
	}
}

func (s *testService) rewrap(args ...string) rewrapReport {
	s.t.Helper()
	var report rewrapReport
	s.cli(&report, append([]string{"secrets", "rewrap"}, args...)...)
	return report
}

func (s *testService) ring() []sealing.Key {
	s.t.Helper()
	text, err := os.ReadFile(sealing.PathIn(s.dir))
	if err != nil {
		s.t.Fatal(err)
	}
	keys, err := sealing.Keys(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return keys
}

// rewrapCutShort begins a rewrap and ends it after some steps.
func (s *testService) rewrapCutShort(steps int64) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	place := &masterKeyPlace{target: target{dataDir: s.dir, kafka: kafkaflags.Flags{Prefix: "lumenhook."}}}
	r, end, err := place.rewrap(ctx, io.Discard, true)
	if err != nil {
		s.t.Fatal(err)
	}
	defer end()
	var taken atomic.Int64
	r.progress = func(int64, int64) {
		if taken.Add(1) == steps {
			cancel()
		}
	}
	if _, err := r.run(ctx); !errors.Is(err, context.Canceled) {
		s.t.Fatalf("a rewrap that was cut short ended with %v", err)
	}
}

// TestTheMasterKeyIsReplaced rotates the master key under a service that runs,
// while secrets are rotated and endpoints made; drops the old key, deletes all
// state, and holds that what waited is then signed with every valid secret and
// carries its headers: the facts that the old key sealed are folded unopened.
func TestTheMasterKeyIsReplaced(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms"}
	s.start(flags...)
	l := startListener(t, s.dir)
	const token = "Bearer a-token-of-the-receiver"
	create := func(n int) (endpoint struct{ ID, Secret string }) {
		if status := s.call("POST", "/v1/endpoints", map[string]any{"url": fmt.Sprintf("%s/%d", l.url, n), "headers": map[string]string{"Authorization": token, "X-Shop": fmt.Sprint(n)}}, &endpoint); status != http.StatusCreated {
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
		if status := s.call("POST", "/v1/endpoints/"+first.ID+"/rotate-secret", struct{}{}, &rotated); status != http.StatusOK {
			t.Errorf("the rotation was answered %d", status)
		}
		secrets = append(secrets, rotated.Secret)
	}
	rotate()
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	if status := s.call("POST", "/v1/watches", watchOf(wallet.Address, first.ID), nil); status != http.StatusCreated {
		t.Fatalf("the watch was answered %d", status)
	}
	s.call("POST", "/v1/endpoints/"+first.ID+"/disable", struct{}{}, nil)
	var waits struct{ ID string }
	s.devnet(&waits, "pay", "--to", wallet.Address, "--amount", "1", "--json")

	old := s.ring()[0].ID
	if out, err := s.tryCLI("secrets", "drop", keyName(old)); err == nil || !strings.Contains(err.Error(), "the one that seals") {
		t.Fatalf("the key that seals was dropped: %s %v", out, err)
	}
	// The key is rotated alone: what it sealed before opens with the old one only.
	if _, err := s.tryCLI("secrets", "rewrap", "--key-only"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.tryCLI("secrets", "drop", keyName(old)); err == nil || !strings.Contains(err.Error(), "is in use") || len(s.ring()) != 2 {
		t.Fatalf("a key in use was dropped: %v", err)
	}
	s.rewrapCutShort(40)
	stop := make(chan struct{})
	var rotating sync.WaitGroup
	rotating.Go(func() {
		for n := 0; n < 40; n++ {
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
	if done.Endpoints != endpoints || done.Headers.Resealed+done.Headers.AlreadyNew != 2*endpoints || done.Headers.Resealed == 0 ||
		done.Secrets.Resealed+done.Secrets.AlreadyNew < endpoints+1 || done.Secrets.Unopened != 0 {
		t.Errorf("rewrapped %+v", done)
	}
	if i := slices.IndexFunc(done.Keys, func(k keyReport) bool { return k.ID == keyName(old) }); i < 0 || !done.Keys[i].Removable || done.Keys[i].Values != 0 {
		t.Errorf("the old key cannot go: %+v", done.Keys)
	}
	again := s.rewrap("--resume")
	if again.Secrets.Resealed != 0 || again.Headers.Resealed != 0 || again.Secrets.AlreadyNew != endpoints+len(secrets)-1 || again.Headers.AlreadyNew != 2*endpoints {
		t.Errorf("a second time: %+v, with %d secrets", again, len(secrets))
	}
	// Another whole rotation, while the old key is still there.
	if whole := s.rewrap(); whole.Headers != (sealedCounts{Resealed: 2 * endpoints}) || whole.Secrets.Resealed != endpoints+len(secrets)-1 || len(whole.Keys) != 3 {
		t.Errorf("another rotation: %+v", whole)
	}
	for _, k := range s.ring()[:2] {
		if _, err := s.tryCLI("secrets", "drop", keyName(k.ID)); err != nil {
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
	if status := s.call("POST", "/v1/endpoints/"+first.ID+"/enable", struct{}{}, nil); status != http.StatusOK {
		t.Fatalf("enabling was answered %d", status)
	}
	s.eventually("the webhook that waited", func() bool { return len(l.of(waits.ID)) > 0 })
	got := l.of(waits.ID)[0]
	got.verify(t, secrets...)
	if got.header.Get("Authorization") != token || got.header.Get("X-Shop") != "0" {
		t.Errorf("the headers are %v", got.header)
	}
	var shown struct{ Headers map[string]string }
	if status := s.call("GET", "/v1/endpoints/"+first.ID, nil, &shown); status != http.StatusOK || shown.Headers["Authorization"] != token {
		t.Errorf("shown as %d %v", status, shown)
	}
	s.interrupt()
}

// TestRewrapIsToldWhatIsMissing: without a service nothing is rotated, and a value
// whose key is gone is named.
func TestRewrapIsToldWhatIsMissing(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535")
	var endpoint struct{ ID string }
	if status := s.call("POST", "/v1/endpoints", map[string]any{"url": "https://127.0.0.1:1024/", "headers": map[string]string{"X-A": "1"}}, &endpoint); status != http.StatusCreated {
		t.Fatalf("the endpoint was answered %d", status)
	}
	other := filepath.Join(t.TempDir(), "key")
	newSealerAt(t, other)
	_, err := s.tryCLI("secrets", "rewrap", "--resume", "--master-key-file", other)
	for _, want := range []string{endpoint.ID, "a signing secret", "the header X-A", "2 values open with no key", strconv.FormatUint(uint64(s.ring()[0].ID), 10)} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	s.interrupt()
	if _, err := s.tryCLI("secrets", "rewrap"); err == nil || !strings.Contains(err.Error(), "was not rotated") || len(s.ring()) != 1 {
		t.Errorf("without a service: %v, %d keys", err, len(s.ring()))
	}
	if _, err := s.tryCLI("secrets", "rewrap", "--kafka-brokers", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "was not rotated") || len(s.ring()) != 1 {
		t.Errorf("without brokers: %v, %d keys", err, len(s.ring()))
	}
}

func TestTheReportOfARewrap(t *testing.T) {
	pass := sealedPass{endpoints: 3, secrets: sealedCounts{Resealed: 4, AlreadyNew: 5}, headers: sealedCounts{Unopened: 1}, byKey: map[uint32]int{2: 7, 3: 1, 9: 1}}
	report := reportOf(pass, 3, []sealing.Key{{ID: 1}, {ID: 2}, {ID: 3, Seals: true}, {ID: 4, Staged: true}})
	want := []keyReport{{"0000000001", "opens", 0, true}, {"0000000002", "opens", 7, false}, {"0000000003", "seals", 1, false}, {"0000000004", "staged", 0, false}, {"0000000009", "missing", 1, false}}
	if !slices.Equal(report.Keys, want) {
		t.Errorf("%+v", report.Keys)
	}
	var text bytes.Buffer
	if err := (&cli.Output{}).Print(&text, report, report.show); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"OF 3 ENDPOINTS", "signing secrets", "0000000001", "lumenhook secrets drop 0000000001", "nothing opens them"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is not in\n%s", part, &text)
		}
	}
	if strings.Contains(text.String(), "drop 0000000002") || strings.Contains(text.String(), "drop 0000000009") {
		t.Errorf("a key in use is offered\n%s", &text)
	}
	if data, err := json.Marshal(report); err != nil || !strings.Contains(string(data), `"alreadyNew":5`) {
		t.Errorf("%s, %v", data, err)
	}
}

// TestDropLooksAtCommandsThatWait: what no engine has decided on is in no table,
// and will be.
func TestDropLooksAtCommandsThatWait(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	cluster := streams.Cluster{Brokers: fake.ListenAddrs(), Prefix: "lumenhook.", ClientID: "test", Logger: slog.New(slog.DiscardHandler)}
	ctx := t.Context()
	if err := cluster.EnsureTopics(ctx, []streams.TopicSpec{
		{Name: schemas.TopicCommands, Partitions: 2, ReplicationFactor: 1}, {Name: schemas.TopicEndpoints, Partitions: 2, ReplicationFactor: 1},
	}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	sealer := newSealerAt(t, path)
	seal := func() []byte {
		sealed, err := sealer.Seal([]byte("x"), "ep_1")
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	producer, err := cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	headers := []domain.Header{{Name: "A", Sealed: seal()}, {Name: "kept"}}
	for _, body := range []domain.CommandBody{
		domain.CreateEndpoint{EndpointID: "ep_1", SealedSecret: seal(), Headers: headers}, domain.UpdateEndpoint{EndpointID: "ep_2", Change: domain.EndpointChange{Headers: &headers}},
		domain.RotateSecret{EndpointID: "ep_3", SealedSecret: seal()}, domain.ResealSecrets{EndpointID: "ep_4", Values: []domain.Resealed{{Sealed: seal()}}}, domain.EnableEndpoint{EndpointID: "ep_5"},
	} {
		m := schemas.EncodeCommand(domain.Command{ID: "cmd_1", Body: body})
		if err := producer.Append(ctx, streams.NewRecord(schemas.TopicCommands, body.Aggregate(), m.Value, m.EachHeader)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sealing.RotateFile(path, false); err != nil {
		t.Fatal(err)
	}
	place := &masterKeyPlace{target: target{kafka: kafkaflags.Flags{Brokers: cluster.Brokers, Prefix: cluster.Prefix}}, file: path}
	r, end, err := place.rewrap(ctx, io.Discard, false)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	old, _ := sealing.KeyOf(headers[0].Sealed)
	if n, err := r.inUse(ctx, old); n != 5 || err != nil {
		t.Fatalf("%d values wait (%v), not 5", n, err)
	}
	// The engine has decided on all of them.
	_, ends, err := r.extent(ctx, schemas.TopicCommands)
	if err != nil {
		t.Fatal(err)
	}
	var decided kadm.Offsets
	for p, end := range ends {
		decided.AddOffset(cluster.Prefix+schemas.TopicCommands, p, end, -1)
	}
	if err := cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		return admin.CommitAllOffsets(ctx, cluster.Prefix+engineGroup, decided)
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := r.inUse(ctx, old); n != 0 || err != nil {
		t.Errorf("%d values wait (%v)", n, err)
	}
}

// TestTheMasterKeyOfAVariable: a run that is given its master key keeps none, and
// two keys at once are refused.
func TestTheMasterKeyOfAVariable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	newSealerAt(t, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(sealing.Variable, string(text))
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535"}
	s.start(flags...)
	if _, err := os.Stat(sealing.PathIn(s.dir)); !os.IsNotExist(err) {
		t.Errorf("the run made a key of its own (%v)", err)
	}
	var endpoint struct{ ID string }
	if status := s.call("POST", "/v1/endpoints", map[string]any{"url": "https://127.0.0.1:1024/", "headers": map[string]string{"X-A": "1"}}, &endpoint); status != http.StatusCreated {
		t.Fatalf("the endpoint was answered %d", status)
	}
	rotated, err := s.tryCLI("secrets", "rewrap")
	if err != nil {
		t.Fatal(err)
	}
	s.interrupt()
	t.Setenv(sealing.Variable, rotated)
	s.start(flags...)
	if done := s.rewrap("--resume"); done.Secrets.Resealed != 1 || done.Headers.Resealed != 1 {
		t.Errorf("%+v", done)
	}
	keys, err := sealing.Keys([]byte(rotated))
	if err != nil {
		t.Fatal(err)
	}
	left, err := s.tryCLI("secrets", "drop", keyName(keys[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	s.interrupt()
	t.Setenv(sealing.Variable, left)
	s.start(flags...)
	var shown struct{ Headers map[string]string }
	if status := s.call("GET", "/v1/endpoints/"+endpoint.ID, nil, &shown); status != http.StatusOK || shown.Headers["X-A"] != "1" {
		t.Errorf("shown as %d %v", status, shown)
	}
	s.interrupt()
	newSealerAt(t, sealing.PathIn(s.dir))
	if out, err := program(anyPorts(s.dir, flags...)...).CombinedOutput(); err == nil || !strings.Contains(string(out), "two master keys") {
		t.Errorf("with two keys it ended with %v\n%s", err, out)
	}
	if _, err := s.tryCLI("secrets", "list"); err == nil || !strings.Contains(err.Error(), "two master keys") {
		t.Errorf("the list of two keys: %v", err)
	}
}

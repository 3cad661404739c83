package bench

import (
	"context"
	"crypto/x509"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

var (
	paced   = flag.Int("paced", 3000, "deliveries at 500/s")
	waiting = flag.Int("waiting", 1_000_000, "deliveries that wait")
	many    = flag.Int("many", 100_000, "endpoints of which one's share is measured")
)

const (
	partitions = 4
	endpoints  = 8
	secret     = "whsec_of_the_benchmark"
)

// patience limits each wait. On an idle machine, an engine that folds the journal of a million
// deliveries answers after 40 s. With twenty times the load, it takes twenty times as long.
const patience = 30 * time.Minute

func TestMain(m *testing.M) { clickhousetest.Main(m) }

// sink answers requests with 200 and records when each event first arrived.
type sink struct {
	mu      sync.Mutex
	arrived map[string]time.Time
	last    time.Time
	all     chan struct{}
	want    int
}

func (s *sink) expect(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived, s.want, s.all = make(map[string]time.Time, n), n, make(chan struct{})
	return s.all
}

func (s *sink) arrivals() (int, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrived), s.last
}

func (s *sink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("Webhook-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.arrived[id]; id == "" || again {
		return
	}
	s.last = time.Now()
	s.arrived[id] = s.last
	if len(s.arrived) == s.want {
		close(s.all)
	}
}

type rig struct {
	b        *testing.B
	sink     *sink
	server   *httptest.Server
	roots    *x509.CertPool
	cluster  kafka.Cluster
	producer *kafka.Producer

	emptyHeap float64 // heap of an engine without data
}

func newRig(b *testing.B, sync bool) *rig {
	b.Helper()
	r := &rig{b: b, sink: &sink{}, roots: x509.NewCertPool()}
	r.server = httptest.NewTLSServer(r.sink)
	b.Cleanup(r.server.Close)
	r.roots.AddCert(r.server.Certificate())
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	k, err := broker.Start(broker.Config{
		Dir:    b.TempDir(),
		Listen: "127.0.0.1:0",
		Sync:   sync,
		Logger: logger,
	})
	must(b, err)
	b.Cleanup(k.Close)
	r.cluster = kafka.Cluster{
		Brokers:  []string{k.Addr()},
		Prefix:   "bench.",
		ClientID: "bench",
		Logger:   logger,
	}
	var specs []kafka.TopicSpec
	for _, t := range schemas.Topics() {
		specs = append(specs,
			kafka.TopicSpec{Name: t.Name, Partitions: partitions, ReplicationFactor: 1})
	}
	must(b, r.cluster.EnsureTopics(b.Context(), specs))
	r.producer, err = r.cluster.NewProducer()
	must(b, err)
	b.Cleanup(r.producer.Close)
	return r
}

// serveEndpoints starts the engine and the projection, and creates endpoints with the given ids.
func (r *rig) serveEndpoints(urls map[string]string) {
	address, err := url.Parse(r.server.URL)
	must(r.b, err)
	ports, err := egress.ParsePorts(address.Port())
	must(r.b, err)
	client, err := egress.New(egress.Config{
		Policy: egress.Policy{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Ports: ports,
		},
		RootCAs:        r.roots,
		MaxIdlePerHost: 1024,
	})
	must(r.b, err)
	r.b.Cleanup(client.Close)
	e := engine.New(engine.Config{
		Cluster:    r.cluster,
		StateDir:   r.b.TempDir(),
		Policy:     domain.DefaultPolicy(),
		Dispatcher: egress.NewDispatcher(context.Background(), client, time.Now),
		Unseal: func(sealed []byte, _ string) (domain.Secret, error) {
			return domain.Secret(sealed), nil
		},
		AttemptsInFlight:    512,
		AttemptsPerEndpoint: 128,
		DrainTimeout:        12 * time.Second,
		Now:                 time.Now,
		Logger:              r.cluster.Logger,
	})
	db, err := writer.Open(clickhousetest.Start(r.b).DSN())
	must(r.b, err)
	must(r.b, writer.Migrate(r.b.Context(), db))
	p, err := writer.NewProjector(writer.ProjectorConfig{
		DB:      db,
		Cluster: r.cluster,
		Now:     time.Now,
		Logger:  r.cluster.Logger,
	})
	must(r.b, err)
	r.b.Cleanup(func() { p.Close(); _ = db.Close() })
	r.run(e.Run)
	r.run(p.Run)
	asker := r.ask()
	for id, url := range urls {
		_, err := asker.Submit(r.b.Context(), domain.Command{
			ID:        "cmd_" + id,
			AccountID: "acc_1",
			Body: domain.CreateEndpoint{
				EndpointID:       id,
				AccountID:        "acc_1",
				EndpointSettings: domain.EndpointSettings{URL: url},
				SealedSecret:     []byte(secret),
			},
		})
		must(r.b, err)
	}
}

func (r *rig) run(part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = part(ctx) }()
	r.b.Cleanup(func() { cancel(); <-ended })
}

func (r *rig) ask() *commands.Client {
	asker, err := commands.Open(r.b.Context(), commands.Config{
		Cluster: r.cluster,
		Wait:    patience,
		Logger:  r.cluster.Logger,
	})
	must(r.b, err)
	r.b.Cleanup(asker.Close)
	r.run(asker.Run)
	return asker
}

func endpointID(n int) string {
	return domain.DeriveID(domain.EndpointPrefix, "bench", strconv.Itoa(n))
}

// matchFor returns a PaymentMatched fact with a body of about 900 bytes.
func matchFor(run string, n int, endpoint string) (id string, r kafka.Record) {
	return matchTo(run, n, endpoint, strings.Repeat("G", 56))
}

// matchTo is like matchFor, for a payment to the given wallet.
func matchTo(run string, n int, endpoint, wallet string) (id string, r kafka.Record) {
	m := domain.Match{
		EventID: domain.EventID(run, strconv.Itoa(n)),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            "wat_1",
			AccountID:     "acc_1",
			EndpointID:    endpoint,
			WalletAddress: wallet,
			Label:         strings.Repeat("l", 140),
		},
		Payment: domain.Payment{
			ID:            strconv.Itoa(n),
			TxHash:        strings.Repeat("a", 64),
			From:          strings.Repeat("F", 56),
			To:            wallet,
			Asset:         domain.NativeAsset(),
			AmountStroops: 1,
		},
		Verification: domain.Verification{Outcome: domain.OutcomeVerified},
	}
	message := schemas.EncodePaymentMatched(m, domain.NewPaymentEvent(m, time.Now().UnixMilli()))
	return m.EventID, kafka.NewRecord(schemas.TopicMatches, endpoint, message.Value,
		message.EachHeader)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

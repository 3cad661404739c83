package transfer_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

const (
	hour    = 3_600_000
	secret  = "whsec_of_the_tests"
	account = "acc_00000000000000000000000001"
)

func TestMain(m *testing.M) { brokertest.Main(m) }

// rig is a broker on disk and a receiver on a socket, with deployments under prefixes.
type rig struct {
	t      *testing.T
	broker *brokertest.Broker
	client *egress.Client
	server *httptest.Server

	mu     sync.Mutex
	got    map[string]int    // requests by event
	bodies map[string]string // by event
	status map[string]int    // by endpoint; the default is 200
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t:      t,
		broker: brokertest.Start(t),
		got:    make(map[string]int),
		bodies: make(map[string]string),
		status: make(map[string]int),
	}
	r.server = httptest.NewUnstartedServer(r)
	r.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.server.StartTLS()
	t.Cleanup(r.server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(r.server.Certificate())
	address, err := url.Parse(r.server.URL)
	r.must(err)
	ports, err := egress.ParsePorts(address.Port())
	r.must(err)
	r.client, err = egress.New(egress.Config{
		Policy:  egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: ports},
		RootCAs: roots,
	})
	r.must(err)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	h := req.Header
	if err == nil {
		err = domain.Verify(h.Get("Webhook-Signature"), h.Get("Webhook-Timestamp"), body,
			[]domain.Secret{secret}, time.Now().Unix())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	event := h.Get("Webhook-Id")
	if before, known := r.bodies[event]; known && before != string(body) {
		r.t.Errorf("%s was %q and is %q", event, before, body)
	}
	r.bodies[event] = string(body)
	r.got[event]++
	if status := r.status[strings.Trim(req.URL.Path, "/")]; status != 0 {
		w.WriteHeader(status)
	}
}

func (r *rig) answers(endpoint string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status[endpoint] = status
}

func (r *rig) requests(event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[event]
}

type deployment struct {
	*rig
	kafka.Cluster
	partitions int32
	log        *brokertest.Log
	producer   *kafka.Producer
}

// under returns a deployment that has no topics.
func (r *rig) under(name string, partitions int32) *deployment {
	r.t.Helper()
	cluster := r.broker.Cluster(
		slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	cluster.Prefix = strings.TrimSuffix(cluster.Prefix, ".") + "-" + name + "."
	return &deployment{rig: r, Cluster: cluster, partitions: partitions}
}

func (d *deployment) shape() topology.Shape {
	return topology.Shape{Partitions: d.partitions, Replicas: d.broker.Replicas()}
}

func (d *deployment) makeTopics() {
	d.t.Helper()
	_, err := topology.Create(d.t.Context(), d.Cluster, d.shape())
	d.must(err)
	d.open()
}

// open opens clients for the existing topics.
func (d *deployment) open() {
	d.t.Helper()
	d.log = brokertest.NewLog(d.t, d.Cluster)
	var err error
	d.producer, err = d.NewProducer()
	d.must(err)
	d.t.Cleanup(d.producer.Close)
}

// start runs an engine in an empty folder and returns a function that stops it.
func (d *deployment) start() (stop func()) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	attempts, endAttempts := context.WithCancel(context.Background())
	e := engine.New(engine.Config{
		Cluster:  d.Cluster,
		StateDir: d.t.TempDir(),
		Policy: domain.Policy{
			Schedule:     domain.Schedule{WaitsMillis: []int64{hour}},
			DisableAfter: domain.DefaultDisableAfter,
		},
		Dispatcher: egress.NewDispatcher(attempts, d.client, time.Now),
		Unseal: func(sealed []byte, _ string) (domain.Secret, error) {
			return domain.Secret(sealed), nil
		},
		AttemptsInFlight:    64,
		AttemptsPerEndpoint: 16,
		DrainTimeout:        10 * time.Second,
		Allowed: func(ctx context.Context) error {
			return topology.CheckOpen(ctx, d.Cluster)
		},
		Now:    time.Now,
		Logger: d.Logger,
	})
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			d.t.Errorf("stopping the engine: %v", err)
		}
		endAttempts()
	})
	d.t.Cleanup(stop)
	return stop
}

func (d *deployment) append(records ...kafka.Record) {
	d.t.Helper()
	d.must(d.producer.Append(d.t.Context(), records...))
}

func command(id string, body domain.CommandBody) kafka.Record {
	m := schemas.EncodeCommand(domain.Command{
		ID:        id,
		AccountID: account,
		BodyHash:  []byte("hash"),
		Body:      body,
	})
	return kafka.NewRecord(schemas.TopicCommands, body.Aggregate(), m.Value, m.EachHeader)
}

func (d *deployment) answersTo(id string) (list []domain.Result) {
	d.t.Helper()
	for _, rec := range d.log.Read(schemas.TopicResults) {
		result, err := schemas.DecodeResult(schemas.Read(rec.Value, rec))
		d.must(err)
		if result.CommandID == id {
			list = append(list, result)
		}
	}
	return list
}

func (d *deployment) do(commands map[string]domain.CommandBody) {
	d.t.Helper()
	for id, body := range commands {
		d.append(command(id, body))
	}
	for id := range commands {
		testkit.Eventually(d.t, "the answer to "+id, func() bool { return len(d.answersTo(id)) > 0 })
		if a := d.answersTo(id)[0].Answer; a.Rejection != nil {
			d.t.Fatalf("%s: %s", id, a.Rejection.Detail)
		}
	}
}

func endpointID(n int) string { return fmt.Sprintf("ep_%026d", n) }
func watchID(n int) string    { return fmt.Sprintf("wat_%026d", n) }

// paid returns the match of a payment to an endpoint's watch, and the ID of its event.
func paid(endpoint, payment int, ledger uint32) (eventID string, r kafka.Record) {
	p := fmt.Sprintf("%d-%d", endpoint, payment)
	m := domain.Match{
		EventID: domain.EventID(watchID(endpoint), p),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            watchID(endpoint),
			AccountID:     account,
			EndpointID:    endpointID(endpoint),
			WalletAddress: "GTO",
		},
		Payment: domain.Payment{
			ID:            p,
			To:            "GTO",
			From:          "GFROM",
			Asset:         domain.NativeAsset(),
			AmountStroops: 1,
			Ledger:        ledger,
		},
		Verification: domain.Verification{Outcome: domain.OutcomeVerified},
	}
	message := schemas.EncodePaymentMatched(m, domain.NewPaymentEvent(m, 1000))
	return m.EventID, kafka.NewRecord(schemas.TopicMatches, endpointID(endpoint), message.Value,
		message.EachHeader)
}

var silent = transfer.Telling{Step: func(string) {}, Progress: func(int64, int64) {}}

func (d *deployment) source() transfer.SourceConfig {
	return transfer.SourceConfig{
		Cluster: d.Cluster,
		Scratch: d.t.TempDir(),
		Program: "test",
		Now:     time.Now,
		Logger:  d.Logger,
	}
}

func (d *deployment) target() transfer.TargetConfig {
	return transfer.TargetConfig{
		Cluster: d.Cluster,
		Shape:   d.shape(),
		Scratch: d.t.TempDir(),
		Logger:  d.Logger,
	}
}

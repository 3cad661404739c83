// Package bench measures the whole path beside its floor, in the same run.
package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/engine"
)

var (
	deliveries = flag.Int("deliveries", 40_000, "deliveries at full speed")
	paced      = flag.Int("paced", 3000, "deliveries at 500/s")
	waiting    = flag.Int("waiting", 1_000_000, "deliveries that wait")
)

const (
	partitions  = 4
	endpoints   = 8
	secret      = "whsec_of_the_benchmark"
	floorPosts  = 60_000
	floorAtOnce = 64
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

// sink answers 200 and notes when each event first arrived.
type sink struct {
	mu      sync.Mutex
	arrived map[string]time.Time
	all     chan struct{}
	want    int
}

func (s *sink) expect(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived, s.want, s.all = make(map[string]time.Time, n), n, make(chan struct{})
	return s.all
}

func (s *sink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("Webhook-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.arrived[id]; id == "" || again {
		return
	}
	s.arrived[id] = time.Now()
	if len(s.arrived) == s.want {
		close(s.all)
	}
}

type rig struct {
	b        *testing.B
	sink     *sink
	server   *httptest.Server
	roots    *x509.CertPool
	cluster  streams.Cluster
	producer *streams.Producer

	projector *projections.Projector
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
	r.cluster = streams.Cluster{
		Brokers:  []string{k.Addr()},
		Prefix:   "bench.",
		ClientID: "bench",
		Logger:   logger,
	}
	var specs []streams.TopicSpec
	for _, t := range schemas.Topics() {
		specs = append(specs,
			streams.TopicSpec{Name: t.Name, Partitions: partitions, ReplicationFactor: 1})
	}
	must(b, r.cluster.EnsureTopics(b.Context(), specs))
	r.producer, err = r.cluster.NewProducer()
	must(b, err)
	b.Cleanup(r.producer.Close)
	return r
}

// serve starts engine and projection, and creates the endpoints.
func (r *rig) serve() {
	urls := make(map[string]string)
	for n := range endpoints {
		urls[endpointID(n)] = r.server.URL
	}
	r.serveEndpoints(urls)
}

// serveEndpoints does so with endpoints by their identifiers.
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
	db, err := projections.Open(clickhousetest.Start(r.b).DSN())
	must(r.b, err)
	must(r.b, projections.Migrate(r.b.Context(), db))
	p, err := projections.NewProjector(projections.ProjectorConfig{
		DB:      db,
		Cluster: r.cluster,
		Now:     time.Now,
		Logger:  r.cluster.Logger,
	})
	must(r.b, err)
	r.b.Cleanup(func() { p.Close(); _ = db.Close() })
	r.projector = p
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

// run works a part until the benchmark ends.
func (r *rig) run(part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = part(ctx) }()
	r.b.Cleanup(func() { cancel(); <-ended })
}

// ask opens a client of the engine's.
func (r *rig) ask() *commands.Client {
	asker, err := commands.Open(r.b.Context(),
		commands.Config{Cluster: r.cluster, Wait: 2 * time.Minute, Logger: r.cluster.Logger})
	must(r.b, err)
	r.b.Cleanup(asker.Close)
	r.run(asker.Run)
	return asker
}

func endpointID(n int) string {
	return domain.DeriveID(domain.EndpointPrefix, "bench", strconv.Itoa(n))
}

// match is one PaymentMatched fact with a body of about 900 bytes.
func match(run string, n int) (id string, r streams.Record) {
	return matchFor(run, n, endpointID(n%endpoints))
}

func matchFor(run string, n int, endpoint string) (id string, r streams.Record) {
	m := domain.Match{
		EventID: domain.EventID(run, strconv.Itoa(n)),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            "wat_1",
			AccountID:     "acc_1",
			EndpointID:    endpoint,
			WalletAddress: strings.Repeat("G", 56),
			Label:         strings.Repeat("l", 140),
		},
		Payment: domain.Payment{
			ID:            strconv.Itoa(n),
			TxHash:        strings.Repeat("a", 64),
			From:          strings.Repeat("F", 56),
			To:            strings.Repeat("G", 56),
			Asset:         domain.NativeAsset(),
			AmountStroops: 1,
		},
		Verification: domain.Verification{Outcome: domain.OutcomeVerified},
	}
	message := schemas.EncodePaymentMatched(m, domain.NewPaymentEvent(m, time.Now().UnixMilli()))
	return m.EventID, streams.NewRecord(schemas.TopicMatches, endpoint, message.Value,
		message.EachHeader)
}

func BenchmarkPath(b *testing.B) {
	for _, sync := range []bool{false, true} {
		b.Run(fmt.Sprintf("sync=%v", sync), func(b *testing.B) {
			for b.Loop() {
				measure(b, sync)
			}
		})
	}
}

func measure(b *testing.B, sync bool) {
	r := newRig(b, sync)
	floor := r.floor()
	r.serve()
	r.full("warm", 2000)
	lags := r.watchLag()
	rate := r.full("full", *deliveries)
	lag := lags()
	p50, p99 := r.paced(*paced)
	b.ReportMetric(rate, "deliveries/s")
	b.ReportMetric(floor, "floor/s")
	b.ReportMetric(100*rate/floor, "%floor")
	b.ReportMetric(float64(p50.Microseconds())/1000, "p50-ms@500/s")
	b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms@500/s")
	b.ReportMetric(residentMiB(b), "MiB")
	b.ReportMetric(float64(lag[len(lag)/2].Milliseconds()), "p50-lag-ms")
	b.ReportMetric(float64(lag[len(lag)*99/100].Milliseconds()), "p99-lag-ms")
	b.ReportMetric(float64(slices.Max(lag).Milliseconds()), "max-lag-ms")
	_, body := match("x", 1)
	fmt.Printf("%s, %d cores; %d endpoints, %d partitions, fact %d bytes, broker fsync %v, projection on; memory is broker, engine, projector, receiver and test in one process\n",
		cpu(), runtime.NumCPU(), endpoints, partitions, len(body.Value), sync)
}

// floor is a bare client that posts the same bodies over keep-alive TLS.
func (r *rig) floor() float64 {
	done := r.sink.expect(floorPosts)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: r.roots},
		MaxIdleConnsPerHost: floorAtOnce,
	}}
	_, record := match("floor", 1)
	began := time.Now()
	work := make(chan int, floorAtOnce)
	for range floorAtOnce {
		go func() {
			for n := range work {
				req, _ := http.NewRequest(http.MethodPost, r.server.URL, bytes.NewReader(record.Value))
				req.Header.Set("Webhook-Id", strconv.Itoa(n))
				resp, err := client.Do(req)
				if err != nil {
					r.b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
	}
	for n := range floorPosts {
		work <- n
	}
	close(work)
	<-done
	return floorPosts / time.Since(began).Seconds()
}

// full appends all at once and waits for the last arrival.
func (r *rig) full(run string, n int) float64 {
	records := make([]streams.Record, n)
	for i := range records {
		_, records[i] = match(run, i)
	}
	done := r.sink.expect(n)
	began := time.Now()
	for part := range slices.Chunk(records, 2000) {
		must(r.b, r.producer.Append(r.b.Context(), part...))
	}
	select {
	case <-done:
	case <-time.After(3 * time.Minute):
		r.b.Fatalf("%d of %d arrived", len(r.sink.arrived), n)
	}
	return float64(n) / time.Since(began).Seconds()
}

// watchLag notes, until it is told to stop and the projector is at the end, how
// old the oldest fact of each block was when it could be read. It gives them in
// order.
func (r *rig) watchLag() (stop func() []time.Duration) {
	const look = 2 * time.Millisecond // blocks are written some hundred milliseconds apart
	ctx, cancel := context.WithCancel(r.b.Context())
	var lags []time.Duration
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(look)
		defer tick.Stop()
		blocks := r.projector.Status().Blocks
		for ctx.Err() == nil {
			<-tick.C
			if s := r.projector.Status(); s.Blocks != blocks {
				blocks = s.Blocks
				lags = append(lags, s.Delay)
			}
		}
	}()
	return func() []time.Duration {
		r.awaitProjected()
		cancel()
		<-ended
		slices.Sort(lags)
		return lags
	}
}

// awaitProjected waits until all facts are in the history.
func (r *rig) awaitProjected() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		records, err := r.projector.Lag(r.b.Context())
		must(r.b, err)
		if records == 0 {
			return
		}
		<-tick.C
	}
}

// paced appends 500 a second and gives the time from append to arrival.
func (r *rig) paced(n int) (p50, p99 time.Duration) {
	done := r.sink.expect(n)
	sent := make(map[string]time.Time, n)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < n; {
		<-tick.C
		var batch []streams.Record
		for range 5 {
			id, record := match("paced", i)
			sent[id] = time.Now()
			batch = append(batch, record)
			i++
		}
		must(r.b, r.producer.Append(r.b.Context(), batch...))
	}
	<-done
	var took []time.Duration
	for id, at := range sent {
		took = append(took, r.sink.arrived[id].Sub(at))
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func residentMiB(b *testing.B) float64 {
	data, err := os.ReadFile("/proc/self/statm")
	must(b, err)
	var size, resident float64
	_, err = fmt.Sscan(string(data), &size, &resident)
	must(b, err)
	return resident * float64(os.Getpagesize()) / (1 << 20)
}

func cpu() string {
	data, err := os.ReadFile(filepath.FromSlash("/proc/cpuinfo"))
	if err != nil {
		return "unknown machine"
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return "unknown machine"
}

// TestBodySize holds that the benchmark's events are of the size that it says.
func TestBodySize(t *testing.T) {
	_, record := match("x", 1)
	in, err := schemas.DecodePaymentMatched(schemas.Read(record.Value, record))
	if err != nil || !json.Valid(in.Event.Body) || len(in.Event.Body) < 800 ||
		len(in.Event.Body) > 1000 {
		t.Errorf("body of %d bytes, %v", len(in.Event.Body), err)
	}
}

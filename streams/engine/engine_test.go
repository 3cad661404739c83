package engine_test

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
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
)

const (
	partitions = 2
	secret     = "whsec_of_the_tests"
	accountID  = "acc_00000000000000000000000001"
	endpointID = "ep_00000000000000000000000001"
	watchID    = "wat_00000000000000000000000001"

	sealedForGood = "a secret that nothing opens"
)

// rig is a broker on disk and a receiver on a TLS socket, with engines that use both.
type rig struct {
	t        *testing.T
	cluster  kafka.Cluster
	dir      string
	client   *egress.Client
	receiver *receiver
	producer *kafka.Producer
	log      *brokertest.Log
	timeout  time.Duration                             // per attempt; 0: the default
	window   int                                       // attempts in flight to one endpoint; 0: 16
	around   func(engine.Dispatcher) engine.Dispatcher // wraps an engine's dispatcher
}

// receiver answers as configured and records the requests.
type receiver struct {
	server *httptest.Server
	mu     sync.Mutex
	got    map[string][]string // bodies by event
	status func(attempt int) int
	// handle answers instead of status, if it is set. It is called without the lock, with the
	// number of requests in progress for the same path, including this one.
	handle     func(w http.ResponseWriter, req *http.Request, inProgress int)
	inProgress map[string]int // by path
	secrets    []domain.Secret
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	header := req.Header
	r.mu.Lock()
	err = domain.Verify(header.Get("Webhook-Signature"), header.Get("Webhook-Timestamp"), body,
		r.secrets, time.Now().Unix())
	if err != nil {
		r.mu.Unlock()
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	id := header.Get("Webhook-Id")
	r.got[id] = append(r.got[id], string(body))
	handle, status := r.handle, r.status(len(r.got[id]))
	r.inProgress[req.URL.Path]++
	inProgress := r.inProgress[req.URL.Path]
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.inProgress[req.URL.Path]--
		r.mu.Unlock()
	}()
	if handle != nil {
		handle(w, req, inProgress)
		return
	}
	w.WriteHeader(status)
}

func (r *receiver) answer(handle func(w http.ResponseWriter, req *http.Request, inProgress int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle = handle
}

func (r *receiver) attempts(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got[id])
}

func (r *receiver) events() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func TestMain(m *testing.M) {
	if settings := os.Getenv(engineVariable); settings != "" {
		if err := runEngine(settings); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	brokertest.Main(m)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := brokertest.Start(t)
	rec := &receiver{
		got:        make(map[string][]string),
		inProgress: make(map[string]int),
		secrets:    []domain.Secret{secret},
		status:     func(int) int { return http.StatusOK },
	}
	rec.server = httptest.NewUnstartedServer(rec)
	// Handshakes that time out are expected.
	rec.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	rec.server.StartTLS()
	t.Cleanup(rec.server.Close)
	r := &rig{
		t:        t,
		dir:      t.TempDir(),
		receiver: rec,
		cluster:  b.Cluster(logger),
	}
	r.client = r.newClient()
	r.log = brokertest.NewLog(t, r.cluster)
	brokertest.MakeTopics(t, r.cluster, partitions, b.Replicas())
	var err error
	if r.producer, err = r.cluster.NewProducer(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.producer.Close)
	return r
}

func (r *rig) newClient() *egress.Client {
	r.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(r.receiver.server.Certificate())
	client, err := egressTo(r.receiver.server.URL, roots, r.timeout)
	if err != nil {
		r.t.Fatal(err)
	}
	return client
}

// egressTo returns a client that is allowed to reach a receiver on this machine.
func egressTo(
	receiver string, roots *x509.CertPool, timeout time.Duration,
) (*egress.Client, error) {
	address, err := url.Parse(receiver)
	if err != nil {
		return nil, err
	}
	ports, err := egress.ParsePorts(address.Port())
	if err != nil {
		return nil, err
	}
	return egress.New(egress.Config{
		Policy: egress.Policy{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Ports: ports,
		},
		RootCAs:        roots,
		AttemptTimeout: timeout,
	})
}

// start runs an engine and returns a function that stops it gracefully.
func (r *rig) start(stateDir string, waitsMillis ...int64) (stop func()) {
	r.t.Helper()
	return r.startWith(stateDir,
		domain.Policy{
			Schedule:     domain.Schedule{WaitsMillis: waitsMillis},
			DisableAfter: domain.DefaultDisableAfter,
		})
}

func (r *rig) startWith(stateDir string, policy domain.Policy) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	attempts, endAttempts := context.WithCancel(context.Background())
	var d engine.Dispatcher = egress.NewDispatcher(attempts, r.client, time.Now)
	if r.around != nil {
		d = r.around(d)
	}
	e := engine.New(r.config(stateDir, policy, d))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				r.t.Errorf("stopping the engine: %v", err)
			}
			endAttempts()
		})
	}
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) config(stateDir string, policy domain.Policy, d engine.Dispatcher) engine.Config {
	return engine.Config{
		Cluster:    r.cluster,
		StateDir:   stateDir,
		Policy:     policy,
		Dispatcher: d,
		Unseal: func(sealed []byte, _ string) (domain.Secret, error) {
			if string(sealed) == sealedForGood {
				return "", errors.New("another key sealed it")
			}
			return domain.Secret(sealed), nil
		},
		AttemptsInFlight:    64,
		AttemptsPerEndpoint: cmp.Or(r.window, 16),
		DrainTimeout:        10 * time.Second,
		Now:                 time.Now,
		Logger:              r.cluster.Logger,
	}
}

func (r *rig) append(records ...kafka.Record) {
	r.t.Helper()
	if err := r.producer.Append(r.t.Context(), records...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) command(id string, body domain.CommandBody) kafka.Record {
	m := schemas.EncodeCommand(domain.Command{
		ID:        id,
		AccountID: accountID,
		BodyHash:  []byte("hash"),
		Body:      body,
	})
	return kafka.NewRecord(schemas.TopicCommands, body.Aggregate(), m.Value, m.EachHeader)
}

// withEndpoint creates an endpoint and waits for the answer, as a client does before it expects any
// match.
func (r *rig) withEndpoint() {
	r.t.Helper()
	stop := r.start(r.dir)
	r.createEndpoint()
	testkit.Eventually(r.t, "the endpoint", func() bool { return len(r.results("cmd_endpoint")) == 1 })
	stop()
}

func (r *rig) createEndpoint() {
	r.append(r.command("cmd_endpoint", domain.CreateEndpoint{
		EndpointID:       endpointID,
		AccountID:        accountID,
		EndpointSettings: domain.EndpointSettings{URL: r.receiver.server.URL + "/hook"},
		SealedSecret:     []byte(secret),
	}))
}

func (r *rig) match(n int, nowMillis int64) (eventID string, record kafka.Record) {
	m := domain.Match{
		EventID: domain.EventID(watchID, strconv.Itoa(n)),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            watchID,
			AccountID:     accountID,
			EndpointID:    endpointID,
			WalletAddress: "GTO",
		},
		Payment: domain.Payment{
			ID:            strconv.Itoa(n),
			To:            "GTO",
			From:          "GFROM",
			Asset:         domain.NativeAsset(),
			AmountStroops: int64(n),
		},
		Verification: domain.Verification{Outcome: domain.OutcomeVerified},
	}
	message := schemas.EncodePaymentMatched(m, domain.NewPaymentEvent(m, nowMillis))
	return m.EventID, kafka.NewRecord(schemas.TopicMatches, endpointID, message.Value,
		message.EachHeader)
}

func (r *rig) read(topic string) []kafka.Record { return r.log.Read(topic) }

func (r *rig) facts() map[string]int {
	count := make(map[string]int)
	for _, rec := range r.read(schemas.TopicJournal) {
		count[rec.Header(schemas.HeaderType)]++
	}
	return count
}

func (r *rig) results(id string) []domain.Result {
	r.t.Helper()
	var results []domain.Result
	for _, rec := range r.read(schemas.TopicResults) {
		result, err := schemas.DecodeResult(schemas.Read(rec.Value, rec))
		if err != nil {
			r.t.Fatal(err)
		}
		if result.CommandID == id {
			results = append(results, result)
		}
	}
	return results
}

func TestMatchIsDeliveredOnceUnderOneID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withEndpoint()
	id, record := r.match(1, 1000)
	_, again := r.match(1, 2000) // the ledger is read again later
	r.append(record, again, record)
	stop := r.start(r.dir)
	testkit.Eventually(t, "delivered", func() bool { return r.facts()["AttemptMade"] == 1 })
	stop()

	// The engine sends nothing again after a restart, with or without its state.
	for i, dir := range []string{r.dir, t.TempDir()} {
		stop := r.start(dir)
		other, record := r.match(2+i, 3000) // a new event shows that the engine works
		r.append(record, again)
		testkit.Eventually(t, "another is delivered",
			func() bool { return r.receiver.attempts(other) == 1 })
		stop()
		if n := r.receiver.attempts(id); n != 1 {
			t.Fatalf("the first event was sent %d times", n)
		}
	}
	r.receiver.mu.Lock()
	defer r.receiver.mu.Unlock()
	if body := r.receiver.got[id][0]; !strings.Contains(body,
		`"createdAt":"1970-01-01T00:00:01.000Z"`) || !strings.Contains(
		body, id,
	) {
		t.Errorf("the body is not the first match's: %s", body)
	}
}

func TestFailuresAreRetriedOnTheScheduleUntilFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.receiver.status = func(int) int { return http.StatusInternalServerError }
	r.withEndpoint()
	id, record := r.match(1, 1000)
	r.append(record)
	defer r.start(r.dir, 20, 30, 40)()
	testkit.Eventually(t, "four attempts", func() bool { return r.facts()["AttemptMade"] == 4 })

	var made []domain.AttemptMade
	for _, rec := range r.read(schemas.TopicJournal) {
		f, err := schemas.DecodeFact(schemas.Read(rec.Value, rec))
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := f.Body.(domain.AttemptMade); ok {
			made = append(made, a)
		}
	}
	for i, a := range made {
		want := domain.StateWaiting
		if i == 3 {
			want = domain.StateFailed
		}
		if a.EventID != id || a.Number != i+1 || a.State != want || a.Result.StatusCode != 500 {
			t.Errorf("attempt %d: %+v", i+1, a)
		}
		if i > 0 && a.Result.SentAtMillis < made[i-1].NextAttemptAtMillis {
			t.Errorf("attempt %d was sent %d ms before it was due", i+1,
				made[i-1].NextAttemptAtMillis-a.Result.SentAtMillis)
		}
	}
}

func TestRetriesSurviveARestart(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]bool{"with the state": false, "without it": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.receiver.status = func(attempt int) int {
				if attempt == 1 {
					return http.StatusServiceUnavailable
				}
				return http.StatusOK
			}
			r.withEndpoint()
			const events = 20
			var ids []string
			for n := range events {
				id, record := r.match(n, 1000)
				r.append(record)
				ids = append(ids, id)
			}
			stop := r.start(r.dir, 1500)
			// Some events may already have had their second attempt.
			testkit.Eventually(t, "first attempts", func() bool {
				return r.facts()["AttemptMade"] >= events
			})
			stop()
			dir := r.dir
			if fresh {
				dir = filepath.Join(t.TempDir(), "fresh")
			}
			defer r.start(dir, 1500)()
			testkit.Eventually(t, "second attempts",
				func() bool { return r.facts()["AttemptMade"] == 2*events })
			for _, id := range ids {
				if n := r.receiver.attempts(id); n != 2 {
					t.Errorf("%s was sent %d times", id, n)
				}
			}
		})
	}
}

func TestCommandIsAnsweredOnceAndAlikeAfterwards(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.start(r.dir)()
	r.createEndpoint()
	testkit.Eventually(t, "an answer", func() bool { return len(r.results("cmd_endpoint")) == 1 })
	before := r.facts()
	r.createEndpoint() // the same command again
	r.append(r.command("cmd_other",
		domain.CreateEndpoint{
			EndpointID:       endpointID,
			AccountID:        accountID,
			EndpointSettings: domain.EndpointSettings{URL: "https://other.example"},
			SealedSecret:     []byte("x"),
		}))
	testkit.Eventually(t, "both answers",
		func() bool { return len(r.results("cmd_endpoint")) == 2 && len(r.results("cmd_other")) == 1 })

	results := r.results("cmd_endpoint")
	if results[0].Replayed || !results[1].Replayed {
		t.Errorf("replayed: first %v, second %v", results[0].Replayed, results[1].Replayed)
	}
	for _, result := range results {
		if result.Answer.Endpoint == nil || result.Answer.Endpoint.ID != endpointID {
			t.Errorf("the answer has no endpoint: %+v", result.Answer)
		}
	}
	if other := r.results("cmd_other")[0].Answer; other.Rejection == nil ||
		other.Rejection.Code != domain.CodeAlreadyExists {
		t.Errorf("another command for the same endpoint was answered %+v", other)
	}
	after := r.facts()
	if after["EndpointCreated"] != 1 || after["CommandHandled"] != before["CommandHandled"]+1 {
		t.Errorf("facts before %v, after %v", before, after)
	}
	rows := r.read(schemas.TopicEndpoints)
	if len(rows) < 2 {
		t.Errorf("the row was published %d times; a repeat publishes it again", len(rows))
	}
}

func TestMatchForUnknownEndpointIsRecordedAndCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, record := r.match(1, 1000)
	r.append(record)
	defer r.start(r.dir)()
	testkit.Eventually(t, "cancelled", func() bool { return r.facts()["DeliveryCancelled"] == 1 })
	if f := r.facts(); f["DeliveryCreated"] != 1 || f["AttemptMade"] != 0 {
		t.Errorf("facts: %v", f)
	}
}

func TestManyDeliveriesShareTheWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withEndpoint()
	const events = 2000
	var records []kafka.Record
	for n := range events {
		_, record := r.match(n, 1000)
		records = append(records, record)
	}
	r.append(records...)
	defer r.start(r.dir)()
	testkit.Eventually(t, fmt.Sprintf("%d events", events),
		func() bool { return r.receiver.events() == events })
	testkit.Eventually(t, "all recorded", func() bool { return r.facts()["AttemptMade"] == events })
}

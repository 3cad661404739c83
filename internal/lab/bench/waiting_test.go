package bench

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// deaf is a dispatcher for benchmarks in which nothing may become due.
type deaf struct{ b *testing.B }

func (d deaf) Dispatch(a domain.Attempt, _ func(domain.AttemptResult)) {
	d.b.Errorf("%s was attempted, and nothing is due", a.EventID)
}
func (deaf) Disconnect(string) {}

// settled is the time after its first answers in which an engine finishes its startup work:
// compactions, a snapshot, and the flush within a minute, with its consequences.
const settled = 75 * time.Second

// BenchmarkWaiting restores a million deliveries that wait for a retry, from the journal alone
// and from the state on disk. It measures their memory and disk usage, and how late other due
// deliveries are attempted in the meantime.
func BenchmarkWaiting(b *testing.B) {
	for b.Loop() {
		r := newRig(b, false)
		r.writeWaiting(*waiting)
		dir := b.TempDir()
		fromJournal := r.restore(dir, 0)
		fromState := r.restore(dir, 20*time.Second)
		b.ReportMetric(testkit.FolderBytes(b, dir)/float64(*waiting), "disk-bytes/waiting")
		r.dueBeside(dir)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(fromJournal.Seconds(), "s-from-journal")
		b.ReportMetric(float64(2**waiting)/fromJournal.Seconds(), "facts/s")
		b.ReportMetric(fromState.Seconds(), "s-from-state")
	}
}

// writeWaiting writes a journal of deliveries that failed once. The record of the first owner
// comes first, because the positions of its inputs would otherwise be unknown.
func (r *rig) writeWaiting(n int) {
	r.emptyHeap = r.engineHeap(r.b.TempDir(), "first")
	var records []kafka.Record
	version := make(map[string]uint64)
	fact := func(aggregate string, body domain.FactBody) {
		version[aggregate]++
		m := schemas.EncodeFact(domain.Fact{
			Aggregate: aggregate,
			Version:   version[aggregate],
			AtMillis:  time.Now().UnixMilli(),
			Body:      body,
		})
		records = append(records,
			kafka.NewRecord(schemas.TopicJournal, aggregate, m.Value, m.EachHeader))
	}
	for n := range endpoints {
		id := endpointID(n)
		fact(id,
			domain.EndpointCreated{
				EndpointID:       id,
				AccountID:        "acc_1",
				EndpointSettings: domain.EndpointSettings{URL: r.server.URL},
				Secret:           domain.SealedSecret{Sealed: []byte(secret)},
			})
	}
	due := time.Now().Add(time.Hour).UnixMilli()
	paid := payments{account: "acc_1", endpoints: []string{"ep_1"}}
	for i := range n {
		id, event := endpointID(i%endpoints), domain.EventID("waiting", strconv.Itoa(i))
		fact(id,
			domain.DeliveryCreated{
				AccountID:  "acc_1",
				EndpointID: id,
				WatchID:    "wat_1",
				Event: domain.Event{
					ID:   event,
					Type: domain.PaymentReceived,
					Body: paid.body("waiting", i),
				},
			})
		fact(id,
			domain.AttemptMade{
				EventID:             event,
				EventType:           domain.PaymentReceived,
				Number:              1,
				Run:                 1,
				Result:              domain.AttemptResult{StatusCode: 500},
				State:               domain.StateWaiting,
				NextAttemptAtMillis: due + int64(i%3_600_000),
			})
		if len(records) >= 4000 {
			must(r.b, r.producer.Append(r.b.Context(), records...))
			records = records[:0]
		}
	}
	must(r.b, r.producer.Append(r.b.Context(), records...))
}

// restore runs an engine until it has answered a command on each partition, and then lets it
// idle.
func (r *rig) restore(dir string, idle time.Duration) time.Duration {
	heap := testkit.HeapBytes()
	began := time.Now()
	_, stop := r.runEngine(dir, 0)
	r.awaitAnswers(dir)
	took := time.Since(began)
	if idle > 0 {
		more := testkit.HeapBytes() - heap - r.emptyHeap
		r.b.ReportMetric(more/float64(*waiting), "memory-bytes/waiting")
		time.Sleep(settled) //nolint:forbidigo // what rest costs is measured
		before := testkit.ProcessorTime(r.b)
		time.Sleep(idle) //nolint:forbidigo // the same
		r.b.ReportMetric(100*(testkit.ProcessorTime(r.b)-before).Seconds()/idle.Seconds(), "%core-idle")
	}
	stop()
	return took
}

// runEngine runs an engine with the given number of standbys per partition until it is stopped.
func (r *rig) runEngine(dir string, replicas int) (e *engine.Engine, stop func()) {
	return r.runEngineWith(dir, func(c *engine.Config) { c.StandbyReplicas = replicas })
}

func (r *rig) runEngineWith(
	dir string, more func(*engine.Config),
) (e *engine.Engine, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	c := engine.Config{
		Cluster:    r.cluster,
		StateDir:   dir,
		Policy:     domain.DefaultPolicy(),
		Dispatcher: deaf{r.b},
		Unseal: func(sealed []byte, _ string) (domain.Secret, error) {
			return domain.Secret(sealed), nil
		},
		AttemptsInFlight:    512,
		AttemptsPerEndpoint: 128,
		DrainTimeout:        time.Second,
		Now:                 time.Now,
		Logger:              r.cluster.Logger,
	}
	more(&c)
	e = engine.New(c)
	go func() { ended <- e.Run(ctx) }()
	return e, func() {
		cancel()
		must(r.b, <-ended)
	}
}

func (r *rig) awaitAnswers(round string) {
	began := time.Now()
	asker := r.ask()
	var asked sync.WaitGroup
	for n := range 4 * partitions { // enough to reach every partition
		asked.Go(func() {
			id := domain.DeriveID(domain.EndpointPrefix, "restored", round, strconv.Itoa(n),
				strconv.FormatInt(began.UnixNano(), 10))
			_, err := asker.Submit(r.b.Context(), domain.Command{
				ID:        "cmd_" + id,
				AccountID: "acc_1",
				Body: domain.CreateEndpoint{
					EndpointID:       id,
					AccountID:        "acc_1",
					EndpointSettings: domain.EndpointSettings{URL: r.server.URL},
					SealedSecret:     []byte(secret),
				},
			})
			must(r.b, err)
		})
	}
	asked.Wait()
}

// BenchmarkTakeOver measures the time from when an engine leaves until another engine has
// answered on each partition, with one standby per partition and without.
func BenchmarkTakeOver(b *testing.B) {
	for b.Loop() {
		r := newRig(b, false)
		r.writeWaiting(*waiting)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(r.takeOver(1).Seconds(), "s-by-a-standby")
		b.ReportMetric(r.takeOver(0).Seconds(), "s-without")
	}
}

func (r *rig) takeOver(replicas int) time.Duration {
	owner, leave := r.runEngine(r.b.TempDir(), replicas)
	r.awaitAnswers("owner")
	heir, stop := r.runEngine(r.b.TempDir(), replicas)
	defer stop()
	warm := func(e *engine.Engine) (n int) {
		for _, p := range e.Stats() {
			if p.Restored {
				n++
			}
		}
		for _, s := range e.StandbyStats() {
			if s.Following {
				n++
			}
		}
		return n
	}
	if replicas > 0 {
		testkit.Eventually(r.b, "both engines have every partition", func() bool {
			return warm(owner) == partitions && warm(heir) == partitions
		})
	}
	began := time.Now()
	leave()
	r.awaitAnswers("heir")
	return time.Since(began)
}

// BenchmarkFairness paces deliveries to healthy endpoints, alone and together with as many
// endpoints that hang until the attempt times out (G6).
func BenchmarkFairness(b *testing.B) {
	for b.Loop() {
		alone50, alone99 := fairness(b, false)
		beside50, beside99 := fairness(b, true)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(millis(alone50), "floor-p50-ms")
		b.ReportMetric(millis(alone99), "floor-p99-ms")
		b.ReportMetric(millis(beside50), "p50-ms")
		b.ReportMetric(millis(beside99), "p99-ms")
		b.ReportMetric(alone99.Seconds()/max(beside99.Seconds(), 1e-9), "alone/beside")
	}
}

const fairEndpoints = 50

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func fairness(b *testing.B, hanging bool) (p50, p99 time.Duration) {
	r := newRig(b, false)
	r.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, "/hang") {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
			return
		}
		r.sink.ServeHTTP(w, req)
	})
	r.serveEndpoints(fairURLs(r.server.URL))
	n := 5 * *paced // takes longer than an attempt that hangs
	done := r.sink.expect(n)
	sent := make(map[string]time.Time, n)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i, round := 0, 0; i < n; round++ {
		<-tick.C
		var batch []kafka.Record
		for range 5 {
			id, record := matchFor("fair", i, fairID(false, i))
			sent[id] = time.Now()
			batch = append(batch, record)
			i++
		}
		if hanging {
			_, record := matchFor("hang", round, fairID(true, round))
			batch = append(batch, record)
		}
		must(b, r.producer.Append(b.Context(), batch...))
	}
	select {
	case <-done:
	case <-time.After(patience):
		b.Fatalf("%d of %d arrived", len(r.sink.arrived), n)
	}
	var took []time.Duration
	for id, at := range sent {
		took = append(took, r.sink.arrived[id].Sub(at))
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

func fairID(hangs bool, n int) string {
	return domain.DeriveID(domain.EndpointPrefix, "fair", strconv.FormatBool(hangs),
		strconv.Itoa(n%fairEndpoints))
}

func fairURLs(base string) map[string]string {
	urls := make(map[string]string)
	for n := range fairEndpoints {
		urls[fairID(false, n)] = base + "/"
		urls[fairID(true, n)] = base + "/hang"
	}
	return urls
}

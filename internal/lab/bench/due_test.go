package bench

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	dueWait      = 10 * time.Second // from the first attempt of a delivery to its second
	duePerSecond = 1000
	dueEvery     = 10 * time.Millisecond
)

// secondTime rejects each first attempt and records how late each second attempt is.
type secondTime struct {
	mu   sync.Mutex
	due  map[string]int64 // Unix milliseconds, by event
	late []time.Duration
	all  chan struct{}
	want int
}

func (s *secondTime) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	now := time.Now()
	result := domain.AttemptResult{SentAtMillis: now.UnixMilli(), StatusCode: 404}
	if a.Number > 1 {
		result.StatusCode = 200
		s.second(a.EventID, now)
	}
	done(result)
}

func (s *secondTime) second(event string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, now.Sub(time.UnixMilli(s.due[event])))
	if len(s.late) == s.want {
		close(s.all)
	}
}

func (*secondTime) Disconnect(string) {}

func (s *secondTime) fact(f domain.Fact) {
	made, is := f.Body.(domain.AttemptMade)
	if !is || made.NextAttemptAtMillis == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due[made.EventID] = made.NextAttemptAtMillis
}

// dueBeside makes 1,000 deliveries due per second, in addition to the pending ones. Their first
// attempts were rejected ten seconds earlier. It reports how late the second attempts begin.
func (r *rig) dueBeside(dir string) {
	s := &secondTime{due: make(map[string]int64), all: make(chan struct{}), want: 5 * *paced}
	_, stop := r.runEngineWith(dir, func(c *engine.Config) {
		c.Dispatcher, c.OnFact = s, s.fact
		c.Policy = domain.Policy{Schedule: domain.Schedule{WaitsMillis: []int64{dueWait.Milliseconds()}}}
	})
	defer stop()
	r.awaitAnswers("due")
	began := time.Now()
	tick := time.NewTicker(dueEvery)
	defer tick.Stop()
	const batch = duePerSecond * int(dueEvery) / int(time.Second)
	for n := 0; n < s.want; {
		<-tick.C
		var records []kafka.Record
		for range min(batch, s.want-n) {
			_, record := matchFor("due", n, endpointID(n%endpoints))
			records = append(records, record)
			n++
		}
		must(r.b, r.producer.Append(r.b.Context(), records...))
	}
	appended := time.Since(began)
	select {
	case <-s.all:
	case <-time.After(patience):
		r.b.Fatal("not all deliveries that were due were attempted again")
	}
	slices.Sort(s.late)
	r.b.ReportMetric(millis(s.late[len(s.late)/2]), "p50-ms-late")
	r.b.ReportMetric(millis(s.late[len(s.late)*99/100]), "p99-ms-late")
	r.b.ReportMetric(float64(s.want)/appended.Seconds(), "due/s")
}

func BenchmarkEndpoints(b *testing.B) {
	n := *many
	for b.Loop() {
		r := newRig(b, false)
		dir := b.TempDir()
		none := r.engineHeap(dir, "none")
		diskBefore := testkit.FolderBytes(b, dir)
		r.writeEndpoints(n)
		r.restore(dir, 0)
		b.ReportMetric((testkit.FolderBytes(b, dir)-diskBefore)/float64(n), "disk-bytes/endpoint")
		b.ReportMetric((r.engineHeap(dir, "many")-none)/float64(n), "memory-bytes/endpoint")
		b.ReportMetric(0, "ns/op")
	}
}

// engineHeap returns the heap of an engine after it has answered on each partition.
func (r *rig) engineHeap(dir, round string) float64 {
	before := testkit.HeapBytes()
	_, stop := r.runEngine(dir, 0)
	defer stop()
	r.awaitAnswers(round)
	return testkit.HeapBytes() - before
}

func (r *rig) writeEndpoints(n int) {
	var records []kafka.Record
	for i := range n {
		id := domain.DeriveID(domain.EndpointPrefix, "many", strconv.Itoa(i))
		m := schemas.EncodeFact(domain.Fact{
			Aggregate: id,
			Version:   1,
			AtMillis:  time.Now().UnixMilli(),
			Body: domain.EndpointCreated{
				EndpointID: id,
				AccountID:  domain.DeriveID(domain.AccountPrefix, "many", strconv.Itoa(i/10)),
				EndpointSettings: domain.EndpointSettings{
					URL: "https://merchant.example.org/webhooks/" + strconv.Itoa(i),
				},
				Secret: domain.SealedSecret{Sealed: make([]byte, 100)},
			},
		})
		records = append(records, kafka.NewRecord(schemas.TopicJournal, id, m.Value, m.EachHeader))
		if len(records) == 4000 || i == n-1 {
			must(r.b, r.producer.Append(r.b.Context(), records...))
			records = records[:0]
		}
	}
}

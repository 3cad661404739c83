package node

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// collected is a collector that keeps the spans it receives.
type collected struct {
	mu    sync.Mutex
	spans []*sentSpan
}

type sentSpan struct {
	Name              string
	TraceID           []byte `json:"traceId"`
	SpanID            []byte `json:"spanId"`
	ParentSpanID      []byte `json:"parentSpanId"`
	StartTimeUnixNano uint64 `json:",string"`
	EndTimeUnixNano   uint64 `json:",string"`
	Status            struct{ Code string }
}

// decodeSpans decodes a request of the exporter, whose package has registered the message type.
func decodeSpans(raw []byte) (all []*sentSpan, err error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(
		"opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest")
	if err != nil {
		return nil, err
	}
	message := kind.New().Interface()
	if err := proto.Unmarshal(raw, message); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var sent struct {
		ResourceSpans []struct{ ScopeSpans []struct{ Spans []*sentSpan } }
	}
	err = json.Unmarshal(text, &sent)
	for _, of := range sent.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			all = append(all, scope.Spans...)
		}
	}
	return all, err
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	raw, err := io.ReadAll(body)
	var sent []*sentSpan
	if err == nil {
		sent, err = decodeSpans(raw)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, sent...)
}

func (c *collected) named(name string) (found []*sentSpan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func newTracing(t *testing.T, ratio float64) (*Tracing, *collected) {
	t.Helper()
	c := &collected{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	tracing, err := NewTracing(t.Context(),
		TracingConfig{
			Endpoint:    server.URL + "/v1/traces",
			SampleRatio: ratio,
			Version:     "1",
			Instance:    "test",
			Logger:      slog.New(slog.DiscardHandler),
		})
	if err != nil {
		t.Fatal(err)
	}
	return tracing, c
}

func matched(eventID string) follower.LedgerSummary {
	return follower.LedgerSummary{
		Ledger:  domain.Ledger{Sequence: 7, ClosedAtMillis: 1_000},
		Matches: []domain.Match{{EventID: eventID, Watch: domain.Watch{ID: "wat_1", EndpointID: "ep_1"}}},
	}
}

func attempted(eventID string) domain.Fact {
	return domain.Fact{AtMillis: 5_000, Body: domain.AttemptMade{
		EventID: eventID,
		Number:  3,
		State:   domain.StateWaiting,
		Result:  domain.AttemptResult{SentAtMillis: 4_000, DurationMillis: 250, StatusCode: 503},
	}}
}

// A ledger that one process reads, another process that reads it again, and an attempt made by a
// third must belong to the same trace, with the same first span.
func TestAnEventHasOneTrace(t *testing.T) {
	const event = "evt_1"
	var spans []*sentSpan
	for _, part := range []struct {
		name string
		do   func(*Tracing)
	}{
		{"payment matched", func(tr *Tracing) { tr.Ledger(matched(event), time.UnixMilli(2_000)) }},
		{"payment matched", func(tr *Tracing) { tr.Ledger(matched(event), time.UnixMilli(9_000)) }},
		{"delivery attempt", func(tr *Tracing) { tr.Fact(attempted(event)) }},
	} {
		tracing, c := newTracing(t, 1)
		part.do(tracing)
		if err := tracing.Close(); err != nil {
			t.Fatal(err)
		}
		found := c.named(part.name)
		if len(found) != 1 {
			t.Fatalf("%d spans named %q", len(found), part.name)
		}
		spans = append(spans, found[0])
	}
	first := EventTrace(event)
	for _, s := range spans {
		if [16]byte(s.TraceID) != first.TraceID() {
			t.Errorf("%s is of trace %x, not of %s", s.Name, s.TraceID, first.TraceID())
		}
	}
	for _, s := range spans[:2] {
		if [8]byte(s.SpanID) != first.SpanID() || len(s.ParentSpanID) != 0 {
			t.Errorf("%s is span %x below %x", s.Name, s.SpanID, s.ParentSpanID)
		}
	}
	attempt := spans[2]
	if [8]byte(attempt.ParentSpanID) != first.SpanID() {
		t.Errorf("the attempt is below %x", attempt.ParentSpanID)
	}
	took := time.Duration(attempt.EndTimeUnixNano - attempt.StartTimeUnixNano)
	if took != 250*time.Millisecond {
		t.Errorf("the attempt's span lasts %s", took)
	}
	if attempt.Status.Code != "STATUS_CODE_ERROR" {
		t.Errorf("an attempt that failed has the status %s", attempt.Status.Code)
	}
}

// A trace must be sampled by all processes or by none.
func TestAllProcessesKeepTheSameTraces(t *testing.T) {
	one, first := newTracing(t, 0.5)
	other, second := newTracing(t, 0.5)
	const events = 200
	for i := range events {
		id := domain.DeriveID(domain.EventPrefix, "of this test", string(rune('a'+i)))
		one.Ledger(matched(id), time.UnixMilli(2_000))
		other.Fact(attempted(id))
	}
	for _, tr := range []*Tracing{one, other} {
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	kept := make(map[string]bool)
	for _, s := range first.named("payment matched") {
		kept[string(s.TraceID)] = true
	}
	attempts := second.named("delivery attempt")
	if len(kept) == 0 || len(kept) == events || len(attempts) != len(kept) {
		t.Fatalf("of %d traces one process kept %d and the other %d", events, len(kept), len(attempts))
	}
	for _, s := range attempts {
		if !kept[string(s.TraceID)] {
			t.Errorf("the attempt of trace %x is kept, its beginning is not", s.TraceID)
		}
	}
}

// A record of an event must carry the event's trace in its headers, and producing and consuming it
// are spans of that trace.
func TestTracesCrossTopics(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t.journal",
		"t.payments"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	tracing, spans := newTracing(t, 1)
	registry := prometheus.NewRegistry()
	metrics := NewKafkaMetrics(registry)
	cluster := kafka.Cluster{
		Brokers:  broker.ListenAddrs(),
		Prefix:   "t.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
		Hooks:    append(tracing.KafkaHooks("test", "t."), kgo.Hook(metrics)),
	}
	producer, err := cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	const event = "evt_2"
	if err := producer.Append(t.Context(),
		kafka.Record{Topic: schemas.TopicJournal, Key: []byte(event), Value: []byte("a fact")},
		kafka.Record{Topic: schemas.TopicPayments, Key: []byte("G"), Value: []byte("a payment")},
	); err != nil {
		t.Fatal(err)
	}
	reader, err := cluster.NewReader(
		kafka.ReaderConfig{From: kafka.Offsets{schemas.TopicJournal: {0: 0}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	var carried string
	if err := reader.ReadTo(t.Context(), schemas.TopicJournal, map[int32]int64{0: 1}, 10,
		func(r kafka.Record) error {
			carried = r.Header("traceparent")
			return nil
		}); err != nil {
		t.Fatal(err)
	}
	reader.Close()
	if err := tracing.Close(); err != nil {
		t.Fatal(err)
	}
	want := EventTrace(event).TraceID()
	if len(carried) != 55 || carried[3:35] != want.String() {
		t.Errorf("the record carries %q; its trace is %s", carried, want)
	}
	for _, name := range []string{"t.journal publish", "t.journal receive"} {
		found := spans.named(name)
		if len(found) != 1 || [16]byte(found[0].TraceID) != want {
			t.Errorf("%d spans named %q, or of another trace", len(found), name)
		}
	}
	if got := testutil.ToFloat64(metrics.open); got != 1 {
		t.Errorf("%v clients are open, one is", got)
	}
	n, err := testutil.GatherAndCount(registry, "lumenhook_kafka_produce_records_total")
	if err != nil || n != 2 {
		t.Errorf("%d topics are counted, %v", n, err)
	}
	if n, err := testutil.GatherAndCount(registry, "lumenhook_kafka_buffered_produce_records_total",
		"lumenhook_kafka_buffered_fetch_records_total"); err != nil || n != 0 {
		t.Errorf("one client's buffers stand for all: %d, %v", n, err)
	}
}

// If the collector is unreachable, excess spans must be dropped, the shutdown must not wait for
// them, and the log must report it once.
func TestACollectorThatIsAwayHoldsNothingUp(t *testing.T) {
	var log bytes.Buffer
	tracing, err := NewTracing(t.Context(), TracingConfig{
		Endpoint:    "http://127.0.0.1:1/v1/traces",
		SampleRatio: 1,
		Logger:      slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * queuedSpans {
		tracing.Fact(attempted("evt_3"))
	}
	if err := tracing.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "the collector does not accept them"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, log.String())
	}
}

func TestNoTracingIsNone(t *testing.T) {
	var none *Tracing
	none.Fact(attempted("evt_4"))
	none.Ledger(matched("evt_4"), time.UnixMilli(0))
	if hooks := none.KafkaHooks("c", "p"); hooks != nil {
		t.Errorf("it has hooks: %v", hooks)
	}
	if err := none.Close(); err != nil {
		t.Error(err)
	}
	for _, ratio := range []float64{0, -1, 1.5} {
		if _, err := NewTracing(t.Context(), TracingConfig{SampleRatio: ratio}); err == nil {
			t.Errorf("the ratio %v is taken", ratio)
		}
	}
}

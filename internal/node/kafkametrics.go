package node

import (
	"context"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kotel"
	"github.com/twmb/franz-go/plugin/kprom"
	"go.opentelemetry.io/otel/propagation"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// KafkaMetrics counts what all Kafka clients of a process do together: an engine
// has several for each of its partitions, and one series for each would be
// thousands. It is a hook for any number of clients.
type KafkaMetrics struct {
	*kprom.Metrics
	once  sync.Once
	first prometheus.Registerer
	open  prometheus.Gauge
}

// NewKafkaMetrics returns the metrics lumenhook_kafka_….
func NewKafkaMetrics(registry prometheus.Registerer) *KafkaMetrics {
	m := &KafkaMetrics{
		first: registry,
		Metrics: kprom.NewMetrics("lumenhook", kprom.Subsystem("kafka"), kprom.Registerer(registry),
			kprom.FetchAndProduceDetail(
				kprom.ByTopic, kprom.Records, kprom.Batches, kprom.UncompressedBytes),
			kprom.Histograms(kprom.RequestDurationE2E, kprom.RequestThrottled)),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lumenhook_kafka_clients",
			Help: "Kafka clients that are open.",
		}),
	}
	registry.MustRegister(m.open)
	return m
}

// OnNewClient registers the metrics with the first client. kprom's gauges of buffered
// records concern that client alone, and are left out.
func (m *KafkaMetrics) OnNewClient(c *kgo.Client) {
	m.open.Inc()
	m.once.Do(func() {
		m.Metrics.OnNewClient(c)
		for _, name := range []string{
			"buffered_produce_records_total", "buffered_fetch_records_total",
			"buffered_produce_bytes", "buffered_fetch_bytes",
		} {
			m.first.Unregister(prometheus.NewGauge(prometheus.GaugeOpts{
				Namespace: "lumenhook",
				Subsystem: "kafka",
				Name:      name,
			}))
		}
	})
}

// OnClientClosed counts a client out.
func (m *KafkaMetrics) OnClientClosed(*kgo.Client) { m.open.Dec() }

// KafkaHooks put spans for each record of an event that is written or read into
// the event's trace, and the trace into the record's headers (W3C traceparent).
func (t *Tracing) KafkaHooks(clientID, prefix string) []kgo.Hook {
	if t == nil {
		return nil
	}
	carried := propagation.TraceContext{}
	return []kgo.Hook{
		eventRecords{prefix}, // before kotel, which takes the context from the record
		kotel.NewTracer(kotel.TracerProvider(t.provider), kotel.TracerPropagator(carried),
			kotel.ClientID(clientID)),
	}
}

// eventRecords returns a record of an event the context of its trace.
type eventRecords struct{ prefix string }

// OnProduceRecordBuffered sets the context of a record of an event.
func (h eventRecords) OnProduceRecordBuffered(r *kgo.Record) {
	if event := h.event(r); event != "" {
		r.Context = ofEvent(contextOf(r), event)
	}
}

func contextOf(r *kgo.Record) context.Context {
	if r.Context == nil {
		return context.Background()
	}
	return r.Context
}

// event returns the event that a record is about; empty: none.
func (h eventRecords) event(r *kgo.Record) string {
	switch strings.TrimPrefix(r.Topic, h.prefix) {
	case schemas.TopicJournal:
		if strings.HasPrefix(string(r.Key), domain.EventPrefix) {
			return string(r.Key)
		}
	case schemas.TopicMatches:
		m, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, headers(r.Headers)))
		if err == nil {
			return m.Event.ID
		}
	}
	return ""
}

// headers finds a record's headers by name.
type headers []kgo.RecordHeader

func (h headers) Header(name string) string {
	for _, each := range h {
		if each.Key == name {
			return string(each.Value)
		}
	}
	return ""
}

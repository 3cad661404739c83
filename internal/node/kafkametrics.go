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

// KafkaMetrics counts the work of all Kafka clients of a process together. An engine has several
// clients per partition, and a series for each of them would be thousands. One KafkaMetrics is a
// hook for any number of clients.
type KafkaMetrics struct {
	*kprom.Metrics
	once  sync.Once
	first prometheus.Registerer
	open  prometheus.Gauge
}

// NewKafkaMetrics returns the lumenhook_kafka_… metrics.
func NewKafkaMetrics(registry prometheus.Registerer) *KafkaMetrics {
	m := &KafkaMetrics{
		first: registry,
		Metrics: kprom.NewMetrics("lumenhook", kprom.Subsystem("kafka"), kprom.Registerer(registry),
			kprom.FetchAndProduceDetail(
				kprom.ByTopic, kprom.Records, kprom.Batches, kprom.UncompressedBytes),
			kprom.Histograms(kprom.RequestDurationE2E, kprom.RequestThrottled)),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lumenhook_kafka_clients",
			Help: "Open Kafka clients.",
		}),
	}
	registry.MustRegister(m.open)
	return m
}

// OnNewClient registers the metrics with the first client. It omits kprom's gauges of buffered
// records, because they would only cover that client.
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

// OnClientClosed decrements the number of open clients.
func (m *KafkaMetrics) OnClientClosed(*kgo.Client) { m.open.Dec() }

// KafkaHooks returns hooks that add spans to an event's trace when its records are written or read,
// and that propagate the trace in the records' headers (W3C traceparent).
func (t *Tracing) KafkaHooks(clientID, prefix string) []kgo.Hook {
	if t == nil {
		return nil
	}
	carried := propagation.TraceContext{}
	return []kgo.Hook{
		eventRecords{prefix}, // before kotel, which uses the record's context
		kotel.NewTracer(kotel.TracerProvider(t.provider), kotel.TracerPropagator(carried),
			kotel.ClientID(clientID)),
	}
}

// eventRecords sets the contexts of events' records to the events' traces.
type eventRecords struct{ prefix string }

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

// event returns the id of the event that a record is about, or "" if there is none.
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

type headers []kgo.RecordHeader

func (h headers) Header(name string) string {
	for _, each := range h {
		if each.Key == name {
			return string(each.Value)
		}
	}
	return ""
}

package node

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

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
	counts *kprom.Metrics
	once   sync.Once
	first  prometheus.Registerer
	open   prometheus.Gauge
}

// NewKafkaMetrics returns the metrics lumenhook_kafka_….
func NewKafkaMetrics(registry prometheus.Registerer) *KafkaMetrics {
	m := &KafkaMetrics{
		first: registry,
		counts: kprom.NewMetrics("lumenhook", kprom.Subsystem("kafka"), kprom.Registerer(registry),
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
		m.counts.OnNewClient(c)
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

// OnBrokerConnect counts connections.
func (m *KafkaMetrics) OnBrokerConnect(
	b kgo.BrokerMetadata, took time.Duration, c net.Conn, err error,
) {
	m.counts.OnBrokerConnect(b, took, c, err)
}

// OnBrokerDisconnect counts connections that ended.
func (m *KafkaMetrics) OnBrokerDisconnect(b kgo.BrokerMetadata, c net.Conn) {
	m.counts.OnBrokerDisconnect(b, c)
}

// OnBrokerThrottle counts throttling by brokers.
func (m *KafkaMetrics) OnBrokerThrottle(b kgo.BrokerMetadata, wait time.Duration, after bool) {
	m.counts.OnBrokerThrottle(b, wait, after)
}

// OnProduceBatchWritten counts records written to topics.
func (m *KafkaMetrics) OnProduceBatchWritten(
	b kgo.BrokerMetadata, topic string, p int32, w kgo.ProduceBatchMetrics,
) {
	m.counts.OnProduceBatchWritten(b, topic, p, w)
}

// OnFetchBatchRead counts records read from topics.
func (m *KafkaMetrics) OnFetchBatchRead(
	b kgo.BrokerMetadata, topic string, p int32, r kgo.FetchBatchMetrics,
) {
	m.counts.OnFetchBatchRead(b, topic, p, r)
}

// OnBrokerRead counts bytes and errors of reading.
func (m *KafkaMetrics) OnBrokerRead(
	b kgo.BrokerMetadata, key int16, n int, wait, took time.Duration, err error,
) {
	m.counts.OnBrokerRead(b, key, n, wait, took, err)
}

// OnBrokerWrite counts bytes and errors of writing.
func (m *KafkaMetrics) OnBrokerWrite(
	b kgo.BrokerMetadata, key int16, n int, wait, took time.Duration, err error,
) {
	m.counts.OnBrokerWrite(b, key, n, wait, took, err)
}

// OnBrokerE2E times requests.
func (m *KafkaMetrics) OnBrokerE2E(b kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	m.counts.OnBrokerE2E(b, key, e2e)
}

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

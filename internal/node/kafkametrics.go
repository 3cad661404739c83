package node

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
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

//go:build kafka

package main

import "testing"

// TestASmallRunOnRealKafka measures the line kafka for a moment, beside the embedded broker's.
func TestASmallRunOnRealKafka(t *testing.T) {
	o := small(t, "-lines", "deliver,kafka", "-endpoints", "8", "-sync", "false")
	const line, at = "deliver, 8 endpoints, three real brokers", "latency at 50/s, three real brokers"
	r, _ := measured(t, o, []string{
		"deliver, 8 endpoints beside net/http client ≥ 45%",
		"deliver, 8 endpoints, processor time of all beside net/http client ",
		"deliver, 8 endpoints beside egress client ",
		"deliver, 8 endpoints beside Kafka, consume-transact-produce ",
		line + " beside net/http client ",
		line + ", processor time of all beside net/http client ",
		line + " beside the embedded broker ",
		at + ", p50 beside net/http client ",
		at + ", p99 beside net/http client ",
		at + ", p50 beside Kafka, one transaction ",
		at + ", p99 beside Kafka, one transaction ",
	})
	for _, d := range r.deliver() {
		if d.Deliveries != 500 || d.RealKafka != (d.Processor[ofBrokers] > 0) {
			t.Errorf("%+v", d)
		}
	}
}

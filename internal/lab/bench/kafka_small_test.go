//go:build kafka

package bench

import "testing"

func TestASmallRunOnRealKafka(t *testing.T) {
	small(t)
	s := newLab(t).serveOnKafka()
	got := s.kafkaAtRate(50).and("", s.fullSpeed(usual()))
	for _, unit := range []string{"p50-ms", "floor-p50-ms", "transactions-p50-ms", "brokers-µs",
		"deliveries/s"} {
		if got[unit] <= 0 {
			t.Errorf("%s is %v; all: %v", unit, got[unit], got)
		}
	}
}

package bench

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

var (
	paceTime = flag.Duration("pace-time", 20*time.Second, "Latency: how long a rate is kept")
	rest     = flag.Duration("rest", 2*time.Second, "how long a service has nothing to do before")
)

// halfSpeed is a rate that means half of the full speed that was just measured.
const halfSpeed = 0

// BenchmarkLatency measures the time from the append of a match to the arrival of its webhook.
// Its floor is a plain net/http client that posts at the same rate.
func BenchmarkLatency(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, rate := range []float64{100, 500, halfSpeed} {
			name := fmt.Sprintf("rate=%v/sync=%v", rate, sync)
			if rate == halfSpeed {
				name = fmt.Sprintf("rate=half/sync=%v", sync)
			}
			b.Run(name, measured(latency(rate, sync)))
		}
	}
}

func latency(rate float64, sync bool) func(*lab) metrics {
	return func(l *lab) metrics {
		s := l.serve(deliverEndpoints, "--broker-sync="+strconv.FormatBool(sync)).warmed()
		if rate == halfSpeed {
			how := full{atLeast: *warm, lasts: *floorTime, ahead: *ahead}
			n, took, _ := s.all(s.ownRun("full"), how)
			return s.atRate(float64(n) / took.Seconds() / 2)
		}
		return s.atRate(rate)
	}
}

func (s *service) atRate(rate float64) metrics {
	s.Helper()
	got := metrics{"perSecond": rate}
	got["floor-p50-ms"], got["floor-p99-ms"] = s.pacedPosts(rate)
	<-time.After(*rest)
	producer := s.producer()
	defer producer.Close()
	s.expect(1) // connects the producer to the brokers, does not count
	must(s, producer.Append(s.Context(), s.payments.match(s.ownRun("warm"), 0)))
	s.awaitArrivals(1)
	s.awaitHistory(1)
	s.expect(0)
	run, before := s.ownRun("paced"), s.used()
	sent := s.pace(rate, func(n int) func() error {
		match := s.payments.match(run, n)
		return func() error { return producer.Append(s.Context(), match) }
	})
	s.awaitArrivals(len(sent))
	s.awaitHistory(len(sent))
	got["p50-ms"], got["p99-ms"] = percentiles(s.tookOf(run, sent))
	return got.and("", s.spent(before, len(sent)))
}

func (l *lab) pacedPosts(rate float64) (p50, p99 float64) {
	l.Helper()
	post, run := l.bare(), l.ownRun("posts")
	l.warmPosts(post)
	sent := l.pace(rate, func(n int) func() error {
		id := eventID(run, n)
		return func() error { return post(l.Context(), id) }
	})
	l.awaitArrivals(len(sent))
	return percentiles(l.tookOf(run, sent))
}

// own returns the processor time of this process so far, in microseconds.
func (l *lab) own() float64 { return micros(testkit.ProcessorTime(l)) }

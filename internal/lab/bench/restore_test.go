package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkRestore starts a service with many past deliveries, and measures the time from the
// start of the process to the first delivery to each endpoint. The service starts without the
// engine's local state (from the snapshots and the rest of the journal), with it, and with the
// local state of a killed program.
func BenchmarkRestore(b *testing.B) { measured(restores)(b) }

func restores(l *lab) metrics {
	s := l.servePast().warmed()
	s.stop()
	got := metrics{}
	must(l, os.RemoveAll(filepath.Join(s.dir, "state", "engine")))
	s, got["s-cold"] = l.restored(s)
	s.stop()
	s, got["s-local"] = l.restored(s)
	s.kill()
	s, got["s-killed"] = l.restored(s)
	s.stop()
	return got
}

// restored restarts a service and delivers one event to each endpoint.
func (l *lab) restored(before *service) (s *service, seconds float64) {
	l.Helper()
	s = l.startRun(before.dir)
	s.payments = before.payments
	run, producer := l.ownRun("restored"), s.producer()
	defer producer.Close()
	l.expect(0)
	for n := range s.payments.endpoints {
		must(l, producer.Append(l.Context(), s.payments.match(run, n)))
	}
	last := l.awaitArrivals(len(s.payments.endpoints))
	return s, last.Sub(s.began).Round(time.Millisecond).Seconds()
}

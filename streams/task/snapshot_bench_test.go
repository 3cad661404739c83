//go:build unix

package task

import (
	"fmt"
	"hash/crc32"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

const benchDeliveries = 50_000

// newBenchStore returns a store with pending deliveries. Each has a record, a body and a timer.
func newBenchStore(b *testing.B, deliveries int) *store.Store {
	b.Helper()
	s, err := store.Open(store.Config{
		Dir:           "state",
		FS:            vfs.NewMem(),
		CacheBytes:    16 << 20,
		MemTableBytes: 16 << 20,
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	batch := s.Begin()
	for n := range deliveries {
		id := fmt.Sprintf("evt_%08x%08x%08x", crc32.ChecksumIEEE([]byte{byte(n), byte(n >> 8)}),
			n*2_654_435_761, n)
		record := fmt.Sprintf("%s ep_%08x QUEUED attempts 3 run 1 next %d created %d", id, n%97, n, n)
		body := fmt.Sprintf(`{"id":%q,"type":"payment.received","createdAt":%d,"data":{"watchId":`+
			`"wat_%08x","walletAddress":"G%032x","from":"G%032x","amount":"%d.5","asset":"XLM",`+
			`"memo":{"type":"text","value":"order-%d"},"txHash":"%064x"}}`,
			id, n, n%501, n*7919, n*104_729, n, n, n*15_485_863)
		for key, value := range map[string]string{"\x13": record, "\x14": body} {
			if err := batch.Set([]byte(key+id), []byte(value)); err != nil {
				b.Fatal(err)
			}
		}
		if err := batch.SetTimer("ep/1", int64(n), id); err != nil {
			b.Fatal(err)
		}
	}
	if err := batch.Commit(); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkSnapshot measures the cost of writing and loading a snapshot per pending delivery.
func BenchmarkSnapshot(b *testing.B) {
	state := newBenchStore(b, benchDeliveries)
	defer state.Close()
	var records []kafka.Record
	var whole manifest
	b.Run("write", func(b *testing.B) {
		since := testkit.ProcessorTime(b)
		for b.Loop() {
			records, whole = nil, manifest{}
			w, err := newSnapshotWriter(state, SnapshotConfig{}, manifest{ID: "1"})
			if err != nil {
				b.Fatal(err)
			}
			for last := false; !last; {
				var r kafka.Record
				if r, last, err = w.next(); err != nil {
					b.Fatal(err)
				}
				records = append(records, r)
			}
			whole = w.manifest
			if err := w.close(); err != nil {
				b.Fatal(err)
			}
		}
		perDelivery(b, since)
		var compressed int64
		for _, r := range records {
			compressed += r.Size()
		}
		b.ReportMetric(float64(whole.Bytes)/benchDeliveries, "bytes/delivery")
		b.ReportMetric(float64(compressed)/benchDeliveries, "written/delivery")
	})
	b.Run("load", func(b *testing.B) {
		into := newBenchStore(b, 0)
		defer into.Close()
		since := testkit.ProcessorTime(b)
		for b.Loop() {
			if err := into.BeginLoading(); err != nil {
				b.Fatal(err)
			}
			l, err := newSnapshotReader(foundSnapshot{manifest: whole}, into)
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range records {
				if _, err := l.take(r); err != nil {
					b.Fatal(err)
				}
			}
			l.decoder.Close()
		}
		perDelivery(b, since)
	})
}

// perDelivery reports the processor time that all threads have used since the given time. On a busy
// machine, wall time would include the work of other processes.
func perDelivery(b *testing.B, since time.Duration) {
	b.Helper()
	used := testkit.ProcessorTime(b) - since
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/benchDeliveries, "cpu-ns/delivery")
}

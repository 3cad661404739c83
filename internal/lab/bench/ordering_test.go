package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// BenchmarkOrdering compares deliveries to an endpoint that orders events by wallet with
// deliveries to an endpoint that does not, with the same number of payments to one, a hundred and
// ten thousand wallets.
func BenchmarkOrdering(b *testing.B) {
	const events = 10_000
	for b.Loop() {
		r := newRig(b, false)
		orderings := []domain.Ordering{domain.OrderingNone, domain.OrderingWallet}
		urls := make(map[string]string)
		for i := range orderings {
			urls[endpointID(i)] = r.server.URL + fmt.Sprint("/", i)
		}
		r.serveEndpoints(urls)
		asker := r.ask()
		for i := range orderings {
			_, err := asker.Submit(b.Context(), domain.Command{
				ID:        fmt.Sprint("cmd_order_", i),
				AccountID: "acc_1",
				Body: domain.UpdateEndpoint{
					EndpointID: endpointID(i),
					Change:     domain.EndpointChange{Ordering: &orderings[i]},
				},
			})
			must(b, err)
		}
		r.deliverTo(0, 100, events) // warm-up
		for _, wallets := range []int{1, 100, 10_000} {
			beside := r.deliverTo(0, wallets, events)
			rate := r.deliverTo(1, wallets, events)
			b.ReportMetric(beside, fmt.Sprintf("default-%d-wallets/s", wallets))
			b.ReportMetric(rate, fmt.Sprintf("ordered-%d-wallets/s", wallets))
		}
		b.ReportMetric(0, "ns/op")
	}
}

// deliverTo returns the number of events delivered per second to an endpoint, from the first
// append to the last arrival.
func (r *rig) deliverTo(endpoint, wallets, events int) float64 {
	run := fmt.Sprint("to ", endpoint, " of ", wallets, time.Now())
	records := make([]kafka.Record, 0, events)
	for n := range events {
		_, record := matchTo(run, n, endpointID(endpoint), fmt.Sprintf("G%055d", n%wallets))
		records = append(records, record)
	}
	all := r.sink.expect(events)
	began := time.Now()
	must(r.b, r.producer.Append(r.b.Context(), records...))
	select {
	case <-all:
	case <-time.After(patience):
		r.b.Fatal("not all events have arrived")
	}
	return float64(events) / time.Since(began).Seconds()
}

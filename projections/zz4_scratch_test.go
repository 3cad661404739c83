//go:build zz

package projections_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections"
)

func TestZZHist(t *testing.T) {
	db, err := projections.Open("clickhouse://127.0.0.1:39000/" + os.Getenv("ZZDB"))
	must(t, err)
	h := projections.NewHistory(projections.HistoryConfig{DB: db})
	events := 5_000_000
	account := generatedAccount(7)
	for range 3 {
		c0, o0 := zzCPU(os.Getenv("ZZPID")), zzCPU("self")
		p50, p95, mn := med(300, func(n int) {
			at := ((n+1000)*7919*13 + 5) % events
			r, err := h.Event(t.Context(), generatedAccount(at%10), generatedEvent(at))
			must(t, err)
			if len(r.Attempts) != 2 || len(r.Body) == 0 {
				t.Fatal(r)
			}
		})
		fmt.Printf("event %.2f %.2f %.2f cpu %.2f own %.2f\n", p50, p95, mn, (zzCPU(os.Getenv("ZZPID"))-c0)/300, (zzCPU("self")-o0)/300)
		for _, c := range []struct {
			n string
			f projections.EventFilter
		}{
			{"newest", projections.EventFilter{AccountID: account}},
			{"endpoint", projections.EventFilter{AccountID: account, EndpointID: generatedEndpoint(7)}},
			{"time", projections.EventFilter{AccountID: account, EndpointID: generatedEndpoint(17), FromMillis: startMillis + int64(events)/2, ToMillis: startMillis + int64(events)/2 + 500_000}},
			{"waiting", projections.EventFilter{AccountID: account, State: domain.StateWaiting}},
			{"delivered", projections.EventFilter{AccountID: account, State: domain.StateDelivered}},
		} {
			if only := os.Getenv("ZZQ"); only != "" && only != c.n {
				continue
			}
			c0 := zzCPU(os.Getenv("ZZPID"))
			p50, p95, mn := med(60, func(n int) {
				at := events - 1 - n*1000
				page, err := h.Events(t.Context(), c.f, 50, projections.EventPosition{CreatedAtMillis: startMillis + int64(at), EventID: "z"})
				must(t, err)
				if len(page.Events) == 0 && page.Next.EventID == "" {
					t.Fatal("empty", c.n)
				}
			})
			fmt.Printf("%s %.2f %.2f %.2f cpu %.2f\n", c.n, p50, p95, mn, (zzCPU(os.Getenv("ZZPID"))-c0)/60)
		}
	}
}

func med(n int, f func(i int)) (p50, p95, min float64) {
	took := make([]float64, n)
	for i := range n {
		took[i] = timed(func() { f(i) })
	}
	sortFloats(took)
	return took[n/2], took[n*95/100], took[0]
}

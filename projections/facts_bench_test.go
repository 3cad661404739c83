package projections_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
)

// BenchmarkFacts measures what time travel costs the projector: a rebuild of all tables with and
// without the tables facts and delivery_facts. Deliveries that succeed have no row there and cost
// one check per fact. Changes of watches cost one row each.
func BenchmarkFacts(b *testing.B) {
	b.Run("deliveries", func(b *testing.B) { factsCost(b, func(r *rig) { fill(r, *benchFacts) }) })
	b.Run("watches", func(b *testing.B) { factsCost(b, func(r *rig) { fillWatches(r, *benchFacts) }) })
}

var timeTravel = []string{"facts", "delivery_facts"}

func factsCost(b *testing.B, fill func(*rig)) {
	r := newRigAlone(b)
	fill(r)
	must(b, writer.Migrate(b.Context(), r.db))
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the setting of `lumenhook rebuild`
	without := []string{"attempts", "attempt_log", "endpoint_changes", "events", "deliveries"}
	costs := map[string][]float64{}
	for b.Loop() {
		for name, tables := range map[string][]string{
			"without": without, "with": slices.Concat(without, timeTravel),
		} {
			own, engine := processCPU(b, os.Getpid()), processCPU(b, r.engine.PID())
			must(b, writer.Rebuild(b.Context(), r.refold(func(c *writer.RefoldConfig) {
				c.Tables = tables
			})))
			own, engine = processCPU(b, os.Getpid())-own, processCPU(b, r.engine.PID())-engine
			perFact := func(of string, micros int64) {
				key := fmt.Sprintf("%s-%s-µs/fact", name, of)
				costs[key] = append(costs[key], float64(micros)/float64(*benchFacts))
			}
			perFact("own", own.Microseconds())
			perFact("clickhouse", engine.Microseconds())
		}
	}
	for key, each := range costs {
		b.ReportMetric(median(each), key)
	}
	for _, table := range timeTravel {
		b.ReportMetric(float64(r.count("SELECT sum(data_compressed_bytes) FROM system.parts WHERE active "+
			"AND database = currentDatabase() AND table = '"+table+"'"))/float64(*benchFacts), "B/"+table)
	}
}

func fillWatches(r *rig, facts int) {
	r.t.Helper()
	var batch []domain.Fact
	for n := range facts {
		id, made := aWatch(n / 100)
		f := made[0]
		if n%100 > 0 {
			f = made[1]
			f.Version = uint64(n%100) + 1
		}
		f.Aggregate = id
		if batch = append(batch, f); len(batch) == 5000 || n == facts-1 {
			r.append(batch...)
			batch = batch[:0]
		}
	}
}

// BenchmarkFactsAlone measures the cost per fact in the projector's own process.
func BenchmarkFactsAlone(b *testing.B) {
	s := newStory(0)
	_, watch := aWatch(0)
	for name, f := range map[string]domain.Fact{
		"attempt":  s.delivered(0, 1),
		"creation": s.created(0), "watch": watch[1],
		"requeue": s.fact(domain.DeliveryRequeued{EventID: s.eventID(0), Run: 2}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if kept, own := f.Kept(); own {
					schemas.EncodeFact(kept)
				}
				if kept, alone := f.KeptOfDelivery(); alone {
					schemas.EncodeFact(kept)
				}
			}
		})
	}
}

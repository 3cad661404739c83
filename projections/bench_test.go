package projections_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

var (
	benchFacts    = flag.Int("facts", 600_000, "facts to rebuild from")
	benchAttempts = flag.Int("attempts", 10_000_000, "attempts among which is read")
	benchSeconds  = flag.Int("seconds", 10, "how long the live projector is watched")
	benchRate     = flag.Int("rate", 1000, "deliveries a second that the live projector gets")
	benchReads    = flag.String("reads-dir", "",
		"a folder that keeps what BenchmarkReads stores, so that the next run need not store it again; it must be of the same -attempts")
)

// BenchmarkRebuild rebuilds all tables from a journal. Half of its facts create deliveries, and
// half are attempts.
func BenchmarkRebuild(b *testing.B) {
	r := newRigAlone(b)
	fill(r, *benchFacts)
	// The settings of `lumenhook rebuild`.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	var rates, owns, engines []float64
	for b.Loop() {
		began, own, engine := time.Now(), processCPU(b, os.Getpid()), processCPU(b, r.engine.PID())
		must(b, writer.Rebuild(b.Context(), r.refold(nil)))
		facts := float64(*benchFacts)
		rates = append(rates, facts/time.Since(began).Seconds())
		// The CPU time of this process includes the broker, and that of ClickHouse includes
		// merges. On a shared machine, CPU time is more reliable than elapsed time.
		owns = append(owns, float64((processCPU(b, os.Getpid())-own).Microseconds())/facts)
		engines = append(engines, float64((processCPU(b, r.engine.PID())-engine).Microseconds())/facts)
		if n := r.count("SELECT count() FROM events FINAL"); n != *benchFacts/2 {
			b.Fatalf("there are %d events", n)
		}
	}
	b.StopTimer()
	b.ReportMetric(slices.Max(rates), "best-facts/s")
	b.ReportMetric(median(rates), "facts/s")
	b.ReportMetric(median(owns), "own-cpu-µs/fact")
	b.ReportMetric(median(engines), "clickhouse-cpu-µs/fact")
	for _, table := range []string{"events", "attempts", "deliveries"} {
		r.exec("OPTIMIZE TABLE " + table + " FINAL")
		b.ReportMetric(float64(
			r.count("SELECT sum(data_compressed_bytes) FROM system.parts WHERE active AND database = currentDatabase() AND table = '"+table+"'"),
		)/float64(*benchFacts/2), "B/"+table)
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchmarkLiveProjector measures a projector in a separate process, and its ClickHouse, at a
// fixed rate of deliveries with two facts each. It runs without readers, and with a reader that
// once a second waits until a fact is readable. On a shared machine, CPU time is more reliable
// than elapsed time.
func BenchmarkLiveProjector(b *testing.B) {
	b.Run("unasked", func(b *testing.B) { liveProjector(b, 0) })
	b.Run("asked", func(b *testing.B) { liveProjector(b, 1) })
}

func liveProjector(b *testing.B, asksPerSecond int) {
	r := newRigAlone(b)
	k := &killed{rig: r, blocks: "200ms 50000 1s"} // the settings of `lumenhook run`
	for b.Loop() {
		k.startProjector()
		warm := newStory(99)
		r.append(warm.created(0))
		r.awaitProjected()
		own, engine := processCPU(b, k.projector.Process.Pid), processCPU(b, r.engine.PID())
		began := time.Now()
		lag := r.paced(*benchRate, *benchSeconds, asksPerSecond)
		took := time.Since(began)
		r.awaitProjected()
		own = processCPU(b, k.projector.Process.Pid) - own
		engine = processCPU(b, r.engine.PID()) - engine
		k.killProjector()
		deliveries := float64(*benchRate * *benchSeconds)
		b.ReportMetric(float64(own.Microseconds())/deliveries, "own-cpu-µs/delivery")
		b.ReportMetric(float64(engine.Microseconds())/deliveries, "clickhouse-cpu-µs/delivery")
		b.ReportMetric(deliveries/took.Seconds(), "deliveries/s")
		if len(lag) > 0 {
			slices.Sort(lag)
			b.ReportMetric(float64(lag[len(lag)-1].Milliseconds()), "max-lag-ms")
			b.ReportMetric(float64(lag[len(lag)/2].Milliseconds()), "p50-lag-ms")
		}
	}
}

// paced appends facts at a rate and repeatedly reads the latest event. It returns the duration of
// each read.
func (r *rig) paced(deliveriesPerSecond, seconds, asksPerSecond int) (lag []time.Duration) {
	const each = 20 // milliseconds
	stories := make([]*story, 40)
	for i := range stories {
		stories[i] = newStory(i)
	}
	reader := r.history(5 * time.Second)
	probes := make(chan time.Duration, seconds*asksPerSecond+1)
	asked := 0
	tick := time.NewTicker(each * time.Millisecond)
	defer tick.Stop()
	n := 0
	for turn := range seconds * 1000 / each {
		<-tick.C
		var facts []domain.Fact
		for range deliveriesPerSecond * each / 1000 {
			s := stories[n%len(stories)]
			facts = append(facts, s.paidLikeReal(n), s.delivered(n, 1))
			n++
		}
		r.append(facts...)
		if asksPerSecond > 0 && turn%(1000/each/asksPerSecond) == 0 {
			asked++
			id := stories[(n-1)%len(stories)].eventID(n - 1)
			go func() {
				began := time.Now()
				if _, err := reader.Event(r.t.Context(), testAccount, id); err != nil {
					r.t.Error(err)
				}
				probes <- time.Since(began)
			}()
		}
	}
	for range asked {
		lag = append(lag, <-probes)
	}
	return lag
}

// BenchmarkReads reads single events and lists among many attempts, two per event, of 1,000
// endpoints in 10 accounts.
func BenchmarkReads(b *testing.B) {
	dir := *benchReads
	if dir == "" {
		dir = b.TempDir()
	}
	r := newRigOf(b,
		clickhousetest.StartWith(b, clickhouse.Config{
			Program: clickhousetest.Program(b), DataDir: dir, Grants: clickhousetest.Grants(),
		}))
	must(b, writer.Migrate(b.Context(), r.db))
	events := *benchAttempts / 2
	began := time.Now()
	if r.count("SELECT count() FROM deliveries") != events {
		r.generate(events)
	}
	b.Logf("%d events and %d attempts are stored after %s", events, 2*events,
		time.Since(began).Round(time.Second))
	reader := r.history(0)
	account := generatedAccount(7)
	b.ResetTimer()
	for b.Loop() {
		// The lower bound is a query over the same protocol that reads nothing.
		measure(b, "select-1", 300, func(int) error {
			var one uint8
			return r.sql.QueryRow(b.Context(), "SELECT 1").Scan(&one)
		}, func(n int) int { return n })
		const reads = 300
		cpu := processCPU(b, r.engine.PID())
		measure(b, "event", reads, func(n int) error {
			_, err := reader.Event(b.Context(), generatedAccount(n%10), generatedEvent(n))
			return err
		}, func(n int) int { return (n * 7919) % events })
		b.ReportMetric(float64((processCPU(b, r.engine.PID())-cpu).Microseconds())/1000/reads,
			"event-clickhouse-cpu-ms")
		lists := map[string]readmodel.EventFilter{
			"newest":   {AccountID: account},
			"endpoint": {AccountID: account, EndpointID: generatedEndpoint(7)},
			"time": {
				AccountID:   account,
				EndpointID:  generatedEndpoint(17),
				SinceMillis: startMillis + int64(events)/2,
				UntilMillis: startMillis + int64(events)/2 + 500_000,
			},
			"waiting":   {AccountID: account, State: domain.StateWaiting},
			"delivered": {AccountID: account, State: domain.StateDelivered},
		}
		for name, filter := range lists {
			measure(b, name, 40, func(n int) error {
				page, next, err := reader.Events(b.Context(), filter,
					&readmodel.Position{CreatedAtMillis: startMillis + int64(n), ID: "z"}, 50)
				if err == nil && len(page) == 0 && next == nil {
					err = fmt.Errorf("the list %s is empty", name)
				}
				return err
			}, func(n int) int { return events - 1 - n*1000 })
		}
	}
	for _, table := range []string{"events", "attempts", "deliveries"} {
		b.ReportMetric(float64(
			r.count("SELECT sum(data_compressed_bytes) FROM system.parts WHERE active AND database = currentDatabase() AND table = '"+table+"'"),
		)/float64(events), "B/event-in-"+table)
	}
}

func measure(b *testing.B, name string, times int, read func(int) error, at func(int) int) {
	b.Helper()
	took := make([]time.Duration, times)
	for n := range times {
		began := time.Now()
		must(b, read(at(n)))
		took[n] = time.Since(began)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[times/2].Microseconds())/1000, name+"-p50-ms")
	b.ReportMetric(float64(took[times*95/100].Microseconds())/1000, name+"-p95-ms")
}

// generatedAccount, generatedEndpoint and generatedEvent return the ids that generate creates in
// SQL.
func generatedAccount(n int) string  { return fmt.Sprintf("acc_%026d", n) }
func generatedEndpoint(n int) string { return fmt.Sprintf("ep_%026d", n) }
func generatedEvent(n int) string    { return "evt_" + scrambled(n) }

// scrambled spreads consecutive numbers far apart, like real event ids.
func scrambled(n int) string {
	v := uint64(n+1) * 0x9E3779B97F4A7C15
	return fmt.Sprintf("%016x%010d", v, n)
}

const generatedID = `concat('evt_', lower(leftPad(hex(toUInt64((number + 1) * 11400714819323198485)), 16, '0')), leftPad(toString(number), 10, '0'))`

// generate stores one event per millisecond with two attempts each. Every seventh event is still
// pending.
func (r *rig) generate(events int) {
	r.t.Helper()
	const step = 500_000
	for from := 0; from < events; from += step {
		span := fmt.Sprintf("numbers(%d, %d)", from, min(step, events-from))
		account := "concat('acc_', leftPad(toString(number % 10), 26, '0'))"
		endpoint := "concat('ep_', leftPad(toString(number % 1000), 26, '0'))"
		created := fmt.Sprintf("fromUnixTimestamp64Milli(toInt64(%d + number), 'UTC')", startMillis)
		place := "toInt32(number % 4) AS partition, toInt64(number * 3) AS offset"
		body := `concat('{"id":"', event_id, '","type":"payment.received","data":{"payment":{"id":"', toString(number * 4096), '","txHash":"', lower(hex(SHA256(toString(number)))), '","ledgerClosedAt":"2026-09-21T14:13:20Z","asset":{"code":"XLM","issuer":null},"amount":"1.0000000","amountStroops":"10000000"},"note":"` + strings.Repeat("x", 500) + `"}}')`
		r.slowly("INSERT INTO events (event_id, type, account_id, endpoint_id, watch_id, wallet_address, created_at, body, version, partition, offset) SELECT " +
			generatedID + " AS event_id, 'payment.received', " + account + ", " + endpoint + ", concat('wat_', toString(number % 1000)), concat('GWALLET', toString(number % 1000)), " + created + ", " + body + ", intDiv(number, 1000) * 3, " + place + " FROM " + span)
		for attempt := 1; attempt <= 2; attempt++ {
			sent := fmt.Sprintf("addMilliseconds(%s, %d)", created, 50+(attempt-1)*30_000)
			state := "if(number % 7 = 0, 'WAITING', 'DELIVERED')"
			if attempt == 1 {
				state = "'WAITING'"
			}
			r.slowly("INSERT INTO attempts (event_id, number, run, event_type, endpoint_id, sent_at, duration_ms, status_code, response_body, state, version, partition, offset) SELECT " +
				generatedID + fmt.Sprintf(", %d, 1, 'payment.received', ", attempt) + endpoint + ", " +
				sent + ", sipHash64(number) % 200, if(" + state + " = 'DELIVERED', 200, 500), 'ok', " +
				state + fmt.Sprintf(", intDiv(number, 1000) * 3 + %d, ", attempt) + place + " FROM " + span)
		}
		r.slowly("INSERT INTO deliveries (event_id, account_id, endpoint_id, created_at, updated_at, attempts, run, attempt_times, version, fact_state, partition, offset) SELECT " +
			generatedID + ", " + account + ", " + endpoint + ", " + created + ", " + created + ", 2, 1, [addMilliseconds(" + created + ", 50), addMilliseconds(" + created + ", 30050)], intDiv(number, 1000) * 3 + 2, if(number % 7 = 0, 'WAITING', 'DELIVERED'), " + place + " FROM " + span)
	}
	for _, table := range []string{"events", "attempts", "deliveries"} {
		r.slowly("OPTIMIZE TABLE " + table + " FINAL")
	}
}

func (r *rig) slowly(statement string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Minute)
	defer cancel()
	if err := r.sql.Exec(driver.Context(ctx,
		driver.WithSettings(driver.Settings{"max_execution_time": 0})), statement); err != nil {
		r.t.Fatalf("%s: %v", statement[:min(len(statement), 300)], err)
	}
}

// paidLikeReal returns the fact of an event as the follower creates it. The body has about 900
// bytes, a quarter of them unique, so it compresses like a real one.
func (s *story) paidLikeReal(n int) domain.Fact {
	hash := sha256.Sum256(fmt.Appendf(nil, "%s/%d", s.endpointID, n))
	wallet := "GD" + strings.ToUpper(s.endpointID[len(s.endpointID)-24:]) + strings.Repeat("W", 30)
	m := domain.Match{
		EventID: s.eventID(n),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            domain.DeriveID(domain.WatchPrefix, s.endpointID),
			AccountID:     testAccount,
			EndpointID:    s.endpointID,
			WalletAddress: wallet,
			Label:         strings.Repeat("the shop's till ", 8),
		},
		Payment: domain.Payment{
			ID:             strconv.Itoa(n << 12),
			TxHash:         hex.EncodeToString(hash[:]),
			Ledger:         uint32(n / 100),
			ClosedAtMillis: startMillis + int64(n/100*5000),
			Operation:      "payment",
			From:           "GC" + strings.ToUpper(hex.EncodeToString(hash[:27])),
			To:             wallet,
			Asset:          domain.NativeAsset(),
			AmountStroops:  int64(hash[0])*1e7 + int64(n),
		},
		Verification: domain.Verification{Outcome: domain.OutcomeVerified},
	}
	return s.fact(domain.DeliveryCreated{
		AccountID:     testAccount,
		EndpointID:    s.endpointID,
		WatchID:       m.Watch.ID,
		WalletAddress: wallet,
		Event:         domain.NewPaymentEvent(m, startMillis+int64(n)),
	})
}

// fill appends facts of 40 endpoints to the journal, two per event.
func fill(r *rig, facts int) {
	r.t.Helper()
	stories := make([]*story, 40)
	for i := range stories {
		stories[i] = newStory(i)
	}
	var batch []kafka.Record
	add := func(f domain.Fact) {
		m := schemas.EncodeFact(f)
		batch = append(batch, kafka.NewRecord(schemas.TopicJournal, f.Aggregate, m.Value, m.EachHeader))
	}
	for n := range facts / 2 {
		s := stories[n%len(stories)]
		add(s.paidLikeReal(n))
		add(s.delivered(n, 1))
		if len(batch) >= 5000 || n == facts/2-1 {
			must(r.t, r.producer.Append(r.t.Context(), batch...))
			batch = batch[:0]
		}
	}
}

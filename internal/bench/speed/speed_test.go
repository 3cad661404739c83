package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
)

func TestBodySize(t *testing.T) {
	if n := len(paymentsTo("acc_1", "ep_1").Body("x", 1)); n < 850 || n > 950 {
		t.Errorf("a body has %d bytes", n)
	}
}

// small are options of a run that takes moments. Its lines are those of the services.
func small(t *testing.T, more ...string) options {
	t.Helper()
	if out, err := built(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	dir := t.TempDir()
	o, err := parse(append([]string{
		"-service", program, "-json", filepath.Join(dir, "results", "latest.json"),
		"-runs", filepath.Join(dir, "results", "runs.jsonl"),
		"-markdown", filepath.Join(dir, "table.md"), "-scratch", t.TempDir(),
		"-cache", filepath.Join(dir, "cache"), "-reps", "1", "-warm", "300", "-deliveries", "500",
		"-time", "1ms", "-backlog", "200", "-endpoints", "3", "-sync", "true", "-rates", "50",
		"-pace-time", "500ms", "-floor-time", "1ms", "-close-time", "500ms", "-past", "400",
		"-deep", "600", "-shallow", "100",
	}, more...))
	if err != nil {
		t.Fatal(err)
	}
	o.rest, o.idle, o.ledgers = 200*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond
	o.warmRuns = 1
	o.say = func(what string) { t.Log(what) }
	return o
}

// TestMain: the children of a run are this program again.
func TestMain(m *testing.M) {
	clickhouse.MaybeChild()
	if len(os.Args) > 1 && os.Args[1] == childArg {
		main()
		return
	}
	dir, err := os.MkdirTemp("", "speed-program-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "lumenhook")
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// program is what built builds.
var program string

// built builds the program, once.
var built = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("go", "build", "-ldflags=-s -w", "-o", program,
		"../../../cmd/lumenhook").CombinedOutput()
})

// TestASmallRun measures each line of a service for a moment: with the real program, and every
// floor.
func TestASmallRun(t *testing.T) {
	t.Parallel()
	o := small(t, "-lines", "deliver,latency,close,profile")
	r, written := measured(t, o, []string{
		"deliver, 3 endpoints, --broker-sync beside net/http client ≥ 45%",
		"deliver, 3 endpoints, --broker-sync, processor time of all beside net/http client ",
		"deliver, 3 endpoints, --broker-sync beside egress client ",
		"deliver, 3 endpoints, --broker-sync beside Kafka, consume-transact-produce ",
		"latency at 50/s, --broker-sync, p50 beside net/http client ≤ +5 ms",
		"latency at 50/s, --broker-sync, p99 beside net/http client ≤ +15 ms",
		"latency at half of full speed, --broker-sync, p50 beside net/http client ",
		"latency at half of full speed, --broker-sync, p99 beside net/http client ≤ 25 ms",
		"a ledger's close to arrival, p99 beside  ≤ 100 ms",
		"a ledger's close to arrival, p50 beside  ",
		"payments of which that is beside  ",
	})
	checkRuns(t, r)
	for _, row := range written.Lines {
		if row.Line == "payments of which that is" && row.Figure.Median != 10 {
			t.Errorf("%+v", row)
		}
	}
	checkResumed(t, o, len(r.journal.records))
}

// TestASmallPast measures the lines that compare services, and that of memory.
func TestASmallPast(t *testing.T) {
	t.Parallel()
	o := small(t, "-lines", "history,backlog")
	memory, err := chosen("memory") // but for the part that is a Go benchmark
	if err != nil {
		t.Fatal(err)
	}
	every := memory[0].steps
	memory[0].steps = func(l *lab) []step { return every(l)[1:] }
	o.lines = append(o.lines, memory...)
	const past, deep = "deliver, 8 endpoints, after 400 past deliveries",
		"deliver, 8 endpoints, at a backlog of 600"
	_, written := measured(t, o, []string{
		"memory at rest, service beside  ",
		"memory at rest, ClickHouse beside  ",
		"memory at full speed, at most, service beside  ",
		"memory at full speed, at most, ClickHouse beside  ",
		"start of run until ready, warm beside  ≤ 1.5 s",
		past + " beside with an empty history ≥ 95%",
		past + ": how many in fact beside  ",
		past + ", processor time of all beside with an empty history ",
		past + ", processor time of ClickHouse beside with an empty history ",
		past + ", processor time of load beside with an empty history ",
		past + ", processor time of receiver beside with an empty history ",
		past + ", processor time of service beside with an empty history ",
		deep + " beside at a backlog of 100 ≥ 90%",
		deep + ", processor time of all beside at a backlog of 100 ",
		deep + ", processor time of ClickHouse beside at a backlog of 100 ",
		deep + ", processor time of load beside at a backlog of 100 ",
		deep + ", processor time of receiver beside at a backlog of 100 ",
		deep + ", processor time of service beside at a backlog of 100 ",
	})
	// The past was made before it was measured, and is more by what was delivered then.
	for _, row := range written.Lines {
		if strings.HasSuffix(row.Line, "how many in fact") && row.Figure.Median != 400+300 {
			t.Errorf("%+v", row)
		}
	}
	noted, err := os.ReadFile(filepath.Join(o.cache, "deployment", pastFile))
	if err != nil || string(noted) != "1200" { // 300 to get warm, and 500
		t.Errorf("the past is %q, %v", noted, err)
	}
}

// measured measures, and reads what was written of it.
func measured(t *testing.T, o options, lines []string) (r *results, written results) {
	t.Helper()
	r, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := errors.Join(r.print(&text), r.write(o)); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	data, err := os.ReadFile(o.json)
	if err != nil || json.Unmarshal(data, &written) != nil {
		t.Fatalf("%s: %v", data, err)
	}
	checkLines(t, written, text.String())
	expectLines(t, written.Lines, lines)
	if left, _ := os.ReadDir(o.scratch); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	return r, written
}

// checkLines: each line has its floors and its aim.
func checkLines(t *testing.T, r results, text string) {
	t.Helper()
	for _, row := range r.Lines {
		if len(row.Figure.Values) != 1 || row.Figure.Median <= 0 || !strings.Contains(text, row.Line) ||
			row.Floor != nil && row.Floor.Median <= 0 {
			t.Errorf("%+v", row)
		}
	}
}

func expectLines(t *testing.T, rows []row, want []string) {
	t.Helper()
	var got []string
	for _, row := range rows {
		got = append(got, row.Line+" beside "+row.FloorName+" "+row.Aim)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("lines:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// checkRuns: what was to be delivered was, and every process has used something.
func checkRuns(t *testing.T, r *results) {
	t.Helper()
	for _, d := range r.deliver() {
		if d.Deliveries != 500 || d.Rate > d.Arriving {
			t.Errorf("%+v", d)
		}
		for _, process := range []string{ofService, ofClickHouse, ofReceiver, ofLoad} {
			if d.Processor[process] <= 0 {
				t.Errorf("%s: the %s used %v µs", d.Line, process, d.Processor[process])
			}
		}
		for _, f := range []floorRun{d.NetHTTP, d.Egress, d.Kafka} {
			if f.N < 300 || f.Rate <= 0 || f.Processor[ofLoad] <= 0 {
				t.Errorf("%s: a floor of %+v", d.Line, f)
			}
		}
	}
	profiles := r.profile()
	if n := len(profiles); n != 2 || profiles[0].Deliveries != 25 ||
		profiles[1].Deliveries != 500 || sum(profiles[1].Parts) <= 0 {
		t.Errorf("profiles: %+v", profiles)
	}
	for _, l := range r.latency() {
		want := int(l.PerSecond * 0.5)
		if l.Service.N != want || l.Bare.N != want || l.Service.P50 > l.Service.P99 {
			t.Errorf("%+v", l)
		}
	}
	for _, rec := range r.journal.records {
		if rec.Seconds <= 0 || rec.Load.Seconds <= 0 || rec.Stamp != r.stamp || rec.Fault != "" {
			t.Errorf("a record: %+v", rec)
		}
	}
}

// checkResumed: the same once more has nothing left to do, and shows the same.
func checkResumed(t *testing.T, o options, records int) {
	t.Helper()
	o.resume, o.markdown = true, ""
	o.service = filepath.Join(t.TempDir(), "nothing that could be measured")
	r, err := run(t.Context(), o)
	if err != nil || len(r.journal.records) != records {
		t.Errorf("%d records are %d, %v", records, len(r.journal.records), err)
	}
}

// TestAFigureIsComparedWithItsOwnRepetition: a ratio is of figures of one repetition, and its
// median decides whether the aim is met.
func TestAFigureIsComparedWithItsOwnRepetition(t *testing.T) {
	r := &results{journal: &journal{}}
	for n, rates := range [][4]float64{{40, 80, 39, 20}, {30, 60, 20, 30}, {100, 1000, 95, 25}} {
		run := deliverRun{
			Line:       deliverLine(8, false),
			Endpoints:  8,
			Repetition: n,
			Rate:       rates[0],
			NetHTTP:    floorRun{N: 1, Rate: rates[1]},
			Egress:     floorRun{N: 1, Rate: 100},
			Kafka:      floorRun{N: 1, Rate: 100},
		}
		synced, real := run, run
		synced.Line, synced.Sync, synced.Rate = deliverLine(8, true), true, rates[2]
		real.Line, real.RealKafka, real.Rate = deliverLine(8, false)+", real", true, rates[3]
		real.Egress, real.Kafka = floorRun{}, floorRun{}
		times := latencyRun{
			Line:       latencyLine(100, false, false),
			Repetition: n,
			Service:    times{P50: 3, P99: 3 + float64(n)},
			Bare:       times{P50: 1, P99: 1},
		}
		for step, rec := range []record{
			{Line: "deliver", Deliver: []deliverRun{run, synced}},
			{Line: "latency", Latency: []latencyRun{times}},
			{Line: "kafka", Deliver: []deliverRun{real}},
		} {
			rec.Step, rec.Repetition = rec.Line, n
			if r.journal.put(rec); len(r.journal.records) != 3*n+step+1 {
				t.Errorf("%d records", len(r.journal.records))
			}
		}
	}
	rows := r.rows()
	expectLines(t, rows, []string{
		"deliver, 8 endpoints beside net/http client ≥ 45%",
		"deliver, 8 endpoints, processor time of all beside net/http client ",
		"deliver, 8 endpoints beside egress client ",
		"deliver, 8 endpoints beside Kafka, consume-transact-produce ",
		"deliver, 8 endpoints, --broker-sync beside net/http client ≥ 45%",
		"deliver, 8 endpoints, --broker-sync, processor time of all beside net/http client ",
		"deliver, 8 endpoints, --broker-sync beside egress client ",
		"deliver, 8 endpoints, --broker-sync beside Kafka, consume-transact-produce ",
		"deliver, 8 endpoints, --broker-sync beside without --broker-sync ≥ 90%",
		"latency at 100/s, p50 beside net/http client ≤ +1 ms",
		"latency at 100/s, p99 beside net/http client ≤ +3 ms",
		"deliver, 8 endpoints, real beside net/http client ",
		"deliver, 8 endpoints, real, processor time of all beside net/http client ",
		"deliver, 8 endpoints, real beside the embedded broker ",
	})
	for at, want := range map[int]struct {
		ratio, above float64
		met          bool
		missed       string
	}{
		0:  {50, -40, true, ""}, // 50, 50, 10%
		8:  {95, -5, true, ""},  // 98, 67, 95%
		9:  {300, 2, false, "1 ms"},
		10: {400, 3, true, ""}, // 2, 3, 4 ms
	} {
		if row := rows[at]; row.Percent.Median != want.ratio || row.Above.Median != want.above ||
			row.Met == nil || *row.Met != want.met || row.MissedBy != want.missed {
			t.Errorf("%+v; want %+v", row, want)
		}
	}
	if beside := rows[13]; beside.Percent.Median != 50 { // 50, 100, 25%
		t.Errorf("%+v", beside)
	}
}

// TestATimeIsOfItsOwnEvent: times go by event, and one that did not arrive is no time.
func TestATimeIsOfItsOwnEvent(t *testing.T) {
	sent := []int64{1e6, 2e6, 3e6}
	arrivals := map[string]int64{}
	for n, at := range []int64{5e6, 3e6, 5e6} {
		arrivals[measuring.EventID("a", n)] = at
	}
	took, err := timesOf("a", sent, arrivals)
	if want := (times{N: 3, P50: 2, P99: 4, Max: 4}); took != want || err != nil {
		t.Errorf("%+v, %v; want %+v", took, err, want)
	}
	delete(arrivals, measuring.EventID("a", 1))
	if took, err := timesOf("a", sent, arrivals); err == nil {
		t.Errorf("%+v without the second arrival", took)
	}
}

// TestASampleBelongsToItsCaller: what has no rule of its own belongs to who called it.
func TestASampleBelongsToItsCaller(t *testing.T) {
	const traces = `File: speed
Type: cpu
Duration: 2s, Total samples = 20ms
-----------+-------------------------------------------------------
   10000us   internal/runtime/syscall.Syscall6
             crypto/tls.(*Conn).Write
             github.com/lumenhook/lumenhook/internal/egress.(*Client).Post (inline)
             github.com/lumenhook/lumenhook/streams/engine.(*Flights).start
-----------+-------------------------------------------------------
   20000us   runtime.memmove
             github.com/cockroachdb/pebble/v2/sstable.(*Reader).read
             github.com/lumenhook/lumenhook/streams.(*Store).Get
-----------+-------------------------------------------------------
   30000us   runtime.scanobject
             runtime.gcBgMarkWorker.func2
             runtime.systemstack
-----------+-------------------------------------------------------
   40000us   runtime.futex
             runtime.schedule
             runtime.mcall
-----------+-------------------------------------------------------
   50000us   crypto/sha256.block
             main.other
-----------+-------------------------------------------------------
`
	got, err := readTraces(strings.NewReader(traces))
	want := map[string]time.Duration{
		"egress: HTTP and TLS": 10 * time.Millisecond,
		"Pebble":               20 * time.Millisecond,
		partGC:                 30 * time.Millisecond,
		partScheduler:          40 * time.Millisecond,
		partRest:               50 * time.Millisecond,
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// TestATallyCountsOnce: a webhook that is sent again is not another delivery.
func TestATallyCountsOnce(t *testing.T) {
	var arrived tally
	url, err := arrived.serve()
	if err != nil {
		t.Fatal(err)
	}
	at := counter{url}
	if err := at.expect(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	before := time.Now().UnixNano()
	for _, id := range []string{"evt_1", "evt_2", "evt_1", ""} {
		arrived.note(id)
	}
	now, err := at.await(t.Context(), 2)
	if err != nil || now.Got != 2 || now.Last < before {
		t.Errorf("%+v, %v", now, err)
	}
	by, err := at.arrivals(t.Context())
	if err != nil || len(by) != 2 || by["evt_2"] != now.Last || by["evt_1"] > now.Last {
		t.Errorf("%v, %v", by, err)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
)

// TestMain: the children of a run are this program again.
func TestMain(m *testing.M) {
	clickhouse.MaybeChild()
	if len(os.Args) > 1 && os.Args[1] == childArg {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestBodySize(t *testing.T) {
	if n := len(paymentsTo("acc_1", "ep_1").Body("x", 1)); n < 850 || n > 950 {
		t.Errorf("a body has %d bytes", n)
	}
}

// TestASmallRun measures each kind of line for a moment: with the real program, and every floor.
func TestASmallRun(t *testing.T) {
	program := filepath.Join(t.TempDir(), "lumenhook")
	build := exec.Command("go", "build", "-o", program, "../../../cmd/lumenhook")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "results", "latest.json")
	o, err := parse([]string{
		"-service", program, "-json", file, "-scratch", t.TempDir(), "-reps", "1",
		"-warm", "300", "-deliveries", "500", "-time", "1ms", "-backlog", "200", "-endpoints", "3",
		"-lines", "deliver,latency,profile", "-sync", "true", "-rates", "50",
		"-pace-time", "500ms", "-floor-time", "1ms",
	})
	if err != nil {
		t.Fatal(err)
	}
	o.say = func(what string) { t.Log(what) }
	r, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.print(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	var written results
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &written) != nil {
		t.Fatalf("%s: %v", data, err)
	}
	checkLines(t, written, text.String())
	checkRuns(t, written)
	if left, _ := os.ReadDir(o.scratch); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// checkLines: each line has its floors and its aim.
func checkLines(t *testing.T, r results, text string) {
	t.Helper()
	for _, row := range r.Lines {
		if len(row.Figure.Values) != 1 || row.Figure.Median <= 0 || row.Floor.Median <= 0 ||
			!strings.Contains(text, row.Line) {
			t.Errorf("%+v", row)
		}
	}
	expectLines(t, r.Lines, []string{
		"deliver, 3 endpoints, --broker-sync beside net/http client ",
		"deliver, 3 endpoints, --broker-sync, processor time of all beside net/http client ",
		"deliver, 3 endpoints, --broker-sync beside egress client ",
		"deliver, 3 endpoints, --broker-sync beside Kafka, consume-transact-produce ",
		"latency at 50/s, --broker-sync, p50 beside net/http client ≤ +5 ms",
		"latency at 50/s, --broker-sync, p99 beside net/http client ≤ +15 ms",
		"latency at half of full speed, --broker-sync, p50 beside net/http client ",
		"latency at half of full speed, --broker-sync, p99 beside net/http client ≤ 25 ms",
	})
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
func checkRuns(t *testing.T, r results) {
	t.Helper()
	for _, d := range r.Deliver {
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
	if n := len(r.Profile); n != 2 || r.Profile[0].Deliveries != 25 ||
		r.Profile[1].Deliveries != 500 || sum(r.Profile[1].Parts) <= 0 {
		t.Errorf("profiles: %+v", r.Profile)
	}
	for _, l := range r.Latency {
		want := int(l.PerSecond * 0.5)
		if l.Service.N != want || l.Bare.N != want || l.Service.P50 > l.Service.P99 {
			t.Errorf("%+v", l)
		}
	}
}

// TestAFigureIsComparedWithItsOwnRepetition: a ratio is of figures of one repetition, and its
// median decides whether the aim is met.
func TestAFigureIsComparedWithItsOwnRepetition(t *testing.T) {
	var r results
	for n, rates := range [][3]float64{{40, 80, 39}, {30, 60, 20}, {100, 1000, 95}} {
		floors := deliverRun{
			Line:       deliverLine(1, false),
			Endpoints:  1,
			Repetition: n,
			Rate:       rates[0],
			NetHTTP:    floorRun{Rate: rates[1]},
		}
		synced := floors
		synced.Line, synced.Sync, synced.Rate = deliverLine(1, true), true, rates[2]
		r.addDeliver(floors, synced)
		r.addLatency(latencyRun{
			Line:       latencyLine(100, false, false),
			Repetition: n,
			Service:    times{P50: 3, P99: 3 + float64(n)},
			Bare:       times{P50: 1, P99: 1},
		})
	}
	rows := r.rows()
	expectLines(t, rows, []string{
		"deliver, 1 endpoint beside net/http client ≥ 45%",
		"deliver, 1 endpoint, processor time of all beside net/http client ",
		"deliver, 1 endpoint beside egress client ",
		"deliver, 1 endpoint beside Kafka, consume-transact-produce ",
		"deliver, 1 endpoint, --broker-sync beside net/http client ",
		"deliver, 1 endpoint, --broker-sync, processor time of all beside net/http client ",
		"deliver, 1 endpoint, --broker-sync beside egress client ",
		"deliver, 1 endpoint, --broker-sync beside Kafka, consume-transact-produce ",
		"deliver, 1 endpoint, --broker-sync beside without --broker-sync ≥ 90%",
		"latency at 100/s, p50 beside net/http client ≤ +1 ms",
		"latency at 100/s, p99 beside net/http client ≤ +3 ms",
	})
	for at, want := range map[int]struct {
		ratio, above float64
		met          bool
	}{
		0:  {50, -40, true}, // 50, 50, 10%
		8:  {95, -5, true},  // 98, 67, 95%
		9:  {300, 2, false},
		10: {400, 3, true}, // 2, 3, 4 ms
	} {
		if row := rows[at]; row.Percent.Median != want.ratio || row.Above.Median != want.above ||
			row.Met == nil || *row.Met != want.met {
			t.Errorf("%+v; want %+v", row, want)
		}
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

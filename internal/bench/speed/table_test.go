package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWhatWasMissed: by how much is said in the aim's unit, and as a part of it.
func TestWhatWasMissed(t *testing.T) {
	for _, c := range []struct {
		figure
		verdict string
	}{
		{figure{Unit: "1/s", Value: 500, Aim: atLeast(ofFigure, 500, "1/s")}, "met"},
		{figure{Unit: "1/s", Value: 300, Aim: atLeast(ofFigure, 500, "1/s")},
			"missed by 200 1/s (60% of the aim)"},
		{figure{Unit: "%", Value: 1.5, Aim: atMost(ofFigure, 0.5, "%")},
			"missed by 1 points (300% of the aim)"},
		{figure{Unit: "ms", Value: 9, Floor: 8, FloorName: "bare", Aim: atMost(ofAbove, 1, "ms")},
			"met"},
		{figure{Unit: "ms", Value: 12, Floor: 8, FloorName: "bare", Aim: atMost(ofAbove, 1, "ms")},
			"missed by 3 ms"},
		{figure{Unit: "ms", Value: 12, Floor: 6, FloorName: "alone", Aim: atMost(ofTimes, 1.5, "times")},
			"missed by 0.500 times (133% of the aim)"},
		{figure{Unit: "1/s", Value: 20, Floor: 100, FloorName: "bare", Aim: atLeast(ofRatio, 45, "%")},
			"missed by 25 points (44% of the aim)"},
		{figure{Unit: "MiB", Value: 20}, ""},
		{figure{Unit: "1/s", Value: 41_000, Aim: atLeast(ofFigure, 250_000, "1/s")},
			"missed by 209,000 1/s (16% of the aim)"},
	} {
		if got := rowOf([]figure{c.figure}).verdict(); got != c.verdict {
			t.Errorf("%+v: %q, want %q", c.figure, got, c.verdict)
		}
	}
}

// canned is a lab whose lines are of nothing.
func canned(t *testing.T, reps int, run func(context.Context, int) (record, error)) *lab {
	t.Helper()
	o := options{reps: reps, say: func(what string) { t.Log(what) }}
	o.lines = []line{{name: "match", steps: func(*lab) []step {
		return []step{{name: "a", takes: time.Second, run: run}, {name: "b", run: run}}
	}}}
	return &lab{opt: o}
}

// TestAnInterruptedRunGoesOn: what was measured before is kept, what had a fault is measured
// again, and what was of another commit counts for nothing.
func TestAnInterruptedRunGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs", "runs.jsonl")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	calls := 0
	l := canned(t, 3, func(context.Context, int) (record, error) {
		calls++
		switch calls {
		case 2:
			return record{}, errors.New("it rained")
		case 4:
			interrupt()
			return record{}, ctx.Err()
		}
		return record{Figures: []figure{{Row: "x", Unit: "1/s", Value: float64(calls)}}}, nil
	})
	open := func(resume bool, commit string) *results {
		s := stamp{Commit: commit}
		j, err := openJournal(file, resume, s)
		if err != nil {
			t.Fatal(err)
		}
		return &results{stamp: s, journal: j}
	}
	err := l.measure(ctx, open(false, "one"))
	if err == nil || !strings.Contains(err.Error(), "it rained") || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	var planned []string
	for _, p := range l.plan(open(true, "one").journal) {
		planned = append(planned, p.name+string(rune('0'+p.repetition)))
	}
	// The second repetition goes in the opposite order.
	if want := []string{"b1", "a2", "a3", "b3"}; !slices.Equal(planned, want) {
		t.Errorf("%v is left, want %v", planned, want)
	}
	if n := len(l.plan(open(true, "two").journal)); n != 6 {
		t.Errorf("of another commit %d are left", n)
	}
	if n := len(l.plan(open(false, "one").journal)); n != 6 {
		t.Errorf("of a new run %d are left", n)
	}
	r := open(true, "one")
	if err := l.measure(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	again := open(true, "one")
	if got := again.rows(); len(got) != 1 || len(got[0].Figure.Values) != 6 || got[0].Figure.Min != 1 {
		t.Errorf("%+v", got)
	}
}

// TestTheTableIsPutBetweenItsMarks, and what is around it stays.
func TestTheTableIsPutBetweenItsMarks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &results{journal: &journal{sitting: "2026-11-23T10:00:00Z"}}
	write("before\n" + markBegin + "\nold\n" + markEnd + "\nafter\n")
	if err := r.updateDocument(file); err == nil {
		t.Error("a table of nothing was written")
	}
	r.journal.put(record{
		Line:       "match",
		Step:       "match",
		Repetition: 1,
		Figures: []figure{
			{
				Row:       "match a | b",
				Unit:      "1/s",
				Value:     100,
				Floor:     400,
				FloorName: "a map",
				Aim:       atLeast(ofFigure, 200, "1/s"),
			},
			{Row: "more", Unit: "MiB", Value: 1.5, Aside: true},
		},
	})
	r.journal.put(record{Line: "api", Step: "api", Repetition: 1, Fault: "no unit\nand more"})
	for n := range 3 { // a line may have more repetitions than another
		r.journal.put(record{Line: "close", Step: "close", Repetition: n + 1, Figures: []figure{
			{Row: "close", Unit: "ms", Value: float64(30 - n), Aside: true},
		}})
	}
	if err := r.updateDocument(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	got := string(text)
	if err != nil || strings.Contains(got, "old") ||
		!strings.HasPrefix(got, "before\n"+markBegin+"\n") ||
		!strings.HasSuffix(got, markEnd+"\nafter\n") {
		t.Errorf("%v: %s", err, got)
	}
	for _, want := range []string{
		"\n| match a \\| b | ≥ 200 1/s | **100 1/s** (one run) | a map: 400 1/s | 25% | " +
			"missed by 100 1/s (50% of the aim) |\n",
		"\n| api, repetition 1 | | not measured: no unit | | | |\n",
		"\n| more |  | **1.500 MiB** (one run) |  |  |\n",
		"\n| close |  | 28, **29**, 30 ms (3 runs) |  |  |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	write("no marks")
	if err := r.updateDocument(file); err == nil {
		t.Error("a document without marks was written")
	}
}

// TestABenchmarkIsReadByItsUnits, whatever else is printed between.
func TestABenchmarkIsReadByItsUnits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	const printed = `goos: linux
pkg: example.org/x
{"level":"WARN"}
BenchmarkMatch
BenchmarkMatch/0%_watched
BenchmarkMatch/0%_watched-2  	 64	 0 ns/op	 10.00 memory-bytes/watch	 3000000 payments/s
BenchmarkMatch/floor_0%_watched-2  	 100	 0 ns/op	 6000000 payments/s
    waiting_test.go:50: AMD EPYC
BenchmarkWaiting-2  	 1	 2.5 s-from-state	 1.50 %core-idle	 100 MB/s
PASS
`
	if err := os.WriteFile(file, []byte(printed), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := readBenchmarks(file)
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	matched, err := readMatch(all[:2])
	const row = "match payments, 0% watched, on one core"
	if err != nil || len(matched) != 2 || matched[0].Row != row || matched[0].Value != 3e6 ||
		matched[0].Floor != 6e6 || matched[1].Value != 10 {
		t.Errorf("%+v, %v", matched, err)
	}
	figures, err := reads("Waiting",
		told{row: "start", unit: "ms", of: []string{"other", "s-from-state"}, scale: 1000},
		told{row: "rate", of: []string{"MB/s"}},
		told{row: "missing", of: []string{"creates/s"}})(all)
	if len(figures) != 2 || figures[0].Value != 2500 || figures[1].Value != 100 || err == nil ||
		!strings.Contains(err.Error(), "benchmark Waiting reports no creates/s; it has %core-idle, ") {
		t.Errorf("%+v, %v", figures, err)
	}
	if _, err := reads("API")(all); err == nil || !strings.Contains(err.Error(), "no BenchmarkAPI") {
		t.Errorf("%v", err)
	}
}

// TestABenchmarkIsRunAsItIs: by the tests of its package, at a small size.
func TestABenchmarkIsRunAsItIs(t *testing.T) {
	l := &lab{dir: t.TempDir()}
	all, err := l.runGo(t.Context(), goBench{
		dir:  benchFolder,
		name: "^BenchmarkEndpoints$",
		args: []string{"-test.benchtime=1x", "-many=500"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := one(all, "Endpoints")
	if v, fault := b.unit("disk-bytes/endpoint"); err != nil || fault != nil || v <= 0 {
		t.Errorf("%v, %v, %v", b, err, fault)
	}
	if _, err := l.runGo(t.Context(), goBench{dir: benchFolder, name: "^BenchmarkNone$"}); err == nil {
		t.Error("a benchmark that is not there was run")
	}
}

// TestBenchmarksReportWhatIsRead: each unit that a line reads stands in the source of its
// benchmark's package.
func TestBenchmarksReportWhatIsRead(t *testing.T) {
	for folder, wants := range map[string][]string{
		benchFolder: {
			"BenchmarkWaiting", "BenchmarkFairness", "BenchmarkEndpoints", "%core-idle", "s-from-state",
			"s-from-journal", "p99-ms-late", "p50-ms-late", "due/s", "memory-bytes/waiting",
			"disk-bytes/waiting", "p99-ms-beside", "p99-ms-alone", "p50-ms-beside", "p50-ms-alone",
			"memory-bytes/endpoint", "disk-bytes/endpoint", `"waiting"`, `"paced"`,
		},
		rebuildFolder: {"BenchmarkRebuild", `"facts/s"`, `"facts"`},
		ledgerFolder: {
			"BenchmarkFromXDR", "BenchmarkFromRPC", "BenchmarkFloorFromXDRBySDK", `"ledgers/s"`,
		},
		matchFolder: {
			"BenchmarkMatch", `"payments/s"`, "bytes/watch", `"floor %d%% watched"`, `"watches"`,
		},
		apiFolder: {"BenchmarkAPI"},
	} {
		sources := testSources(t, folder)
		for _, want := range wants {
			if !strings.Contains(sources, want) {
				t.Errorf("the tests of %s have no %s", folder, want)
			}
		}
	}
}

func testSources(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", folder, files, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestEveryLineHasItsPlan: each can be chosen, has steps of names of their own, and is in the
// help with how long it takes.
func TestEveryLineHasItsPlan(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	var help strings.Builder
	printPlan(&help, o)
	names := make(map[string]bool)
	for _, one := range lines() {
		picked, err := chosen(one.name)
		if err != nil || len(picked) != 1 {
			t.Errorf("%s: %v, %v", one.name, picked, err)
		}
		if !strings.Contains(help.String(), "\n  "+one.name+" ") {
			t.Errorf("the help does not name %s", one.name)
		}
		steps := one.steps(&lab{opt: o})
		for _, s := range steps {
			if names[s.name] || s.takes < 10*time.Second || s.takes > 10*time.Minute {
				t.Errorf("%s of %s takes %s, or is there twice", s.name, one.name, s.takes)
			}
			names[s.name] = true
		}
	}
	if all, err := chosen(allLines); err != nil || len(all) != len(lines())-1 {
		t.Errorf("all: %v, %v", all, err)
	}
	if _, err := chosen("deliver,nothing"); err == nil {
		t.Error("a line that is not there was chosen")
	}
}

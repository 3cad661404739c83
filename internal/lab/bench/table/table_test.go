package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const printed = `goos: linux
pkg: github.com/lumenhook/lumenhook/internal/lab/bench
BenchmarkLatency/rate=100/sync=false-2 1 1.5 p50-ms 0.5 floor-p50-ms 9 p99-ms 1 floor-p99-ms
BenchmarkLatency/rate=100/sync=false-2 1 1.1 p50-ms 0.1 floor-p50-ms 5 p99-ms 4 floor-p99-ms
BenchmarkLatency/rate=100/sync=false-2 1 1.3 p50-ms 0.1 floor-p50-ms 7 p99-ms 1 floor-p99-ms
PASS
BenchmarkDeliver/endpoints=8/sync=true-2 1 900 deliveries/s 1000 floor-deliveries/s 5 ns/op
BenchmarkDeliver/endpoints=8/sync=true-2 1 160 processor-µs
BenchmarkDeliver/endpoints=8/sync=false-2 1 1200 deliveries/s 1000 floor-deliveries/s
BenchmarkMatch/1%_watched 1 600000 payments/s
BenchmarkMatch/floor_1%_watched 1 1200000 payments/s
BenchmarkFromXDR 1 400 ledgers/s
BenchmarkFloorFromXDRBySDK 1 100 ledgers/s
`

// A median is over all repetitions, a ratio is within one, and each value finds its floor.
func TestRowsHaveTheirFloorsAndAims(t *testing.T) {
	file := filepath.Join(t.TempDir(), "printed.txt")
	if err := os.WriteFile(file, []byte(printed), 0o600); err != nil {
		t.Fatal(err)
	}
	rows, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"| latency/rate=100/sync=false | p50-ms | 1.1, 1.3, 1.5 | 0.1 | 11 | ≤ 1 above the floor: **missed** |",
		"| latency/rate=100/sync=false | p99-ms | 5, 7, 9 | 1 | 7 | ≤ 3 above the floor: **missed** |",
		"| deliver/endpoints=8/sync=true | deliveries/s | 900, 900, 900 | 1000 | 0.9 | ≥ 0.45 of the floor: met |",
		"| deliver/endpoints=8/sync=true | deliveries/s without sync | 900, 900, 900 | 1200 | 0.75 | " +
			"≥ 0.9 of the floor: **missed** |",
		"| deliver/endpoints=8/sync=true | processor-µs | 160, 160, 160 |  |  |  |",
		"| deliver/endpoints=8/sync=false | deliveries/s | 1200, 1200, 1200 | 1000 | 1.2 | " +
			"≥ 0.45 of the floor: met |",
		"| match/1%_watched | payments/s | 600000, 600000, 600000 | 1200000 | 0.5 | ≥ 500000: met |",
		"| fromxdr | ledgers/s | 400, 400, 400 | 100 | 4 | ≥ 500: **missed** |",
	}
	got := strings.Split(strings.TrimSpace(markdown(rows)), "\n")[2:]
	if len(got) != len(want) {
		t.Fatalf("%d rows:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
	main := rows[0]
	if main.Line != "latency/rate=100/sync=false" || main.Median != 1.3 || *main.Floor != 0.1 ||
		*main.P50 != 1.3 || *main.P99 != 7 || *rows[1].ProcessorMicros != 160 {
		t.Errorf("%+v", main)
	}
}

// A name may be a part of a benchmark's name. The error about an unknown name lists all of them.
func TestALineIsChosenByName(t *testing.T) {
	chosen, err := choose("deliver/endpoints=8,api")
	if err != nil || len(chosen) != 2 || chosen[0].pattern != "^BenchmarkDeliver$/endpoints=8" {
		t.Errorf("%+v, %v", chosen, err)
	}
	if all, err := choose("all"); err != nil || len(all) != len(lines) {
		t.Errorf("%d lines, %v", len(all), err)
	}
	if _, err := choose("speed"); err == nil || !strings.Contains(err.Error(), "latency") {
		t.Error(err)
	}
}

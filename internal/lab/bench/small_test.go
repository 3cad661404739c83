package bench

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
)

// small makes every measurement short.
func small(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lumenhook")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "./cmd/lumenhook")
	build.Dir = "../../.." // the product's own module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	*program, *cache = file, t.TempDir()
	*deliveries, *warm, *ahead, *past, *deep, *shallow = 500, 300, 200, 400, 600, 100
	*fullTime, *floorTime = time.Millisecond, time.Millisecond
	*paceTime, *closeTime, *rest = 500*time.Millisecond, 500*time.Millisecond, time.Millisecond
}

func TestEachMeasurementHasItsMetrics(t *testing.T) {
	small(t)
	deliverUnits := []string{"deliveries/s", "floor-deliveries/s", "processor-µs", "service-µs",
		"floor-processor-µs", "ClickHouse-µs", "load-µs"}
	latencyUnits := []string{"p50-ms", "p99-ms", "floor-p50-ms", "floor-p99-ms", "processor-µs"}
	for _, m := range []struct {
		name    string
		measure func(*lab) metrics
		units   []string
	}{
		{"deliver", deliver(3, true), deliverUnits},
		{"latency", latency(50, false), latencyUnits},
		{"half", latency(halfSpeed, false), latencyUnits},
		{"close", closes, []string{"p50-ms", "p99-ms", "payments"}},
		{"memory", memory, []string{"service-rest-MiB", "ClickHouse-rest-MiB", "service-most-MiB",
			"ClickHouse-most-MiB", "s-warm-start"}},
		{"backlog", backlog, deliverUnits},
		{"history", afterPast, append(deliverUnits, "past-deliveries")},
		{"restore", restores, []string{"s-cold", "s-local", "s-killed"}},
	} {
		t.Run(m.name, func(t *testing.T) {
			if m.name != "deliver" && m.name != "latency" {
				testkit.Nightly(t)
			}
			got := m.measure(newLab(t))
			for _, unit := range m.units {
				if got[unit] <= 0 {
					t.Errorf("%s is %v; all: %v", unit, got[unit], got)
				}
			}
		})
	}
}

// Bodies have the size that docs/benchmarks.md states.
func TestBodySize(t *testing.T) {
	p := payments{account: "acc_1", endpoints: []string{"ep_1", "ep_2"}}
	for _, n := range []int{0, 123_456, 10_000_000} {
		record, body := p.match("x", n), p.body("x", n)
		in, err := schemas.DecodePaymentMatched(schemas.Read(record.Value, record))
		if err != nil || !json.Valid(in.Event.Body) || len(body) < 850 || len(body) > 950 {
			t.Errorf("body of %d bytes, %v", len(body), err)
		}
		if in.Event.ID != eventID("x", n) || !bytes.Contains(body, []byte(in.Event.ID)) {
			t.Errorf("the match of %d is of %s, its body %s", n, in.Event.ID, body)
		}
	}
}

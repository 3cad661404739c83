package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

type row struct {
	Line string `json:"line"`
	figure
	P50             *float64           `json:"p50,omitempty"` // milliseconds
	P99             *float64           `json:"p99,omitempty"`
	ProcessorMicros *float64           `json:"processorMicros,omitempty"` // per delivery
	Medians         map[string]float64 `json:"medians"`
	figures         []figure
}

// figure is a metric over all repetitions, with its floor.
type figure struct {
	Unit     string   `json:"unit"`
	Median   float64  `json:"median"`
	Floor    *float64 `json:"floor,omitempty"`
	Ratio    *float64 `json:"ratio,omitempty"` // median of the repetitions' ratios
	Aim      string   `json:"aim,omitempty"`
	Met      *bool    `json:"met,omitempty"`
	min, max float64
}

// aim is a bound for the median, for its ratio to the floor, or for its distance above the floor.
type aim struct {
	line  *regexp.Regexp
	unit  string
	of    string
	most  bool
	bound float64
}

const (
	ofRatio = "of the floor"
	ofAbove = "above the floor"
)

func atLeast(line, unit string, bound float64, of string) aim {
	return aim{line: regexp.MustCompile("^(" + line + ")$"), unit: unit, of: of, bound: bound}
}

func atMost(line, unit string, bound float64, of string) aim {
	a := atLeast(line, unit, bound, of)
	a.most = true
	return a
}

// aims are for two cores that run everything: service, broker, ClickHouse, receiver and load.
var aims = []aim{
	atLeast("Deliver/.*", "deliveries/s", 0.45, ofRatio),
	atLeast("Deliver/.*", nextToNoSync, 0.9, ofRatio),
	atMost("Latency/rate=[15]00/sync=false", "p50-ms", 1, ofAbove),
	atMost("Latency/rate=[15]00/sync=false", "p99-ms", 3, ofAbove),
	atMost("Latency/rate=[15]00/sync=true", "p50-ms", 5, ofAbove),
	atMost("Latency/rate=[15]00/sync=true", "p99-ms", 15, ofAbove),
	atMost("Latency/rate=half/.*", "p99-ms", 25, ""),
	atMost("Close", "p99-ms", 100, ""),
	atLeast("FromXDR", "ledgers/s", 500, ""),
	atLeast("FromRPC", "ledgers/s", 300, ""),
	atLeast("FarCatchUp", "ledgers/s", 0.8, ofRatio),
	atLeast("Match/[01]%_watched", "payments/s", 500_000, ""),
	atMost("Match/0%_watched", "memory-bytes/watch", 300, ""),
	atMost("Match/0%_watched", "disk-bytes/watch", 300, ""),
	atMost("Waiting", "%core-idle", 0.5, ""),
	atMost("Waiting", "s-from-state", 2, ""),
	atMost("Waiting", "p99-ms-late", 20, ""),
	atMost("Fairness", "p99-ms", 1.5, ofRatio),
	atLeast("Rebuild", "facts/s", 250_000, ""),
	atLeast("API/endpoints/128_at_once", "requests/s", 6000, ""),
	atLeast("API/reads_of_an_endpoint/128_at_once", "requests/s", 25_000, ""),
	atMost("API/one_endpoint_at_a_time/1_at_once", "p99-ms", 5, ""),
	atMost("Memory", "s-warm-start", 1.5, ""),
	atLeast("History", "deliveries/s", 0.95, ofRatio),
	atLeast("Backlog", "deliveries/s", 0.9, ofRatio),
	atMost("Restore", "s-cold", 10, ""),
	atMost("Restore", "s-(local|killed)", 2, ""),
	atMost("TakeOver", "s-by-a-standby", 1, ""),
}

// floorName returns the name of the benchmark that would be the floor of another one.
func floorName(name string) string {
	if strings.HasPrefix(name, "From") {
		return "FloorFromXDRBySDK"
	}
	of, part, _ := strings.Cut(name, "/")
	return of + "/floor_" + part
}

func isFloor(name string) bool {
	return strings.HasPrefix(name, "Floor") || strings.Contains(name, "/floor_")
}

// processors matches the GOMAXPROCS suffix of a benchmark's name.
var processors = regexp.MustCompile(`-\d+$`)

// ignored matches Go's own units.
var ignored = regexp.MustCompile(`^((ns|B|allocs)/op|MB/s)$`)

// nextToNoSync is the unit of the rate with --broker-sync, relative to the rate without.
const nextToNoSync = "deliveries/s without sync"

// read reads the benchmarks' output. Rows are in the order of their first repetition.
func read(file string) (rows []*row, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values := make(map[string]map[string][]float64)
	units := make(map[string][]string)
	var names []string
	in := benchfmt.NewReader(f, file)
	for in.Scan() {
		r, is := in.Result().(*benchfmt.Result)
		if !is {
			continue // not a result
		}
		name := processors.ReplaceAllString(r.Name.String(), "")
		if values[name] == nil {
			values[name] = make(map[string][]float64)
			names = append(names, name)
		}
		for _, v := range r.Values {
			unit, value := v.Unit, v.Value
			if v.OrigUnit != "" {
				unit, value = v.OrigUnit, v.OrigValue
			}
			if values[name][unit] == nil {
				units[name] = append(units[name], unit)
			}
			values[name][unit] = append(values[name][unit], value)
		}
	}
	for _, name := range names {
		if !isFloor(name) {
			rows = append(rows, rowOf(name, units[name], values))
		}
	}
	return rows, in.Err()
}

// mainUnits are the units of main figures. The first of them that a benchmark reports is its main
// figure.
var mainUnits = []string{"deliveries/s", "p50-ms", "requests/s", "ledgers/s", "payments/s",
	"facts/s", "s-from-state", "s-cold", "s-warm-start", "s-by-a-standby"}

func rowOf(name string, units []string, values map[string]map[string][]float64) *row {
	r := &row{Line: strings.ToLower(name), Medians: make(map[string]float64)}
	for _, unit := range units {
		if ignored.MatchString(unit) {
			continue
		}
		got := values[name][unit]
		r.Medians[unit] = median(got)
		if strings.HasPrefix(unit, "floor-") {
			continue
		}
		f := figure{Unit: unit, Median: median(got), min: slices.Min(got), max: slices.Max(got)}
		f.nextTo(values[name]["floor-"+unit], got)
		f.nextTo(values[floorName(name)][unit], got)
		f.judge(name)
		r.figures = append(r.figures, f)
		if without, is := strings.CutSuffix(name, "sync=true"); is && unit == "deliveries/s" {
			f.Unit, f.Floor, f.Ratio, f.Aim, f.Met = nextToNoSync, nil, nil, "", nil
			if f.nextTo(values[without+"sync=false"][unit], got); f.Floor != nil {
				f.judge(name)
				r.figures = append(r.figures, f)
			}
		}
	}
	for _, unit := range slices.Backward(append(mainUnits, units[0])) {
		for _, f := range r.figures {
			if f.Unit == unit {
				r.figure = f
			}
		}
	}
	r.P50, r.P99 = r.of("p50-ms"), r.of("p99-ms")
	r.ProcessorMicros = r.of("processor-µs")
	return r
}

// of returns the median of a unit, or nil if the benchmark doesn't report it.
func (r *row) of(unit string) *float64 {
	if v, is := r.Medians[unit]; is {
		return &v
	}
	return nil
}

func median(values []float64) float64 {
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, 0.95).Center
}

// nextTo sets the floor. The n-th value and the n-th floor are from the same repetition.
func (f *figure) nextTo(floors, values []float64) {
	if len(floors) == 0 || len(floors) != len(values) {
		return
	}
	ratios := make([]float64, len(values))
	for i, v := range values {
		ratios[i] = v / max(floors[i], 1e-9)
	}
	floor, ratio := median(floors), median(ratios)
	f.Floor, f.Ratio = &floor, &ratio
}

func (f *figure) judge(name string) {
	at := slices.IndexFunc(aims, func(a aim) bool {
		return a.line.MatchString(name) && regexp.MustCompile("^"+a.unit+"$").MatchString(f.Unit)
	})
	if at < 0 {
		return
	}
	a, got, sign := aims[at], f.Median, "≥"
	switch {
	case a.of != "" && f.Floor == nil:
		return // a repetition has no floor
	case a.of == ofRatio:
		got = *f.Ratio
	case a.of == ofAbove:
		got -= *f.Floor
	}
	met := got >= a.bound
	if a.most {
		met, sign = got <= a.bound, "≤"
	}
	f.Aim = strings.TrimSpace(fmt.Sprintf("%s %s %s", sign, short(a.bound), a.of))
	f.Met = &met
}

func (f *figure) verdict() string {
	switch {
	case f.Met == nil:
		return ""
	case *f.Met:
		return ": met"
	}
	return ": **missed**"
}

// short formats a value with at most three decimals.
func short(v float64) string {
	switch {
	case v >= 1000 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strings.TrimRight(strconv.FormatFloat(v, 'f', 3, 64), "0")
}

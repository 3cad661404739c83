package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

const (
	aimDeliver   = 45.0 // percent of the bare net/http client
	aimSync      = 90.0 // percent of the same without --broker-sync
	aimP50       = 1.0  // milliseconds above the bare client's own
	aimP99       = 3.0
	aimSyncP50   = 5.0
	aimSyncP99   = 15.0
	aimHalfP99   = 25.0 // milliseconds
	namedNetHTTP = "net/http client"
)

// results are all figures of a run of this program.
type results struct {
	Command string    `json:"command"`
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	Machine string    `json:"machine"`
	Cores   int       `json:"cores"`
	Go      string    `json:"go"`

	Deliveries      int     `json:"deliveriesAtLeast"`
	Seconds         float64 `json:"secondsAtLeast"`
	Backlog         int     `json:"backlog"`
	SecondsOfPace   float64 `json:"secondsAtARate"`
	SecondsOfFloors float64 `json:"secondsOfAFloor"`
	BodyBytes       int     `json:"bodyBytes"`

	Lines   []row        `json:"lines"`
	Deliver []deliverRun `json:"deliver,omitempty"`
	Latency []latencyRun `json:"latency,omitempty"`
	Profile []profileRun `json:"profile,omitempty"`
}

// row is a line's figure beside a floor of the same repetitions.
type row struct {
	Line      string           `json:"line"`
	Unit      string           `json:"unit"`
	Figure    measuring.Spread `json:"figure"`
	FloorName string           `json:"floorName"`
	Floor     measuring.Spread `json:"floor"`
	Percent   measuring.Spread `json:"percentOfFloor"`
	Above     measuring.Spread `json:"aboveFloor"`
	Aim       string           `json:"aim,omitempty"`
	Met       *bool            `json:"met,omitempty"` // by the median
}

func newResults(ctx context.Context, o options) *results {
	version, err := exec.CommandContext(ctx, o.service, "version").Output() // #nosec G204 -- ours
	if err != nil {
		version = []byte("unknown: " + err.Error())
	}
	body := paymentsTo("acc_1", "ep_1").Body("x", 1)
	return &results{
		Command:         strings.Join(os.Args, " "),
		Version:         strings.Join(strings.Fields(string(version)), " "),
		At:              time.Now().UTC().Truncate(time.Second),
		Machine:         measuring.Machine(),
		Cores:           runtime.NumCPU(),
		Go:              runtime.Version(),
		Deliveries:      o.deliveries,
		Seconds:         o.time.Seconds(),
		Backlog:         o.backlog,
		SecondsOfPace:   o.paceTime.Seconds(),
		SecondsOfFloors: o.floorTime.Seconds(),
		BodyBytes:       len(body),
	}
}

func (r *results) addDeliver(runs ...deliverRun) { r.Deliver = append(r.Deliver, runs...) }

func (r *results) addLatency(runs ...latencyRun) { r.Latency = append(r.Latency, runs...) }

// compare makes a row of figures and floors of the same repetitions.
func compare(line, unit, floorName string, figures, floors []float64) row {
	var percent, above []float64
	for i, f := range figures {
		percent = append(percent, 100*f/max(floors[i], 1e-9))
		above = append(above, f-floors[i])
	}
	return row{
		Line:      line,
		Unit:      unit,
		Figure:    measuring.SpreadOf(figures...),
		FloorName: floorName,
		Floor:     measuring.SpreadOf(floors...),
		Percent:   measuring.SpreadOf(percent...),
		Above:     measuring.SpreadOf(above...),
	}
}

func (r row) aiming(aim string, met bool) row {
	r.Aim, r.Met = aim, &met
	return r
}

// ofLine groups runs by their line, in the order of the first of each.
func ofLine[T any](runs []T, line func(T) string) (groups [][]T) {
	at := make(map[string]int)
	for _, r := range runs {
		n, is := at[line(r)]
		if !is {
			n = len(groups)
			at[line(r)], groups = n, append(groups, nil)
		}
		groups[n] = append(groups[n], r)
	}
	return groups
}

func values[T any](runs []T, of func(T) float64) (list []float64) {
	for _, r := range runs {
		list = append(list, of(r))
	}
	return list
}

func sum(by map[string]float64) (all float64) {
	for v := range maps.Values(by) {
		all += v
	}
	return all
}

func (r *results) rows() (rows []row) {
	for _, runs := range ofLine(r.Deliver, func(d deliverRun) string { return d.Line }) {
		rows = append(rows, r.deliverRows(runs)...)
	}
	for _, runs := range ofLine(r.Latency, func(d latencyRun) string { return d.Line }) {
		rows = append(rows, latencyRows(runs)...)
	}
	return rows
}

func (r *results) deliverRows(runs []deliverRun) (rows []row) {
	first := runs[0]
	rate := values(runs, func(d deliverRun) float64 { return d.Rate })
	to := func(name string, floor func(deliverRun) float64) row {
		return compare(first.Line, "1/s", name, rate, values(runs, floor))
	}
	bare := to(namedNetHTTP, func(d deliverRun) float64 { return d.NetHTTP.Rate })
	if !first.Sync {
		bare = bare.aiming(fmt.Sprintf("≥ %.0f%%", aimDeliver), bare.Percent.Median >= aimDeliver)
	}
	used := compare(first.Line+", processor time of all", "µs", namedNetHTTP,
		values(runs, func(d deliverRun) float64 { return sum(d.Processor) }),
		values(runs, func(d deliverRun) float64 { return sum(d.NetHTTP.Processor) }))
	rows = append(rows, bare, used,
		to("egress client", func(d deliverRun) float64 { return d.Egress.Rate }),
		to("Kafka, consume-transact-produce", func(d deliverRun) float64 { return d.Kafka.Rate }))
	without := make(map[int]float64)
	for _, d := range r.Deliver {
		if !d.Sync && d.Endpoints == first.Endpoints {
			without[d.Repetition] = d.Rate
		}
	}
	if first.Sync && len(without) >= len(runs) {
		beside := to("without --broker-sync",
			func(d deliverRun) float64 { return without[d.Repetition] })
		rows = append(rows,
			beside.aiming(fmt.Sprintf("≥ %.0f%%", aimSync), beside.Percent.Median >= aimSync))
	}
	return rows
}

func latencyRows(runs []latencyRun) []row {
	first := runs[0]
	part := func(name string, of func(times) float64) row {
		return compare(first.Line+", "+name, "ms", namedNetHTTP,
			values(runs, func(l latencyRun) float64 { return of(l.Service) }),
			values(runs, func(l latencyRun) float64 { return of(l.Bare) }))
	}
	p50 := part("p50", func(t times) float64 { return t.P50 })
	p99 := part("p99", func(t times) float64 { return t.P99 })
	above := func(r row, aim float64) row {
		return r.aiming(fmt.Sprintf("≤ +%.0f ms", aim), r.Above.Median <= aim)
	}
	switch {
	case first.Half:
		p99 = p99.aiming(fmt.Sprintf("≤ %.0f ms", aimHalfP99), p99.Figure.Median <= aimHalfP99)
	case first.Sync:
		p50, p99 = above(p50, aimSyncP50), above(p99, aimSyncP99)
	default:
		p50, p99 = above(p50, aimP50), above(p99, aimP99)
	}
	return []row{p50, p99}
}

// print prints the figures as tables.
func (r *results) print(w io.Writer) error {
	r.Lines = r.rows()
	fmt.Fprintf(w, "%s, %d cores, %s; %s\n", r.Machine, r.Cores, r.Go, r.Version)
	fmt.Fprintf(w, "runs at full speed of at least %d deliveries and %.0f s, %d ahead; at a rate of "+
		"%.0f s; floors of %.0f s; bodies of %d bytes\n\n", r.Deliveries, r.Seconds, r.Backlog,
		r.SecondsOfPace, r.SecondsOfFloors, r.BodyBytes)
	if err := r.printLines(w); err != nil {
		return err
	}
	if err := r.printProcessors(w); err != nil {
		return err
	}
	if err := r.printProfiles(w); err != nil {
		return err
	}
	return r.printLoads(w)
}

// printLines prints each line beside its floors and its aim.
func (r *results) printLines(w io.Writer) error {
	if len(r.Lines) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "line\tunit\tmin\tmedian\tmax\tn\tfloor\tmedian\tratio\t(min to max)\taim\t")
	for _, row := range r.Lines {
		ratio := fmt.Sprintf("%.0f%%\t(%.0f to %.0f)", row.Percent.Median, row.Percent.Min,
			row.Percent.Max)
		switch row.Unit {
		case "µs":
			ratio = fmt.Sprintf("%.1f times\t(%.1f to %.1f)", row.Percent.Median/100,
				row.Percent.Min/100, row.Percent.Max/100)
		case "ms":
			ratio = fmt.Sprintf("%+.1f ms, %.1f times\t(%+.1f to %+.1f)", row.Above.Median,
				row.Percent.Median/100, row.Above.Min, row.Above.Max)
		}
		met := ""
		if row.Met != nil {
			met = map[bool]string{true: "met", false: "MISSED"}[*row.Met]
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", row.Line, row.Unit,
			measuring.Short(row.Figure.Min), measuring.Short(row.Figure.Median),
			measuring.Short(row.Figure.Max), len(row.Figure.Values), row.FloorName,
			measuring.Short(row.Floor.Median), ratio, row.Aim, met)
	}
	return table.Flush()
}

// printProcessors prints what a delivery took of each process, and a post of the floors.
func (r *results) printProcessors(w io.Writer) error {
	if len(r.Deliver) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nprocessor time in µs for one (median), and memory")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	processes := []string{ofService, ofClickHouse, ofRelay, ofReceiver, ofLoad}
	fmt.Fprintln(table, "line\t"+strings.Join(processes, "\t")+"\tall\tservice\tClickHouse")
	for _, runs := range ofLine(r.Deliver, func(d deliverRun) string { return d.Line }) {
		mib := func(process string) string {
			each := values(runs, func(d deliverRun) float64 { return d.Resident[process] })
			return fmt.Sprintf("%.0f MiB", measuring.SpreadOf(each...).Median)
		}
		of := func(name string, by func(deliverRun) map[string]float64, more string) {
			fmt.Fprint(table, name)
			for _, process := range processes {
				fmt.Fprint(table, "\t")
				if _, is := by(runs[0])[process]; is {
					each := values(runs, func(d deliverRun) float64 { return by(d)[process] })
					fmt.Fprintf(table, "%.1f", measuring.SpreadOf(each...).Median)
				}
			}
			all := values(runs, func(d deliverRun) float64 { return sum(by(d)) })
			fmt.Fprintf(table, "\t%.1f%s\n", measuring.SpreadOf(all...).Median, more)
		}
		of(runs[0].Line, func(d deliverRun) map[string]float64 { return d.Processor },
			"\t"+mib(ofService)+"\t"+mib(ofClickHouse))
		of("  "+namedNetHTTP, func(d deliverRun) map[string]float64 { return d.NetHTTP.Processor },
			"\t\t")
		of("  egress client", func(d deliverRun) map[string]float64 { return d.Egress.Processor },
			"\t\t")
		of("  Kafka", func(d deliverRun) map[string]float64 { return d.Kafka.Processor }, "\t\t")
	}
	return table.Flush()
}

// printProfiles prints where the time of one delivery goes.
func (r *results) printProfiles(w io.Writer) error {
	for _, p := range r.Profile {
		fmt.Fprintf(w, "\n%s, run %d: %d deliveries, %.0f/s; processor time in µs for one\n", p.Line,
			p.Repetition, p.Deliveries, p.PerSecond)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		ordered := func(indent string, by map[string]float64) {
			names := slices.SortedFunc(maps.Keys(by),
				func(a, b string) int { return cmp.Compare(by[b], by[a]) })
			for _, name := range names {
				fmt.Fprintf(table, "%.1f\t%.0f%%\t  %s%s\n", by[name],
					100*by[name]/sum(p.Processor), indent, name)
			}
		}
		ordered("", p.Processor)
		fmt.Fprintf(table, "%.1f\t\t  the service by its profile:\n", sum(p.Parts))
		ordered("  ", p.Parts)
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// printLoads prints what the machine did during each run, and how the history followed.
func (r *results) printLoads(w io.Writer) error {
	fmt.Fprintln(w, "\nthe machine meanwhile")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "line\trun\tload before\tsteal\tidle\ts\t")
	add := func(line string, repetition int, l measuring.Load, more string) {
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f%%\t%.0f%%\t%.0f\t%s\n", line, repetition, l.Before1m,
			l.Steal, l.Idle, l.Seconds, more)
	}
	for _, d := range r.Deliver {
		add(d.Line, d.Repetition, d.Load, fmt.Sprintf("%d deliveries, %.0f/s until the last arrived, "+
			"history complete %.1f s later", d.Deliveries, d.Arriving, d.Behind))
	}
	for _, p := range r.Profile {
		add(p.Line, p.Repetition, p.Load, "")
	}
	for _, d := range r.Latency {
		add(d.Line, d.Repetition, d.Load, fmt.Sprintf("%d at %.0f/s, longest %.0f ms (bare %.0f), "+
			"the load's p99 late by %.1f ms (bare %.1f)", d.Service.N, d.PerSecond, d.Service.Max,
			d.Bare.Max, d.Service.Late, d.Bare.Late))
	}
	return table.Flush()
}

// write writes all figures as JSON, unless there is no place for them.
func (r *results) write(file string) error {
	if file == "" {
		return nil
	}
	slices.SortStableFunc(r.Deliver, func(a, b deliverRun) int { return a.Repetition - b.Repetition })
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o600) // #nosec G703 -- it is asked for
}

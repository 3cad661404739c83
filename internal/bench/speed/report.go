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
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

// results are all figures of a sitting.
type results struct {
	Command string    `json:"command"`
	Version string    `json:"version"`
	Sitting string    `json:"sitting"` // when it began
	At      time.Time `json:"at"`
	Stamp   stamp     `json:"stamp"`
	Lines   []row     `json:"lines"`
	Records []record  `json:"records"`

	stamp   stamp
	journal *journal
}

func newResults(ctx context.Context, o options) (*results, error) {
	version, err := exec.CommandContext(ctx, o.service, "version").Output() // #nosec G204 -- ours
	if err != nil {
		version = []byte("unknown: " + err.Error())
	}
	r := &results{
		Command: strings.Join(os.Args, " "),
		Version: strings.Join(strings.Fields(string(version)), " "),
		At:      time.Now().UTC().Truncate(time.Second),
		stamp:   stampOf(ctx, o),
	}
	r.journal, err = openJournal(o.runs, o.resume, r.stamp)
	return r, err
}

// ofLine are a line's records, by repetition.
func (r *results) ofLine(name string) (list []record) {
	for _, rec := range r.journal.records {
		if rec.Line == name {
			list = append(list, rec)
		}
	}
	slices.SortStableFunc(list, func(a, b record) int { return a.Repetition - b.Repetition })
	return list
}

func (r *results) deliver() (all []deliverRun) {
	for _, one := range lines() {
		for _, rec := range r.ofLine(one.name) {
			all = append(all, rec.Deliver...)
		}
	}
	return all
}

func (r *results) latency() (all []latencyRun) {
	for _, one := range lines() {
		for _, rec := range r.ofLine(one.name) {
			all = append(all, rec.Latency...)
		}
	}
	return all
}

func (r *results) profile() (all []profileRun) {
	for _, rec := range r.journal.records {
		all = append(all, rec.Profile...)
	}
	return all
}

func sum(by map[string]float64) (all float64) {
	for v := range maps.Values(by) {
		all += v
	}
	return all
}

// print prints the table, and what explains it.
func (r *results) print(w io.Writer) error {
	r.Lines = r.rows()
	fmt.Fprintf(w, "%s\n%s\n%s\n\n", r.machine(), r.Version, r.settings())
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

// machine says where it was measured, and what the machine did else.
func (r *results) machine() string {
	s := r.stamp
	text := fmt.Sprintf("%s, %d cores, %s, %s; commit %s", s.Machine, s.Cores, s.Kernel, s.Go,
		s.Commit)
	if len(r.journal.records) == 0 {
		return text
	}
	var before, steal []float64
	for _, rec := range r.journal.records {
		before, steal = append(before, rec.Load.Before1m), append(steal, rec.Load.Steal)
	}
	b, t := measuring.SpreadOf(before...), measuring.SpreadOf(steal...)
	return text + fmt.Sprintf("; load before a run %.1f to %.1f, median %.1f (its own of the run "+
		"before included); steal %.1f to %.1f%%, median %.1f%%", b.Min, b.Max, b.Median, t.Min, t.Max,
		t.Median)
}

func (r *results) settings() string {
	s := r.stamp.Settings
	return fmt.Sprintf("runs at full speed of at least %d deliveries and %s, %d ahead; at a rate of "+
		"%s; floors of %s; bodies of %d bytes", s.Deliveries, s.Time, s.Backlog, s.PaceTime,
		s.FloorTime, s.BodyBytes)
}

// ratio is a row's median beside its floor.
func (r row) ratio() string {
	switch {
	case r.Floor == nil:
		return ""
	case r.Unit == "ms":
		return fmt.Sprintf("%+.1f ms, %.1f times", r.Above.Median, r.Percent.Median/100)
	case r.Unit == "µs" || r.Percent.Median > 200:
		return fmt.Sprintf("%.1f times", r.Percent.Median/100)
	}
	return fmt.Sprintf("%.0f%%", r.Percent.Median)
}

func (r row) verdict() string {
	switch {
	case r.Met == nil:
		return ""
	case *r.Met:
		return "met"
	}
	return "missed by " + r.MissedBy
}

// printLines prints each line beside its floors and its aim.
func (r *results) printLines(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "row\taim\tmin\tmedian\tmax\tn\tfloor\tmedian\tratio\t")
	for _, row := range r.Lines {
		floor := ""
		if row.Floor != nil {
			floor = plain(row.Floor.Median)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", row.Line, row.Aim,
			plain(row.Figure.Min), short(row.Figure.Median, row.Unit),
			plain(row.Figure.Max), len(row.Figure.Values), row.FloorName, floor,
			row.ratio(), row.verdict())
	}
	for _, rec := range r.journal.records {
		if rec.Fault != "" {
			fmt.Fprintf(table, "%s, repetition %d: not measured: %s\n", rec.Step, rec.Repetition,
				rec.Fault)
		}
	}
	return table.Flush()
}

// printProcessors prints what a delivery took of each process, and a post of the floors.
func (r *results) printProcessors(w io.Writer) error {
	if len(r.deliver()) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nprocessor time in µs for one (median), and memory")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	processes := []string{ofService, ofClickHouse, ofRelay, ofBrokers, ofReceiver, ofLoad}
	fmt.Fprintln(table, "line\t"+strings.Join(processes, "\t")+"\tall\tservice\tClickHouse")
	for _, runs := range ofLine(r.deliver(), func(d deliverRun) string { return d.Line }) {
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
		if runs[0].RealKafka {
			continue
		}
		of("  egress client", func(d deliverRun) map[string]float64 { return d.Egress.Processor },
			"\t\t")
		of("  Kafka", func(d deliverRun) map[string]float64 { return d.Kafka.Processor }, "\t\t")
	}
	return table.Flush()
}

// printProfiles prints where the time of one delivery goes.
func (r *results) printProfiles(w io.Writer) error {
	for _, p := range r.profile() {
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

// printLoads prints what the machine did during each step, and how the history followed.
func (r *results) printLoads(w io.Writer) error {
	fmt.Fprintln(w, "\nthe machine meanwhile")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "step\trun\tload before\tsteal\tidle\ts\t")
	for _, rec := range r.journal.records {
		add := func(line string, l measuring.Load, more string) {
			fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f%%\t%.0f%%\t%.0f\t%s\n", line, rec.Repetition,
				l.Before1m, l.Steal, l.Idle, l.Seconds, more)
		}
		add(rec.Step, rec.Load, "")
		for _, d := range rec.Deliver {
			add("  "+d.Line, d.Load, fmt.Sprintf("%d deliveries, %.0f/s until the last arrived, "+
				"history complete %.1f s later", d.Deliveries, d.Arriving, d.Behind))
		}
		for _, p := range rec.Profile {
			add("  "+p.Line, p.Load, "")
		}
		for _, d := range rec.Latency {
			add("  "+d.Line, d.Load, fmt.Sprintf("%d at %.0f/s, longest %.0f ms (bare %.0f), "+
				"the load's p99 late by %.1f ms (bare %.1f)", d.Service.N, d.PerSecond, d.Service.Max,
				d.Bare.Max, d.Service.Late, d.Bare.Late))
		}
	}
	return table.Flush()
}

// write writes what is asked for: all figures as JSON, and the table as Markdown.
func (r *results) write(o options) error {
	if o.json != "" {
		r.Sitting, r.Stamp, r.Records = r.journal.sitting, r.stamp, r.journal.records
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := writeFile(o.json, append(text, '\n')); err != nil {
			return err
		}
	}
	if o.markdown != "" {
		if err := writeFile(o.markdown, []byte(r.asMarkdown())); err != nil {
			return err
		}
	}
	if o.update != "" {
		return r.updateDocument(o.update)
	}
	return nil
}

func writeFile(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600) // #nosec G306 G703 -- it is asked for
}

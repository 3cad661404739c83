package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// figure is what was measured, as often as it was.
type figure struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	Min    float64   `json:"min"`
	Median float64   `json:"median"`
	Max    float64   `json:"max"`
	Aim    float64   `json:"aim,omitempty"` // at most; 0: none
	Met    *bool     `json:"met,omitempty"` // by the median
	Load   load      `json:"load"`
}

// load is what the machine did meanwhile.
type load struct {
	Before1m float64 `json:"loadAverage1mBefore"`
	Steal    float64 `json:"stealPercent"` // of all processors' time
	Idle     float64 `json:"idlePercent"`
	Seconds  float64 `json:"seconds"`
}

type results struct {
	Command    string    `json:"command"`
	At         time.Time `json:"at"`
	Machine    string    `json:"machine"`
	Cores      int       `json:"cores"`
	Go         string    `json:"go"`
	Past       int       `json:"past"`
	Waiting    int       `json:"waiting"`
	Partitions int       `json:"partitions"`
	Figures    []figure  `json:"figures"`

	live float64 // bytes of keys and values of all states
}

func (r *results) begin(o options) {
	*r = results{
		Command: fmt.Sprintf("make bench-restore PAST=%d WAITING=%d PARTITIONS=%d", o.past, o.waiting,
			o.partitions),
		At:         time.Now().UTC().Truncate(time.Second),
		Machine:    machine(),
		Cores:      runtime.NumCPU(),
		Go:         runtime.Version(),
		Past:       o.past,
		Waiting:    o.waiting,
		Partitions: o.partitions,
	}
}

// add adds a figure. Its aim is an upper bound, of its median.
func (r *results) add(during load, name, unit string, aim float64, values ...float64) {
	sorted := slices.Sorted(slices.Values(values))
	f := figure{
		Name:   name,
		Unit:   unit,
		Values: values,
		Min:    sorted[0],
		Median: (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2,
		Max:    sorted[len(sorted)-1],
		Aim:    aim,
		Load:   during,
	}
	if aim > 0 {
		met := f.Median <= aim
		f.Met = &met
	}
	r.Figures = append(r.Figures, f)
	fmt.Fprintf(os.Stderr, "  %s: %s %s (%s to %s)\n", name, short(f.Median), unit, short(f.Min),
		short(f.Max))
}

func short(v float64) string {
	switch {
	case v >= 1000 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// end prints the figures as a table and as JSON.
func (r *results) end(w io.Writer, file string) error {
	fmt.Fprintf(w, "%s, %d cores, %s; %d past, %d waiting, %d partitions\n", r.Machine, r.Cores, r.Go,
		r.Past, r.Waiting, r.Partitions)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "figure\tunit\tmin\tmedian\tmax\tn\taim\t\tload 1m\tsteal\tidle")
	for _, f := range r.Figures {
		aim, met := "", ""
		if f.Met != nil {
			aim, met = "≤ "+short(f.Aim), map[bool]string{true: "met", false: "MISSED"}[*f.Met]
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%.1f\t%.0f%%\t%.0f%%\n", f.Name, f.Unit,
			short(f.Min), short(f.Median), short(f.Max), len(f.Values), aim, met, f.Load.Before1m,
			f.Load.Steal, f.Load.Idle)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil || file == "" {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o600)
}

// machine names the processor.
func machine() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.SplitSeq(string(data), "\n") {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return "unknown machine"
}

// meanwhile returns what the machine did until it is called.
func meanwhile() func() load {
	began, average := time.Now(), loadAverage()
	before := processorTimes()
	return func() load {
		after, all := processorTimes(), 0.0
		for i := range after {
			after[i] -= before[i]
			all += after[i]
		}
		const idle, waits, steal = 3, 4, 7
		percent := func(part float64) float64 { return 100 * part / max(all, 1) }
		return load{
			Before1m: average,
			Steal:    percent(after[steal]),
			Idle:     percent(after[idle] + after[waits]),
			Seconds:  time.Since(began).Seconds(),
		}
	}
}

// processorTimes are those of /proc/stat: user, nice, system, idle, waiting, two of
// interrupts, stolen.
func processorTimes() (times [8]float64) {
	data, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(line) {
		if i > 0 && i <= len(times) {
			times[i-1], _ = strconv.ParseFloat(field, 64)
		}
	}
	return times
}

func loadAverage() float64 {
	data, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(data), " ")
	average, _ := strconv.ParseFloat(cmp.Or(first, "0"), 64)
	return average
}

package measuring

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Spread is a figure that was measured several times.
type Spread struct {
	Values []float64 `json:"values"`
	Min    float64   `json:"min"`
	Median float64   `json:"median"`
	Max    float64   `json:"max"`
}

// SpreadOf returns the spread of at least one value.
func SpreadOf(values ...float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	return Spread{
		Values: values,
		Min:    sorted[0],
		Median: (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2,
		Max:    sorted[len(sorted)-1],
	}
}

// Short prints a value with three or four digits.
func Short(v float64) string {
	switch {
	case v >= 1000 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// Load is what the machine did meanwhile.
type Load struct {
	Before1m float64 `json:"loadAverage1mBefore"`
	Steal    float64 `json:"stealPercent"` // of all processors' time
	Idle     float64 `json:"idlePercent"`
	Seconds  float64 `json:"seconds"`
}

// Meanwhile returns what the machine did until it is called.
func Meanwhile() func() Load {
	began, average := time.Now(), loadAverage()
	before := processorTimes()
	return func() Load {
		after, all := processorTimes(), 0.0
		for i := range after {
			after[i] -= before[i]
			all += after[i]
		}
		const idle, waits, steal = 3, 4, 7
		percent := func(part float64) float64 { return 100 * part / max(all, 1) }
		return Load{
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

// Machine names the processor.
func Machine() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.SplitSeq(string(data), "\n") {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return "unknown machine"
}

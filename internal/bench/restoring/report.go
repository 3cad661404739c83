package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

// figure is what was measured, as often as it was.
type figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	measuring.Spread
	Aim  float64        `json:"aim,omitempty"` // at most; 0: none
	Met  *bool          `json:"met,omitempty"` // by the median
	Load measuring.Load `json:"load"`
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
		Machine:    measuring.Machine(),
		Cores:      runtime.NumCPU(),
		Go:         runtime.Version(),
		Past:       o.past,
		Waiting:    o.waiting,
		Partitions: o.partitions,
	}
}

// add adds a figure. Its aim is an upper bound, of its median.
func (r *results) add(during measuring.Load, name, unit string, aim float64, values ...float64) {
	f := figure{
		Name:   name,
		Unit:   unit,
		Spread: measuring.SpreadOf(values...),
		Aim:    aim,
		Load:   during,
	}
	if aim > 0 {
		met := f.Median <= aim
		f.Met = &met
	}
	r.Figures = append(r.Figures, f)
	fmt.Fprintf(os.Stderr, "  %s: %s %s (%s to %s)\n", name, measuring.Short(f.Median), unit,
		measuring.Short(f.Min), measuring.Short(f.Max))
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
			aim, met = "≤ "+measuring.Short(f.Aim), map[bool]string{true: "met", false: "MISSED"}[*f.Met]
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%.1f\t%.0f%%\t%.0f%%\n", f.Name, f.Unit,
			measuring.Short(f.Min), measuring.Short(f.Median), measuring.Short(f.Max), len(f.Values),
			aim, met, f.Load.Before1m, f.Load.Steal, f.Load.Idle)
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

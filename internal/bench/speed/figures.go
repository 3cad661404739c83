package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

// figure is what one repetition measured for one row of the table.
type figure struct {
	Row       string  `json:"row"`
	Unit      string  `json:"unit"`
	Value     float64 `json:"value"`
	FloorName string  `json:"floorName,omitempty"` // empty: it has none
	Floor     float64 `json:"floor,omitempty"`     // of the same repetition
	Aim       aim     `json:"aim,omitzero"`
	// Aside is of a figure that explains another one, and is no line of the table.
	Aside bool `json:"aside,omitempty"`
}

// what an aim is of
const (
	ofFigure = "figure"
	ofRatio  = "ratio" // percent of the floor
	ofAbove  = "above" // the floor, in the figure's unit
	ofTimes  = "times" // the floor
)

// aim is what the median is to reach.
type aim struct {
	Of    string  `json:"of,omitempty"` // empty: there is none
	Most  bool    `json:"most,omitempty"`
	Bound float64 `json:"bound,omitempty"`
	Unit  string  `json:"unit,omitempty"`
}

func atLeast(of string, bound float64, unit string) aim {
	return aim{Of: of, Bound: bound, Unit: unit}
}

func atMost(of string, bound float64, unit string) aim {
	return aim{Of: of, Most: true, Bound: bound, Unit: unit}
}

func (a aim) String() string {
	if a.Of == "" {
		return ""
	}
	sign := "≥ "
	if a.Most {
		sign = "≤ "
	}
	if a.Of == ofAbove {
		sign += "+"
	}
	return sign + withUnit(grouped(strconv.FormatFloat(a.Bound, 'f', -1, 64)), a.Unit)
}

// grouped writes a number with commas.
func grouped(number string) string {
	whole, part, has := strings.Cut(number, ".")
	for at := len(whole) - 3; at > 0 && whole[at-1] != '-'; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if has {
		return whole + "." + part
	}
	return whole
}

func thousands(n int) string { return grouped(strconv.Itoa(n)) }

// plain prints a figure without its unit.
func plain(v float64) string { return grouped(measuring.Short(v)) }

func withUnit(number, unit string) string {
	if unit == "" || unit == "%" {
		return number + unit
	}
	return number + " " + unit
}

// row is a line of the table: a figure of some repetitions beside a floor of the same ones.
type row struct {
	Line      string            `json:"line"`
	Unit      string            `json:"unit"`
	Figure    measuring.Spread  `json:"figure"`
	FloorName string            `json:"floorName,omitempty"`
	Floor     *measuring.Spread `json:"floor,omitempty"`
	Percent   *measuring.Spread `json:"percentOfFloor,omitempty"`
	Above     *measuring.Spread `json:"aboveFloor,omitempty"`
	Aim       string            `json:"aim,omitempty"`
	Met       *bool             `json:"met,omitempty"`      // by the median
	MissedBy  string            `json:"missedBy,omitempty"` // and what that would be of the aim
	Aside     bool              `json:"aside,omitempty"`
}

// rowOf makes a row of the figures of several repetitions.
func rowOf(figures []figure) row {
	first := figures[0]
	r := row{
		Line:      first.Row,
		Unit:      first.Unit,
		FloorName: first.FloorName,
		Aim:       first.Aim.String(),
		Aside:     first.Aside,
		Figure:    spread(figures, func(f figure) float64 { return f.Value }),
	}
	if first.FloorName != "" {
		r.Floor = floorSpread(figures, func(f figure) float64 { return f.Floor })
		r.Percent = floorSpread(figures,
			func(f figure) float64 { return 100 * f.Value / max(f.Floor, 1e-9) })
		r.Above = floorSpread(figures, func(f figure) float64 { return f.Value - f.Floor })
	}
	return r.judged(first.Aim)
}

func spread(figures []figure, of func(figure) float64) measuring.Spread {
	return measuring.SpreadOf(values(figures, of)...)
}

func floorSpread(figures []figure, of func(figure) float64) *measuring.Spread {
	s := spread(figures, of)
	return &s
}

// judged says whether the median is what it is to be, and by how much it is not.
func (r row) judged(a aim) row {
	if a.Of == "" {
		return r
	}
	got := r.Figure.Median
	switch a.Of {
	case ofRatio:
		got = r.Percent.Median
	case ofTimes:
		got = r.Percent.Median / 100
	case ofAbove:
		got = r.Above.Median
	}
	met := got >= a.Bound
	if a.Most {
		met = got <= a.Bound
	}
	r.Met = &met
	if met {
		return r
	}
	unit := a.Unit
	if unit == "%" {
		unit = "points"
	}
	r.MissedBy = withUnit(plain(math.Abs(got-a.Bound)), unit)
	if a.Of != ofAbove { // what is above a floor may be below zero
		r.MissedBy += fmt.Sprintf(" (%.0f%% of the aim)", 100*got/a.Bound)
	}
	return r
}

// rowsOf groups figures by their rows, in the order of the first of each.
func rowsOf(figures []figure) (rows []row) {
	for _, group := range ofLine(figures,
		func(f figure) string { return f.Row + "\x00" + f.FloorName + "\x00" + f.Unit }) {
		rows = append(rows, rowOf(group))
	}
	return rows
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

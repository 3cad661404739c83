package console

import (
	"fmt"
	"time"
)

// The size of a plot in its own units, and the number of bars.
const (
	plotWidth  = 720
	plotHeight = 120
	plotBars   = 60
	barGap     = 2
)

// plot is a bar chart over time, stacked by outcome. Colours are classes in the style sheet, so
// that pages need no inline styles.
type plot struct {
	What   string // what is counted
	Series []series
	Bars   []bar
	Most   int // in one bar
	Width  int
	Height int
	Rows   []plotRow // the same as a table for screen readers, without empty bars

	from   time.Time
	part   time.Duration
	counts [plotBars]map[string]int
}

// series is one outcome: the CSS class of its colour, and its name.
type series struct{ Class, Word string }

var attemptSeries = []series{
	{"delivered", "Delivered"}, {"failed", "Rejected"}, {"pending", "No response"},
}

type bar struct {
	X, Y, W, H int
	Class      string
	Title      string
}

type plotRow struct {
	From   string
	Counts []int
}

func newPlot(from time.Time, span time.Duration, what string, of []series) plot {
	return plot{
		What: what, Series: of, Width: plotWidth, Height: plotHeight,
		from: from, part: span / plotBars,
	}
}

// add adds n to a class. It ignores times outside of the plot.
func (p *plot) add(at time.Time, class string, n int) {
	i := int(at.Sub(p.from) / p.part)
	if at.Before(p.from) || i >= plotBars {
		return
	}
	if p.counts[i] == nil {
		p.counts[i] = make(map[string]int)
	}
	p.counts[i][class] += n
}

func (p *plot) draw() {
	for _, c := range p.counts {
		p.Most = max(p.Most, sum(c))
	}
	for i, c := range p.counts {
		if sum(c) == 0 {
			continue
		}
		at := p.from.Add(time.Duration(i) * p.part).UTC().Format("15:04")
		row := plotRow{From: at}
		below := 0
		for _, of := range p.Series {
			class := of.Class
			row.Counts = append(row.Counts, c[class])
			if c[class] == 0 {
				continue
			}
			// rounded sums leave no gaps between bars
			bottom := plotHeight - below*plotHeight/p.Most
			below += c[class]
			top := plotHeight - below*plotHeight/p.Most
			p.Bars = append(p.Bars, bar{
				X:     i * plotWidth / plotBars,
				Y:     top,
				W:     plotWidth/plotBars - barGap,
				H:     max(1, bottom-top),
				Class: class,
				Title: fmt.Sprintf("%s: %d, %s", at, c[class], of.Word),
			})
		}
		p.Rows = append(p.Rows, row)
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

package console

import (
	"fmt"
	"time"
)

// The size of a plot, in its own units, and how many bars it has.
const (
	plotWidth  = 720
	plotHeight = 120
	plotBars   = 60
	barGap     = 2
)

// plot is a bar for each part of a time, stacked by outcome. A style sheet gives the colours, so
// that a page needs no style of its own.
type plot struct {
	What   string // is counted
	Series []series
	Bars   []bar
	Most   int // of one bar
	Width  int
	Height int
	Rows   []plotRow // the same as a table, for those who do not see it: parts with something

	from   time.Time
	part   time.Duration
	counts [plotBars]map[string]int
}

// series is one outcome: the class of its colour, and the word for people.
type series struct{ Class, Word string }

// attemptSeries are what attempts came to, from the bottom up.
var attemptSeries = []series{
	{"delivered", "Delivered"}, {"failed", "Refused"}, {"pending", "No answer"},
}

// bar is one rectangle.
type bar struct {
	X, Y, W, H int
	Class      string
	Title      string
}

// plotRow is one part in numbers, in the order of the series.
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

// add counts some of a class; those outside of the time are left out.
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

// draw makes the bars of the counts: the tallest is as high as the plot.
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
			// from the sums, so that no rounding leaves a gap
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

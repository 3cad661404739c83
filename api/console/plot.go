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

// plot is a bar for each part of a time, of the events that were created in it, stacked by what
// became of them. A style sheet gives the colours, so that a page needs no style of its own.
type plot struct {
	Bars   []bar
	Most   int // of one bar
	Width  int
	Height int
	Rows   []plotRow // the same as a table, for those who do not see it: parts with events

	from   time.Time
	part   time.Duration
	counts [plotBars]map[string]int
}

// bar is one rectangle.
type bar struct {
	X, Y, W, H int
	Class      string
	Title      string
}

// plotRow is one part in numbers.
type plotRow struct {
	From                                  string
	Delivered, Failed, Pending, Cancelled int
}

// plotOrder is from the bottom up.
var plotOrder = []string{"delivered", "pending", "failed", "cancelled"}

func newPlot(from time.Time, span time.Duration) plot {
	return plot{Width: plotWidth, Height: plotHeight, from: from, part: span / plotBars}
}

// add counts an event; one outside of the time is left out.
func (p *plot) add(at time.Time, state string) {
	i := int(at.Sub(p.from) / p.part)
	if at.Before(p.from) || i >= plotBars {
		return
	}
	if p.counts[i] == nil {
		p.counts[i] = make(map[string]int)
	}
	p.counts[i][plotClass(state)]++
}

func plotClass(state string) string {
	switch state {
	case "DELIVERED":
		return "delivered"
	case "FAILED":
		return "failed"
	case "CANCELLED":
		return "cancelled"
	}
	return "pending"
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
		p.Rows = append(p.Rows, plotRow{at, c["delivered"], c["failed"], c["pending"], c["cancelled"]})
		below := 0
		for _, class := range plotOrder {
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
				Title: fmt.Sprintf("%s: %d %s", at, c[class], class),
			})
		}
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

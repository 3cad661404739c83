package console

import (
	"fmt"
	"math"
	"net/url"

	"github.com/lumenhook/lumenhook/api/client"
)

// healthRow is how an endpoint does, as a page shows it.
type healthRow struct {
	Rates         []rateView // of the last hour, day and week
	Rate          rateView   // of the span that was chosen
	LastSuccess   *moment
	LastFailure   *moment
	OldestPending *moment
	PendingKnown  bool
	Spark         spark
}

// rateView is the success of attempts in a span.
type rateView struct {
	Span string
	Rate string // empty: there was no attempt
	Of   int64
}

// The spans that health is shown for.
const daySpan = "24h"

var healthSpans = []string{"1h", daySpan, "7d"}

var spanWords = map[string]string{"1h": "last hour", daySpan: "last 24 hours", "7d": "last 7 days"}

// spanOf reads which span a page is asked for.
func spanOf(asked string) string {
	if _, known := spanWords[asked]; known {
		return asked
	}
	return daySpan
}

func rateOf(span string, c client.AttemptCounts) rateView {
	view := rateView{Span: spanWords[span], Of: c.Attempts}
	if c.SuccessRate != nil { // rounded down: 100% is without a failure
		view.Rate = fmt.Sprintf("%.1f%%", math.Floor(1000**c.SuccessRate)/10)
	}
	return view
}

// ratesOf are the rates of all spans.
func ratesOf(hour, day, week client.AttemptCounts) []rateView {
	return []rateView{rateOf("1h", hour), rateOf(daySpan, day), rateOf("7d", week)}
}

func (x *Console) healthRow(h *client.EndpointHealth, span string) (row healthRow) {
	if h == nil {
		return row
	}
	row = healthRow{
		Rates:         ratesOf(h.Hour, h.Day, h.Week),
		LastSuccess:   x.moment(h.LastSuccessAt),
		LastFailure:   x.moment(h.LastFailureAt),
		OldestPending: x.moment(h.OldestPendingAt),
		PendingKnown:  h.PendingKnown,
		Spark:         newSpark(h.Sparkline),
	}
	for i, one := range healthSpans {
		if one == span {
			row.Rate = row.Rates[i]
		}
	}
	return row
}

// healthWord is the state of an endpoint in a word.
func healthWord(e client.Endpoint) stateWord {
	switch {
	case e.Status == "disabled":
		return stateWord{"Disabled", "cancelled"}
	case e.Health == nil:
		return stateWord{"Unknown", "cancelled"}
	}
	switch e.Health.State {
	case "down":
		return stateWord{"Down", "failed"}
	case "failing":
		return stateWord{"Failing", "waiting"}
	case "healthy":
		return stateWord{"Healthy", "delivered"}
	}
	return stateWord{"Idle", "cancelled"}
}

// The size of a sparkline, in its own units.
const (
	sparkWidth  = 112
	sparkHeight = 24
)

// spark is a small plot: a bar for each part of a span, delivered below and failed above.
type spark struct {
	Width, Height int
	Bars          []bar
	Text          string // the same in words
}

func newSpark(parts []client.AttemptCounts) spark {
	s := spark{Width: sparkWidth, Height: sparkHeight}
	var most, all, delivered int64
	for _, p := range parts {
		most = max(most, p.Attempts)
		all, delivered = all+p.Attempts, delivered+p.Delivered
	}
	s.Text = fmt.Sprintf("%d of %d attempts delivered", delivered, all)
	for i, p := range parts {
		if p.Attempts == 0 {
			continue
		}
		left, right := i*sparkWidth/len(parts), (i+1)*sparkWidth/len(parts)
		bar := func(class string, from, to int64) {
			if from == to {
				return
			}
			top, bottom := sparkHeight-int(to*sparkHeight/most), sparkHeight-int(from*sparkHeight/most)
			s.Bars = append(s.Bars, newBar(left, top, right-left-1, max(1, bottom-top), class))
		}
		bar("delivered", 0, p.Delivered)
		bar("failed", p.Delivered, p.Attempts)
	}
	return s
}

func newBar(x, y, w, h int, class string) bar {
	return bar{X: x, Y: y, W: max(1, w), H: h, Class: class}
}

// worstEndpoints lists endpoints with the worst first.
func (x *Console) worstEndpoints(
	v *visit, status, cursor string, limit int,
) (client.List[client.Endpoint], error) {
	f := client.EndpointFilter{Status: status, Sort: "health", Span: spanOf(v.r.URL.Query().Get("span"))}
	return v.api.ListEndpoints(v.r.Context(), f, client.Page{Limit: limit, Cursor: cursor})
}

// live is the address of a stream that tells when an answer is another than the last one, with some
// parameters of the page.
func (v *visit) live(path string, parameters ...string) string {
	follow := url.Values{"shown": {v.shown()}}
	for _, name := range parameters {
		if value := v.r.URL.Query().Get(name); value != "" {
			follow.Set(name, value)
		}
	}
	return v.console.at + path + "?" + follow.Encode()
}

func (x *Console) followOverview(v *visit) error {
	_, err := x.worstEndpoints(v, "", "", longestPage)
	return err
}

func (x *Console) followEndpoints(v *visit) error {
	_, err := x.worstEndpoints(v, v.r.URL.Query().Get("status"), "", listPage)
	return err
}

func (x *Console) followEndpoint(v *visit) error {
	_, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	return err
}

package console

import (
	"fmt"
	"math"

	"github.com/lumenhook/lumenhook/api/client"
)

// healthRow shows an endpoint's health. It is zero if the history is unavailable.
type healthRow struct {
	Rates         []rateView
	LastSuccess   *moment
	LastFailure   *moment
	OldestPending *moment
	PendingKnown  bool
	SlowedDown    string
	Bars          []bar // the last 24 hours: delivered below, failed above
}

type rateView struct {
	Span, Rate string // Rate is empty without attempts
	Of         int64
}

func ratesOf(hour, day, week client.AttemptCounts) []rateView {
	views := []rateView{{Span: "last hour"}, {Span: "24 hours"}, {Span: "7 days"}}
	for i, c := range []client.AttemptCounts{hour, day, week} {
		if views[i].Of = c.Attempts; c.SuccessRate != nil { // rounded down: 100% means no failure
			views[i].Rate = fmt.Sprintf("%.1f%%", math.Floor(1000**c.SuccessRate)/10)
		}
	}
	return views
}

func (x *Console) healthRow(h *client.EndpointHealth) healthRow {
	if h == nil {
		return healthRow{}
	}
	return healthRow{
		Rates:         ratesOf(h.Hour, h.Day, h.Week),
		LastSuccess:   x.moment(h.LastSuccessAt),
		LastFailure:   x.moment(h.LastFailureAt),
		OldestPending: x.moment(h.OldestPendingAt),
		PendingKnown:  h.PendingKnown,
		Bars:          sparkline(h.Sparkline),
		SlowedDown:    h.SlowedDown,
	}
}

func healthWord(e client.Endpoint) stateWord {
	switch {
	case e.Status == "disabled":
		return stateWord{"Disabled", "cancelled"}
	case e.Health == nil:
		return stateWord{"Unknown", "cancelled"}
	}
	return map[string]stateWord{
		"down": {"Down", "failed"}, "failing": {"Failing", "waiting"},
		"healthy": {"Healthy", "delivered"}, "idle": {"Idle", "cancelled"},
	}[e.Health.State]
}

// The height of a sparkline, and the width of a bar with its gap. _frame.html sets the total size.
const sparkHeight, sparkBar = 24, 5

func sparkline(hours []client.AttemptCounts) (bars []bar) {
	most := int64(1)
	for _, c := range hours {
		most = max(most, c.Attempts)
	}
	for i, c := range hours {
		top := func(n int64) int { return sparkHeight - int((n*sparkHeight+most-1)/most) }
		ok, all := top(c.Delivered), top(c.Attempts)
		for _, b := range []bar{
			{Y: ok, H: sparkHeight - ok, Class: "delivered"}, {Y: all, H: ok - all, Class: "failed"},
		} {
			if b.X, b.W = i*sparkBar, sparkBar-1; b.H > 0 {
				bars = append(bars, b)
			}
		}
	}
	return bars
}

// live returns the URL of a stream that reports when the API's last response has changed.
func (v *visit) live(path string) string { return v.console.at + path + "?shown=" + v.shown() }

func (v *visit) worstEndpoints(limit int) (client.List[client.Endpoint], error) {
	q := v.r.URL.Query()
	f := client.EndpointFilter{Status: q.Get("status"), Sort: "health"}
	return v.api.ListEndpoints(v.r.Context(), f, client.Page{Limit: limit, Cursor: q.Get("cursor")})
}

func followWorst(limit int) func(*visit) error {
	return func(v *visit) error {
		_, err := v.worstEndpoints(limit)
		return err
	}
}

func followEndpoint(v *visit) error {
	_, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	return err
}
